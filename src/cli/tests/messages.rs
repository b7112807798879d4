//! Two commands that send each other messages over memif: no root, no interface, nothing but us.

use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use warpwire_nic::pcap::Reader;

/// A folder of the test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let base = format!("warpwire-messages-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(base));
        std::fs::create_dir_all(&folder.0).expect("can be made");
        folder
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Nobody is there to be told.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(output: &Output) -> String {
    let [out, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{errors}")
}

/// Runs a measurement at both ends, over a port of its own; what the two said.
fn both(folder: &Folder, port: u16, words: &[&str], more: [&[&str]; 2]) -> [Output; 2] {
    pair(folder, port, &[&["bench"], words].concat(), more)
}

fn pair(folder: &Folder, port: u16, words: &[&str], more: [&[&str]; 2]) -> [Output; 2] {
    let socket = folder.file("socket");
    let end = |nic: String, more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
        command.args(words).args(["--nic", &nic]);
        command.args(["--port", &port.to_string(), "--patience", "30"]);
        command.args(more).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let [server_words, client_words] = more;
    let server = end(format!("memif:{socket},role=server"), server_words).spawn();
    let server = server.expect("the command can be started");
    let client = end(format!("memif:{socket}"), client_words)
        .arg("127.0.0.1")
        .output();
    let server = server.wait_with_output().expect("ends");
    [server, client.expect("the command can be started")]
}

#[test]
fn what_is_sent_is_captured_with_its_operation() {
    for (number, mode) in (0..).zip([&["--fused"][..], &[], &["--warps", "3"]]) {
        let folder = Folder::new(&format!("capture-{number}"));
        let files = [folder.file("server.pcapng"), folder.file("client.pcapng")];
        let captures = [["--capture", &files[0]], ["--capture", &files[1]]];
        let words = [&["write-bw", "--size", "8", "--iters", "64"], mode].concat();
        let [server, client] = both(
            &folder,
            20_101 + number,
            &words,
            [&captures[0], &captures[1]],
        );
        assert_eq!(client.status.code(), Some(0), "{}", text(&client));
        assert_eq!(server.status.code(), Some(0), "{}", text(&server));
        assert!(
            text(&client).contains("capture: 64 packets sent\n"),
            "{}",
            text(&client)
        );
        for (file, operation) in files
            .iter()
            .zip(["ACKNOWLEDGE to queue", "WRITE ONLY to queue"])
        {
            let bytes = std::fs::read(file).expect("is there");
            let holds = |words: &str| {
                bytes
                    .windows(words.len())
                    .any(|part| part == words.as_bytes())
            };
            assert!(holds(operation), "{file}");
            let mut reader = Reader::new(bytes.as_slice()).expect("a capture");
            let mut frames = 0;
            while reader.next_record().expect("whole").is_some() {
                frames += 1;
            }
            let told = text(if operation.starts_with("WRITE") {
                &client
            } else {
                &server
            });
            assert!(
                told.contains(&format!("capture: {frames} packets sent")),
                "{told}"
            );
        }
    }
}

#[test]
fn every_face_measures_over_memif() {
    let faces = [
        "write-bw",
        "send-bw",
        "read-bw",
        "write-lat",
        "send-lat",
        "read-lat",
        "atomic-lat",
    ];
    for (number, face) in (0..).zip(faces) {
        let folder = Folder::new(face);
        let words = [
            face,
            "--fused",
            "--iters",
            "200",
            "--cq-mod",
            "7",
            "--post_list",
            "5",
        ];
        let [server, client] = both(&folder, 20_111 + number, &words, [&[], &[]]);
        assert_eq!(client.status.code(), Some(0), "{face}: {}", text(&client));
        assert_eq!(server.status.code(), Some(0), "{face}: {}", text(&server));
        let row = text(&client);
        let row = row
            .lines()
            .find(|line| line.split_whitespace().nth(1) == Some("200"));
        assert!(row.is_some(), "{face}: {}", text(&client));
    }
}

#[test]
fn two_ends_negotiate_and_print_what_they_agreed_on() {
    type Words = &'static [&'static str];
    let cases: &[(&str, [Words; 2], Words)] = &[
        (
            "rc",
            [
                &["--mtu", "512", "--selective"],
                &["--traffic-class", "104", "--selective"],
            ],
            &[
                "mtu 1024 512 512",
                "traffic_class 104 any 104",
                "features selective selective",
            ],
        ),
        (
            "uc",
            [&["--hop-limit", "7", "--pkey", "8001"], &["--pkey", "1"]],
            &["hop_limit any 7 7", "pkey 0001 8001"],
        ),
        ("ud", [&[], &["--size", "700"]], &["service ud ud ud"]),
    ];
    for (number, (service, ends, rows)) in (0..).zip(cases) {
        let folder = Folder::new(&format!("negotiate-{service}"));
        let words = [
            "pingpong",
            "--negotiate",
            "--connection",
            service,
            "-n",
            "50",
            "-c",
        ];
        let ends = ends.map(|end| {
            let size: &[&str] = match *service {
                "ud" if end.is_empty() => &["--size", "700"],
                _ => &[],
            };
            [end, size].concat()
        });
        let [server, client] = pair(&folder, 20_131 + number, &words, [&ends[0], &ends[1]]);
        assert_eq!(
            client.status.code(),
            Some(0),
            "{service}: {}",
            text(&client)
        );
        assert_eq!(
            server.status.code(),
            Some(0),
            "{service}: {}",
            text(&server)
        );
        let said = text(&client);
        let lines = said.lines();
        let lines: Vec<String> = lines
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for row in *rows {
            let is_there = lines.iter().any(|line| line.starts_with(row));
            assert!(is_there, "{service} {row}: {said}");
        }
    }
}

