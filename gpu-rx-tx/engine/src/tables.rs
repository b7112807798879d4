//! What an engine runs on, as plain data: the host makes these blocks and the engine goes on from
//! them, slice by slice.

use warpwire_protocols::rdma::{Attributes, QueuePair, Start, Tuning};
use warpwire_ring::mlx5::serve::WorkQueue;
use warpwire_ring::{DeviceAddress, QueueBlock};

/// What one block of an engine drives: a pair of rings, and the queue pairs whose packets come
/// through them.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct EngineBlock {
    /// Where packets come from.
    pub receive: QueueBlock,
    /// Where packets go.
    pub transmit: QueueBlock,
    /// [`PairBlock`]s: queue pair `n` lies at place `n` modulo their number.
    pub pairs: DeviceAddress,
    /// [`warpwire_protocols::rdma::Region`]s, by the upper 24 bits of their keys, modulo their
    /// number.
    pub regions: DeviceAddress,
    /// The block's [`EngineCounters`].
    pub counters: DeviceAddress,
    /// A [`warpwire_device::CopyBlock`] for copies of packets that leave, which nobody else fills;
    /// null for none.
    pub mirror: DeviceAddress,
    /// A [`Board`](crate::Board) for an engine of several warps; null where it has one.
    pub board: DeviceAddress,
    /// Where there is a board: for each place of [`EngineBlock::pairs`] a word of 32 bits, the
    /// group of the queue pair there. Groups say which warp has which queue pairs; those that share
    /// receives are of one.
    pub groups: DeviceAddress,
    /// How many queue pairs there may be; a power of two.
    pub pair_count: u32,
    /// How many regions there may be; a power of two.
    pub region_count: u32,
    /// How senders are slowed.
    pub tuning: Tuning,
    /// Packets that a queue pair sends before the next one may; at least one.
    pub share: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// What a block counted; each word has one writer, the block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(128))]
pub struct EngineCounters {
    /// Rounds.
    pub turns: u64,
    /// Rounds without work.
    pub idle_turns: u64,
    /// Packets of the transport that were received and handed to a queue pair.
    pub received: u64,
    /// Packets of the transport that were sent.
    pub sent: u64,
    /// Frames that are none of the transport's.
    pub foreign: u64,
    /// Frames that were dropped, by [`warpwire_protocols::DropReason`].
    pub drops: [u64; DROPS],
    /// What was special about packets, by [`warpwire_protocols::rdma::Note`].
    pub notes: [u64; NOTES],
}

/// Drop reasons that there is room for.
pub const DROPS: usize = 48;
/// Notes that there is room for.
pub const NOTES: usize = 40;

const _: () = assert!(warpwire_protocols::DropReason::COUNT <= DROPS);
const _: () = assert!(warpwire_protocols::rdma::Note::COUNT <= NOTES);

impl Default for EngineCounters {
    fn default() -> Self {
        Self {
            turns: 0,
            idle_turns: 0,
            received: 0,
            sent: 0,
            foreign: 0,
            drops: [0; DROPS],
            notes: [0; NOTES],
        }
    }
}

/// A queue pair with all that belongs to it. The host fills it before the engine may look at it,
/// and then leaves it alone: what it wants goes through the [`Mail`].
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct PairBlock {
    /// The state of the transport.
    pub pair: QueuePair,
    /// The way to the peer.
    pub path: Path,
    /// Send requests.
    pub send: WorkQueue,
    /// Its [`Mail`].
    pub mail: DeviceAddress,
    /// The [`ReceiveBlock`] of its receives; several queue pairs of a block may share one.
    pub receives: DeviceAddress,
    /// Where completions of sends go: a [`warpwire_ring::mlx5::serve::CompletionQueue`].
    pub send_completions: DeviceAddress,
    /// Where completions of receives go; may be the same.
    pub receive_completions: DeviceAddress,
    /// Reads and atomics that are kept: [`warpwire_protocols::rdma::Fetch`].
    pub fetches: DeviceAddress,
    /// How many; a power of two.
    pub fetch_slots: u32,
    /// Number of the queue pair; 0 while the place is not used.
    pub number: u32,
    /// The first send slot whose completion was not told.
    pub told: u64,
    /// The first send slot that is not posted, as far as is known.
    pub head: u64,
    /// The last command of the mail that was obeyed.
    pub obeyed: u32,
    /// The group that it shall be of.
    pub group: u32,
    /// A failed request was told; what is behind it is flushed.
    pub failed: bool,
}

