//! The command as people and programs use it: words in, exit codes, text and JSON out.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::Value;

fn warpwire(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warpwire"))
        .args(words)
        .stdin(Stdio::null())
        .output()
        .expect("the command can be started")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A file of the test's own, gone with the value.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpwire-command-{}-{number}-{name}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn holding(name: &str, content: &str) -> Self {
        let file = Self::new(name);
        std::fs::write(&file.0, content).expect("can be written");
        file
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("is UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = std::fs::remove_file(&self.0);
    }
}

const LOOP: &str = "[nic.gen]\nopen = \"soft\"\npeer = \"end\"\n\
                    [nic.end]\nopen = \"soft\"\npeer = \"gen\"\n\
                    [[generate]]\nfrom = \"gen\"\nrate = 10_000\nCOUNT\
                    [[generate.frame]]\nkind = \"dns\"\n\
                    [[receive]]\nfrom = \"end\"\n\
                    [[receive.stage]]\ndo = \"dns\"\n\
                    [[receive.stage]]\ndo = \"drop\"\n";

#[test]
fn executors_run_or_say_what_is_missing() {
    let file = Scratch::holding("executor.toml", &LOOP.replace("COUNT", "count = 40\n"));
    for executor in ["cpu", "virtual"] {
        let output = warpwire(&["run", file.path(), "--json", "--executor", executor]);
        let words = text(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{executor}: {words}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        assert_eq!(report["executor"], executor);
        let received = report["receives"][0]["received"].as_u64();
        assert_eq!(received, Some(40), "{executor}");
    }
    let output = warpwire(&["run", file.path(), "--executor", "cuda"]);
    if Path::new("/dev/nvidiactl").exists() {
        assert!(output.status.success(), "{}", text(&output.stderr));
        return;
    }
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.starts_with("executor cuda: "), "{words}");
    assert_eq!(words.trim_end().lines().count(), 1, "one sentence: {words}");
}

#[test]
fn a_capture_is_played_to_its_end_on_the_virtual_gpu() {
    let capture =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("protocols/testdata/tcpdump/802.1ad_QinQ.pcap");
    let words = format!(
        "[nic.in]\nopen = \"pcap:{}\"\n[[receive]]\nfrom = \"in\"\n\
         [[receive.stage]]\ndo = \"drop\"\n",
        capture.display()
    );
    let file = Scratch::holding("capture.toml", &words);
    for executor in ["cpu", "virtual"] {
        let output = warpwire(&["run", file.path(), "--json", "--executor", executor]);
        let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        assert_eq!(report["receives"][0]["received"], 2, "{executor}");
    }
}

#[test]
fn gpus_are_listed_or_missed_in_a_sentence() {
    let output = warpwire(&["gpus"]);
    if Path::new("/dev/nvidiactl").exists() {
        assert!(output.status.success(), "{}", text(&output.stderr));
        assert!(text(&output.stdout).contains("compute capability"));
        return;
    }
    let words = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{words}");
    assert!(words.starts_with("executor cuda: "), "{words}");
    assert_eq!(words.trim_end().lines().count(), 1, "one sentence: {words}");
}

#[test]
fn exit_codes_say_who_is_to_blame() {
    let good = Scratch::holding("good.toml", &LOOP.replace("COUNT", ""));
    let wrong = Scratch::holding("wrong.toml", &LOOP.replace("COUNT", "cuont = 3\n"));
    let nowhere = Scratch::holding(
        "nowhere.toml",
        "[nic.a]\nopen = \"xdp:no-such-interface\"\nall = true\n\
         [[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"drop\"\n",
    );
    let own = Scratch::new("own.toml");
    let stage = format!("do = \"sample\"\nfile = \"{}\"", own.path());
    let sampled = LOOP.replace("COUNT", "").replace("do = \"dns\"", &stage);
    std::fs::write(own.path(), sampled).expect("can be written");
    let cases: &[(&[&str], i32, &str)] = &[
        (&["check", good.path()], 0, ""),
        (
            &["check", own.path()],
            2,
            "which is read by the pipeline file",
        ),
        (
            &["check", wrong.path()],
            2,
            "cuont: is not known here; did you mean `count`?",
        ),
        (&["check", "/no/such/file.toml"], 2, "name a readable file"),
        (&["check", "/dev/zero"], 2, "it is not a regular file"),
        (&["run", wrong.path()], 2, ":10:1: generate[0].cuont"),
        (&["run", nowhere.path()], 1, "no-such-interface"),
        (&["stages", "nothing"], 2, "no stage is called `nothing`"),
        (
            &["run", good.path(), "--duration", "soon"],
            2,
            "write a time such as 10s",
        ),
        (&["fly"], 2, "fly"),
        (
            &["run", good.path(), "--duration", "-1s"],
            2,
            "longer than none",
        ),
        (&["kernel", "build", "/no/such/folder"], 2, "Cargo.toml"),
        (&["kernel", "build", ".", "--target", "sm_1"], 2, "sm_80"),
        (&["kernel", "build", ".", "--profile", "zz"], 2, "release"),
        (&["bench", "packets"], 2, "--against"),
        (&["bench", "packets", "--against", "nobody"], 2, "testpmd"),
        (&bench("--rows=memif-transmit,fast"), 2, "is called `fast`"),
        (&bench("--rounds=0"), 2, "--rounds"),
        (
            &["bench", "streams", "--against=smoltcp", "--rows=memif"],
            2,
            "write --against linux,smoltcp",
        ),
        (&bench("--seconds=0"), 2, "write seconds from 0.05 to 60"),
        (&bench("--others=hope"), 2, "outrank"),
    ];
    for (words, code, part) in cases {
        let output = warpwire(words);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(*code), "{words:?}: {errors}");
        assert!(errors.contains(part), "{words:?}: {errors}");
    }
}

