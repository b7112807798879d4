//! Two namespaces, and a service of ours in one of them.

use std::io::{BufRead, BufReader, Read};
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::ops::Deref;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use warpwire_nic::namespace;

use crate::veth::{Veth, attempt, run};

pub(crate) const OURS: &str = "10.79.0.2";
pub(crate) const OURS_6: &str = "fd79::2";
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// Two namespaces with a veth pair between them; the near one is Linux's.
pub(crate) struct Scene(Veth);

impl Scene {
    pub(crate) fn new(name: &str) -> Option<Self> {
        let base = format!("wws{}{name}", std::process::id());
        Veth::new(&base, 79).map(Self)
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

impl Deref for Scene {
    type Target = Veth;

    fn deref(&self) -> &Veth {
        &self.0
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

pub(crate) fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}