#[test]
fn what_two_ends_differ_in_is_named_at_both() {
    let cases: &[([&[&str]; 2], &str)] = &[
        ([&["--pkey", "8001"], &["--pkey", "8002"]], "pkey"),
        ([&["--hop-limit", "7"], &["--hop-limit", "8"]], "hop_limit"),
        ([&["--connection", "uc"], &[]], "service"),
    ];
    for (number, (ends, field)) in (0..).zip(cases) {
        let folder = Folder::new(&format!("differ-{field}"));
        let words = ["pingpong", "--negotiate", "-n", "5"];
        let outputs = pair(&folder, 20_141 + number, &words, *ends);
        for output in &outputs {
            assert_eq!(output.status.code(), Some(1), "{field}: {}", text(output));
            assert!(text(output).contains(field), "{field}: {}", text(output));
        }
    }
}

#[test]
fn what_memif_cannot_is_refused() {
    let folder = Folder::new("refused");
    let nic = format!("memif:{}", folder.file("socket"));
    let file = folder.file("one");
    let cases: &[(&[&str], &str)] = &[
        (&["-R"], "-R: RDMA-CM is for links with addresses"),
        (&["-t", "16384", "-I", "900", "-s", "900"], "-I 0"),
        (&["-I", "913"], "912"),
        (&["-x", "1", "-R"], "cannot be used with"),
        (&["-c", "UD"], "datagrams are sent"),
        (&["-m", "1000"], "write 256, 512, 1024, 2048 or 4096"),
        (&["-t", "16", "-l", "17"], "-l: no more requests"),
        (
            &["--capture", &file, "--out_json_file", &file],
            "--capture: is the file of --out_json_file",
        ),
    ];
    for (words, want) in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
        command
            .args(["bench", "write-bw", "--nic", &nic])
            .args(*words);
        let output = command
            .stdin(Stdio::null())
            .output()
            .expect("can be started");
        assert_eq!(output.status.code(), Some(2), "{words:?}");
        assert!(text(&output).contains(want), "{words:?}: {}", text(&output));
    }
    for (words, want) in [
        (&["atomic-lat", "-s", "16"][..], "an atomic is of 8 bytes"),
        (&["write-lat", "-s", "0"], "-s 0: nobody sees such a write"),
        (&["send-bw", "--nic", "foo"], "foo"),
        (&["send-bw", "--nic", "memif:"], "memif"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
        let output = command.arg("bench").args(words).stdin(Stdio::null());
        let output = output.output().expect("can be started");
        assert_eq!(
            output.status.code(),
            Some(2),
            "{words:?}: {}",
            text(&output)
        );
        assert!(text(&output).contains(want), "{words:?}: {}", text(&output));
    }
}

