//! Whole pipelines, from captures to captures, in virtual time: a seed decides everything.

mod failures;
mod gathers;
mod plain;

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use warpwire_nic::pcap::{Format, Reader, Writer};
use warpwire_nic::soft::Dice;
use warpwire_ring::memif::ring_bytes;

use super::*;
use crate::report::Report;

/// A folder that is gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("warpwire-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).expect("a folder can be made");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The frames that the stages' tests use, by name.
fn frames() -> Vec<(&'static str, Vec<u8>)> {
    let lines = include_str!("../../../core/testdata/frames.hex").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let named = lines.filter_map(|line| line.split_once(' '));
    let bytes = |digits: &str| -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("digits");
        (0..digits.len()).step_by(2).map(digit).collect()
    };
    named.map(|(name, digits)| (name, bytes(digits))).collect()
}

/// Frames with their times of arrival: bursts and gaps, as a seed says.
fn arrivals(seed: u64, count: usize) -> Vec<(u64, Vec<u8>)> {
    let frames = frames();
    let mut dice = Dice::new(seed);
    let mut now_ns = 1_000_000;
    let mut list = Vec::new();
    for _ in 0..count {
        if dice.below(4) == 0 {
            now_ns += dice.below(200_000);
        }
        let (_, bytes) = &frames[dice.below(frames.len() as u64) as usize];
        list.push((now_ns, bytes.clone()));
    }
    list
}

fn write(path: &str, frames: &[(u64, Vec<u8>)]) {
    let file = BufWriter::new(File::create(path).expect("can be made"));
    let mut writer = Writer::new(file, Format::Pcap).expect("can be written");
    for (time_ns, frame) in frames {
        writer.write(*time_ns, frame).expect("can be written");
    }
    writer.flush().expect("can be written");
}

fn read(path: &str) -> Vec<Vec<u8>> {
    let file = BufReader::new(File::open(path).expect("is there"));
    let mut reader = Reader::new(file).expect("is a capture");
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record().expect("is sound") {
        frames.push(record.bytes.to_vec());
    }
    frames
}

/// As the model of a NIC sends it: no frame is shorter than 60 bytes.
fn padded(frame: &[u8]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame.resize(frame.len().max(60), 0);
    frame
}

/// Compares lists of frames, and says where they differ in few words.
fn assert_same(found: &[Vec<u8>], want: &[Vec<u8>], what: &str) {
    let pairs = found.iter().zip(want);
    let differs = pairs.clone().position(|(found, want)| found != want);
    if let Some(place) = differs {
        panic!(
            "{what}: frame {place} is {:02x?}, not {:02x?}",
            found[place], want[place]
        );
    }
    assert_eq!(found.len(), want.len(), "{what}: number of frames");
}

/// What a run gave: the frames that left each NIC, and what was counted.
struct Outcome {
    sent: Vec<Vec<Vec<u8>>>,
    report: Report,
}

/// Runs a file with capture NICs `a` and `b` in virtual time; `stages` are those of `a`.
fn run(stages: &str, arrivals: &[(u64, Vec<u8>)], settings: Settings) -> Outcome {
    let folder = Folder::new();
    let [play, out_a, out_b, empty] =
        ["play.pcap", "a.pcap", "b.pcap", "empty.pcap"].map(|name| folder.file(name));
    write(&play, arrivals);
    write(&empty, &[]);
    let text = format!(
        "[nic.a]\nopen = \"pcap:{play}\"\nrecord = \"{out_a}\"\npace = \"captured\"\n\
         addresses = [\"10.0.0.1\", \"fd00::1\"]\nmac = \"02:00:00:00:00:01\"\n\
         [nic.b]\nopen = \"pcap:{empty}\"\nrecord = \"{out_b}\"\n\
         [[receive]]\nfrom = \"a\"\n{stages}"
    );
    let report = run_text(&text, settings);
    Outcome {
        sent: vec![read(&out_a), read(&out_b)],
        report,
    }
}

