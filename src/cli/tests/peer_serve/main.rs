//! `warpwire serve` and `warpwire stream` with Linux as their peer, over a veth pair in namespaces
//! of the test's own. Needs root.

mod scene;
mod transfers;
#[path = "../veth.rs"]
mod veth;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use warpwire_nic::namespace;

use scene::{LIMIT, OURS, OURS_6, Scene, text};
use transfers::{Folder, ended, receiver};
use veth::run;

#[test]
fn linux_finds_the_addresses_and_pings_them() {
    let Some(scene) = Scene::new("p") else { return };
    let served = scene.serve("discard");
    for words in [
        format!("ping -q -c 20 -i 0.01 -W 2 {OURS}"),
        format!("ping -q -c 20 -i 0.01 -W 2 {OURS_6}"),
        format!("ping -q -c 3 -i 0.01 -W 2 -s 1400 {OURS}"),
    ] {
        let output = scene.near(&words);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(" 0% packet loss"), "{words}: {said}");
    }
    if warpwire_skip::has_program("arping") {
        let output = scene.near(&format!("arping -c 3 -I v0 {OURS}"));
        assert!(output.status.success(), "{output:?}");
    }
    let neighbors = scene.near("ip neigh");
    let said = String::from_utf8_lossy(&neighbors.stdout);
    for address in [OURS, OURS_6] {
        let line = said.lines().find(|line| line.starts_with(address));
        assert!(line.is_some_and(|line| line.contains("lladdr")), "{said}");
    }
    // A datagram that nobody wants is refused.
    let refused = namespace::within(&scene.near, || {
        let socket = std::net::UdpSocket::bind("0.0.0.0:0")?;
        socket.connect((OURS, 5000))?;
        socket.set_read_timeout(Some(LIMIT))?;
        socket.send(b"?")?;
        socket.recv(&mut [0; 8])
    });
    let refused = refused.expect("namespace").expect_err("nobody answers");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    served.end();
}

#[test]
fn echo_gives_back_what_came() {
    let Some(scene) = Scene::new("e") else { return };
    for words in ["echo --live=20ms", "echo --live=20ms --threads 1"] {
        gives_back(&scene, words);
    }
}

fn gives_back(scene: &Scene, words: &str) {
    let served = scene.serve(words);
    for (address, bytes) in [(OURS, 1), (OURS_6, 1), (OURS, 4 << 20), (OURS_6, 4 << 20)] {
        let mut stream = scene.connect(address, 7);
        let sent = text(bytes);
        let mut writing = stream.try_clone().expect("is cloned");
        let mut back = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                writing.write_all(&sent).expect("goes on");
                writing.shutdown(Shutdown::Write).expect("closes");
            });
            stream.read_to_end(&mut back).expect("goes on");
        });
        assert!(back == sent, "{address}: {} of {bytes} bytes", back.len());
    }
    let said = served.end();
    let totals = said
        .lines()
        .find(|line| line.contains(" connections, 0 open: "));
    assert!(totals.is_some(), "{words}: {said}");
    let said = said
        .split_once("\n4 connections, 0 broke")
        .expect("has an end")
        .1;
    let said = format!("4 connections, 0 broke{said}");
    let want = "4 connections, 0 broke; 8388610 bytes came, 8388610 were written";
    assert!(said.starts_with(want), "{words}: {said}");
}

