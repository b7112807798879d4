//! Namespaces of the judges: two hosts on a cable, and what a killed run leaves behind.

use std::process::Command;
use std::time::Duration;
use xtask::interop::namespaces::{End, Namespace, sweep};
use xtask::process::{self, Running, Show};

const LIMIT: Duration = Duration::from_secs(60);

fn is_possible() -> bool {
    if !process::is_root() {
        warpwire_skip::installable("network namespaces need root");
        return false;
    }
    if !warpwire_skip::has_program("ip") {
        warpwire_skip::installable("`ip` of iproute2 is not there");
        return false;
    }
    true
}

fn ip(words: &str) -> String {
    let mut command = Command::new("ip");
    command.args(words.split_whitespace());
    let outcome = process::run_well(&mut command, LIMIT, Show::Nothing);
    outcome.expect("ip runs").stdout
}

#[test]
fn two_hosts_on_a_cable_reach_each_other_and_go() {
    if !is_possible() {
        return;
    }
    let left = Namespace::create("test-left").unwrap();
    let right = Namespace::create("test-right").unwrap();
    let addresses = ["10.78.0.1/24", "fd78::1/64"];
    let own = End {
        name: "left0",
        mac: "02:00:00:00:00:01",
        addresses: &addresses,
    };
    let addresses = ["10.78.0.2/24", "fd78::2/64"];
    let others = End {
        name: "right0",
        mac: "02:00:00:00:00:02",
        addresses: &addresses,
    };
    left.cable(&own, &right, &others).unwrap();
    for address in ["10.78.0.2", "fd78::2"] {
        let words = format!("ping -c 1 -w 30 {address}");
        left.run(&words, LIMIT).unwrap();
    }
    assert!(left.counter("IpOutRequests").unwrap() > 0);
    drop((left, right));
    let ours = format!("wwjudge-{}-test-left", std::process::id());
    assert!(!ip("netns list").contains(&ours));
}

#[test]
fn what_a_killed_run_left_is_removed_with_its_processes() {
    if !is_possible() {
        return;
    }
    // A process id that nobody has any more.
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let name = format!("wwjudge-{}-left", gone.id());
    ip(&format!("netns add {name}"));
    let mut command = Command::new("ip");
    command.args(["netns", "exec", &name, "sleep", "600"]);
    let sleeper = Running::start(&mut command, Show::Nothing).unwrap();
    let deadline = std::time::Instant::now() + LIMIT;
    while ip(&format!("netns pids {name}")).is_empty() {
        assert!(std::time::Instant::now() < deadline, "it never runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    sweep().unwrap();
    assert!(!ip("netns list").contains(&name));
    assert!(!sleeper.wait(LIMIT).unwrap().is_success());
}
