//! An adapter: the queues of one soft NIC, as its hardware sees them.

use std::collections::VecDeque;

use warpwire_ring::Place;
use warpwire_ring::mlx5::device::{CompletionQueue, ReceiveQueue, SendQueue};

use super::config::AdapterConfig;
use super::drops::Drops;
use super::fault::Faults;
use super::spread::{DEFAULT_KEY, Spread};

/// A send queue and where its life stands.
#[derive(Debug)]
pub(super) struct SendSide {
    pub(super) queue: SendQueue,
    pub(super) completions: CompletionQueue,
    /// WQEs that are still to be flushed.
    pub(super) flush: u32,
    /// Sends so far: the events of the send error's schedule.
    pub(super) sends: u64,
    /// Doorbells so far.
    pub(super) doorbells: u64,
    /// No sending before this time.
    pub(super) stalled_until_ns: u64,
    /// Nothing goes any more: memory refused, or the completion queue overran.
    pub(super) broken: bool,
}

/// A receive queue and where its life stands.
#[derive(Debug)]
pub(super) struct ReceiveSide {
    pub(super) queue: ReceiveQueue,
    pub(super) completions: CompletionQueue,
    pub(super) flush: u32,
    /// Frames so far: the events of the schedules.
    pub(super) frames: u64,
    pub(super) broken: bool,
}

/// A payload whose completion went ahead of it.
#[derive(Debug)]
pub(super) struct LatePayload {
    pub(super) due_ns: u64,
    pub(super) place: Place,
    pub(super) bytes: Vec<u8>,
}

/// What an adapter counts, drops apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Counts {
    pub(super) rx_frames: u64,
    pub(super) rx_bytes: u64,
    pub(super) tx_frames: u64,
    pub(super) tx_bytes: u64,
    pub(super) doorbells: u64,
    pub(super) doorbells_lost: u64,
    pub(super) doorbells_refused: u64,
    pub(super) stalls: u64,
    pub(super) payloads_late: u64,
    pub(super) error_completions: u64,
    pub(super) queues_broken: u64,
    pub(super) payload_bytes_copied: u64,
}

/// The hardware of one soft NIC.
pub(super) struct Adapter {
    pub(super) config: AdapterConfig,
    pub(super) spread: Spread,
    pub(super) faults: Faults,
    pub(super) send: Vec<SendSide>,
    pub(super) receive: Vec<ReceiveSide>,
    pub(super) late: VecDeque<LatePayload>,
    pub(super) counts: Counts,
    pub(super) drops: Drops,
    /// Keys of the memory that its queues lie in.
    pub(super) keys: Vec<u32>,
}

impl Adapter {
    pub(super) fn new(config: AdapterConfig) -> Self {
        Self {
            spread: Spread::new(&DEFAULT_KEY, config.queues),
            config,
            faults: Faults::default(),
            send: Vec::new(),
            receive: Vec::new(),
            late: VecDeque::new(),
            counts: Counts::default(),
            drops: Drops::default(),
            keys: Vec::new(),
        }
    }

    /// When a late payload is due or a stall ends.
    pub(super) fn next_event_ns(&self, now_ns: u64) -> Option<u64> {
        let late = self.late.front().map(|late| late.due_ns);
        let stalls = self.send.iter().map(|side| side.stalled_until_ns);
        stalls
            .filter(|&until_ns| until_ns > now_ns)
            .chain(late)
            .min()
    }
}