#[test]
fn a_device_model_between_is_found_by_who_never_saw_it() {
    let Some(scene) = Scene::new("u") else { return };
    let nic = format!("soft,uplink=xdp:v1+netns={}", scene.far);
    let served = scene.serve_on(&nic, "echo --live=10ms --json");
    for address in [OURS, OURS_6] {
        let mut stream = scene.connect(address, 7);
        stream.write_all(b"there and back").expect("goes on");
        let mut back = [0; 14];
        stream.read_exact(&mut back).expect("comes back");
        assert_eq!(&back, b"there and back");
        // Until Linux acknowledges: after its delay.
        std::thread::sleep(Duration::from_millis(200));
    }
    // What is told is an object a line.
    let said = served.end();
    let objects: Vec<serde_json::Value> = said
        .lines()
        .map(|line| serde_json::from_str(line).expect("is JSON"))
        .collect();
    let of = |event: &'static str| objects.iter().filter(move |line| line["event"] == event);
    for (address, end) in [("10.79.0.1:", "10.79.0.2:7"), ("[fd79::1]:", "[fd79::2]:7")] {
        let is_it = |line: &&serde_json::Value| {
            let peer = line["peer"].as_str();
            let is_measured = line["rtt_us"].as_u64().is_some_and(|rtt| rtt > 0);
            peer.is_some_and(|peer| peer.starts_with(address)) && is_measured
        };
        let told = of("connection").find(is_it);
        let told = told.unwrap_or_else(|| panic!("{address} is not told of: {said}"));
        assert_eq!(told["local"], end);
        assert_eq!(told["state"], "Established");
        assert_eq!(
            (&told["came_bytes"], &told["left_bytes"]),
            (&14.into(), &14.into())
        );
        for field in ["cwnd_bytes", "retransmits", "reordered", "out_of_order"] {
            assert!(told[field].is_u64(), "{field}: {told}");
        }
    }
    let end = of("end").next().expect("has an end");
    assert_eq!(
        (&end["connections"], &end["broken"]),
        (&2.into(), &0.into())
    );
}

#[test]
fn source_and_discard_move_bytes_one_way() {
    let Some(scene) = Scene::new("s") else { return };
    let served = scene.serve("source --bytes 10000000 --port 1900");
    for address in [OURS, OURS_6] {
        let mut came = Vec::new();
        let mut stream = scene.connect(address, 1900);
        stream.read_to_end(&mut came).expect("goes on");
        assert_eq!(came.len(), 10_000_000);
        let is_right = |(at, byte): (usize, &u8)| usize::from(*byte) == at % 251;
        assert!(came.iter().enumerate().all(is_right));
    }
    served.end();
    let served = scene.serve("discard");
    let mut stream = scene.connect(OURS, 9);
    stream.write_all(&text(10_000_000)).expect("goes on");
    stream.shutdown(Shutdown::Write).expect("closes");
    assert_eq!(stream.read(&mut [0; 8]).expect("ends"), 0);
    let said = served.end();
    assert!(said.contains("10000000 bytes came"), "{said}");
}

#[test]
fn curl_fetches_files() {
    if !warpwire_skip::has_program("curl") {
        return warpwire_skip::installable("`curl` is not there");
    }
    let Some(scene) = Scene::new("h") else { return };
    let folder = std::env::temp_dir().join(format!("wws{}site", std::process::id()));
    std::fs::create_dir_all(folder.join("sub")).expect("is made");
    let sizes = [0, 1, 1000, 100_000, 20_000_000];
    for size in sizes {
        std::fs::write(folder.join(format!("{size}.bin")), text(size)).expect("is written");
    }
    std::fs::write(folder.join("sub/index.html"), "<p>here</p>").expect("is written");
    let root = folder.to_string_lossy().into_owned();
    for words in ["", " --threads 1"] {
        let served = scene.serve(&format!("http --root {root}{words}"));
        fetch(&scene, &sizes);
        let said = served.end();
        assert!(
            said.contains("\n1016 answers, 4 of them without a file\n"),
            "{said}"
        );
    }
    std::fs::remove_dir_all(&folder).expect("is removed");
}

