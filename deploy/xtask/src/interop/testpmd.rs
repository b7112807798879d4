//! DPDK's testpmd with one memif port, as a peer.

use super::namespaces::Namespace;
use crate::Error;
use crate::process::Running;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Who listens on a memif socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Connects, and lends its memory.
    Client,
    /// Listens.
    Server,
}

impl Role {
    /// The word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    /// The other one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// What testpmd counted on its port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Frames that it took, those that it dropped among them.
    pub received: u64,
    /// Frames that it sent.
    pub sent: u64,
    /// Frames that it had and could not send.
    pub unsent: u64,
}

/// A running testpmd.
#[derive(Debug)]
pub struct Testpmd {
    running: Running,
    folder: PathBuf,
}

impl Testpmd {
    /// Starts it in `space` on `socket`. A server has made its socket when this returns.
    ///
    /// # Errors
    /// When it does not start.
    pub fn start(space: &Namespace, socket: &Path, role: Role, mode: &str) -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("wwjudge-{}-{number}", std::process::id());
        let device = format!(
            "net_memif0,role={},socket={},socket-abstract=no,bsize=2048,rsize=10",
            role.word(),
            socket.display()
        );
        // Without stdbuf it would tell nothing before it ends.
        let mut command = space.command("stdbuf");
        command
            .args(["-oL", "dpdk-testpmd"])
            .args(["--lcores", "0@0,1@0", "--no-pci", "--no-huge", "-m", "256"])
            .args([
                "--no-telemetry",
                "--file-prefix",
                &prefix,
                "--vdev",
                &device,
            ])
            .args(["--", "--interactive", "--no-mlockall"])
            // Else it throws away, uncounted, what arrives before it starts to forward.
            .args(["--total-num-mbufs=8192", "--no-flush-rx"])
            .arg(format!("--forward-mode={mode}"));
        let mut running = Running::converse(&mut command)?;
        running.say("start");
        if role == Role::Server {
            running.wait_until(START, |_, _| socket.exists())?;
        }
        let folder = Path::new("/var/run/dpdk").join(prefix);
        Ok(Self { running, folder })
    }

    /// Waits until what it has counted so far satisfies `ready`.
    ///
    /// # Errors
    /// When it ends before that, or it takes too long.
    pub fn wait_for(&mut self, ready: impl Fn(Totals) -> bool) -> Result<(), Error> {
        let mut asked = 0;
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.running.say("show port stats 0");
            asked += 1;
            let mut totals = None;
            let left = deadline.saturating_duration_since(Instant::now());
            self.running.wait_until(left, |stdout, _| {
                let answers = stdout.split("NIC statistics for port 0").skip(asked);
                totals = answers.last().and_then(|text| counters(text, "RX-missed:"));
                totals.is_some()
            })?;
            if totals.is_some_and(&ready) {
                return Ok(());
            }
            std::thread::sleep(ASK_EVERY);
        }
    }

    /// Lets it stop what it does and take what is left in the ring, and ends it; what it counted.
    ///
    /// # Errors
    /// When it fails, or its words are not those that this reader knows.
    pub fn finish(mut self) -> Result<Totals, Error> {
        for command in ["stop", "set fwd rxonly", "start"] {
            self.running.say(command);
        }
        // Said to be started, it polls; the ring is soon empty.
        let again = |stdout: &str, _: &str| stdout.matches("packets/burst").count() >= 2;
        self.running.wait_until(PATIENCE, again)?;
        std::thread::sleep(LEFTOVERS);
        self.running.say("stop");
        self.running.say("quit");
        let outcome = self.running.wait(END)?;
        let _ = std::fs::remove_dir_all(&self.folder);
        read(&outcome.stdout).ok_or_else(|| Error::Failed {
            program: "dpdk-testpmd".to_owned(),
            status: format!("{}, without statistics", outcome.end_in_words()),
            output: format!("{}{}", outcome.stdout, outcome.stderr),
        })
    }
}

/// The sum over all that it did; each time it stops, it tells what it counted since it started.
fn read(stdout: &str) -> Option<Totals> {
    let mut blocks = stdout
        .split("Forward statistics for port 0")
        .skip(1)
        .peekable();
    blocks.peek()?;
    blocks.try_fold(Totals::default(), |sum, text| {
        let block = counters(text, "RX-dropped:")?;
        Some(Totals {
            received: sum.received + block.received,
            sent: sum.sent + block.sent,
            unsent: sum.unsent + block.unsent,
        })
    })
}

/// The counters at the start of a text; `lost` is the name of those it received and lost.
fn counters(text: &str, lost: &str) -> Option<Totals> {
    let value = |name: &str| -> Option<u64> {
        let (_, rest) = text.split_once(name)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    Some(Totals {
        received: value("RX-packets:")? + value(lost)?,
        sent: value("TX-packets:")?,
        // While it runs it does not tell.
        unsent: value("TX-dropped:").unwrap_or(0),
    })
}

const PATIENCE: Duration = Duration::from_secs(60);
const START: Duration = Duration::from_secs(30);
const END: Duration = Duration::from_secs(30);
const ASK_EVERY: Duration = Duration::from_millis(100);
const LEFTOVERS: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_statistics_of_forwarding_are_summed() {
        let block = |received: u32| {
            format!(
                "  ------- Forward statistics for port 0  -------\n  RX-packets: {received}  \
                 RX-dropped: 1  RX-total: 9\n  TX-packets: 7  TX-dropped: 2  TX-total: 9\n\
                 +++ Accumulated forward statistics for all ports +++\n  RX-packets: 99 "
            )
        };
        let want = Totals {
            received: 15,
            sent: 14,
            unsent: 4,
        };
        assert_eq!(read(&format!("{}{}", block(5), block(8))), Some(want));
        assert_eq!(read("nothing"), None);
        assert_eq!(read("Forward statistics for port 0  RX-packets: 5"), None);
    }

    #[test]
    fn statistics_of_a_running_port_are_whole_or_none() {
        let text = "  RX-packets: 5   RX-missed: 2   RX-bytes: 9\n  TX-packets: 7  TX-errors: 0";
        let want = Totals {
            received: 7,
            sent: 7,
            unsent: 0,
        };
        assert_eq!(counters(text, "RX-missed:"), Some(want));
        assert_eq!(counters("  RX-packets: 5   RX-mis", "RX-missed:"), None);
    }
}
