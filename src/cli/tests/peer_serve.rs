//! `warpwire serve` with Linux as its peer, over a veth pair in namespaces of the test's own. Needs
//! root.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::Duration;

use warpwire_nic::namespace;

const OURS: &str = "10.79.0.2";
const OURS_6: &str = "fd79::2";
const LIMIT: Duration = Duration::from_secs(30);

/// One scene at a time: each wants the whole machine.
static TURN: Mutex<()> = Mutex::new(());

/// Two namespaces with a veth pair between them; the near one is Linux's.
struct Scene {
    near: String,
    far: String,
    _turn: std::sync::MutexGuard<'static, ()>,
}

impl Scene {
    fn new(name: &str) -> Option<Self> {
        if !warpwire_skip::is_root() {
            warpwire_skip::installable("network namespaces need root");
            return None;
        }
        for program in ["ip", "ping", "sysctl"] {
            if !warpwire_skip::has_program(program) {
                warpwire_skip::installable(format!("`{program}` is not there"));
                return None;
            }
        }
        let base = format!("wws{}{name}", std::process::id());
        let scene = Self {
            near: format!("{base}n"),
            far: format!("{base}f"),
            _turn: TURN.lock().unwrap_or_else(|broken| broken.into_inner()),
        };
        let Self { near, far, .. } = &scene;
        run(&format!("ip netns add {near}"));
        run(&format!("ip netns add {far}"));
        run(&format!(
            "ip link add v0 netns {near} type veth peer name v1 netns {far}"
        ));
        // Addresses of IPv6 are there at once, without being looked for first.
        run(&format!(
            "ip netns exec {near} sysctl -qw net.ipv6.conf.v0.accept_dad=0"
        ));
        run(&format!("ip -n {near} addr add 10.79.0.1/24 dev v0"));
        run(&format!("ip -n {near} addr add fd79::1/64 dev v0 nodad"));
        for (space, link) in [(near, "v0"), (far, "v1")] {
            run(&format!("ip -n {space} link set lo up"));
            run(&format!("ip -n {space} link set {link} up"));
        }
        Some(scene)
    }

    /// Starts a service, and waits until it serves.
    fn serve(&self, words: &str) -> Served {
        let nic = format!("xdp:v1,netns={}", self.far);
        let mut child = Command::new(env!("CARGO_BIN_EXE_warpwire"))
            .arg("serve")
            .args(words.split_whitespace())
            .args(["--nic", &nic])
            .args(["--addr", &format!("{OURS}/24")])
            .args(["--addr", &format!("{OURS_6}/64")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("is a pipe"));
        let mut line = String::new();
        while !line.starts_with("MTU") {
            line.clear();
            let count = lines.read_line(&mut line).expect("is text");
            assert!(count > 0, "the command ended");
        }
        Served { child, lines }
    }

    /// A connection from Linux.
    fn connect(&self, address: &str, port: u16) -> TcpStream {
        let address: IpAddr = address.parse().expect("is one");
        let to = SocketAddr::new(address, port);
        let stream = namespace::within(&self.near, || TcpStream::connect_timeout(&to, LIMIT));
        let stream = stream.expect("namespace").expect("connects");
        stream.set_read_timeout(Some(LIMIT)).expect("is set");
        stream.set_write_timeout(Some(LIMIT)).expect("is set");
        stream
    }

    fn near(&self, words: &str) -> Output {
        attempt(&format!("ip netns exec {} {words}", self.near))
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            attempt(&format!("ip netns del {space}"));
        }
    }
}

/// A service that runs.
struct Served {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Served {
    /// Ends it; what it said last.
    fn end(mut self) -> String {
        run(&format!("kill -INT {}", self.child.id()));
        let mut said = String::new();
        self.lines.read_to_string(&mut said).expect("is text");
        let ended = self.child.wait().expect("ends");
        assert!(ended.success(), "{ended}: {said}");
        said
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn run(words: &str) {
    let output = attempt(words);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {wrong}");
}

fn attempt(words: &str) -> Output {
    let mut parts = words.split_whitespace();
    let program = parts.next().expect("a program");
    Command::new(program).args(parts).output().expect(words)
}

fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

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
    let served = scene.serve("echo");
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
    assert!(said.starts_with("4 connections, 0 broke"), "{said}");
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
    let served = scene.serve(&format!("http --root {root}"));
    for address in [OURS.to_owned(), format!("[{OURS_6}]")] {
        for size in sizes {
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
    drop(stream);
    served.end();
    std::fs::remove_dir_all(&folder).expect("is removed");
}

#[test]
fn many_connections_are_served_at_a_time() {
    let Some(scene) = Scene::new("m") else { return };
    let served = scene.serve("echo --connections 256 --ring 16384");
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
