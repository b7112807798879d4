//! What an engine of streams runs on, as plain data: the host makes these blocks and the engine
//! goes on from them, slice by slice.
//!
//! A *place* is the index of a connection: its [`ConnectionBlock`], its [`StreamWords`], its bit in
//! the [bitmaps](super::Bits) and its deadline. A place has one connection after the other, told
//! apart by *generations* from 1 on. Whoever uses a stream (the host, a kernel) does so through its
//! [`StreamWords`] and the bytes of its two rings alone:
//!
//! 1. it reads or fills bytes of a ring, and stores the new position in its line;
//! 2. it sets the bit of the place in [`StreamBlock::asked`];
//! 3. the engine acts, stores its own line, and sets the bit in [`StreamBlock::told`].
//!
//! A position counts the bytes of a stream from 0, modulo 2^32; its place in the ring is the
//! position modulo the bytes of the ring. Who has a stream from [`AcceptBlock`] or a
//! [`CommandSlot`] gives it back by [`RELEASE`], and touches neither words nor rings after that.

use core::mem::offset_of;

use warpwire_protocols::tcp::{Config, Connection, Listener, Tuple};
use warpwire_ring::layout::{SEED, fold};
use warpwire_ring::{DeviceAddress, QueueBlock, layout_hash};

use crate::tables::Path;

mod counters;

pub use counters::{DROPS, NOTES, StreamCounters};

/// What one block of an engine drives: a pair of rings, and the connections whose segments come
/// through them. The host fills it and does not change it while the engine runs.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct StreamBlock {
    /// Where frames come from.
    pub receive: QueueBlock,
    /// Where frames go.
    pub transmit: QueueBlock,
    /// [`LAYOUT`].
    pub layout: u64,
    /// [`ConnectionBlock`]s, zeros. The engine's own.
    pub connections: DeviceAddress,
    /// [`StreamWords`], one a place, zeros.
    pub words: DeviceAddress,
    /// A word of 32 bits a bucket, zeros. The engine's own.
    pub buckets: DeviceAddress,
    /// [`ListenerBlock`]s. Of each the host fills [`ListenerBlock::accepts`], the rest with zeros.
    pub listeners: DeviceAddress,
    /// The configurations that listeners and connections name by index. Their
    /// `receive_bytes` and `send_bytes` are at most [`StreamBlock::chunk_bytes`].
    pub configs: DeviceAddress,
    /// Memory of the rings: [`StreamBlock::chunk_count`] times [`StreamBlock::chunk_bytes`],
    /// aligned to 128.
    pub chunks: DeviceAddress,
    /// A word of 32 bits a chunk: the numbers of all, in any order. The engine's own.
    pub free_chunks: DeviceAddress,
    /// A word of 32 bits a place: the numbers of all, in any order; the last is taken first. The
    /// engine's own.
    pub free_places: DeviceAddress,
    /// [`Bits`](super::Bits), one a place: the application did something.
    pub asked: DeviceAddress,
    /// [`Bits`](super::Bits), one a place and behind them one a listener: the engine did something.
    /// Null if nobody looks.
    pub told: DeviceAddress,
    /// [`Bits`](super::Bits), one a place: has something to send. The engine's own.
    pub ready: DeviceAddress,
    /// A word of 64 bits a place, all ones: when to look at it, in ns. The engine's own.
    pub deadlines: DeviceAddress,
    /// [`CommandSlot`]s, zeros.
    pub commands: DeviceAddress,
    /// A [`warpwire_device::CopyBlock`] that the engine fills with frames which are none of its
    /// own, for the host; null for none.
    pub slow: DeviceAddress,
    /// A [`warpwire_device::CopyBlock`] that the host fills with frames to be sent; null for none.
    pub inject: DeviceAddress,
    /// A [`warpwire_device::CopyBlock`] for copies of all frames that leave; null for none.
    pub mirror: DeviceAddress,
    /// The block's [`StreamCounters`], zeros.
    pub counters: DeviceAddress,
    /// The block's [`Standing`].
    pub standing: DeviceAddress,
    /// Hides buckets and first numbers; random.
    pub secret: [u64; 2],
    /// Places; at most [`MOST_PLACES`].
    pub connection_count: u32,
    /// Buckets; a power of two, at least twice the places.
    pub bucket_count: u32,
    /// Listeners there may be.
    pub listener_count: u32,
    /// Configurations.
    pub config_count: u32,
    /// Chunks. A connection has two from when it is established or opened until it is over.
    pub chunk_count: u32,
    /// Bytes of a chunk; a power of two, at least 1024.
    pub chunk_bytes: u32,
    /// Slots for commands; a power of two.
    pub command_count: u32,
    /// Segments that a connection sends before the next one may; at least one.
    pub share: u32,
    /// What is done about checksums of what comes: a
    /// [`warpwire_protocols::checksum::Policy`] as a number. [`TRUST_META`] may be added.
    pub policy: u32,
    /// [`OFFLOAD_CHECKSUM`], or 0.
    pub offloads: u32,
    /// Resets to nobody's segments in a second at most.
    pub resets_a_second: u32,
    /// How many of the addresses are used.
    pub address_count: u32,
    /// The own addresses: segments to others go to the host.
    pub addresses: [Address; ADDRESSES],
    /// Where several blocks have the queues of one NIC: a word of 64 bits a home, zeros, which all
    /// of them share, as they do [`StreamBlock::secret`]. Which block has connections of such a
    /// hash, above 32 bits, and how many. Null for a block alone.
    pub homes: DeviceAddress,
    /// A [`warpwire_device::CopyBlock`] that the host fills with segments which came to queues of
    /// other blocks, see [`HANDED`]; null for none.
    pub handed: DeviceAddress,
    /// Homes; a power of two.
    pub home_count: u32,
    /// Which of the blocks this is.
    pub number: u32,
    /// The [`Board`](super::Board) of a block that several warps run, zeros, which all of the
    /// block's engines share; null for one warp.
    pub board: DeviceAddress,
}

