//! What a stage has besides its frame: the warp, its arguments' tables, its counters, its ports.

use warpwire_device::{Copies, SharedCounters, Simt};

use crate::block::{Block, Port};
use crate::packet::Packet;
use crate::program::Op;
use crate::rule::{Rule, Subject};
use crate::sensor::Gatherer;
use crate::spec::{COMMON_COUNTERS, PackedAddress, Span};

/// What a stage has besides its frame.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a, S> {
    /// The warp.
    pub simt: &'a S,
    /// The operation: the stage, its matchers and its arguments.
    pub op: &'a Op,
    pub(crate) counters: SharedCounters,
    pub(crate) samples: Option<Copies>,
    pub(crate) gatherer: Option<Gatherer<'a>>,
    pub(crate) tables: Tables<'a>,
    pub(crate) block: &'a Block,
    pub(crate) port: &'a Port,
    pub(crate) number: u32,
}

/// The tables of a program.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables<'a> {
    /// The operations.
    pub ops: &'a [Op],
    /// The rules that operations refer to.
    pub rules: &'a [Rule],
    /// The addresses that operations refer to.
    pub addresses: &'a [PackedAddress],
}

impl<'a, S: Simt> Context<'a, S> {
    /// Adds to entry `index` of the stage's counters, counted over its arrays in the order of its
    /// spec. Not collective; an index that there is not is left out.
    #[inline(always)]
    pub fn count(&self, index: u32) {
        self.count_many(index, 1);
    }

    /// [`Context::count`] for more than one.
    #[inline(always)]
    pub fn count_many(&self, index: u32, value: u64) {
        add(self.simt, self.counters, COMMON_COUNTERS + index, value);
    }

    /// *Collective.* Counts the frames that the stage works on, and their bytes.
    #[inline(always)]
    pub(crate) fn seen(&self, packet: Option<&Packet<'_>>) {
        let frames = self.simt.ballot(packet.is_some()).count_ones();
        let bytes = self.simt.sum(packet.map_or(0, |packet| packet.length()));
        if frames > 0 && self.simt.is_leader() {
            add(self.simt, self.counters, 0, u64::from(frames));
            add(self.simt, self.counters, 1, u64::from(bytes));
        }
    }

    /// Rules that an argument refers to.
    #[inline(always)]
    pub fn rules(&self, span: Span) -> &'a [Rule] {
        slice(self.tables.rules, span)
    }

    /// Addresses that an argument refers to.
    #[inline(always)]
    pub fn addresses(&self, span: Span) -> &'a [PackedAddress] {
        slice(self.tables.addresses, span)
    }

    /// The samples ring of the stage, if it has one.
    #[inline(always)]
    pub fn samples(&self) -> Option<Copies> {
        self.samples
    }

    /// The gatherer of the stage, if it has one.
    #[inline(always)]
    pub fn gatherer(&self) -> Option<Gatherer<'a>> {
        self.gatherer
    }

    /// The Ethernet address of the NIC that the frame came from.
    #[inline(always)]
    pub fn mac(&self) -> [u8; 6] {
        self.port.mac
    }

    /// The port that the frame came from, for [`crate::stage::Verdict::Send`].
    #[inline(always)]
    pub fn own_port(&self) -> u32 {
        self.number
    }

    /// The queue that the frame came from, of its NIC's.
    #[inline(always)]
    pub fn own_queue(&self) -> u32 {
        self.port.queue
    }

    /// How many queues of NIC `nic` this block drives.
    #[inline(always)]
    pub fn queues(&self, nic: u32) -> u32 {
        self.outputs(nic).count
    }

    /// The port of the block's queue `choice` (taken modulo their number) of NIC `nic`; `None` if
    /// it drives none.
    #[inline(always)]
    pub fn port(&self, nic: u32, choice: u32) -> Option<u32> {
        let span = self.outputs(nic);
        match span.count {
            0 => None,
            1 => Some(span.first),
            count => Some(span.first + choice % count),
        }
    }

    #[inline(always)]
    fn outputs(&self, nic: u32) -> Span {
        let spans = &self.block.outputs;
        spans.get(nic as usize).copied().unwrap_or_default()
    }
}

/// Whether one of some rules matches, or there are none.
#[inline(always)]
pub(crate) fn any_or_none(rules: &[Rule], frame: &impl Subject) -> bool {
    rules.is_empty() || any(rules, frame)
}

/// Whether one of some rules matches.
#[inline(always)]
pub(crate) fn any(rules: &[Rule], frame: &impl Subject) -> bool {
    rules.iter().any(|rule| rule.matches(frame))
}

/// Adds to one of a row of counters. At width 1 a block is one warp and its counters have one
/// writer, so no locked operation is needed.
#[inline(always)]
pub(crate) fn add<S: Simt>(simt: &S, counters: SharedCounters, index: u32, value: u64) {
    let Some(counter) = counters.at(index) else {
        return;
    };
    if S::WIDTH == 1 {
        counter.add_alone(value);
    } else {
        simt.add(counter, value);
    }
}

#[inline(always)]
fn slice<T>(table: &[T], span: Span) -> &[T] {
    let first = span.first as usize;
    table
        .get(first..first.saturating_add(span.count as usize))
        .unwrap_or(&[])
}