fn run_text(text: &str, settings: Settings) -> Report {
    let kit = Kit::built_in();
    let file = PipelineFile::parse("test.toml", text, kit.catalogue())
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut runtime = Runtime::start_with(&file, &kit, settings).expect("starts");
    let stop = AtomicBool::new(false);
    let limit = Some(Duration::from_secs(20));
    let ended = runtime.run(limit, &stop, |_| {});
    assert_eq!(ended, Ended::Exhausted);
    runtime.finish().whole().expect("ends")
}

fn scalar(seed: u64) -> Settings {
    Settings {
        backend: Backend::Scalar,
        time: Time::Virtual { seed },
        ..Settings::default()
    }
}

fn lockstep(seed: u64) -> Settings {
    Settings {
        backend: Backend::Lockstep { seed },
        time: Time::Virtual { seed },
        ..Settings::default()
    }
}

/// Every stage, and frames for each.
const ALL_STAGES: &str = r#"
[[receive.stage]]
do = "classify"
[[receive.stage]]
do = "count"
name = "udp"
when = { protocol = "udp" }
[[receive.stage]]
do = "verify"
[[receive.stage]]
do = "respond"
[[receive.stage]]
do = "dns"
[[receive.stage]]
do = "http"
[[receive.stage]]
do = "filter"
deny = [{ port = 2000, protocol = "tcp" }, { vlan = 99 }]
allow = [{ kind = ["udp", "tcp", "rocev2", "icmpv4"] }]
[[receive.stage]]
do = "rewrite"
when = { destination_port = 2000 }
destination = "198.51.100.9"
decrement_ttl = true
[[receive.stage]]
do = "drop"
when = { fragment = true }
[[receive.stage]]
do = "reply"
when = { roce_opcode = "0x04" }
[[receive.stage]]
do = "spread"
to = "b"
when = { source_port = 2794 }
[[receive.stage]]
do = "forward"
to = "b"
"#;

#[test]
fn a_pipeline_answers_changes_forwards_and_counts() {
    let all = frames();
    let list: Vec<(u64, Vec<u8>)> = (1u64..)
        .zip(&all)
        .map(|(time, (_, bytes))| (time * 1_000_000, bytes.clone()))
        .collect();
    let Outcome { sent, report } = run(ALL_STAGES, &list, scalar(1));
    let frame = |name: &str| {
        let found = all.iter().find(|(known, _)| *known == name);
        padded(&found.expect("is known").1)
    };
    for name in [
        "arp_reply",
        "echo4_reply",
        "echo6_reply",
        "advertisement",
        "roce4",
    ] {
        assert!(sent[0].contains(&frame(name)), "{name} was not sent back");
    }
    for (name, expected) in [("dns_query", true), ("http_get", true), ("tcp4", false)] {
        assert_eq!(sent[1].contains(&frame(name)), expected, "{name}");
    }
    let receive = &report.receives[0];
    assert_eq!(receive.received, all.len() as u64);
    assert_eq!(receive.sent, (sent[0].len() + sent[1].len()) as u64);
    assert!(report.balances.iter().all(|balance| balance.adds_up));
    for reason in ["filtered", "ttl_expired", "dropped"] {
        assert!(
            receive.dropped.contains_key(reason),
            "{reason}: {:?}",
            receive.dropped
        );
    }
    let stage = |name: &str| {
        let found = receive.stages.iter().find(|stage| stage.word == name);
        found.unwrap_or_else(|| panic!("{name} is a stage"))
    };
    assert_eq!(stage("classify").frames, all.len() as u64);
    assert_eq!(stage("dns").counters["queries"], 1);
    assert_eq!(stage("http").counters["method"]["GET"], 1);
}

#[test]
fn warps_of_32_lanes_do_as_one_lane_does_for_64_seeds() {
    for seed in 0..64 {
        let list = arrivals(seed, 150);
        let one = run(ALL_STAGES, &list, scalar(seed));
        let many = run(ALL_STAGES, &list, lockstep(seed));
        for (nic, (one, many)) in one.sent.iter().zip(&many.sent).enumerate() {
            assert_same(many, one, &format!("seed {seed}, NIC {nic}"));
        }
        let counted = |report: &Report| serde_json::to_value(&report.receives).expect("is data");
        assert_eq!(counted(&one.report), counted(&many.report), "seed {seed}");
        assert!(
            !one.sent[0].is_empty() && !one.sent[1].is_empty(),
            "seed {seed}"
        );
    }
}

