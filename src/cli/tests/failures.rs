//! Runs in which something fails: the counts are printed, what failed is named, the exit code is 1;
//! and runs that are told to end before they began.

use std::io::Read;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use warpwire_nic::pcap::{Format, Writer};

/// A folder of the test's own, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpwire-failures-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder can be made");
        Self(folder)
    }

    /// Writes a file and says what it holds.
    fn holding(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.0.join(name), content).expect("can be written");
    }

    fn read(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.0.join(name)).expect("is there")
    }

    /// The command, run in the folder.
    fn warpwire(&self, words: &[&str]) -> Command {
        let mut command = hearing_hangups();
        command.arg(env!("CARGO_BIN_EXE_warpwire"));
        command.args(words).current_dir(&self.0);
        command.stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = self.warpwire(words);
        command.output().expect("the command can be started")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A capture of so many frames.
fn capture(frames: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, Format::Pcap).expect("can be written");
    for number in 0..frames {
        let time_ns = number as u64 * 1000;
        writer.write(time_ns, &[0x55; 100]).expect("can be written");
    }
    bytes
}

/// Plays `in.pcap` and drops what arrives; `keys` are more of the NIC.
fn playing(keys: &str) -> String {
    format!(
        "[nic.a]\nopen = \"pcap:in.pcap\"\n{keys}\
         [[receive]]\nfrom = \"a\"\n"
    )
}

const DROP: &str = "[[receive.stage]]\ndo = \"drop\"\n";
const REPLY: &str = "[[receive.stage]]\ndo = \"reply\"\n";

#[test]
fn a_damaged_capture_is_named_with_its_byte_and_the_counts_are_printed() {
    let folder = Folder::new();
    let whole = capture(20);
    folder.holding("in.pcap", &whole[..whole.len() - 7]);
    folder.holding("p.toml", playing("") + DROP);
    let output = folder.run(&["run", "p.toml", "--json"]);
    let errors = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
    assert_eq!(report["receives"][0]["received"], 19, "{report}");
    for told in [&errors, &report["failures"][0].to_string()] {
        for part in ["in.pcap", "the record at byte", "the file was cut"] {
            assert!(told.contains(part), "{part}: {told}");
        }
    }
    assert_eq!(report["nics"][0]["causes"], report["failures"]);
    let table = folder.run(&["run", "p.toml"]);
    assert_eq!(table.status.code(), Some(1));
    let shown = text(&table.stdout);
    for part in ["received at a: 19 frames", "unusable:", "the file was cut"] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
}

#[test]
fn a_file_that_cannot_be_written_to_its_end_is_named() {
    let folder = Folder::new();
    folder.holding("in.pcap", capture(400));
    // Both more than the limit below, and less than the writers keep back.
    let sample = "[[receive.stage]]\ndo = \"sample\"\nfile = \"out.pcapng\"\n";
    let cases = [
        (playing("record = \"out.pcap\"\n") + REPLY, "out.pcap", "1"),
        (playing("record = \"out.pcap\"\n") + REPLY, "out.pcap", "40"),
        (playing("") + sample + DROP, "out.pcapng", "1"),
    ];
    for (pipeline, file, blocks) in cases {
        folder.holding("p.toml", pipeline);
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" run p.toml --json");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_warpwire")])
            .current_dir(&folder.0)
            .output()
            .expect("a shell is there");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{file}: {errors}");
        assert!(errors.contains(file), "{file}: {errors}");
        assert!(errors.contains("File too large"), "{file}: {errors}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        assert_eq!(report["receives"][0]["received"], 400, "{report}");
    }
}

/// A capture of datagrams: a record each of 16 bytes of header, its number first, and 8 samples.
fn records(numbers: impl Iterator<Item = u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut writer = Writer::new(&mut bytes, Format::Pcap).expect("can be written");
    for number in numbers {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
        // 60 bytes of UDP over IPv4, 40 of them behind its header, without a sum of their own.
        let ip = [0x45, 0, 0, 60, 0, 0, 0, 0, 64, 17, 0x66, 0xa8];
        frame.extend(ip.iter().chain(&[10, 0, 0, 9, 10, 0, 0, 1]));
        frame.extend([15, 160, 19, 136, 0, 40, 0, 0]);
        frame.extend(number.to_be_bytes().iter().chain(&[7; 24]));
        writer
            .write(number * 20_000, &frame)
            .expect("can be written");
    }
    bytes
}