#[test]
fn files_are_looked_at_before_anybody_waits() {
    let folder = Folder::new("files");
    let (nowhere, old, new) = (
        folder.file("no/such/folder.pcapng"),
        folder.file("old.json"),
        folder.file("new.json"),
    );
    std::fs::write(&old, "{}").expect("can be written");
    for words in [
        ["bench", "write-bw", "--capture", &nowhere],
        ["bench", "write-bw", "--out_json_file", &nowhere],
        ["rping", "--server", "--capture", &nowhere],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
        let output = command.args(words).stdin(Stdio::null()).output();
        let output = output.expect("can be started");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
        // Without rights nobody comes as far as that.
        let cures = ["name a file or folder that can be used", "run as root"];
        assert!(
            cures.iter().any(|cure| said.contains(cure)),
            "{words:?}: {said}"
        );
    }
    let nic = format!("memif:{}", folder.file("socket"));
    for file in [&old, &new] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
        let words = [
            "bench",
            "write-bw",
            "--patience",
            "1",
            "--port",
            "20161",
            "127.0.0.1",
        ];
        command
            .args(words)
            .args(["--nic", &nic, "--out_json_file", file]);
        let output = command.stdin(Stdio::null()).output().expect("starts");
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    }
    assert_eq!(std::fs::read_to_string(&old).expect("is there"), "{}");
    assert!(!std::path::Path::new(&new).exists());
}

#[test]
fn an_output_that_takes_nothing_is_told() {
    let words: [&[&str]; 2] = [&["bench", "write-lat"], &["pingpong"]];
    for (number, words) in (0..).zip(words) {
        let folder = Folder::new(&format!("output-{number}"));
        let port = (20_171 + number).to_string();
        let socket = folder.file("socket");
        let ends = [(",role=server", None), ("", Some("127.0.0.1"))];
        let ends = ends.map(|(role, host)| {
            let full = std::fs::File::create("/dev/full").expect("Linux has it");
            let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
            command
                .args(words)
                .args(["--nic", &format!("memif:{socket}{role}")]);
            command
                .args(["--port", &port, "--patience", "5"])
                .args(host);
            command
                .stdin(Stdio::null())
                .stdout(full)
                .stderr(Stdio::piped());
            command.spawn().expect("starts")
        });
        for end in ends {
            let output = end.wait_with_output().expect("ends");
            let said = text(&output);
            assert_eq!(output.status.code(), Some(1), "{words:?}: {said}");
            assert!(
                said.contains("give standard output a reader or a file"),
                "{said}"
            );
        }
    }
}

#[test]
fn a_server_ends_at_the_first_signal_waiting_and_at_work() {
    let words: [&[&str]; 2] = [
        &["bench", "send-bw", "--iters", "100000000"],
        &["pingpong", "--iters", "100000000"],
    ];
    for (number, words) in (0..).zip(words) {
        for has_client in [false, true] {
            let folder = Folder::new(&format!("signal-{number}-{has_client}"));
            let socket = folder.file("socket");
            let port = (20_151 + 2 * number + u16::from(has_client)).to_string();
            let end = |nic: &str, more: &[&str]| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
                command.args(words).args(["--nic", nic, "--port", &port]);
                command.args(["--patience", "5"]).args(more);
                command.stdin(Stdio::null()).stdout(Stdio::null());
                command.stderr(Stdio::null()).spawn().expect("starts")
            };
            let mut server = end(&format!("memif:{socket},role=server"), &[]);
            let client = has_client.then(|| end(&format!("memif:{socket}"), &["127.0.0.1"]));
            std::thread::sleep(Duration::from_secs(2));
            assert_eq!(server.try_wait().expect("is ours"), None, "{words:?}");
            let pid = server.id().to_string();
            let sent = Command::new("kill").args(["-INT", &pid]).status();
            assert!(sent.expect("kill is there").success());
            let asked = Instant::now();
            let mut status = None;
            while status.is_none() && asked.elapsed() < Duration::from_secs(4) {
                std::thread::sleep(Duration::from_millis(20));
                status = server.try_wait().expect("is ours");
            }
            // Before anything is looked at: nobody may be left.
            let _ = server.kill();
            let _ = server.wait();
            if let Some(mut client) = client {
                let _ = client.kill();
                let _ = client.wait();
            }
            let code = status.and_then(|status| status.code());
            assert_eq!(code, Some(if has_client { 130 } else { 1 }), "{words:?}");
        }
    }
}