#[test]
fn frames_pass_between_every_two_memif_and_mlx5_queues_for_64_seeds() {
    let folder = Folder::new();
    let [play, out, empty, back, socket] =
        ["play.pcap", "out.pcap", "empty.pcap", "back.pcap", "socket"]
            .map(|name| folder.file(name));
    write(&empty, &[]);
    for seed in 0..64 {
        let list = arrivals(seed, 100);
        write(&play, &list);
        for settings in [scalar(seed), lockstep(seed)] {
            // capture -> memif client -> memif server -> capture, and the same way back by `reply`.
            let text = format!(
                "[nic.source]\nopen = \"pcap:{play}\"\nrecord = \"{back}\"\npace = \"captured\"\n\
             [nic.client]\nopen = \"memif:{socket}\"\n\
             [nic.server]\nopen = \"memif:{socket}\"\nrole = \"server\"\n\
             [nic.sink]\nopen = \"pcap:{empty}\"\nrecord = \"{out}\"\n\
             [[receive]]\nfrom = \"source\"\n\
             [[receive.stage]]\ndo = \"forward\"\nto = \"client\"\nmalformed = true\n\
             [[receive]]\nfrom = \"server\"\n\
             [[receive.stage]]\ndo = \"reply\"\nwhen = {{ kind = \"arp\" }}\n\
             [[receive.stage]]\ndo = \"forward\"\nto = \"sink\"\nmalformed = true\n\
             [[receive]]\nfrom = \"client\"\n\
             [[receive.stage]]\ndo = \"forward\"\nto = \"source\"\nmalformed = true\n"
            );
            let kit = Kit::built_in();
            let file = PipelineFile::parse("memif.toml", &text, kit.catalogue())
                .unwrap_or_else(|problems| panic!("{problems}"));
            let mut runtime = Runtime::start_with(&file, &kit, settings).expect("starts");
            let stop = AtomicBool::new(false);
            let limit = Some(Duration::from_millis(200));
            runtime.run(limit, &stop, |_| {});
            let report = runtime.finish().whole().expect("ends");
            let arp = |frame: &Vec<u8>| frame[12..14] == [8, 6] || frame[16..18] == [8, 6];
            let sent: Vec<Vec<u8>> = list.iter().map(|(_, frame)| padded(frame)).collect();
            let (asked, rest): (Vec<_>, Vec<_>) = sent.into_iter().partition(arp);
            assert_same(&read(&out), &rest, &format!("on, seed {seed}"));
            assert_same(&read(&back), &asked, &format!("back, seed {seed}"));
            assert!(
                report.balances.iter().all(|balance| balance.adds_up),
                "{report:?}"
            );
        }
    }
}

#[test]
fn samples_are_every_nth_frame_cut_to_length() {
    let folder = Folder::new();
    let file = folder.file("samples.pcapng");
    let stages = format!(
        "[[receive.stage]]\ndo = \"sample\"\nevery = 3\nsnap = 64\nfile = \"{file}\"\n\
         [[receive.stage]]\ndo = \"drop\"\n"
    );
    let list = arrivals(5, 100);
    for settings in [scalar(1), lockstep(1)] {
        let outcome = run(&stages, &list, settings);
        let want: Vec<Vec<u8>> = list
            .iter()
            .step_by(3)
            .map(|(_, frame)| frame[..frame.len().min(64)].to_vec())
            .collect();
        assert_same(&read(&file), &want, "samples");
        assert_eq!(outcome.report.samples[0].frames, want.len() as u64);
        assert_eq!(
            outcome.report.receives[0].stages[0].counters["taken"],
            want.len()
        );
    }
}