/// The words of a bench with one option.
fn bench(option: &str) -> [&str; 4] {
    ["bench", "packets", "--against=testpmd", option]
}

#[test]
fn a_row_without_its_peer_is_named_with_the_cure() {
    let output = Command::new(env!("CARGO_BIN_EXE_warpwire"))
        .args(bench("--rows=memif-swap,parse-tag"))
        .args(["--rounds=1", "--seconds=0.05", "--others=ignore"])
        // Nothing but what the bench itself uses, in so far as it lies there.
        .env("PATH", "/nowhere")
        .output()
        .expect("the command can be started");
    let (shown, errors) = (text(&output.stdout), text(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{shown}{errors}");
    let line = "memif-swap: not measured: needs dpdk-testpmd; apt-get install dpdk-dev";
    assert!(shown.contains(line), "{shown}");
    assert!(
        errors.contains("could not be measured: memif-swap"),
        "{errors}"
    );
}

#[test]
fn a_full_standard_error_changes_no_exit_code() {
    let full = std::fs::File::create("/dev/full").expect("is there");
    let status = Command::new(env!("CARGO_BIN_EXE_warpwire"))
        .args(["check", "/no/such/file.toml"])
        .stderr(full)
        .status()
        .expect("the command can be started");
    assert_eq!(status.code(), Some(2));
}

#[test]
fn a_run_ends_with_its_sources_and_reports_as_json() {
    let file = Scratch::holding("count.toml", &LOOP.replace("COUNT", "count = 300\n"));
    let capture = Scratch::new("capture.pcapng");
    let output = warpwire(&["run", file.path(), "--json", "--capture", capture.path()]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "a pipe shows no progress");
    let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    let receive = &report["receives"][0];
    assert_eq!(receive["received"], 300);
    assert_eq!(receive["dropped"]["dropped"], 300);
    let stages = receive["stages"].as_array().expect("a list");
    let names: Vec<&str> = stages
        .iter()
        .filter_map(|stage| stage["name"].as_str())
        .collect();
    assert_eq!(names, ["capture", "dns 0", "drop 1"]);
    assert_eq!(stages[1]["counters"]["queries"], 300);
    assert_eq!(report["generators"][0]["sent"]["frames"], 300);
    assert_eq!(report["balances"][0]["adds_up"], true);
    // Who did it, as the queues counted it: kernels received, posted and rang.
    let by_kernels = |nic: usize, what: &str| report["nics"][nic][what].clone();
    let sent = by_kernels(0, "transmit_provenance");
    assert_eq!(sent["descriptors_built"], 300);
    assert!(sent["triggers_mmio"].as_u64() > Some(0), "{sent}");
    assert_eq!(sent["triggers_system_call"], 0);
    let received = by_kernels(1, "receive_provenance");
    assert!(received["device_calls"].as_u64() > Some(0), "{received}");
    assert_eq!(by_kernels(1, "transmit_provenance")["descriptors_built"], 0);
    assert_eq!(
        report["memory"],
        "host memory that stands for device memory"
    );
    let taken = report["samples"][0]["frames"].as_u64().expect("a number");
    let lost = stages[0]["counters"]["lost"].as_u64().expect("a number");
    assert_eq!(taken + lost, 300);
    assert!(
        Path::new(capture.path())
            .metadata()
            .expect("is there")
            .len()
            > taken * 60
    );
}

#[test]
fn an_interrupt_ends_a_run_in_order() {
    let file = Scratch::holding("endless.toml", &LOOP.replace("COUNT", ""));
    let child = Command::new(env!("CARGO_BIN_EXE_warpwire"))
        .args(["run", file.path(), "--json"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the command can be started");
    std::thread::sleep(Duration::from_millis(1500));
    let interrupted = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupted.expect("kill is there").success());
    let output = child.wait_with_output().expect("ends");
    assert!(output.status.success(), "{:?}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(report["balances"][0]["adds_up"], true, "{report}");
    assert_eq!(report["cables"][0]["adds_up"], true, "{report}");
}

#[test]
fn the_demonstration_shows_that_everything_adds_up() {
    let output = warpwire(&["--duration", "1s"]);
    let shown = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        "demonstration",
        "does it add up?",
        "generated at generator",
        ": yes",
    ] {
        assert!(shown.contains(part), "{part}:\n{shown}");
    }
    assert!(!shown.contains(": NO"), "{shown}");
    let json = warpwire(&["--json", "--duration", "500ms"]);
    let report: Value = serde_json::from_slice(&json.stdout).expect("is JSON");
    assert_eq!(report["name"], "demonstration");
}

#[test]
fn what_there_is_can_be_listed() {
    let stages = text(&warpwire(&["stages"]).stdout);
    for part in ["respond: answers ARP", "to = the name of a NIC, required"] {
        assert!(stages.contains(part), "{part}:\n{stages}");
    }
    let interfaces = warpwire(&["interfaces", "--json"]);
    let list: Value = serde_json::from_slice(&interfaces.stdout).expect("is JSON");
    let list = list.as_array().expect("a list");
    assert!(
        list.iter().any(|interface| interface["nic"] == "xdp:lo"),
        "{list:?}"
    );
}