/// In a copy of [`StreamBlock::slow`], in [`warpwire_device::CopyHead::sequence`]: it is a segment
/// for the block of the number in the lower 32 bits, which the host hands to it.
pub const HANDED: u64 = 1 << 32;

/// Places that there may be.
pub const MOST_PLACES: u32 = (1 << 20) - 1;
/// In [`StreamBlock::policy`]: what the NIC says that it verified is not summed.
pub const TRUST_META: u32 = 1 << 8;
/// In [`StreamBlock::offloads`]: the NIC fills in checksums of TCP.
pub const OFFLOAD_CHECKSUM: u32 = 1;
/// Own addresses that there is room for.
pub const ADDRESSES: usize = 8;

/// An address of the IP.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Address {
    /// The address, IPv4 in the first word; in the order of the host.
    pub words: [u32; 4],
    /// 4 or 6.
    pub ip_version: u32,
}

/// Where an engine stands between rounds. The engine's own; the host writes [`Standing::new`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(128))]
pub struct Standing {
    /// Places that are free: the first so many words of [`StreamBlock::free_places`].
    pub free_places: u32,
    /// Chunks that are free, alike.
    pub free_chunks: u32,
    /// Every place from this one on was never used.
    pub used: u32,
    /// The next place whose deadline is looked at.
    pub clock: u32,
    /// The place that may send next.
    pub turn: u32,
    /// Commands that were answered.
    pub commands: u32,
    /// Resets to nobody's segments that may be sent in this second.
    pub resets: u32,
    /// Of connections in TIME-WAIT that nobody holds, the place of the one that may go first, or
    /// [`NONE`].
    pub oldest: u32,
    /// The place of the one that may go last, or [`NONE`].
    pub newest: u32,
    /// Written as zero.
    pub reserved: u32,
    /// When that second is over, in ns.
    pub second_ns: u64,
}

impl Standing {
    /// Where an engine begins that has all places and chunks.
    pub const fn new(connection_count: u32, chunk_count: u32) -> Self {
        Self {
            free_places: connection_count,
            free_chunks: chunk_count,
            used: 0,
            clock: 0,
            turn: 0,
            commands: 0,
            resets: 0,
            oldest: NONE,
            newest: NONE,
            reserved: 0,
            second_ns: 0,
        }
    }
}