/// A thousand requests and sixteen more, four of which are refused.
fn fetch(scene: &Scene, sizes: &[usize]) {
    for address in [OURS.to_owned(), format!("[{OURS_6}]")] {
        for size in sizes.iter().copied() {
            let output = scene.near(&format!("curl -sSf http://{address}/{size}.bin"));
            assert!(output.status.success(), "{output:?}");
            assert!(
                output.stdout == text(size),
                "{size}: {}",
                output.stdout.len()
            );
        }
    }
    let output = scene.near(&format!("curl -sSi http://{OURS}/sub/"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("HTTP/1.1 200 OK"), "{said}");
    assert!(
        said.contains("Content-Type: text/html") && said.ends_with("<p>here</p>"),
        "{said}"
    );
    for (words, want) in [
        (
            format!("-sI http://{OURS}/1000.bin"),
            "Content-Length: 1000",
        ),
        (format!("-si http://{OURS}/nothing"), "404 Not Found"),
        (
            format!("-si -X DELETE http://{OURS}/1.bin"),
            "405 Method Not Allowed",
        ),
        (
            format!("-si --path-as-is http://{OURS}/../secret"),
            "404 Not Found",
        ),
        (format!("-si http://{OURS}/%00"), "400 Bad Request"),
    ] {
        let output = scene.near(&format!("curl {words}"));
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains(want), "{words}: {said}");
    }
    // One connection, a thousand requests, of which ten at a time are under way.
    let mut stream = scene.connect(OURS, 80);
    let request = "GET /1000.bin HTTP/1.1\r\nHost: a\r\n\r\n".repeat(10);
    let mut length = 0;
    for round in 0..100 {
        stream.write_all(request.as_bytes()).expect("goes on");
        let mut back = Vec::new();
        while round == 0 && back.len() < 10_000 || round > 0 && back.len() < length {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).expect("goes on");
            assert!(count > 0, "ended in round {round}");
            back.extend_from_slice(&bytes[..count]);
            if round == 0 && back.len() >= 10_000 {
                let head = back.windows(4).position(|four| four == b"\r\n\r\n");
                length = 10 * (head.expect("has a head") + 4 + 1000);
                while back.len() < length {
                    let count = stream.read(&mut bytes).expect("goes on");
                    back.extend_from_slice(&bytes[..count]);
                }
            }
        }
        assert_eq!(back.len(), length, "round {round}");
        assert!(back.ends_with(&text(1000)), "round {round}");
    }
}

#[test]
fn connections_are_spliced_to_a_target() {
    let Some(scene) = Scene::new("t") else { return };
    let listen = |at: &str| {
        let listener = namespace::within(&scene.near, || std::net::TcpListener::bind(at));
        listener.expect("namespace").expect("listens")
    };
    for (words, target) in [("", "10.79.0.1:9000"), (" --threads 1", "[fd79::1]:9000")] {
        let listener = listen(target);
        let served = scene.serve(&format!("splice --to {target} --live=10ms{words}"));
        let bytes = 3_000_001;
        for address in [OURS, OURS_6] {
            let mut client = scene.connect(address, 9000);
            let mut writing = client.try_clone().expect("is cloned");
            let (mut came, mut back) = (Vec::new(), Vec::new());
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    writing.write_all(&text(bytes)).expect("goes on");
                    writing.shutdown(Shutdown::Write).expect("closes");
                });
                scope.spawn(|| client.read_to_end(&mut back).expect("goes on"));
                let (mut linux, _) = listener.accept().expect("is opened");
                linux.set_read_timeout(Some(LIMIT)).expect("is set");
                linux.read_to_end(&mut came).expect("goes on");
                // One half is closed, the other one goes on.
                std::thread::sleep(Duration::from_millis(50));
                linux.write_all(&came[1000..]).expect("goes on");
            });
            assert!(came == text(bytes), "{address}: {} bytes", came.len());
            assert!(back == came[1000..], "{address}: {} bytes", back.len());
        }
        // Who gives up is heard of at the other end.
        let client = scene.connect(OURS, 9000);
        let (mut linux, _) = listener.accept().expect("is opened");
        linux.write_all(b"never read").expect("goes on");
        std::thread::sleep(Duration::from_millis(100));
        drop(client);
        linux.set_read_timeout(Some(LIMIT)).expect("is set");
        let broken = linux.read(&mut [0]).expect_err("was reset");
        assert_eq!(broken.kind(), std::io::ErrorKind::ConnectionReset);
        // Nobody listens there any more.
        drop((linux, listener));
        let mut client = scene.connect(OURS, 9000);
        assert_eq!(client.read(&mut [0]).expect("ends"), 0);
        let said = served.end();
        let want = format!("is not spliced: connection with {target}: ");
        assert!(said.contains(&want), "{want}: {said}");
        assert!(said.contains("\n3 connections, 1 broke; "), "{said}");
        assert!(
            said.contains("\n1 connections were not spliced\n"),
            "{said}"
        );
        let live = said.lines().filter(|line| line.contains(" Established: "));
        let ends = [" 10.79.0.1:", &format!(" {target} ")];
        for end in ends {
            assert!(live.clone().any(|line| line.contains(end)), "{end}: {said}");
        }
    }
}