#[test]
fn a_file_goes_over_rdma_from_process_to_process() {
    let folder = Folder::new("stream");
    let bytes: Vec<u8> = (0..3_000_000u32)
        .map(|at| (at * 7 + at / 251) as u8)
        .collect();
    let [from, to] = ["from", "to"].map(|name| folder.file(name));
    std::fs::write(&from, &bytes).expect("can be written");
    let socket = folder.file("socket");
    let end = |words: &[&str], role: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
        command.arg("stream").args(words);
        command.args(["--carrier", "rdma", "--addr", "127.0.0.1/8"]);
        command.args(["--nic", &format!("memif:{socket}{role}")]);
        command.args(["--ring", "65536", "--wait", "30", "--patience", "10"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command.spawn().expect("the command can be started")
    };
    let server = end(&["recv", &to, "--port", "20176"], ",role=server");
    let client = end(&["send", &from, "--to", "127.0.0.1:20176"], "");
    let [client, server] = [client, server].map(|end| end.wait_with_output().expect("ends"));
    for (end, verb) in [(&client, "sent"), (&server, "received")] {
        let said = text(end);
        assert_eq!(end.status.code(), Some(0), "{said}");
        let row = format!("{verb} 3000000 bytes");
        assert!(
            said.contains(&row) && said.contains("writes of RDMA"),
            "{said}"
        );
    }
    assert!(std::fs::read(&to).expect("is there") == bytes);
}

#[test]
fn a_file_whose_sender_is_gone_is_not_whole() {
    let folder = Folder::new("stream-gone");
    let to = folder.file("to");
    let socket = folder.file("socket");
    let end = |words: &[&str], role: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpwire"));
        command.arg("stream").args(words);
        command.args(["--carrier", "rdma", "--addr", "127.0.0.1/8"]);
        command.args(["--nic", &format!("memif:{socket}{role}")]);
        command.args(["--wait", "30", "--patience", "3"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command.spawn().expect("the command can be started")
    };
    let server = end(&["recv", &to, "--port", "20177"], ",role=server");
    // What has no end is sent until somebody ends it.
    let mut client = end(&["send", "/dev/zero", "--to", "127.0.0.1:20177"], "");
    let began = Instant::now();
    let came = || std::fs::metadata(&to).map_or(0, |file| file.len());
    while came() < 1 << 20 && began.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(10));
    }
    client.kill().expect("runs");
    client.wait().expect("ends");
    let server = server.wait_with_output().expect("ends");
    assert_eq!(server.status.code(), Some(1), "{}", text(&server));
    assert!(text(&server).contains("not all"), "{}", text(&server));
}

#[test]
fn a_file_that_cannot_grow_says_how_much_it_has() {
    let folder = Folder::new("stream-full");
    let [to, socket] = ["to", "socket"].map(|name| folder.file(name));
    let end = |program: &str, first: &[&str], words: &[&str], role: &str| {
        let mut command = Command::new(program);
        command.args(first).arg("stream").args(words);
        command.args(["--carrier", "rdma", "--addr", "127.0.0.1/8"]);
        command.args(["--nic", &format!("memif:{socket}{role}")]);
        command.args(["--wait", "30", "--patience", "10"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        command.stderr(Stdio::piped());
        command.spawn().expect("the command can be started")
    };
    let warpwire = env!("CARGO_BIN_EXE_warpwire");
    // No multiple of what comes at a time.
    let script = "trap '' XFSZ; ulimit -f 2001; exec \"$0\" \"$@\"";
    let words = ["recv", &to, "--port", "20178"];
    let server = end("sh", &["-c", script, warpwire], &words, ",role=server");
    let words = ["send", "/dev/zero", "--to", "127.0.0.1:20178"];
    let mut client = end(warpwire, &[], &words, "");
    let server = server.wait_with_output().expect("ends");
    client.kill().expect("can be ended");
    client.wait().expect("ends");
    assert_eq!(server.status.code(), Some(1), "{}", text(&server));
    let has = std::fs::metadata(&to).expect("is there").len();
    assert_eq!(has, 2001 * 512);
    let want = format!("has the first {has} bytes, not all");
    let said = text(&server);
    assert!(said.contains("too large") && said.contains(&want), "{said}");
}