/// A connection with all that belongs to it. The engine's own; it writes the block of a place when
/// it first takes it, and looks at none before.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct ConnectionBlock {
    /// The state of the protocol.
    pub connection: Connection,
    /// The way to the peer; its source port is the port here.
    pub path: Path,
    /// The port there.
    pub remote_port: u16,
    /// 1 while the place has a connection.
    pub is_used: bool,
    /// 1 once the application gave it back.
    pub is_released: bool,
    /// 1 while it counts as a handshake of its listener.
    pub is_embryonic: bool,
    /// 1 once the connection is over and cannot be found any more.
    pub is_over: bool,
    /// 1 while it is in TIME-WAIT and nobody holds it: its place can be had.
    pub is_lingering: bool,
    /// 1 if its next hop is whoever sends the peer's segments.
    pub follows: bool,
    /// Counts the connections that the place had.
    pub generation: u32,
    /// Where its bucket is looked for.
    pub hash: u32,
    /// Payload of its last segments: how many make a train.
    pub segment_bytes: u32,
    /// The configuration.
    pub config: u32,
    /// The listener, [`NONE`] for a connection that the host opened.
    pub listener: u32,
    /// The chunk of the receive ring, or [`NONE`].
    pub receive_chunk: u32,
    /// The chunk of the send ring, or [`NONE`].
    pub send_chunk: u32,
    /// Positions of the application that were taken.
    pub written: u32,
    /// See [`ConnectionBlock::written`].
    pub consumed: u32,
    /// Wishes that were obeyed.
    pub wishes: u32,
    /// What [`StreamWords::readable`] says, without the engine reading it.
    pub told_readable: u32,
    /// What [`StreamWords::freed`] says.
    pub told_freed: u32,
    /// What [`StreamWords::flags`] and, above 16 bits, [`StreamWords::state`] say.
    pub told: u32,
    /// While it lingers: the place of the next older one, or [`NONE`].
    pub older: u32,
    /// While it lingers: the place of the next newer one, or [`NONE`].
    pub newer: u32,
    /// When a connection that was given back is given up, in ns; all ones for never.
    pub orphan_ns: u64,
    /// When statistics were told last, in ns.
    pub figures_ns: u64,
}

/// No listener, no chunk.
pub const NONE: u32 = u32::MAX;

/// How an application and the engine talk about a stream: a line of the application's words and a
/// line of the engine's.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct StreamWords {
    /// The application's: bytes of the send ring before this position were written.
    pub written: u32,
    /// The application's: bytes of the receive ring before this position are not needed any more.
    pub consumed: u32,
    /// The application's: [`CLOSE`], [`ABORT`], [`RELEASE`]; bits are only added. Positions are
    /// stored before wishes.
    pub wishes: u32,
    /// Written as zero.
    pub reserved: [u32; 29],
    /// Bytes of the receive ring before this position came.
    pub readable: u32,
    /// Bytes of the send ring before this position were acknowledged: there is room up to
    /// [`StreamWords::send_bytes`] behind it.
    pub freed: u32,
    /// [`CONNECTED`], [`PEER_CLOSED`], [`CLOSED`]. Stored after all other words: who finds
    /// [`PEER_CLOSED`] and reads [`StreamWords::readable`] after that knows that there is no more.
    pub flags: u32,
    /// The [`warpwire_protocols::tcp::State`], as a number.
    pub state: u32,
    /// Once [`CLOSED`]: the [`warpwire_protocols::tcp::Cause`], as its number and one.
    pub cause: u32,
    /// Which connection of the place this is; 0 while there is none. The application looks once.
    pub generation: u32,
    /// Where the receive ring lies; null before [`CONNECTED`].
    pub receive_ring: DeviceAddress,
    /// Where the send ring lies; null before [`CONNECTED`].
    pub send_ring: DeviceAddress,
    /// Bytes of the receive ring; a power of two.
    pub receive_bytes: u32,
    /// Bytes of the send ring; a power of two.
    pub send_bytes: u32,
    /// Both ends.
    pub tuple: Tuple,
    /// Figures, not a millisecond older than what the application asked for last.
    pub figures: Figures,
    /// Once [`CLOSED`], of a stream over messages: how the queue pair failed, as the number of a
    /// [`warpwire_ring::Cause`]; or 0.
    pub beneath: u32,
}

