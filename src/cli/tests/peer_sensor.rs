//! `warpwire serve sensor` with Linux as the sensor, over a veth pair in namespaces of the test's
//! own: over TCP, and over UDP with records lost, doubled, short and in the wrong order. Needs
//! root.

mod veth;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use warpwire_nic::namespace;
use warpwire_nic::soft::Dice;

use veth::{Veth, run};

const OURS: &str = "10.80.0.2";
const OURS_6: &str = "fd80::2";
const LIMIT: Duration = Duration::from_secs(30);

/// Two namespaces, the near one Linux's, and a folder.
struct Scene {
    veth: Veth,
    folder: PathBuf,
}

impl Scene {
    fn new(name: &str) -> Option<Self> {
        let base = format!("wwt{}{name}", std::process::id());
        let veth = Veth::new(&base, 80)?;
        let folder = std::env::temp_dir().join(&base);
        std::fs::create_dir_all(&folder).expect("is made");
        Some(Self { veth, folder })
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).display().to_string()
    }

    /// The words that serve a sensor here.
    fn words(&self, words: &str) -> Vec<String> {
        let nic = format!("xdp:v1,netns={}", self.veth.far);
        let common =
            format!("serve sensor --nic {nic} --addr {OURS}/24 --addr {OURS_6}/64 {words}");
        common.split_whitespace().map(str::to_owned).collect()
    }

    /// Starts the service, and waits until it serves.
    fn serve(&self, words: &str) -> Served {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
        command.args(self.words(words)).arg("--json");
        Served::start(command)
    }

    /// What Linux does.
    fn near<T: Send>(&self, what: impl FnOnce() -> T + Send) -> T {
        namespace::within(&self.veth.near, what).expect("namespace")
    }

    /// A datagram more does not have to wait for who we are.
    fn meet(&self, address: &str) {
        let words = format!(
            "ip netns exec {} ping -q -c 1 -W 5 {address}",
            self.veth.near
        );
        run(&words);
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A service that runs.
struct Served {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Served {
    fn start(mut command: Command) -> Self {
        let command = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the command can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("is a pipe"));
        let mut line = String::new();
        while !line.contains(r#""event":"serving""#) {
            line.clear();
            let count = lines.read_line(&mut line).expect("is text");
            assert!(count > 0, "the command ended");
        }
        Self { child, lines }
    }

    /// Waits for its end: what it said, an object a line; its exit code, and its complaint.
    fn wait(mut self) -> (Vec<Value>, Option<i32>, String) {
        let mut said = String::new();
        self.lines.read_to_string(&mut said).expect("is text");
        let mut complaint = String::new();
        let errors = self.child.stderr.as_mut().expect("is a pipe");
        errors.read_to_string(&mut complaint).expect("is text");
        let ended = self.child.wait().expect("ends");
        let objects = said
            .lines()
            .map(|line| serde_json::from_str(line).expect("is JSON"));
        (objects.collect(), ended.code(), complaint)
    }

    /// Asks it to end.
    fn end(self) -> (Vec<Value>, Option<i32>, String) {
        run(&format!("kill -INT {}", self.child.id()));
        self.wait()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const HEADER: usize = 16;
const SAMPLES: usize = 100;

/// A record: its number, big-endian, 8 random bytes, and random samples, little-endian.
fn record(dice: &mut Dice, number: u64) -> Vec<u8> {
    let random = (0..8 + SAMPLES * 2).map(|_| dice.below(256) as u8);
    number.to_be_bytes().into_iter().chain(random).collect()
}

/// The files of NumPy that are to come of records, by row; of those that are none, NaN and zeros.
fn arrays(rows: &[Option<&Vec<u8>>]) -> [Vec<u8>; 2] {
    let (mut samples, mut headers) = (Vec::new(), Vec::new());
    for row in rows {
        match row {
            None => {
                headers.extend([0; HEADER]);
                samples.extend(f32::NAN.to_ne_bytes().repeat(SAMPLES));
            }
            Some(record) => {
                headers.extend(&record[..HEADER]);
                for pair in record[HEADER..].chunks(2) {
                    let sample = i16::from_le_bytes([pair[0], pair[1]]);
                    samples.extend((f32::from(sample) / 16.0).to_ne_bytes());
                }
            }
        }
    }
    [samples, headers]
}

/// The elements of an array, whose kind and shape are to be these.
fn npy(path: &str, kind: &str, rows: usize, columns: usize) -> Vec<u8> {
    let bytes = std::fs::read(path).expect("is there");
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let words = String::from_utf8_lossy(&bytes[10..end]);
    let want =
        format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    assert_eq!(words.trim_end(), want);
    bytes[end..].to_vec()
}

/// Compares the files with what is to be in them.
fn compare(scene: &Scene, rows: &[Option<&Vec<u8>>]) {
    let [samples, headers] = arrays(rows);
    let found = npy(&scene.file("s.npy"), "<f4", rows.len(), SAMPLES);
    let differs = found
        .chunks(4)
        .zip(samples.chunks(4))
        .position(|(a, b)| a != b);
    assert!(
        found == samples,
        "samples differ at {differs:?}, {} bytes",
        found.len()
    );
    let found = npy(&scene.file("h.npy"), "|u1", rows.len(), HEADER);
    assert!(found == headers, "headers differ, {} bytes", found.len());
}

/// The gaps that are told, as rows from and to; those that follow each other are one.
fn gaps<'a>(list: impl IntoIterator<Item = &'a Value>) -> Vec<(u64, u64)> {
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    for gap in list {
        let [from, to] = ["from_row", "end_row"].map(|key| gap[key].as_u64().expect("is a number"));
        match gaps.last_mut() {
            Some((_, last)) if *last == from => *last = to,
            _ => gaps.push((from, to)),
        }
    }
    gaps
}

/// The gaps that there are.
fn missing(rows: &[Option<&Vec<u8>>]) -> Vec<(u64, u64)> {
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    for (row, _) in (0..).zip(rows).filter(|(_, record)| record.is_none()) {
        match gaps.last_mut() {
            Some((_, last)) if *last == row => *last += 1,
            _ => gaps.push((row, row + 1)),
        }
    }
    gaps
}

fn of<'a>(objects: &'a [Value], event: &'a str) -> impl Iterator<Item = &'a Value> {
    objects.iter().filter(move |line| line["event"] == event)
}

fn at(address: &str, port: u16) -> SocketAddr {
    let address: IpAddr = address.parse().expect("is one");
    SocketAddr::new(address, port)
}

const SHAPE: &str = "--samples 100 --little-samples --fraction-bits 4";

#[test]
fn records_over_tcp_are_gathered_exactly() {
    for (case, (address, lengths)) in [(OURS, false), (OURS_6, true)].into_iter().enumerate() {
        let Some(scene) = Scene::new(&format!("t{case}")) else {
            return;
        };
        let mut dice = Dice::new(case as u64);
        let records: Vec<Vec<u8>> = (0..3000).map(|row| record(&mut dice, 500 + row)).collect();
        let is_sent = |row: usize| !(row == 7 || (100..110).contains(&row) || row == 2000);
        let rows: Vec<Option<&Vec<u8>>> = (0..)
            .zip(&records)
            .map(|(row, record)| is_sent(row).then_some(record))
            .collect();
        let served = scene.serve(&format!(
            "{SHAPE} --rows-to {} --headers-to {} --records 3000 --first 500 --live=20ms {}",
            scene.file("s.npy"),
            scene.file("h.npy"),
            if lengths { "--length-bytes 2" } else { "" }
        ));
        let mut bytes = Vec::new();
        for record in rows.iter().flatten() {
            if lengths {
                bytes.extend((record.len() as u16).to_be_bytes());
            }
            bytes.extend_from_slice(record);
        }
        if lengths {
            // One that is short, and of no account.
            bytes.extend([0, 3, 1, 2, 3]);
            bytes.extend((records[0].len() as u16).to_be_bytes());
            bytes.extend(&records[0]);
        }
        let stream = scene.near(|| TcpStream::connect_timeout(&at(address, 5310), LIMIT));
        let mut stream = stream.expect("connects");
        stream.set_write_timeout(Some(LIMIT)).expect("is set");
        // What is behind the last row may come too late for it to be taken.
        let _ = stream.write_all(&bytes);
        let (objects, code, complaint) = served.wait();
        assert_eq!(code, Some(0), "{complaint}");
        compare(&scene, &rows);
        let end = of(&objects, "end").next().expect("has an end");
        assert_eq!(end["rows"], 3000, "{end}");
        assert_eq!(end["missing_rows"], 12, "{end}");
        assert_eq!(end["placed"], 2988, "{end}");
        assert_eq!(end["streams"]["accepted"], 1, "{end}");
        let list = end["gap_list"].as_array().expect("is a list");
        assert_eq!(gaps(list), missing(&rows), "{end}");
        assert!(of(&objects, "sensor").next().is_some(), "{objects:?}");
        drop(stream);
    }
}

#[test]
fn datagrams_are_put_in_order_and_what_is_missing_is_told() {
    for (case, address) in [OURS, OURS_6].into_iter().enumerate() {
        let Some(scene) = Scene::new(&format!("u{case}")) else {
            return;
        };
        let seed = case as u64 + 10;
        let mut dice = Dice::new(seed);
        let records: Vec<Vec<u8>> = (0..4000).map(|row| record(&mut dice, 70 + row)).collect();
        let mut rows: Vec<Option<&Vec<u8>>> = Vec::new();
        let (mut sent, mut doubled, mut short) = (Vec::new(), 0, 0);
        for (row, record) in (0..).zip(&records) {
            // The last ones come: nobody could miss them.
            let is_lost = row < 3990 && dice.below(15) == 0;
            rows.push((!is_lost).then_some(record));
            if is_lost {
                continue;
            }
            // None is overtaken by as many as the window holds.
            let mut turn = || row + dice.below(20);
            let turns = [turn(), turn(), turn()];
            sent.push((turns[0], record.clone()));
            if dice.below(12) == 0 {
                doubled += 1;
                sent.push((turns[1], record.clone()));
            }
            if dice.below(30) == 0 {
                short += 1;
                sent.push((turns[2], record[..record.len() - 2].to_vec()));
            }
        }
        sent.sort_by_key(|(turn, _)| *turn);
        let served = scene.serve(&format!(
            "--udp {SHAPE} --rows-to {} --headers-to {} --first 70 --live=20ms --window 64 \
             --rows 4096 --patience-us 10000000 --port 6000",
            scene.file("s.npy"),
            scene.file("h.npy"),
        ));
        scene.meet(address);
        scene.near(|| {
            let any = if address == OURS {
                "0.0.0.0:0"
            } else {
                "[::]:0"
            };
            let socket = UdpSocket::bind(any).expect("binds");
            for (number, (_, record)) in sent.iter().enumerate() {
                socket.send_to(record, at(address, 6000)).expect("is sent");
                // Another port is not the sensor's.
                if number % 500 == 0 {
                    let _ = socket.send_to(record, at(address, 6001));
                }
                if number % 16 == 0 {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        std::thread::sleep(Duration::from_secs(1));
        let (objects, code, complaint) = served.end();
        assert_eq!(code, Some(0), "{complaint}");
        let end = of(&objects, "end").next().expect("has an end");
        assert_eq!(end["lost"], serde_json::json!({}), "{end}");
        compare(&scene, &rows);
        let list = end["gap_list"].as_array().expect("is a list");
        assert_eq!(gaps(list), missing(&rows), "seed {seed}: {end}");
        let lost = rows.iter().filter(|row| row.is_none()).count();
        assert_eq!(end["rows"], 4000, "{end}");
        assert_eq!(end["missing_rows"], lost, "{end}");
        assert_eq!(end["placed"], 4000 - lost, "{end}");
        let dropped = |why: &str| end["dropped"][why].as_u64().unwrap_or(0);
        assert_eq!(
            dropped("doubled") + dropped("late"),
            doubled,
            "seed {seed}: {end}"
        );
        assert_eq!(dropped("length"), short, "seed {seed}: {end}");
        // What was told meanwhile is the beginning of what is told at the end.
        let meanwhile = gaps(of(&objects, "gap"));
        assert!(!meanwhile.is_empty());
        let all = missing(&rows);
        let last = meanwhile.len() - 1;
        assert_eq!(meanwhile[..last], all[..last]);
    }
}

#[test]
fn what_cannot_be_served_is_named_before_anybody_sends() {
    let Some(scene) = Scene::new("w") else { return };
    let files = format!("--rows-to {}", scene.file("s.npy"));
    let nowhere = format!("--rows-to {}", scene.file("nowhere/s.npy"));
    for (words, code, want) in [
        (format!("{nowhere} --samples 4"), 1, "nowhere/s.npy"),
        (format!("{nowhere} --samples 4 --udp"), 1, "nowhere/s.npy"),
        (
            "--rows-to /dev/full --samples 4".to_owned(),
            1,
            "is a device",
        ),
        (files.clone(), 2, "--samples"),
        ("--samples 4".to_owned(), 2, "--rows-to"),
        (format!("{files} --samples 0"), 2, "--samples: is 0"),
        (
            format!("{files} --samples 4 --header 4"),
            2,
            "--number-at: the number does not lie within the header; write a longer `--header`, or \
             a smaller `--number-at`",
        ),
        (
            format!("{files} --samples 4 --number-bytes 3"),
            2,
            "--number-bytes: no number",
        ),
        (
            format!("{files} --samples 4 --window 9999"),
            2,
            "--window: is 9999",
        ),
        (
            format!("{files} --samples 4 --length-bytes 3"),
            2,
            "--length-bytes: write",
        ),
        (
            format!("{files} --samples 4 --udp --length-bytes 2"),
            2,
            "--length-bytes",
        ),
        (
            format!("{files} --samples 900000"),
            2,
            "--ring: a record has",
        ),
        (
            format!("{files} --samples 4 --headers-to {}", scene.file("s.npy")),
            2,
            "--headers-to",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_warpwire"))
            .args(scene.words(&words))
            .args(["--seconds", "5"])
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
        assert!(said.contains(want), "{words}: {said}");
    }
    let output = Command::new(env!("CARGO_BIN_EXE_warpwire"))
        .args([
            "serve",
            "echo",
            "--nic",
            "soft",
            "--addr",
            "10.0.0.1/24",
            "--udp",
        ])
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("--udp: only `serve sensor` has it"), "{said}");
}

#[test]
fn a_file_that_cannot_grow_ends_the_service_and_keeps_its_rows() {
    let Some(scene) = Scene::new("f") else { return };
    let words = scene.words(&format!("{SHAPE} --rows-to {} --json", scene.file("s.npy")));
    // Files of 512 KiB at most; who ignores the signal gets an error.
    let script = "trap '' XFSZ; ulimit -f 1024; exec \"$@\"";
    let mut command = Command::new("sh");
    command
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_warpwire")])
        .args(words);
    let served = Served::start(command);
    let stream = scene.near(|| TcpStream::connect_timeout(&at(OURS, 5310), LIMIT));
    let mut stream = stream.expect("connects");
    stream.set_write_timeout(Some(LIMIT)).expect("is set");
    let mut dice = Dice::new(1);
    for number in 0..20_000 {
        if stream.write_all(&record(&mut dice, number)).is_err() {
            break;
        }
    }
    let (objects, code, complaint) = served.wait();
    assert_eq!(code, Some(1), "{complaint}");
    assert!(
        complaint.contains("s.npy") && complaint.contains("too large"),
        "{complaint}"
    );
    let end = of(&objects, "end").next().expect("has an end");
    let bytes = std::fs::read(scene.file("s.npy")).expect("is there");
    let words = String::from_utf8_lossy(&bytes[10..128]);
    // All whole rows that there is room for.
    let rows = ((1 << 19) - 128) / (SAMPLES * 4);
    assert_eq!(bytes.len(), 128 + rows * SAMPLES * 4);
    assert_eq!(end["rows"], rows, "{end}");
    let want = format!("the file has the first {rows} rows, not all");
    assert!(complaint.contains(&want), "{complaint}");
    assert!(
        words.contains(&format!("({rows}, {SAMPLES})")),
        "{words}: {} bytes",
        bytes.len()
    );
}

#[test]
fn an_interface_that_is_removed_ends_it() {
    let Some(scene) = Scene::new("g") else { return };
    let rows = scene.file("rows.npy");
    // The time bounds a service that sees nothing.
    let served = scene.serve(&format!(
        "--samples {SAMPLES} --rows-to {rows} --seconds 20"
    ));
    run(&format!("ip -n {} link del v1", scene.veth.far));
    let (said, code, complaint) = served.wait();
    assert_eq!(code, Some(1), "{complaint}");
    assert!(
        complaint.contains("the interface v1 was removed"),
        "{complaint}"
    );
    let [.., end, error] = &*said else {
        panic!("it reports: {said:?}");
    };
    assert_eq!(
        (&end["event"], &error["event"]),
        (&"end".into(), &"error".into())
    );
    let text = error["text"].as_str().expect("words");
    assert!(complaint.contains(text), "{text}: {complaint}");
}

#[test]
fn records_that_no_packet_holds_are_refused() {
    let Some(scene) = Scene::new("m") else { return };
    let rows = scene.file("rows.npy");
    std::fs::write(&rows, "older").expect("writes");
    let words = scene.words(&format!("--udp --samples 1000 --rows-to {rows}"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
    let output = command.args(words).output().expect("runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{complaint}");
    assert_eq!(std::fs::read(&rows).expect("is there"), b"older");
    for words in [
        "--samples: a record of 2016 bytes",
        "2044",
        "1500 bytes a packet",
    ] {
        assert!(complaint.contains(words), "{words}: {complaint}");
    }
}
