//! DPDK's testpmd, told what to do and asked what it counted.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use warpwire_ptx::process::Running;

use super::error::Error;
use super::setting::{PATIENT_COUNTS, SETTLE, SETTLES, Setting, WARM_UP};

/// What it shall be.
#[derive(Clone, Copy)]
pub(super) struct Plan<'a> {
    /// The network namespace, if it needs one.
    pub(super) namespace: Option<&'a str>,
    /// Its port, as `--vdev` takes it.
    pub(super) device: &'a str,
    /// The processor of all its threads.
    pub(super) core: usize,
    /// The forwarding mode.
    pub(super) mode: &'a str,
}

/// A testpmd that forwards. Dropping it ends it.
pub(super) struct Testpmd<'s> {
    setting: &'s Setting,
    running: Running,
    asked: usize,
    stopped: usize,
}

/// What it counted on its port since it started to forward.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Totals {
    pub(super) received: u64,
    pub(super) sent: u64,
    /// Frames that found no room in the transmit ring.
    pub(super) unsent: u64,
}

/// What a port does a second, by testpmd's own clock, between two questions.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Rates {
    /// Million frames received a second.
    pub(super) received: f64,
    /// Frames received so far.
    pub(super) received_so_far: u64,
}

impl<'s> Testpmd<'s> {
    /// Starts it and lets it forward. A memif server listens when this returns.
    pub(super) fn start(setting: &'s Setting, plan: Plan<'_>) -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let core = plan.core;
        let mut words = Vec::new();
        if let Some(namespace) = plan.namespace {
            words.extend(["ip", "netns", "exec", namespace]);
        }
        // Without stdbuf it would tell nothing before it ends.
        words.extend(["stdbuf", "-oL", "dpdk-testpmd", "-v"]);
        let (program, rest) = words.split_first().unwrap_or((&"true", &[]));
        let mut command = Command::new(program);
        command
            .args(rest)
            .args(["--lcores", &format!("0@{core},1@{core}")])
            .args(["--no-pci", "--no-huge", "-m", "256", "--no-telemetry"])
            .args(["--file-prefix", &format!("bench{number}")])
            .args(["--vdev", plan.device, "--"])
            .args(["--interactive", "--no-mlockall", "--total-num-mbufs=8192"])
            // Else it throws away, uncounted, what arrives before it starts to forward.
            .args(["--no-flush-rx", "--txpkts=64"])
            .arg("--eth-peer=0,02:00:00:00:00:99")
            .arg(format!("--forward-mode={}", plan.mode))
            .env("RUNTIME_DIRECTORY", setting.folder());
        let running = Running::converse(&mut command)?;
        let mut testpmd = Self {
            setting,
            running,
            asked: 0,
            stopped: 0,
        };
        testpmd.running.say("start");
        let mut version = None;
        testpmd.wait("packets/burst", |out, errors| {
            version = version_of(out).or_else(|| version_of(errors));
            out.contains("packets/burst")
        })?;
        setting.note_version(version.ok_or(Error::Words {
            program: "testpmd",
            field: "version",
        })?);
        Ok(testpmd)
    }

    pub(super) fn id(&self) -> u32 {
        self.running.id()
    }

    /// Counts for as long as the setting says, after a while of warming up; longer if nothing has
    /// come.
    pub(super) fn rate(&mut self, peers: &[u32]) -> Result<Rates, Error> {
        let setting = self.setting;
        let mut all = vec![self.id()];
        all.extend(peers);
        let _first = setting.first(&all)?;
        setting.pause(WARM_UP)?;
        let mut rates = self.ask()?;
        for _ in 0..PATIENT_COUNTS {
            setting.pause(Duration::from_secs_f64(setting.seconds))?;
            rates = self.ask()?;
            if rates.received > 0.0 {
                break;
            }
        }
        Ok(rates)
    }

    /// What passes now, since it was asked before.
    fn ask(&mut self) -> Result<Rates, Error> {
        self.running.say("show port stats 0");
        self.asked += 1;
        let asked = self.asked;
        let mut rates = None;
        self.wait("Rx-pps", |out, _| {
            let block = out.split("NIC statistics for port 0").nth(asked);
            rates = block.and_then(rates_of);
            rates.is_some()
        })?;
        rates.ok_or(Error::Words {
            program: "testpmd",
            field: "Rx-pps",
        })
    }

    /// Waits until it has received no more for a while, at most a second or two.
    pub(super) fn settle(&mut self) -> Result<(), Error> {
        let mut before = self.ask()?.received_so_far;
        for _ in 0..SETTLES {
            self.setting.pause(SETTLE)?;
            let now = self.ask()?.received_so_far;
            if now == before {
                break;
            }
            before = now;
        }
        Ok(())
    }

    /// Stops to forward; what it counted.
    pub(super) fn stop(&mut self) -> Result<Totals, Error> {
        self.running.say("stop");
        self.stopped += 1;
        let stopped = self.stopped;
        let mut totals = None;
        self.wait("TX-total", |out, _| {
            let block = out.split("Forward statistics for port 0").nth(stopped);
            totals = block.and_then(totals_of);
            totals.is_some()
        })?;
        totals.ok_or(Error::Words {
            program: "testpmd",
            field: "TX-total",
        })
    }

    /// Ends it.
    pub(super) fn finish(mut self) -> Result<(), Error> {
        self.running.say("quit");
        self.running.wait(PATIENCE)?;
        Ok(())
    }

    /// Waits for words on its standard output or error, or for the wish to end.
    fn wait(
        &mut self,
        field: &'static str,
        mut ready: impl FnMut(&str, &str) -> bool,
    ) -> Result<(), Error> {
        let stop = std::sync::Arc::clone(&self.setting.stop);
        let wanted = || stop.load(Ordering::Relaxed);
        let told = self
            .running
            .wait_until(PATIENCE, |out, errors| wanted() || ready(out, errors));
        // Ctrl-C goes to it as well, and the wish to end is the better reason.
        self.setting.check()?;
        match told {
            Ok(()) => Ok(()),
            Err(warpwire_ptx::Error::Failed { status, .. }) if status.starts_with("not ready") => {
                Err(Error::Words {
                    program: "testpmd",
                    field,
                })
            }
            Err(error) => Err(error.into()),
        }
    }
}

