//! `warpwire bench packets`, `messages` and `streams` with their peers, for a moment: that they
//! measure, not how fast.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn can_run(programs: &[&str]) -> bool {
    let missing = programs
        .iter()
        .find(|name| !warpwire_skip::has_program(name));
    if !warpwire_skip::is_root() {
        warpwire_skip::installable("network namespaces need root");
        return false;
    }
    if let Some(missing) = missing {
        warpwire_skip::installable(format!("`{missing}` is not there"));
        return false;
    }
    true
}

const PACKETS: [&str; 6] = ["dpdk-testpmd", "ip", "sysctl", "taskset", "chrt", "stdbuf"];
const STREAMS: [&str; 5] = ["ip", "sysctl", "taskset", "chrt", "ethtool"];
const MESSAGES: [&str; 4] = ["ucx_perftest", "ucx_info", "fi_pingpong", "taskset"];

fn bench(kind: &str, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
    command
        .args(["bench", kind])
        .args(words)
        .stdin(Stdio::null());
    command
}

fn text(output: &Output) -> String {
    let [out, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{errors}")
}

#[test]
fn every_row_of_packets_is_measured_and_recorded() {
    if !can_run(&PACKETS) {
        return;
    }
    let words = ["--against=testpmd", "--seconds=0.2"];
    let starts = [
        "memif-",
        "xdp-",
        "soft",
        "parse-",
        "icrc-device-",
        "icrc-host-",
    ];
    measure("packets", &words, &starts, &["DPDK"]);
}

#[test]
fn every_kind_of_row_of_messages_is_measured_and_recorded() {
    if !can_run(&MESSAGES) {
        return;
    }
    let rows = [
        "put-rate-8-shm",
        "put-latency-8-tcp",
        "put-1048576-shm",
        "send-rate-8-shm",
        "send-latency-64-fi-shm",
        "send-65536-tcp",
        "engine-send-8",
        "engine-receive-4096",
    ];
    let chosen = format!("--rows={}", rows.join(","));
    measure(
        "messages",
        &[&chosen, "--seconds=0.05"],
        &rows,
        &["UCX", "libfabric"],
    );
}

#[test]
fn every_kind_of_row_of_streams_is_measured_and_recorded() {
    if !can_run(&STREAMS) {
        return;
    }
    let rows = [
        "engine-smoltcp-benchmark",
        "engine-1500-smoltcp",
        "engine-9000-smoltcp-unsummed",
        "xdp-send-smoltcp",
        "xdp-receive-linux-plain",
        "memif-9000-linux-gso",
        "xdp-echo-64-smoltcp",
        "memif-echo-64-linux",
        "xdp-connect-smoltcp",
        "xdp-connect-linux",
    ];
    let chosen = format!("--rows={}", rows.join(","));
    let words = [&chosen, "--seconds=0.1"];
    let recorded = measure("streams", &words, &rows, &["smoltcp 0."]);
    for row in recorded["rows"].as_array().expect("a list") {
        let name = row["row"].as_str().expect("a name");
        for side in ["ours", "peer"] {
            let (time, times) = (&row[side]["ns_per_kib"], &row[side]["percentiles_us"]);
            let is_goodput = row["unit"] == "Gbit/s";
            assert_eq!(
                time.as_f64() > Some(0.0),
                is_goodput,
                "{name} {side}: {row}"
            );
            let times = ["p50", "p90", "p99", "p99_9", "max"].map(|word| times[word].as_f64());
            assert_eq!(times[0].is_some(), name.contains("echo"), "{name}: {row}");
            assert!(times.is_sorted(), "{name} {side}: {row}");
        }
    }
}

/// Two namespaces with an interface each, which are one link. They go with the value.
struct Link([String; 2]);

impl Link {
    fn new() -> Self {
        let link = Self(["a", "b"].map(|end| format!("wwb{}{end}", std::process::id())));
        let [a, b] = &link.0;
        ip(&["netns", "add", a]);
        ip(&["netns", "add", b]);
        let veth = ["link", "add", "w0", "netns", a, "type", "veth"];
        ip(&[&veth[..], &["peer", "name", "w0", "netns", b]].concat());
        for (end, address) in [(a, "10.93.0.1/24"), (b, "10.93.0.2/24")] {
            ip(&["-n", end, "addr", "add", address, "dev", "w0"]);
            ip(&["-n", end, "link", "set", "w0", "up"]);
        }
        link
    }

    /// The command at an end.
    fn command(&self, end: usize, words: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command.args([
            "netns",
            "exec",
            &self.0[end],
            env!("CARGO_BIN_EXE_warpwire"),
        ]);
        command.args(words).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for name in &self.0 {
            // What is not there need not go.
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

fn ip(words: &[&str]) {
    let output = Command::new("ip").args(words).output();
    let output = output.expect("ip is there");
    assert!(output.status.success(), "{words:?}: {}", text(&output));
}

#[test]
fn who_is_done_first_leaves_its_last_answer_behind() {
    if !can_run(&["ip"]) {
        return;
    }
    let link = Link::new();
    for round in 0..6 {
        let words = [
            "bench",
            "write-lat",
            "--fused",
            "-n",
            "300",
            "--patience=20",
        ];
        let server = link.command(1, &words).spawn().expect("can be started");
        let client = link
            .command(0, &[&words[..], &["10.93.0.2"]].concat())
            .output();
        let client = client.expect("can be started");
        let server = server.wait_with_output().expect("ends");
        for output in [client, server] {
            assert!(output.status.success(), "round {round}: {}", text(&output));
        }
    }
}

/// One round of some rows: all are measured, some start with each of these words, and all these
/// programs told what they are. The record.
fn measure(kind: &str, words: &[&str], starts: &[&str], programs: &[&str]) -> Value {
    let base = format!("warpwire-peer-bench-{kind}-{}.json", std::process::id());
    let file = std::env::temp_dir().join(base);
    let output = bench(kind, &["--rounds=1", "--others=ignore"])
        .args(words)
        .arg("--output")
        .arg(&file)
        .output();
    let output = output.expect("the command can be started");
    let said = text(&output);
    let json = std::fs::read_to_string(&file).unwrap_or_default();
    let table = std::fs::read_to_string(file.with_extension("txt")).unwrap_or_default();
    for file in [file.clone(), file.with_extension("txt")] {
        // What is not there need not go.
        let _ = std::fs::remove_file(file);
    }
    assert_eq!(output.status.code(), Some(0), "{said}");
    assert_eq!(table, String::from_utf8_lossy(&output.stdout));
    let record: Value = serde_json::from_str(&json).expect("is JSON");
    for field in ["bench", "against", "commit", "date"] {
        let value = record[field].as_str().unwrap_or("");
        assert!(!value.is_empty(), "{field}: {json}");
    }
    let versions = record["versions"].to_string();
    for program in programs {
        assert!(versions.contains(program), "{program}: {versions}");
    }
    for field in ["processor", "processors", "kernel"] {
        assert!(!record["machine"][field].is_null(), "{field}: {json}");
    }
    assert_eq!(record["configuration"]["rounds"], 1);
    assert_eq!(record["unmeasured"], Value::Array(Vec::new()));
    let rows = record["rows"].as_array().expect("a list");
    for row in rows {
        let name = row["row"].as_str().expect("a name");
        check(row, name);
        assert!(
            table.lines().any(|line| line.starts_with(name)),
            "{name}: {table}"
        );
    }
    for start in starts {
        let is_there = |row: &&Value| row["row"].as_str().unwrap_or("").starts_with(*start);
        assert!(rows.iter().any(|row| is_there(&row)), "{start}: {json}");
    }
    record
}

fn check(row: &Value, name: &str) {
    let round = &row["rounds"][0];
    for side in ["ours", "peer"] {
        for field in ["median", "min", "max", "dropped", "offered"] {
            assert!(row[side][field].is_number(), "{name} {side} {field}: {row}");
        }
        assert!(
            row[side]["median"].as_f64() > Some(0.0),
            "{name} {side}: {row}"
        );
        assert!(
            row[side]["offered"].as_u64() > Some(0),
            "{name} {side}: {row}"
        );
        for field in ["value", "dropped", "offered", "others_used"] {
            assert!(
                round[side][field].is_number(),
                "{name} {side} {field}: {row}"
            );
        }
    }
    for field in ["unit", "target"] {
        assert!(row[field].is_string(), "{name} {field}: {row}");
    }
    assert!(row["ratio"]["median"].as_f64() > Some(0.0), "{name}: {row}");
    assert_eq!(
        row["reached"].is_null(),
        row["target"] == "",
        "{name}: {row}"
    );
    assert_eq!(
        round["ping_pong_ns"].as_array().map(Vec::len),
        Some(3),
        "{name}: {row}"
    );
    assert_eq!(round["counts"], true, "{name}: {row}");
}

#[test]
fn an_interrupt_leaves_nothing_behind() {
    if !can_run(&PACKETS) {
        return;
    }
    let mut child = bench(
        "packets",
        &[
            "--against=testpmd",
            "--rows=xdp-swap",
            "--seconds=30",
            "--others=ignore",
        ],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .expect("the command can be started");
    let id = child.id();
    let limit = Instant::now() + Duration::from_secs(60);
    // Its peer is up by then, or about to be: both ends must be clean.
    while traces(id)
        .iter()
        .all(|trace| !trace.starts_with("namespace"))
    {
        assert!(Instant::now() < limit, "no namespace");
        assert_eq!(child.try_wait().expect("can be asked"), None, "ended early");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_secs(2));
    let signal = Command::new("kill")
        .args(["-INT", &id.to_string()])
        .status();
    assert!(signal.expect("kill is there").success());
    let output = child.wait_with_output().expect("ends");
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("interrupted"), "{}", text(&output));
    assert_eq!(traces(id), Vec::<String>::new());
}

/// What a bench of this process number has on the machine.
fn traces(id: u32) -> Vec<String> {
    let mut traces = Vec::new();
    let folder = std::env::temp_dir().join(format!("warpwire-bench-{id}"));
    if folder.exists() {
        traces.push(format!("folder {}", folder.display()));
    }
    let spaces = files(PathBuf::from("/run/netns"));
    let ours = spaces
        .iter()
        .filter(|space| space.contains(&format!("wwbench-{id}-")));
    traces.extend(ours.map(|space| format!("namespace {space}")));
    let folder = folder.display().to_string();
    for process in files(PathBuf::from("/proc")) {
        let words = std::fs::read(format!("{process}/environ")).unwrap_or_default();
        if String::from_utf8_lossy(&words).contains(&folder) {
            traces.push(format!("process {process}"));
        }
    }
    traces
}

fn files(folder: PathBuf) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path().display().to_string())
        .collect()
}
