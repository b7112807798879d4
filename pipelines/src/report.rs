//! What a run counted, as data: for programs as JSON, for people as a table.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::sensor::{Figures, Gap};

/// What a run counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// The pipeline's name.
    pub name: String,
    /// Seconds from the start to the end.
    pub elapsed_s: f64,
    /// What ran the kernels.
    pub executor: &'static str,
    /// Threads of the executor.
    pub threads: usize,
    /// What the memory was that stood for device memory.
    pub memory: &'static str,
    /// The NICs, in the order of the file.
    pub nics: Vec<NicReport>,
    /// What was done with received frames, in the order of the file.
    pub receives: Vec<ReceiveReport>,
    /// What was generated, in the order of the file.
    pub generators: Vec<GeneratorReport>,
    /// Whether frames received, dropped and sent add up, for each pipeline kernel.
    pub balances: Vec<Balance>,
    /// Whether what one soft NIC sent arrived at its peer, one way of a cable each.
    pub cables: Vec<Cable>,
    /// Files of samples.
    pub samples: Vec<SampleReport>,
    /// What stages gathered.
    pub gathered: Vec<GatherReport>,
    /// What went wrong, each with its cure; the counts are what they are nevertheless. Empty if all
    /// went well.
    pub failures: Vec<String>,
}

/// Frames and their bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Traffic {
    /// Frames.
    pub frames: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What passed a NIC.
#[derive(Clone, Debug, Default, Serialize)]
pub struct NicReport {
    /// Its name in the file.
    pub name: String,
    /// The words that it was opened with.
    pub open: String,
    /// What the kernels received.
    pub received: Traffic,
    /// What the kernels sent.
    pub sent: Traffic,
    /// Who drove the receive queues, as device code counted it.
    pub receive_provenance: ProvenanceReport,
    /// Who drove the transmit queues, as device code counted it.
    pub transmit_provenance: ProvenanceReport,
    /// Frames that the NIC lost, by its own words.
    pub lost: BTreeMap<String, u64>,
    /// What else the NIC counted that is not zero.
    pub other: BTreeMap<String, u64>,
    /// What was chosen when it was opened, and why.
    pub choices: Vec<String>,
    /// Why a queue, a file or the whole NIC became unusable.
    pub causes: Vec<String>,
    /// What went wrong and may have passed, such as an interface that was down for a while.
    pub warnings: Vec<String>,
}

/// Who did what at a NIC's queues in one direction: sums of the queues' counters, each counted
/// where the thing is done, by the code that does it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ProvenanceReport {
    /// Calls of the queue's verbs (poll, release, post, publish) from device code.
    pub device_calls: u64,
    /// Descriptors that device code wrote.
    pub descriptors_built: u64,
    /// Packet headers that device code wrote or changed.
    pub headers_built: u64,
    /// Stores of device code to a doorbell register.
    pub triggers_mmio: u64,
    /// Indices that device code published in memory that the consumer polls.
    pub triggers_polled_index: u64,
    /// Times that device code asked the host for a system call.
    pub triggers_system_call: u64,
    /// Payload bytes that device code copied within its own memory.
    pub bytes_copied_device: u64,
    /// Payload bytes that device code moved to or from host memory.
    pub bytes_copied_host: u64,
    /// Payload bytes passed on by reference.
    pub bytes_by_reference: u64,
}

/// What was done with the frames of a NIC.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReceiveReport {
    /// The NIC.
    pub nic: String,
    /// Frames received, those that could not be read included.
    pub received: u64,
    /// Frames whose way ended here, by reason.
    pub dropped: BTreeMap<&'static str, u64>,
    /// Frames that were sent back or on.
    pub sent: u64,
    /// Transport checksums that were completed for a local peer.
    pub checksums_completed: u64,
    /// The stages, in the order of the file.
    pub stages: Vec<StageReport>,
}

/// What a stage counted.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StageReport {
    /// Its name.
    pub name: String,
    /// Its word.
    #[serde(rename = "do")]
    pub word: &'static str,
    /// Frames that it worked on.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Its own counters; of arrays, entries that are not zero.
    pub counters: Map<String, Value>,
}

/// What was generated from a NIC.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GeneratorReport {
    /// The NIC.
    pub nic: String,
    /// What was sent.
    pub sent: Traffic,
    /// Rounds that found no free slot.
    pub full_turns: u64,
    /// Frames by their names.
    pub frames: BTreeMap<String, u64>,
}

/// Whether the frames of one pipeline kernel add up.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Balance {
    /// The NICs that it drives.
    pub nics: Vec<String>,
    /// Frames received.
    pub received: u64,
    /// Frames dropped, whatever the reason.
    pub dropped: u64,
    /// Frames sent, as the transmit queues counted them.
    pub sent: u64,
    /// Whether received is dropped and sent together.
    pub adds_up: bool,
    /// Rounds over the queues, of all blocks.
    pub turns: u64,
    /// Rounds that found nothing.
    pub idle_turns: u64,
}

/// One way of a cable between two soft NICs of a file.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Cable {
    /// The NIC that sent.
    pub from: String,
    /// The NIC that received.
    pub to: String,
    /// Frames that the kernel sent.
    pub sent: u64,
    /// Frames that the kernel received.
    pub received: u64,
    /// Frames that the cable and the receiving NIC lost, by their own count.
    pub lost: u64,
    /// Whether sent is received and lost together. A cable that duplicates frames does not.
    pub adds_up: bool,
}

/// A file of samples.
#[derive(Clone, Debug, Default, Serialize)]
pub struct SampleReport {
    /// The file.
    pub file: PathBuf,
    /// Frames that it holds.
    pub frames: u64,
}

/// What a stage gathered.
#[derive(Clone, Debug, Default, Serialize)]
pub struct GatherReport {
    /// The NIC.
    pub nic: String,
    /// The stage's name.
    pub stage: String,
    /// The file of samples.
    pub rows_to: Option<PathBuf>,
    /// The file of headers.
    pub headers_to: Option<PathBuf>,
    /// What was counted.
    #[serde(flatten)]
    pub figures: Figures,
    /// Which rows are missing: of very many gaps, the first ones.
    pub gap_list: Vec<Gap>,
    /// Gaps that are not listed.
    pub gaps_unlisted: u64,
}

impl Report {
    /// The report as JSON, over several lines.
    pub fn to_json(&self) -> String {
        // Maps have strings for keys and numbers are finite: this cannot fail.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Kernels whose frames do not add up, in words: none, unless something is wrong with the
    /// counting.
    pub fn astray(&self) -> Vec<String> {
        let wrong = self.balances.iter().filter(|balance| !balance.adds_up);
        wrong
            .map(|balance| {
                format!(
                    "the kernel over {} received {} frames, dropped {} and sent {}",
                    balance.nics.join(" and "),
                    balance.received,
                    balance.dropped,
                    balance.sent,
                )
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_that_lose_count_are_named() {
        let balance = |received, adds_up| Balance {
            nics: vec!["a".to_owned(), "b".to_owned()],
            received,
            dropped: 2,
            sent: 3,
            adds_up,
            ..Balance::default()
        };
        let report = Report {
            balances: vec![balance(5, true), balance(6, false)],
            ..Report::default()
        };
        let words = "the kernel over a and b received 6 frames, dropped 2 and sent 3";
        assert_eq!(report.astray(), [words]);
    }
}
