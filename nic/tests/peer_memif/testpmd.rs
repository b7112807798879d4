//! DPDK's testpmd as the other end: started, ended by its number, and asked what it counted.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What testpmd counted when it ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Totals {
    pub(crate) rx_packets: u64,
    pub(crate) rx_dropped: u64,
    pub(crate) tx_packets: u64,
    pub(crate) tx_dropped: u64,
}

/// A running testpmd with one memif port.
pub(crate) struct Testpmd {
    child: Child,
    output: Option<JoinHandle<Vec<String>>>,
    prefix: String,
    socket: PathBuf,
}

/// What the port shall be.
#[derive(Clone, Copy)]
pub(crate) struct Setup<'a> {
    /// "client" or "server".
    pub(crate) role: &'a str,
    /// The forwarding mode.
    pub(crate) mode: &'a str,
    pub(crate) queues: u32,
}

impl Testpmd {
    /// Starts testpmd on `socket`. As server it has made its socket when this returns.
    pub(crate) fn start(socket: PathBuf, setup: Setup<'_>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("wwmemif{}x{number}", std::process::id());
        let device = format!(
            "net_memif0,role={},socket={},socket-abstract=no,bsize=2048,rsize=10",
            setup.role,
            socket.display()
        );
        let mut command = Command::new("dpdk-testpmd");
        command
            .args(["--lcores", "0@0,1@0", "--no-pci", "--no-huge", "-m", "256"])
            .args([
                "--no-telemetry",
                "--file-prefix",
                &prefix,
                "--vdev",
                &device,
            ])
            .args(["--", "--auto-start", "--no-mlockall", "--stats-period", "1"])
            // Else it throws away, uncounted, what arrives before it starts to forward.
            .args(["--total-num-mbufs=8192", "--no-flush-rx"])
            .arg(format!("--forward-mode={}", setup.mode))
            .arg(format!("--rxq={}", setup.queues))
            .arg(format!("--txq={}", setup.queues))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().expect("dpdk-testpmd starts");
        let output = child.stdout.take().expect("piped");
        // Read all along, so that it never waits for us.
        let output = std::thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .collect()
        });
        let mut testpmd = Self {
            child,
            output: Some(output),
            prefix,
            socket,
        };
        if setup.role == "server" {
            testpmd.wait_for_socket();
        }
        testpmd
    }

    fn wait_for_socket(&mut self) {
        let deadline = Instant::now() + START;
        while !self.socket.exists() {
            let ended = self.child.try_wait().expect("can be asked");
            assert!(ended.is_none(), "testpmd ended early: {ended:?}");
            assert!(Instant::now() < deadline, "testpmd makes no socket");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Ends it as Ctrl-C would and returns what it counted on its port.
    pub(crate) fn finish(mut self) -> Totals {
        self.signal(libc::SIGINT);
        let deadline = Instant::now() + END;
        while self.child.try_wait().expect("can be asked").is_none() {
            assert!(Instant::now() < deadline, "testpmd does not end");
            std::thread::sleep(Duration::from_millis(10));
        }
        let lines = self.lines();
        let from = lines
            .iter()
            .rposition(|line| line.contains("Forward statistics for port 0"))
            .unwrap_or_else(|| panic!("no statistics in:\n{}", lines.join("\n")));
        let value = |name: &str| {
            let rest = lines[from..]
                .iter()
                .find_map(|line| line.split_once(name))
                .map(|(_, rest)| rest.trim_start());
            rest.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
                .unwrap_or_else(|| panic!("no {name} in:\n{}", lines.join("\n")))
        };
        Totals {
            rx_packets: value("RX-packets:"),
            rx_dropped: value("RX-dropped:"),
            tx_packets: value("TX-packets:"),
            tx_dropped: value("TX-dropped:"),
        }
    }

    /// Ends it without a chance to say good-bye.
    pub(crate) fn kill(mut self) {
        self.child.kill().expect("runs");
        self.child.wait().expect("ends");
    }

    fn signal(&self, signal: i32) {
        let pid = i32::try_from(self.child.id()).expect("a process number");
        // SAFETY: our own child, not waited for yet, so the number is still its own.
        let sent = unsafe { libc::kill(pid, signal) };
        assert_eq!(sent, 0, "testpmd is gone");
    }

    fn lines(&mut self) -> Vec<String> {
        let output = self.output.take().expect("asked once");
        output.join().expect("no panic")
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // After a failed test it may still run.
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_file(&self.socket);
        for base in ["/var/run/dpdk", "/run/dpdk"] {
            let _ = std::fs::remove_dir_all(PathBuf::from(base).join(&self.prefix));
        }
    }
}

const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(60);