/// The memif port of a testpmd.
pub(super) fn memif(role: &str, socket: &Path) -> String {
    format!(
        "net_memif0,role={role},socket={},socket-abstract=no,bsize=2048,rsize=10",
        socket.display()
    )
}

/// The version that it calls itself.
fn version_of(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("RTE Version: '")?;
    rest.split_once('\'').map(|(version, _)| version.to_owned())
}

/// A block of `show port stats`, if it is whole.
fn rates_of(block: &str) -> Option<Rates> {
    block.contains("Tx-bps:").then_some(())?;
    let a_second: f64 = number(block, "Rx-pps:")?;
    Some(Rates {
        received: a_second / 1e6,
        received_so_far: number(block, "RX-packets:")?,
    })
}

/// A block of forward statistics, if it is whole.
fn totals_of(block: &str) -> Option<Totals> {
    number::<u64>(block, "TX-total:")?;
    Some(Totals {
        received: number(block, "RX-total:")?,
        sent: number(block, "TX-packets:")?,
        unsent: number(block, "TX-dropped:")?,
    })
}

/// The number behind a name, if something follows it: else it may not be whole.
fn number<T: std::str::FromStr>(text: &str, name: &str) -> Option<T> {
    let (_, rest) = text.split_once(name)?;
    let rest = rest.trim_start_matches(' ');
    let (digits, _) = rest.split_once(|letter: char| !letter.is_ascii_digit())?;
    digits.parse().ok()
}

/// How long it may take to do what it was told.
const PATIENCE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use super::*;

    const RUNNING: &str = "  #####\n  RX-packets: 180224     RX-missed: 3          RX-bytes:  0\n  \
         RX-errors: 0\n  TX-packets: 5          TX-errors: 0          TX-bytes:  0\n\n  \
         Throughput (since last show)\n  Rx-pps:      2500000          Rx-bps:            0\n  \
         Tx-pps:            7          Tx-bps:            0\n  #####\n";
    const STOPPED: &str = " -----\n  RX-packets: 41             RX-dropped: 1             \
         RX-total: 42\n  TX-packets: 9              TX-dropped: 2             TX-total: 11\n ----";

    #[test]
    fn a_version_is_found_among_other_words() {
        let text = "EAL: Detected CPU lcores: 2\nEAL: RTE Version: 'DPDK 22.11.11'\nEAL: x\n";
        assert_eq!(version_of(text).as_deref(), Some("DPDK 22.11.11"));
        assert_eq!(version_of("EAL: RTE Version: 'DPDK 22"), None);
    }

    #[test]
    fn statistics_are_read_whole_or_not_at_all() {
        let rates = rates_of(RUNNING).expect("whole");
        assert_eq!((rates.received, rates.received_so_far), (2.5, 180_224));
        let totals = Totals {
            received: 42,
            sent: 9,
            unsent: 2,
        };
        assert_eq!(totals_of(STOPPED), Some(totals));
        for cut in 0..RUNNING.find("Tx-bps").expect("there") {
            assert_eq!(rates_of(&RUNNING[..cut]), None, "{cut}");
        }
        for cut in 0..STOPPED.find("11\n").expect("there") + 2 {
            assert_eq!(totals_of(&STOPPED[..cut]), None, "{cut}");
        }
    }
}