#[test]
fn flows_spread_over_the_queues_of_another_nic() {
    let text = "seed = 3\n\
                [nic.gen]\nopen = \"soft\"\npeer = \"in\"\n\
                [nic.in]\nopen = \"soft\"\npeer = \"gen\"\n\
                [nic.out]\nopen = \"soft\"\nqueues = 4\npeer = \"end\"\n\
                [nic.end]\nopen = \"soft\"\npeer = \"out\"\n\
                [[generate]]\nfrom = \"gen\"\ncount = 4000\n\
                [[generate.frame]]\nkind = \"udp\"\nflows = 200\n\
                [[receive]]\nfrom = \"in\"\n[[receive.stage]]\ndo = \"spread\"\nto = \"out\"\n\
                [[receive]]\nfrom = \"end\"\n[[receive.stage]]\ndo = \"drop\"\n";
    let report = run_text(text, scalar(2));
    let queues = report.receives[0].stages[0].counters["queue"]
        .as_object()
        .expect("a table");
    assert_eq!(queues.len(), 4, "{queues:?}");
    let counts = queues
        .values()
        .map(|count| count.as_u64().expect("a number"));
    let counts: Vec<u64> = counts.collect();
    assert_eq!(counts.iter().sum::<u64>(), 4000);
    assert!(counts.iter().all(|count| *count > 500), "{counts:?}");
    assert_eq!(report.receives[1].received, 4000);
}

#[test]
fn a_full_transmit_queue_drops_by_name_and_everything_adds_up() {
    // The cable out is slow and its queue short: what comes in cannot all go on.
    let text = "seed = 3\n\
                [nic.gen]\nopen = \"soft\"\npeer = \"in\"\n\
                [nic.in]\nopen = \"soft\"\npeer = \"gen\"\ndepth = 256\n\
                [nic.out]\nopen = \"soft\"\ndepth = 32\npeer = \"end\"\n\
                [nic.end]\nopen = \"soft\"\npeer = \"out\"\nrate_mbps = 1\nqueue_kb = 4\n\
                [[generate]]\nfrom = \"gen\"\ncount = 3000\n\
                [[generate.frame]]\nkind = \"udp\"\nlength = 1000\n\
                [[receive]]\nfrom = \"in\"\n[[receive.stage]]\ndo = \"forward\"\nto = \"out\"\n\
                [[receive]]\nfrom = \"end\"\n[[receive.stage]]\ndo = \"drop\"\n";
    for settings in [scalar(2), lockstep(2)] {
        let report = run_text(text, settings);
        assert!(
            report.balances.iter().all(|balance| balance.adds_up),
            "{report:?}"
        );
        assert!(
            report.cables.iter().all(|cable| cable.adds_up),
            "{:?}",
            report.cables
        );
        assert_eq!(report.cables[0].sent, 3000);
    }
}

#[test]
fn the_example_of_the_demonstration_adds_up() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = path.join("../examples/pipelines/demonstration.toml");
    let text = std::fs::read_to_string(path).expect("is there");
    let folder = Folder::new();
    let kit = Kit::built_in();
    let text = text.replace("rate = 200_000", "rate = 200_000\ncount = 6000");
    let mut file = PipelineFile::parse("demonstration.toml", &text, kit.catalogue())
        .unwrap_or_else(|problems| panic!("{problems}"));
    file.place_files_in(&folder.0);
    let mut runtime = Runtime::start_with(&file, &kit, scalar(9)).expect("starts");
    let stop = AtomicBool::new(false);
    let ended = runtime.run(None, &stop, |_| {});
    assert_eq!(ended, Ended::Exhausted);
    let report = runtime.finish().whole().expect("ends");
    assert_eq!(report.generators[0].sent.frames, 6000);
    assert!(
        report.balances.iter().all(|balance| balance.adds_up),
        "{:?}",
        report.balances
    );
    assert!(
        report.cables.iter().all(|cable| cable.adds_up),
        "{:?}",
        report.cables
    );
    let inside = &report.receives[0];
    for reason in ["filtered", "ip_length_over_frame", "l4_checksum"] {
        assert!(
            inside.dropped.contains_key(reason),
            "{reason}: {:?}",
            inside.dropped
        );
    }
    // What reaches the sink was verified on the way and again there.
    let sink = &report.receives[1];
    assert_eq!(sink.dropped.keys().collect::<Vec<_>>(), [&"dropped"]);
    assert!(report.samples[0].frames > 0);
}
