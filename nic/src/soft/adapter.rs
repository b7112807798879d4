//! An adapter: the queues of one soft NIC, as its hardware sees them.

use std::collections::VecDeque;

use warpwire_ring::Place;
use warpwire_ring::mlx5::device::{CompletionQueue, ReceiveQueue, SendQueue};
use warpwire_ring::mlx5::layout::CqeWords;

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
    /// Completions that are written together at the end of a burst.
    pub(super) staged: Staged,
}

impl ReceiveSide {
    /// Takes the next WQE; returns its index.
    #[inline(always)]
    pub(super) fn consume(&mut self) -> u64 {
        let index = self.queue.next();
        self.queue.advance();
        self.frames += 1;
        index
    }
}

/// Completions that wait for the end of a burst. A driver polls the line of the next one: to write
/// each as it comes would make that line change hands for every frame.
#[derive(Debug)]
pub(super) struct Staged {
    cqes: Box<[CqeWords; STAGED]>,
    count: usize,
    frames: u64,
    bytes: u64,
}

/// Completions that are staged at most.
const STAGED: usize = 128;

impl Staged {
    pub(super) fn new() -> Self {
        let cqes = Box::new([[0; 8]; STAGED]);
        Self {
            cqes,
            count: 0,
            frames: 0,
            bytes: 0,
        }
    }

    /// Stages one, of a frame of `bytes` bytes (0: an error, and no frame); returns whether all
    /// places are taken now.
    #[inline(always)]
    pub(super) fn push(&mut self, cqe: CqeWords, bytes: u32) -> bool {
        if let Some(place) = self.cqes.get_mut(self.count) {
            *place = cqe;
            self.count += 1;
            self.frames += u64::from(bytes > 0);
            self.bytes += u64::from(bytes);
        }
        self.count == STAGED
    }

    #[inline(always)]
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The staged completions, the frames among them, and their bytes; none are staged any more.
    #[inline(always)]
    pub(super) fn take(&mut self) -> (&[CqeWords], u64, u64) {
        let (frames, bytes) = (
            std::mem::take(&mut self.frames),
            std::mem::take(&mut self.bytes),
        );
        let count = std::mem::take(&mut self.count);
        (self.cqes.get(..count).unwrap_or_default(), frames, bytes)
    }
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