/// A wish: FIN follows what was written. Reading goes on.
pub const CLOSE: u32 = 1;
/// A wish: the peer is told by RST, and the connection is over.
pub const ABORT: u32 = 2;
/// A wish: the application is done with the stream, and with its words and rings. A connection that
/// was not asked to close is aborted; one that was sends what was written, and takes no bytes more.
pub const RELEASE: u32 = 4;

/// In [`StreamWords::flags`]: it is or was established; the rings are there.
pub const CONNECTED: u32 = 1;
/// In [`StreamWords::flags`]: the peer sends no more.
pub const PEER_CLOSED: u32 = 2;
/// In [`StreamWords::flags`]: it is over. Bytes that came may still be read.
pub const CLOSED: u32 = 4;

/// Figures of a connection: the most wanted of [`warpwire_protocols::tcp::Statistics`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Figures {
    /// Smoothed round-trip time in microseconds.
    pub srtt_us: u32,
    /// Its variation in microseconds.
    pub rttvar_us: u32,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow start ends here, in bytes.
    pub ssthresh: u32,
    /// Sent and not acknowledged, in bytes.
    pub in_flight: u32,
    /// Segments that were sent again.
    pub retransmits: u32,
    /// Times that nothing came back in time.
    pub timeouts: u32,
    /// Times that loss was seen before.
    pub recoveries: u32,
    /// Segments of the peer that came after a gap.
    pub out_of_order: u32,
    /// Times that a gap turned out to be another order.
    pub reordered: u32,
}

/// A listener.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct ListenerBlock {
    /// What is answered. The engine's own.
    pub listener: Listener,
    /// The address that it is for; zeros for all own addresses of the version. The engine's own.
    pub address: Address,
    /// The port; 0 while it does not listen. The engine's own.
    pub port: u32,
    /// The configuration. The engine's own.
    pub config: u32,
    /// Connections of [`ListenerBlock::accepts`] and handshakes there may be. The engine's own.
    pub backlog: u32,
    /// Its [`AcceptBlock`].
    pub accepts: DeviceAddress,
}

/// Connections that were established for a listener, until somebody takes them: a ring with one
/// writer, the engine, and one reader. Indices wrap at 2^32.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct AcceptBlock {
    /// Entries written so far; the engine's, stored after the entry.
    pub written: u32,
    /// How many entries there is room for; a power of two.
    pub depth: u32,
    /// The entries: words of 64 bits, the generation above the place.
    pub entries: DeviceAddress,
    /// Written as zero.
    pub reserved: [u32; 28],
    /// Entries read so far; the reader's.
    pub read: u32,
    /// Written as zero.
    pub reserved_read: [u32; 31],
}

/// A command of the host and the engine's answer. Command `n`, from 0 on, lies in slot `n` modulo
/// their number. The host writes it, [`Command::number`] last, once it has the answer to the one
/// that lay there before.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct CommandSlot {
    /// The host's.
    pub command: Command,
    /// The engine's.
    pub answer: CommandAnswer,
}

/// What the host wants. What a kind does not need is not looked at.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(128))]
pub struct Command {
    /// `n + 1`, modulo 2^32; stored after the rest.
    pub number: u32,
    /// [`LISTEN`], [`UNLISTEN`], [`CONNECT`], [`TOO_BIG`], [`UNREACHABLE`] or [`MOVED`].
    pub kind: u32,
    /// [`LISTEN`], [`UNLISTEN`]: which listener.
    pub listener: u32,
    /// [`LISTEN`], [`CONNECT`]: the configuration.
    pub config: u32,
    /// [`LISTEN`]: handshakes at most; more are answered by cookies.
    pub backlog: u32,
    /// [`TOO_BIG`]: the MTU that was named, in bytes.
    pub mtu: u32,
    /// [`TOO_BIG`], [`UNREACHABLE`]: the number of the segment that was quoted.
    pub sequence: u32,
    /// The port there; [`LISTEN`]: the port here.
    pub port: u32,
    /// [`CONNECT`]: the way. [`TOO_BIG`], [`UNREACHABLE`]: its addresses and source port.
    /// [`LISTEN`]: the local address, zeros for any, and the version. [`MOVED`]: the next hop as it
    /// is now, and as `mac` as it was; the version; and the peer, zeros for all.
    pub path: Path,
    /// [`CONNECT`]: 1 if the peer is on the link: where its segments come from, others go.
    pub is_on_link: u32,
}