#[test]
fn many_connections_are_served_at_a_time() {
    let Some(scene) = Scene::new("m") else { return };
    for warps in [1, 4] {
        many(&scene, warps);
    }
}

fn many(scene: &Scene, warps: u32) {
    let served = scene.serve(&format!(
        "echo --connections 256 --ring 16384 --warps {warps}"
    ));
    let mut streams: Vec<TcpStream> = (0..200).map(|_| scene.connect(OURS, 7)).collect();
    for round in 0..5u8 {
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&[round, number as u8]).expect("goes on");
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let mut back = [0; 2];
            stream.read_exact(&mut back).expect("comes back");
            assert_eq!(back, [round, number as u8]);
        }
    }
    drop(streams);
    // Nobody listens there.
    let to = SocketAddr::new(OURS.parse().expect("is one"), 8);
    let refused = namespace::within(&scene.near, || TcpStream::connect_timeout(&to, LIMIT));
    let refused = refused.expect("namespace").expect_err("is refused");
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionRefused);
    let said = served.end();
    assert!(said.starts_with("200 connections, 0 broke"), "{said}");
}

/// A test of iperf3 by these words, as its JSON tells it.
fn iperf3(scene: &Scene, words: &str) -> serde_json::Value {
    let output = scene.near(&format!("timeout 30 iperf3 -c {OURS} -J {words}"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{words}: {said}");
    serde_json::from_str(&said).expect("is JSON")
}

fn number(value: &serde_json::Value, path: &str) -> u64 {
    let found = value.pointer(path).and_then(serde_json::Value::as_u64);
    found.unwrap_or_else(|| panic!("{path} is missing: {value}"))
}

#[test]
fn iperf3_measures_both_directions() {
    if !warpwire_skip::has_program("iperf3") {
        return warpwire_skip::installable("`iperf3` is not there");
    }
    let Some(scene) = Scene::new("i") else { return };
    let served = scene.serve("iperf3 --live");
    let mut told = Vec::new();
    for (words, streams) in [
        ("-t 1", 1),
        ("-t 1 -R", 1),
        ("-t 1 -P 3", 3),
        ("-t 1 -P 3 -R", 3),
        ("-n 5M", 1),
        ("-n 5M -R", 1),
        ("-t 2 -O 1 -R", 1),
    ] {
        let result = iperf3(&scene, words);
        let flows = result
            .pointer("/end/streams")
            .and_then(|all| all.as_array());
        let flows = flows.expect("has streams");
        assert_eq!(flows.len(), streams, "{words}");
        for flow in flows {
            assert!(number(flow, "/receiver/bytes") > 0, "{words}: {flow}");
        }
        let sent = number(&result, "/end/sum_sent/bytes");
        let received = number(&result, "/end/sum_received/bytes");
        // Each end leaves the first second out by its own clock.
        let is_omitting = words.contains("-O");
        assert!(
            received <= sent || is_omitting,
            "{words}: {received} of {sent} bytes"
        );
        let seconds = result
            .pointer("/end/sum_sent/seconds")
            .and_then(|all| all.as_f64());
        assert!(
            !is_omitting || seconds.is_some_and(|s| s < 2.5),
            "{words}: {seconds:?}"
        );
        assert!(
            !words.contains("-n 5M") || sent >= 5 << 20,
            "{words}: {sent}"
        );
        let (verb, bytes) = match words.contains("-R") {
            true => ("sent", sent),
            false => ("received", received),
        };
        told.push(format!("{verb} {bytes} bytes"));
    }
    // Slower than it could be, by the clock of the server.
    let slow = iperf3(&scene, "-t 2 -R -b 8M");
    let received = number(&slow, "/end/sum_received/bytes");
    assert!(
        (1_000_000..2_500_000).contains(&received),
        "{received} bytes"
    );
    let both = scene.near(&format!("timeout 30 iperf3 -c {OURS} -t 1 --bidir -P 2"));
    let both = String::from_utf8_lossy(&both.stdout);
    let receivers = both.lines().filter(|line| line.ends_with("receiver"));
    // Two streams and their sum, each way.
    assert_eq!(receivers.count(), 6, "{both}");
    assert!(both.contains("iperf Done."), "{both}");
    let said = served.end();
    for words in told {
        assert!(said.contains(&words), "{words}: {said}");
    }
    // A client resets what it does not want to read at the end of a test.
    assert!(said.contains(" connections, 0 broke"), "{said}");
    let live = said.lines().find(|line| line.contains(" Established: "));
    let live = live.unwrap_or_else(|| panic!("no live counters: {said}"));
    for field in ["cwnd ", "repeated ", "timeouts ", "reordered "] {
        let value = live
            .split(field)
            .nth(1)
            .and_then(|rest| rest.split(',').next());
        let value = value.and_then(|value| value.parse::<u32>().ok());
        assert!(value.is_some(), "{field}: {live}");
    }
}

#[test]
fn iperf3_is_refused_with_a_reason() {
    if !warpwire_skip::has_program("iperf3") {
        return warpwire_skip::installable("`iperf3` is not there");
    }
    let Some(scene) = Scene::new("j") else { return };
    let served = scene.serve("iperf3");
    let udp = scene.near(&format!("timeout 30 iperf3 -c {OURS} -u -t 1"));
    let said = String::from_utf8_lossy(&udp.stderr);
    assert!(
        !udp.status.success() && said.contains("protocol does not exist"),
        "{said}"
    );
    // Neither words nor silence nor an early end keep the next one away.
    let cookie = [b'a'; 37];
    for (rest, want) in [
        (&b"\0\0\0\x02[["[..], &b"\x09\xfe\0\0\0\x72\0\0\0\0"[..]),
        (b"\xff\xff\xff\xff", b"\x09\xfe\0\0\0\x72\0\0\0\0"),
        (
            b"\0\0\0\x0e{\"parallel\":1}\x63",
            b"\x09\x0a\xfe\0\0\0\x6e\0\0\0\0",
        ),
        (b"", b"\x09"),
    ] {
        let mut stream = scene.connect(OURS, 5201);
        stream
            .write_all(&[&cookie[..], rest].concat())
            .expect("goes on");
        if rest.is_empty() {
            stream.shutdown(Shutdown::Write).expect("closes");
        }
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("ends");
        assert_eq!(back, want, "{rest:?}");
    }
    let words = format!(
        "netns exec {} iperf3 -c {OURS} -t 10 --forceflush",
        scene.near
    );
    let mut gone = Command::new("ip")
        .args(words.split_whitespace())
        .stdout(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut lines = BufReader::new(gone.stdout.take().expect("is a pipe"));
    let mut line = String::new();
    // It says so once its streams are there.
    while !line.contains("connected to") {
        line.clear();
        assert!(lines.read_line(&mut line).expect("is text") > 0, "it ended");
    }
    let second = scene.near(&format!("timeout 30 iperf3 -c {OURS} -t 1"));
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(said.contains("the server is busy"), "{said}");
    gone.kill().expect("is there");
    gone.wait().expect("ends");
    let deadline = std::time::Instant::now() + LIMIT;
    let next = format!("timeout 30 iperf3 -c {OURS} -t 1");
    while !scene.near(&next).status.success() {
        assert!(std::time::Instant::now() < deadline, "nobody is served");
    }
    let said = served.end();
    for words in [
        "it wants UDP, and only TCP is served",
        "ended: its JSON: ",
        "its JSON has 4294967295 bytes",
        "said 99, which is not expected before its streams",
        "ended: it left before its parameters",
        "sent away: one test at a time",
        "while the test ran",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
}

#[test]
fn an_interface_that_is_removed_ends_what_serves_on_it() {
    let Some(scene) = Scene::new("g") else { return };
    let want = "the interface v1 was removed, or moved to another network namespace; bring it back";
    let folder = Folder::new("gone");
    let http = format!("http --root {}", folder.0.display());
    for (number, (words, port)) in [
        ("echo", None),
        ("source", Some(19)),
        ("source --threads 1", Some(19)),
        ("discard --warps 2", Some(9)),
        (&http, None),
        ("splice --to 10.79.0.1:80", None),
        ("iperf3", None),
    ]
    .into_iter()
    .enumerate()
    {
        if number > 0 {
            scene.link();
        }
        let served = scene.serve(words);
        let peer = port.map(|port| {
            let mut peer = scene.connect(OURS, port);
            match port {
                19 => peer.read_exact(&mut [0; 100_000]).expect("comes"),
                _ => peer.write_all(&text(100_000)).expect("is taken"),
            }
            peer
        });
        let removed = Instant::now();
        run(&format!("ip -n {} link del v1", scene.far));
        let (code, said) = served.outcome();
        assert_eq!(code, Some(1), "{words}: {said}");
        assert!(said.contains(want), "{words}: {said}");
        assert!(said.contains(" connections, "), "{words}: {said}");
        assert!(removed.elapsed() < LIMIT / 3, "{:?}", removed.elapsed());
        drop(peer);
    }
    scene.link();
    let to = folder.file("to");
    let own = format!(
        "--nic xdp:v1,netns={} --addr {OURS}/24 --addr {OURS_6}/64",
        scene.far
    );
    let (receiver, mut linux) = receiver(&scene, &format!("recv {to} {own}"), OURS);
    linux.write_all(b"a part").expect("goes on");
    run(&format!("ip -n {} link del v1", scene.far));
    let (well, said) = ended(receiver);
    assert!(!well && said.contains(want), "{said}");
    assert!(said.contains("not all"), "{said}");
}

#[test]
fn memory_and_targets_that_cannot_be_are_refused_at_once() {
    let Some(scene) = Scene::new("m") else { return };
    let nic = format!("xdp:v1,netns={}", scene.far);
    for (words, want) in [
        (
            "echo --ring 1073741824 --connections 262144",
            "--ring, --connections: rings of 1073741824 bytes",
        ),
        (
            "splice --to 10.79.0.2:80",
            "--to: 10.79.0.2 is not the address of one other host",
        ),
        (
            "splice --to [fd79::1]:80",
            "--to: no route to fd79::1: it is in no own network",
        ),
        (
            "splice --threads 1 --to 10.1.2.3:80",
            "name a router by --gateway",
        ),
        (
            "echo --gateway 10.0.0.1",
            "--gateway: 10.0.0.1 is no other host",
        ),
        (
            "echo --addr 224.0.0.1/24",
            "--addr: 224.0.0.1 is no address",
        ),
    ] {
        let begun = Instant::now();
        let output = Command::new(env!("CARGO_BIN_EXE_warpwire"))
            .args(["serve", "--nic", &nic, "--addr", &format!("{OURS}/24")])
            .args(words.split_whitespace())
            .output()
            .expect("the command can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(want), "{words}: {said}");
        assert_eq!(output.status.code(), Some(2), "{words}: {said}");
        // Tables of so many connections would take longer.
        assert!(begun.elapsed() < LIMIT / 6, "{:?}", begun.elapsed());
    }
}

#[test]
fn addresses_and_interfaces_that_others_have_are_refused() {
    let Some(scene) = Scene::new("o") else { return };
    let nic = format!("xdp:v1,netns={}", scene.far);
    let refused = |address: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_warpwire"))
            .args(["serve", "echo", "--nic", &nic, "--addr", address])
            .output()
            .expect("the command can be started");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    run(&format!("ip -n {} addr add 10.79.0.9/24 dev v1", scene.far));
    let (code, said) = refused("10.79.0.9/24");
    assert!(
        said.contains("has 10.79.0.9, which the operating system has on v1"),
        "{said}"
    );
    assert_eq!(code, Some(2), "{said}");
    let served = scene.serve("echo");
    let (code, said) = refused("10.79.0.3/24");
    assert!(said.contains("one program has an interface"), "{said}");
    assert_eq!(code, Some(1), "{said}");
    served.end();
}

#[test]
fn wrong_words_are_named() {
    for (words, want, code) in [
        ("serve echo --nic xdp:x --addr 10.0.0.1", "192.0.2.1/24", 2),
        (
            "serve echo --nic dpdk:x --addr 10.0.0.1/24",
            "carries no streams",
            2,
        ),
        ("serve nothing --nic xdp:x --addr 10.0.0.1/24", "nothing", 2),
        (
            "serve echo --nic soft --addr 10.0.0.1/24",
            "uplink: is missing",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --addr 10.0.0.1/8",
            "--addr: 10.0.0.1 is said twice",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --gateway 10.0.0.2 --gateway 10.0.0.3",
            "--gateway: two routers",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --ring 1000",
            "'--ring <BYTES>': write a power of two",
            2,
        ),
        (
            "stream recv /tmp/x --nic xdp:x --addr 10.0.0.1/24 --warps 33",
            "'--warps <WARPS>': write a number from 1 to 32",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --warps -1",
            "'--warps <WARPS>': write a number from 1 to 32",
            2,
        ),
        (
            "serve sensor --nic xdp:x --addr 10.0.0.1/24 --samples 4 --rows-to x --udp --warps 2",
            "--warps: datagrams have no connections",
            2,
        ),
        (
            "stream recv /tmp/x --nic soft --addr 10.0.0.1/24 --carrier rdma --warps 2",
            "--warps: one warp carries streams over RDMA",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --connections abc",
            "'--connections <CONNECTIONS>': write a number from 1 to 262144",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --ring -1",
            "'--ring <BYTES>': write a power of two",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --seconds -5",
            "'--seconds <SECONDS>': write a number from 0 to",
            2,
        ),
        (
            "stream recv /tmp/x --nic xdp:x --addr 10.0.0.1/24 --wait -5",
            "'--wait <SECONDS>': write a number from 1 to 1048576",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --bytes 7",
            "--bytes: only `serve source` has it",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --root /",
            "--root: only `serve http` has it",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --to 10.0.0.2:80",
            "--to: only `serve splice` has it",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --memory 5",
            "--memory: only `serve http` has it",
            2,
        ),
        (
            "serve iperf3 --nic xdp:x --addr 10.0.0.1/24 --threads 1",
            "--threads: the host serves iperf3",
            2,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --threads 0",
            "'--threads <COUNT>': write a number from 1 to 64",
            2,
        ),
        (
            "serve splice --nic xdp:x --addr 10.0.0.1/24",
            "--to <ADDRESS:PORT>",
            2,
        ),
        (
            "serve splice --nic xdp:x --addr 10.0.0.1/24 --to 10.0.0.2:80 --connections 262144",
            "--connections: each is two streams here; write at most 131072",
            2,
        ),
        (
            "serve splice --nic xdp:x --addr 10.0.0.1/24 --to 0.0.0.0:80",
            "--to: nobody is at 0.0.0.0:80",
            2,
        ),
        (
            "serve splice --nic xdp:x --addr 10.0.0.1/24 --to host.invalid:80",
            "write an IP address and a port, as in 192.0.2.9:5300",
            2,
        ),
        (
            "serve http --nic xdp:x --addr 10.0.0.1/24 --root /nothing/here",
            "--root: /nothing/here: No such file or directory",
            1,
        ),
        (
            "serve http --nic xdp:x --addr 10.0.0.1/24 --root /usr/share --memory 1",
            "bytes are too many: files of a site may have 1048576 bytes in all",
            1,
        ),
        (
            "serve echo --nic xdp:x --addr 10.0.0.1/24 --live=5",
            "500ms",
            2,
        ),
        (
            "stream send /etc/passwd --nic xdp:x --addr 10.0.0.1/24 --to 10.0.0.2:0",
            "192.0.2.9:5300",
            2,
        ),
        (
            "stream send /etc --nic xdp:x --addr 10.0.0.1/24 --to 10.0.0.2:5300",
            "/etc: is a directory",
            1,
        ),
        (
            "stream recv /etc --nic xdp:x --addr 10.0.0.1/24",
            "/etc: Is a directory",
            1,
        ),
        (
            "stream recv /nothing/here --nic xdp:x --addr 10.0.0.1/24",
            "/nothing/here: No such file or directory",
            1,
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_warpwire"))
            .args(words.split_whitespace())
            .output()
            .expect("the command can be started");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(want), "{words}: {said}");
        assert_eq!(output.status.code(), Some(code), "{words}: {said}");
    }
}
