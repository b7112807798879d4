//! What goes wrong while a pipeline runs, kept until the report is made.

use warpwire_nic::{Severity, Trouble};
use warpwire_ring::Cause;

use super::gpu::Ended;
use super::layout::{Layout, PortRecord};
use super::open::OpenNics;
use crate::file::PipelineFile;
use crate::report::Report;
use crate::runtime::Error;

/// Everything that went wrong so far, each thing once.
#[derive(Default)]
pub(super) struct Log {
    /// What makes the run a failure.
    pub(super) failures: Vec<Error>,
    /// What is worth a word while the run goes on.
    pub(super) warnings: Vec<String>,
    /// Of NICs, by their places in the file: why something of theirs is unusable.
    causes: Vec<(usize, String)>,
    /// Of NICs: what may have passed.
    passing: Vec<(usize, String)>,
}

impl Log {
    /// Notes an error; one that is known already counts once.
    pub(super) fn fail(&mut self, error: Error) {
        let words = error.to_string();
        let known = self.failures.iter().any(|known| known.to_string() == words);
        if !known {
            self.failures.push(error);
        }
    }

    /// Notes an error of a NIC.
    pub(super) fn fail_at(&mut self, nic: usize, error: Error) {
        add(&mut self.causes, nic, error.to_string());
        self.fail(error);
    }

    /// Asks the NICs. Says whether one is of no more use.
    pub(super) fn ask(&mut self, open: &OpenNics) -> bool {
        let mut is_over = false;
        for (place, nic) in open.nics.iter().enumerate() {
            is_over |= self.note(place, nic.troubles());
        }
        for play in &open.plays {
            if let Some(fabric) = &open.fabric {
                is_over |= self.note(play.nic, fabric.troubles(play.port));
            }
        }
        is_over
    }

    fn note(&mut self, nic: usize, troubles: Vec<Trouble>) -> bool {
        let mut is_over = false;
        for Trouble { severity, error } in troubles {
            is_over |= severity == Severity::Fatal;
            if severity > Severity::Warning {
                self.fail_at(nic, error.into());
                continue;
            }
            let words = error.to_string();
            if add(&mut self.passing, nic, words.clone()) {
                self.warnings.push(words);
            }
        }
        is_over
    }

    /// Looks for queues that a pipeline kernel gave up. Says whether it has none left to receive
    /// from.
    pub(super) fn look(&mut self, file: &PipelineFile, layout: &Layout) -> bool {
        let mut alive = 0;
        for port in &layout.ports {
            let causes = port.causes();
            alive += usize::from(port.receives && causes.receive.is_none());
            let directions = [("receive", causes.receive), ("transmit", causes.transmit)];
            for (direction, cause) in directions {
                let Some(cause) = cause else {
                    continue;
                };
                let error = Error::Queue {
                    nic: name(file, port.nic),
                    direction,
                    queue: port.queue,
                    cause,
                };
                let words = error.to_string();
                // The NIC's report has it from the port itself.
                if !self.failures.iter().any(|known| known.to_string() == words) {
                    self.warnings.push(words);
                    self.failures.push(error);
                }
            }
        }
        alive == 0
    }

    /// Notes blocks of a kernel that ended, or why the kernel failed. Says whether going on is
    /// useless.
    pub(super) fn check(
        &mut self,
        ended: Result<Vec<Ended>, Error>,
        place: impl Fn(u32) -> Place,
    ) -> bool {
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => {
                self.fail(error);
                return true;
            }
        };
        for one in &ended {
            let Some(cause) = one.cause else {
                continue;
            };
            let Place { nic, words } = place(one.block);
            let error = Error::Ended {
                kernel: one.kernel,
                place: words,
                cause,
            };
            match nic {
                Some(nic) => self.fail_at(nic, error),
                None => self.fail(error),
            }
        }
        !ended.is_empty()
    }

    /// Hands everything to the report, and gives the failures.
    pub(super) fn tell(self, report: &mut Report) -> Vec<Error> {
        for (nic, words) in self.causes {
            if let Some(nic) = report.nics.get_mut(nic) {
                nic.causes.push(words);
            }
        }
        for (nic, words) in self.passing {
            if let Some(nic) = report.nics.get_mut(nic) {
                nic.warnings.push(words);
            }
        }
        report.failures = self.failures.iter().map(Error::to_string).collect();
        self.failures
    }
}

/// What a block of a kernel drives.
pub(super) struct Place {
    /// The NIC, if it is one.
    pub(super) nic: Option<usize>,
    /// Its name and queue, or those of several.
    pub(super) words: String,
}

/// Why the queues of a port are of no more use.
pub(super) struct PortCauses {
    pub(super) receive: Option<Cause>,
    pub(super) transmit: Option<Cause>,
}

impl PortRecord {
    /// What the kernel said of the port's queues.
    pub(super) fn causes(&self) -> PortCauses {
        use std::mem::offset_of;
        use warpwire_core::block::PortCounters;
        let cause = |offset: usize| {
            let number = self.counters.value((offset / 8) as u32);
            Cause::from_number(number as u32)
        };
        PortCauses {
            receive: cause(offset_of!(PortCounters, receive_cause)),
            transmit: cause(offset_of!(PortCounters, transmit_cause)),
        }
    }
}

/// The name of a NIC of the file.
pub(super) fn name(file: &PipelineFile, nic: usize) -> String {
    let entry = file.nics.get(nic);
    entry.map_or_else(String::new, |entry| entry.name.clone())
}

/// Adds what is not there yet; says whether it did.
fn add(list: &mut Vec<(usize, String)>, nic: usize, words: String) -> bool {
    let entry = (nic, words);
    let is_new = !list.contains(&entry);
    if is_new {
        list.push(entry);
    }
    is_new
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_counts_once() {
        let error = || {
            Error::Nic(warpwire_nic::Error::Peer {
                nic: "memif:x".to_owned(),
                problem: "is gone".to_owned(),
            })
        };
        let mut log = Log::default();
        log.fail_at(0, error());
        log.fail_at(0, error());
        log.fail(error());
        let mut report = Report::default();
        report.nics.push(crate::report::NicReport::default());
        let failures = log.tell(&mut report);
        assert_eq!(failures.len(), 1);
        assert_eq!(report.failures, [error().to_string()]);
        assert_eq!(report.nics[0].causes, report.failures);
    }
}