/// What came of a command.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(128))]
pub struct CommandAnswer {
    /// The number of the command; stored after the rest.
    pub number: u32,
    /// [`DONE`], or why not: [`BUSY`], [`NO_PLACE`], [`NO_CHUNK`], [`WRONG`], [`UNKNOWN`].
    pub outcome: u32,
    /// [`CONNECT`]: the place of the connection, whose words tell what comes of it.
    pub place: u32,
    /// [`CONNECT`]: its generation.
    pub generation: u32,
}

/// A command: listens. A listener that listens already takes the new configuration.
pub const LISTEN: u32 = 1;
/// A command: listens no more. Handshakes under way end; connections that wait to be accepted stay
/// in the ring, for the host to take and abort.
pub const UNLISTEN: u32 = 2;
/// A command: opens a connection.
pub const CONNECT: u32 = 3;
/// A command: the network says that a segment was longer than a link takes.
pub const TOO_BIG: u32 = 4;
/// A command: the network says that a segment found no way.
pub const UNREACHABLE: u32 = 5;

/// A command: a next hop has another Ethernet address. It is done whether or not a connection has
/// it.
pub const MOVED: u32 = 6;

/// An outcome: it was done.
pub const DONE: u32 = 0;
/// An outcome: there is a connection between these ends, or another listener of this port.
pub const BUSY: u32 = 1;
/// An outcome: all places are taken.
pub const NO_PLACE: u32 = 2;
/// An outcome: there is no memory for rings.
pub const NO_CHUNK: u32 = 3;
/// An outcome: the command makes no sense: its kind, listener, configuration or port.
pub const WRONG: u32 = 4;
/// An outcome: there is no such connection.
pub const UNKNOWN: u32 = 5;

/// Hash of all layouts here, compared at attach: host and kernel may come from different compilers.
pub const LAYOUT: u64 = {
    let parts = [
        layout_hash!(StreamBlock {
            layout,
            standing,
            secret,
            policy,
            addresses,
            homes,
            number,
            board
        }),
        layout_hash!(ConnectionBlock {
            connection,
            path,
            generation,
            written,
            orphan_ns
        }),
        layout_hash!(StreamWords {
            written,
            readable,
            receive_ring,
            tuple,
            figures,
            beneath
        }),
        layout_hash!(ListenerBlock {
            listener,
            address,
            accepts
        }),
        layout_hash!(CommandSlot { command, answer }),
        size_of::<super::Board>() as u64,
        layout_hash!(Command {
            number,
            sequence,
            path
        }),
        layout_hash!(Config {
            maximum_segment_size,
            receive_bytes,
            send_bytes,
            control,
            no_delay,
            delayed_ack_ns,
            time_wait_ns,
            keep_alive,
        }),
    ];
    let mut hash = SEED;
    let mut i = 0;
    while i < parts.len() {
        hash = fold(hash, parts[i] as usize);
        i += 1;
    }
    hash
};

const _: () = assert!(size_of::<StreamWords>() == 256);
const _: () = assert!(offset_of!(StreamWords, readable) == 128);
const _: () = assert!(size_of::<AcceptBlock>() == 256);
const _: () = assert!(offset_of!(AcceptBlock, read) == 128);
const _: () = assert!(size_of::<CommandSlot>() == 256);
const _: () = assert!(offset_of!(CommandSlot, answer) == 128);
const _: () = assert!(size_of::<Standing>() == 128);