#[test]
fn files_of_rows_that_cannot_grow_keep_what_was_written_whole() {
    const LIMIT: u64 = 64 * 512;
    let folder = Folder::new();
    // Some are missing before the limit of the files, and some behind.
    let is_there = |number: &u64| !matches!(number, 100..110 | 1015..1025 | 2000..2005);
    folder.holding("in.pcap", records((0..3000).filter(is_there)));
    let script = "trap '' XFSZ; ulimit -f 64; exec \"$0\" run p.toml --json";
    let stage = "[[receive.stage]]\ndo = \"gather\"\nsamples = 8\nfirst = 0\nrows = 4096\n";
    let samples = "rows_to = \"s.npy\"\n";
    for (headers, name) in [("", ""), ("headers_to = \"h.npy\"\n", "h.npy")] {
        folder.holding("p.toml", playing("") + stage + samples + headers);
        let output = Command::new("sh")
            .args(["-c", script, env!("CARGO_BIN_EXE_warpwire")])
            .current_dir(&folder.0)
            .output()
            .expect("a shell is there");
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{errors}");
        // A row of samples has 32 bytes, and the header of the file 128.
        let rows = (LIMIT - 128) / 32;
        let want = format!("the file has the first {rows} rows, not all");
        assert!(errors.contains("File too large"), "{errors}");
        assert!(
            errors.contains("s.npy") && errors.contains(&want),
            "{errors}"
        );
        let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        let gathered = &report["gathered"][0];
        assert_eq!(gathered["rows"], rows, "{gathered}");
        assert_eq!(gathered["missing_rows"], 10 + rows - 1015, "{gathered}");
        let gaps = gathered["gap_list"].as_array().expect("is a list");
        let last = gaps.last().expect("there are some");
        assert_eq!(last["end_row"], rows, "{gathered}");
        for (file, columns, row) in [("s.npy", 8, 32), (name, 16, 16)] {
            if file.is_empty() {
                continue;
            }
            let bytes = folder.read(file);
            assert_eq!(bytes.len() as u64, 128 + rows * row, "{file}");
            let shape = format!("({rows}, {columns})");
            assert!(text(&bytes[10..128]).contains(&shape), "{file}");
        }
    }
}

#[test]
fn no_file_is_overwritten_that_is_read_or_written_twice() {
    let folder = Folder::new();
    let frames = capture(3);
    let names = ["in.pcap", "other.pcap"];
    names.iter().for_each(|name| folder.holding(name, &frames));
    std::fs::hard_link(folder.0.join("in.pcap"), folder.0.join("hard.pcap")).expect("links");
    std::os::unix::fs::symlink("in.pcap", folder.0.join("soft.pcap")).expect("links");
    let record = |path: &str| playing(&format!("record = \"{path}\"\n")) + REPLY;
    let sample = |path: &str| {
        let stage = format!("[[receive.stage]]\ndo = \"sample\"\nfile = \"{path}\"\n");
        playing("") + &stage + DROP
    };
    let uplink = "[nic.a]\nopen = \"soft\"\nuplink = \"pcap:in.pcap+record=./in.pcap\"\n\
                  [[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"drop\"\n";
    let twice = record("new.pcap").replace(
        "[[receive.stage]]",
        "[[receive.stage]]\ndo = \"sample\"\nfile = \"./new.pcap\"\n[[receive.stage]]",
    );
    let (open, source) = ("nic.a.open", "the pipeline file");
    let cases: [(String, &[&str], [&str; 2]); 11] = [
        (record("in.pcap"), &[], ["nic.a.record", open]),
        (record("./in.pcap"), &[], ["nic.a.record", open]),
        (record("hard.pcap"), &[], ["nic.a.record", open]),
        (record("soft.pcap"), &[], ["nic.a.record", open]),
        (record("p.toml"), &[], ["nic.a.record", source]),
        (sample("p.toml"), &[], ["`sample 0`.file", source]),
        (sample("in.pcap"), &[], ["`sample 0`.file", open]),
        (sample("x"), &["--capture", "p.toml"], ["--capture", source]),
        (sample("x"), &["--capture", "in.pcap"], ["--capture", open]),
        (uplink.to_owned(), &[], ["nic.a.uplink", "nic.a.uplink"]),
        (twice, &[], ["`sample 0`.file", "nic.a.record"]),
    ];
    for (pipeline, options, fields) in cases {
        folder.holding("p.toml", &pipeline);
        let output = folder.run(&[&["run", "p.toml"], options].concat());
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{fields:?}: {errors}");
        for part in fields
            .iter()
            .chain(&["p.toml:", "would overwrite", "of its own"])
        {
            assert!(errors.contains(part), "{part}: {errors}");
        }
        assert!(output.stdout.is_empty(), "{fields:?}");
        assert_eq!(text(&folder.read("p.toml")), pipeline);
        names
            .iter()
            .for_each(|name| assert_eq!(folder.read(name), frames));
        assert!(!folder.0.join("new.pcap").exists());
    }
}