/// Receives, as an engine takes them. The number of the queue is that of the queue pair whose own
/// it is, or 0 for one that is shared: a queue pair that fails flushes its own.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(64))]
pub struct ReceiveBlock {
    /// The queue.
    pub queue: WorkQueue,
    /// The next receive. The engine's own.
    pub next: u64,
    /// The first slot that is not posted, as far as is known. The engine's own.
    pub head: u64,
}

/// How host and engine talk about a queue pair while the engine runs.
///
/// The host writes `wanted` and then another number into `command`; the engine obeys, and copies
/// the number into `answer`. Then, and not before, the host may write again.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Mail {
    /// Counts what the host wanted.
    pub command: u32,
    /// The last command that was obeyed.
    pub answer: u32,
    /// The state, as a number of [`warpwire_protocols::rdma::State`].
    pub state: u32,
    /// How the queue pair failed, as a number of [`warpwire_protocols::rdma::Status`]; or 0.
    pub fault: u32,
    /// 0, or why the last command changed nothing: [`REFUSED_MOVE`], [`REFUSED_MTU`].
    pub refused: u32,
    /// How fast it may send, in kbit/s: [`warpwire_protocols::rdma::Rate::current`].
    pub rate: u32,
    /// The rate that it comes back to: [`warpwire_protocols::rdma::Rate::target`].
    pub target_rate: u32,
    /// How congested the way is: [`warpwire_protocols::rdma::Rate::alpha`].
    pub congestion: u32,
    /// Written as zero.
    pub reserved: [u32; 24],
    /// What the host wants.
    pub wanted: Wanted,
}

/// In a [`Mail`]: the specification has no such move.
pub const REFUSED_MOVE: u32 = 1;
/// In a [`Mail`]: packets of the MTU do not fit the transmit slots.
pub const REFUSED_MTU: u32 = 2;

/// What the host wants of a queue pair.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Wanted {
    /// The state to go to, as a number of [`warpwire_protocols::rdma::State`].
    pub state: u32,
    /// 1 to take attributes, path, start and queues as well.
    pub connects: u32,
    /// The [`ReceiveBlock`] to take receives from: the queue pair's own, or one that is shared.
    pub receives: DeviceAddress,
    /// Where completions of receives go.
    pub receive_completions: DeviceAddress,
    /// The same number for all queue pairs that take receives from there; any number.
    pub group: u32,
    /// What was agreed with the peer.
    pub attributes: Attributes,
    /// The sequence numbers to start from.
    pub start: Start,
    /// The way to the peer.
    pub path: Path,
}

/// The way to a peer: what is the same in the headers of all packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Path {
    /// The own address, IPv4 in the first word; in the order of the host.
    pub local: [u32; 4],
    /// The peer's.
    pub remote: [u32; 4],
    /// Flow label of IPv6.
    pub flow_label: u32,
    /// The next hop.
    pub next_hop: [u8; 6],
    /// The own Ethernet address.
    pub mac: [u8; 6],
    /// The UDP source port.
    pub source_port: u16,
    /// The VLAN tag, if `has_tag`: priority, drop eligibility and number. Of packets that are sent;
    /// those that come are told apart by addresses, whatever their tag: from which VLANs frames may
    /// come is for the NIC to say.
    pub tag: u16,
    /// Whether there is a VLAN tag.
    pub has_tag: bool,
    /// 4 or 6.
    pub ip_version: u8,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// Hop limit.
    pub hop_limit: u8,
}
