//! `warpwire run` on interfaces that go down, come up again and vanish. Needs root: a veth pair in
//! namespaces of the test's own.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

fn can_run() -> bool {
    if !warpwire_skip::is_root() {
        warpwire_skip::installable("network namespaces need root");
        return false;
    }
    if !warpwire_skip::has_program("ip") {
        warpwire_skip::installable("`ip` is not there");
        return false;
    }
    true
}

/// Runs `ip` with these words.
fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.expect("is there");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {errors}");
}

/// Two namespaces with a veth pair between them, v0 and v1, and a pipeline file for v1.
struct Scene {
    near: String,
    far: String,
    file: std::path::PathBuf,
}

impl Scene {
    /// `nic` is the table of the NIC, where FAR stands for the namespace of v1.
    fn new(name: &str, nic: &str) -> Self {
        let base = format!("wwi{}{name}", std::process::id());
        let scene = Self {
            near: format!("{base}n"),
            far: format!("{base}f"),
            file: std::env::temp_dir().join(format!("{base}.toml")),
        };
        let Self { near, far, file } = &scene;
        ip(&format!("netns add {near}"));
        ip(&format!("netns add {far}"));
        ip(&format!(
            "link add v0 netns {near} type veth peer name v1 netns {far}"
        ));
        ip(&format!("-n {near} link set v0 up"));
        ip(&format!("-n {far} link set v1 up"));
        let text = format!(
            "[nic.a]\n{}\n\
             [[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"drop\"\n",
            nic.replace("FAR", far)
        );
        std::fs::write(file, text).expect("can be written");
        scene
    }

    /// Starts the command, and waits until its program is on the interface.
    fn start(&self) -> (Child, Receiver<String>) {
        let mut child = Command::new(env!("CARGO_BIN_EXE_warpwire"))
            .arg("run")
            .arg(&self.file)
            .args(["--json", "--duration", "60s"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be started");
        let lines = lines(child.stderr.take().expect("is a pipe"));
        let until = Instant::now() + Duration::from_secs(20);
        while !self.is_attached() {
            assert!(
                Instant::now() < until,
                "{:?}",
                lines.try_iter().collect::<Vec<_>>()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        // Until the kernel runs and the interface is looked at.
        std::thread::sleep(Duration::from_millis(700));
        (child, lines)
    }

    fn is_attached(&self) -> bool {
        let words = ["-n", &self.far, "link", "show", "dev", "v1"];
        let output = Command::new("ip").args(words).output().expect("is there");
        String::from_utf8_lossy(&output.stdout).contains("xdp")
    }
}

/// The interface as the kernel's own NIC.
const DIRECT: &str = "open = \"xdp:v1\"\nnetns = \"FAR\"\nall = true";
/// The interface behind a soft NIC.
const UPLINK: &str = "open = \"soft\"\nuplink = \"xdp:v1+netns=FAR+all=true\"";

impl Drop for Scene {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            // What is gone need not be removed.
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
        let _ = std::fs::remove_file(&self.file);
    }
}

/// The lines of a child's standard error, as they come.
fn lines(errors: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(errors).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

/// Waits for a line with these words.
fn expect(lines: &Receiver<String>, words: &str) {
    let until = Instant::now() + Duration::from_secs(10);
    let mut others = Vec::new();
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match lines.recv_timeout(left) {
            Ok(line) if line.contains(words) => return,
            Ok(line) => others.push(line),
            Err(_) => panic!("{words}: {others:?}"),
        }
    }
}

#[test]
fn an_interface_that_is_off_for_a_while_is_told_and_the_run_goes_on() {
    if !can_run() {
        return;
    }
    let scene = Scene::new("d", DIRECT);
    let (child, lines) = scene.start();
    ip(&format!("-n {} link set v1 down", scene.far));
    expect(&lines, "warning: NIC `xdp:v1");
    ip(&format!("-n {} link set v1 up", scene.far));
    std::thread::sleep(Duration::from_millis(500));
    let process = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &process]).status();
    assert!(sent.expect("kill is there").success());
    let output = child.wait_with_output().expect("ends");
    let told: Vec<String> = lines.iter().collect();
    assert_eq!(output.status.code(), Some(0), "{told:?}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let warnings = report["nics"][0]["warnings"].to_string();
    for part in ["v1 was switched off", "ip link set v1 up"] {
        assert!(warnings.contains(part), "{part}: {report}");
    }
    assert_eq!(report["failures"], Value::Array(Vec::new()));
}

#[test]
fn an_interface_that_vanishes_ends_the_run_with_its_counts() {
    if !can_run() {
        return;
    }
    let cases = [
        ("v", DIRECT, "link del v1"),
        ("m", DIRECT, "link set v1 netns NEAR name v2"),
        ("u", UPLINK, "link del v1"),
    ];
    for (name, nic, words) in cases {
        let scene = Scene::new(name, nic);
        let words = words.replace("NEAR", &scene.near);
        let (child, lines) = scene.start();
        let began = Instant::now();
        ip(&format!("-n {} {words}", scene.far));
        let output = child.wait_with_output().expect("ends");
        let told = lines.iter().collect::<Vec<_>>().join("\n");
        assert_eq!(output.status.code(), Some(1), "{told}");
        assert!(began.elapsed() < Duration::from_secs(15), "{told}");
        assert!(told.contains("the interface v1 was removed"), "{told}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        assert_eq!(report["nics"][0]["causes"], report["failures"], "{report}");
        assert!(report["elapsed_s"].as_f64() > Some(0.5), "{report}");
    }
}