#[test]
fn what_is_no_regular_file_is_refused_at_once() {
    let folder = Folder::new();
    folder.holding("good.pcap", capture(1));
    let pipe = Command::new("mkfifo").arg(folder.0.join("pipe")).status();
    assert!(pipe.expect("mkfifo is there").success());
    let nic = |play: &str, more: &str| {
        format!("[nic.a]\nopen = \"pcap:{play}\"\n{more}[[receive]]\nfrom = \"a\"\n")
    };
    let sample = |path: &str| {
        nic("good.pcap", "") + &format!("[[receive.stage]]\ndo = \"sample\"\nfile = \"{path}\"\n")
    };
    let cases = [
        (nic("pipe", "") + DROP, "pipe: cannot open: is a pipe"),
        (nic(".", "") + DROP, "is a folder"),
        (nic("good.pcap", "record = \"pipe\"\n") + REPLY, "is a pipe"),
        (
            nic("good.pcap", "record = \"/dev/full\"\n") + REPLY,
            "/dev/full",
        ),
        (sample("pipe") + DROP, "is a pipe"),
        (
            sample("/dev/full") + DROP,
            "is a device, not a regular file",
        ),
    ];
    for (pipeline, part) in cases {
        folder.holding("p.toml", pipeline);
        let began = Instant::now();
        let output = folder.run(&["run", "p.toml"]);
        let errors = text(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{part}: {errors}");
        let plain = errors.replace('`', "");
        assert!(plain.contains(part), "{part}: {errors}");
        assert!(began.elapsed() < Duration::from_secs(8), "{part}");
    }
}

/// Whoever runs the tests may have told their family to ignore hang-ups: starts the program that
/// the arguments name, with the same process id, as if nobody had.
fn hearing_hangups() -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP");
    command
}

/// Sends a signal to a child of the test's.
fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill")
        .args([name, &child.id().to_string()])
        .status();
    assert!(sent.expect("kill is there").success());
}

#[test]
fn a_signal_or_the_duration_ends_the_wait_for_a_peer() {
    let folder = Folder::new();
    let uplink = "uplink = \"memif:s+role=server+wait_ms=60000\"\n";
    let cases = [
        ("memif:s", "wait_ms = 60000\n", Some("-INT")),
        (
            "memif:s",
            "role = \"server\"\nwait_ms = 60000\n",
            Some("-TERM"),
        ),
        ("memif:s", "role = \"server\"\nwait_ms = 60000\n", None),
        ("soft", uplink, Some("-HUP")),
    ];
    for (open, keys, name) in cases {
        let pipeline = format!("[nic.a]\nopen = \"{open}\"\n{keys}[[receive]]\nfrom = \"a\"\n");
        folder.holding("p.toml", pipeline + DROP);
        let mut words = vec!["run", "p.toml"];
        if name.is_none() {
            words.extend(["--duration", "500ms"]);
        }
        let began = Instant::now();
        let child = folder.warpwire(&words).stderr(Stdio::piped()).spawn();
        let mut child = child.expect("the command can be started");
        if let Some(name) = name {
            std::thread::sleep(Duration::from_millis(1000));
            signal(&child, name);
        }
        let status = child.wait().expect("ends");
        let mut errors = String::new();
        let mut pipe = child.stderr.take().expect("is a pipe");
        pipe.read_to_string(&mut errors).expect("is text");
        assert_eq!(status.code(), Some(1), "{name:?}: {errors}");
        let reason = match name {
            Some(_) => "was interrupted",
            None => "took longer than it may",
        };
        assert!(errors.contains(reason), "{name:?}: {errors}");
        assert!(began.elapsed() < Duration::from_secs(10), "{name:?}");
    }
}

#[test]
fn a_terminal_that_hangs_up_ends_a_run_in_order_unless_it_is_ignored() {
    let folder = Folder::new();
    folder.holding(
        "p.toml",
        "[nic.a]\nopen = \"soft\"\npeer = \"loop\"\n\
         [[generate]]\nfrom = \"a\"\nrate = 1000\n[[generate.frame]]\nkind = \"udp\"\n",
    );
    for ignored in [false, true] {
        let trap = if ignored { "trap '' HUP; " } else { "" };
        let script = format!("{trap}exec \"$0\" run p.toml --json --duration 4s");
        let child = hearing_hangups()
            .args(["sh", "-c", &script, env!("CARGO_BIN_EXE_warpwire")])
            .current_dir(&folder.0)
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell is there");
        std::thread::sleep(Duration::from_millis(1500));
        signal(&child, "-HUP");
        let output = child.wait_with_output().expect("ends");
        assert_eq!(output.status.code(), Some(0), "ignored: {ignored}");
        let report: Value = serde_json::from_slice(&output.stdout).expect("is JSON");
        let seconds = report["elapsed_s"].as_f64().expect("a number");
        assert_eq!(seconds >= 4.0, ignored, "{report}");
    }
}
