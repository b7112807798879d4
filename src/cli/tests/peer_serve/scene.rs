//! Two namespaces, and a service of ours in one of them.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use warpwire_nic::namespace;

pub(crate) const OURS: &str = "10.79.0.2";
pub(crate) const OURS_6: &str = "fd79::2";
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// One scene at a time: each wants the whole machine.
static TURN: Mutex<()> = Mutex::new(());

/// Two namespaces with a veth pair between them; the near one is Linux's.
pub(crate) struct Scene {
    pub(crate) near: String,
    pub(crate) far: String,
    _turn: std::sync::MutexGuard<'static, ()>,
}

impl Scene {
    pub(crate) fn new(name: &str) -> Option<Self> {
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
        run(&format!("ip netns add {}", scene.near));
        run(&format!("ip netns add {}", scene.far));
        scene.link();
        Some(scene)
    }

    /// Lays the pair, with addresses of Linux's at the near end.
    pub(crate) fn link(&self) {
        let Self { near, far, .. } = self;
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
    }

    /// Starts a service, and waits until it serves.
    pub(crate) fn serve(&self, words: &str) -> Served {
        self.serve_on(&format!("xdp:v1,netns={}", self.far), words)
    }

    /// The same on another NIC.
    pub(crate) fn serve_on(&self, nic: &str, words: &str) -> Served {
        let mut child = Command::new(env!("CARGO_BIN_EXE_warpwire"))
            .arg("serve")
            .args(words.split_whitespace())
            .args(["--nic", nic])
            .args(["--addr", &format!("{OURS}/24")])
            .args(["--addr", &format!("{OURS_6}/64")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command can be started");
        let mut lines = BufReader::new(child.stdout.take().expect("is a pipe"));
        let mut line = String::new();
        while !line.starts_with("MTU") && !line.contains(r#""event":"serving""#) {
            line.clear();
            let count = lines.read_line(&mut line).expect("is text");
            assert!(count > 0, "the command ended: {}", complaints(&mut child));
        }
        Served { child, lines }
    }

    /// A connection from Linux.
    pub(crate) fn connect(&self, address: &str, port: u16) -> TcpStream {
        let address: IpAddr = address.parse().expect("is one");
        let to = SocketAddr::new(address, port);
        let stream = namespace::within(&self.near, || TcpStream::connect_timeout(&to, LIMIT));
        let stream = stream.expect("namespace").expect("connects");
        stream.set_read_timeout(Some(LIMIT)).expect("is set");
        stream.set_write_timeout(Some(LIMIT)).expect("is set");
        stream
    }

    pub(crate) fn near(&self, words: &str) -> Output {
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
pub(crate) struct Served {
    pub(crate) child: Child,
    pub(crate) lines: BufReader<std::process::ChildStdout>,
}

impl Served {
    /// Ends it; what it said last.
    pub(crate) fn end(mut self) -> String {
        run(&format!("kill -INT {}", self.child.id()));
        let mut said = String::new();
        self.lines.read_to_string(&mut said).expect("is text");
        let ended = self.child.wait().expect("ends");
        let wrong = complaints(&mut self.child);
        assert!(ended.success(), "{ended}: {said}{wrong}");
        said
    }

    /// How it ends by itself: its exit code, and what it said last, complaints behind the rest.
    pub(crate) fn outcome(mut self) -> (Option<i32>, String) {
        let until = Instant::now() + LIMIT;
        let code = loop {
            if let Some(status) = self.child.try_wait().expect("is a child") {
                break status.code();
            }
            assert!(Instant::now() < until, "it goes on");
            std::thread::sleep(Duration::from_millis(20));
        };
        let mut said = String::new();
        self.lines.read_to_string(&mut said).expect("is text");
        (code, said + &complaints(&mut self.child))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a child that ended had to complain about.
pub(crate) fn complaints(child: &mut Child) -> String {
    let mut wrong = String::new();
    let mut pipe = child.stderr.take().expect("is a pipe");
    pipe.read_to_string(&mut wrong).expect("is text");
    wrong
}

pub(crate) fn run(words: &str) {
    let output = attempt(words);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {wrong}");
}

pub(crate) fn attempt(words: &str) -> Output {
    let mut parts = words.split_whitespace();
    let program = parts.next().expect("a program");
    Command::new(program).args(parts).output().expect(words)
}

pub(crate) fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}
