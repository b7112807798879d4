//! What a carrier runs on, as plain data: the host makes these blocks, and the carrier goes on from
//! them, step by step.
//!
//! A stream begins when the host has filled a seat's [`Opening`], its number last, and set the bit
//! of the place in [`CarrierBlock::asked`]. It is the carrier's until [`Report::vacated`] has that
//! number: then nobody touches queue pair, rings and words any more.

use core::mem::offset_of;

use warpwire_engine::streams::tables::{AcceptBlock, StreamCounters, StreamWords};
use warpwire_protocols::stream::credits::{Carrier, Terms};
use warpwire_protocols::tcp::Tuple;
use warpwire_ring::layout::fold;
use warpwire_ring::mlx5::post::Gather;
use warpwire_ring::{DeviceAddress, layout_hash};

use crate::block::{ABI, Header};
use crate::messaging::{ChannelBlock, Remote};

/// What one warp drives. The host fills it and does not change it while the carrier runs.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct CarrierBlock {
    /// [`CarrierBlock::HEADER`].
    pub header: Header,
    /// [`SeatBlock`]s, one a place, zeros.
    pub seats: DeviceAddress,
    /// [`StreamWords`], one a place, zeros.
    pub words: DeviceAddress,
    /// [`Bits`](warpwire_engine::streams::Bits), one a place: the application did something, or
    /// the host, or there is something left to do.
    pub asked: DeviceAddress,
    /// [`Bits`](warpwire_engine::streams::Bits), one a place and behind them one a listener: the
    /// carrier did something. Null if nobody looks.
    pub told: DeviceAddress,
    /// [`AcceptBlock`]s, one a listener.
    pub accepts: DeviceAddress,
    /// [`StreamCounters`], zeros: `received` and `sent` count messages.
    pub counters: DeviceAddress,
    /// The [`Standing`], zeros.
    pub standing: DeviceAddress,
    /// Places.
    pub place_count: u32,
    /// Listeners.
    pub listener_count: u32,
    /// Messages that a stream sends before the next one may; at least one.
    pub share: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// Where a carrier stands between rounds. The carrier's own.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct Standing {
    /// Every place from this one on was never used.
    pub used: u32,
    /// The next group of places that is looked at without being asked.
    pub scan: u32,
}

/// A place, as host and carrier have it.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct SeatBlock {
    /// The host's.
    pub opening: Opening,
    /// The carrier's.
    pub report: Report,
    /// The carrier's own.
    pub state: SeatState,
}

/// A stream that is to begin.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Opening {
    /// Which stream of the place this is: its generation, from 1 on; stored after the rest.
    pub number: u32,
    /// The listener that it came to, or
    /// [`NONE`](warpwire_engine::streams::tables::NONE).
    pub listener: u32,
    /// A [`ChannelBlock`]: a queue pair that sends and receives, with
    /// [`Terms::receives`] receives without bytes posted.
    pub channel: DeviceAddress,
    /// The send ring: [`Terms::send_bytes`] of it.
    pub send: Gather,
    /// The receive ring, as many bytes as [`Terms::own`] says.
    pub receive: Gather,
    /// The peer's receive ring, as many bytes as [`Terms::peer`] says.
    pub remote: Remote,
    /// What both ends agreed on.
    pub terms: Terms,
    /// Both ends, as applications know them.
    pub tuple: Tuple,
    /// How long a stream that nobody holds waits for its peer.
    pub orphan_ns: u64,
    /// How long the queue pair stays after the end, so that the peer's last message is
    /// acknowledged.
    pub linger_ns: u64,
}

/// What the carrier says of a seat.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct Report {
    /// The number of the last stream that is over and given back.
    pub vacated: u32,
}

/// Where a stream stands.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct SeatState {
    /// The protocol between both ends.
    pub carrier: Carrier,
    /// Messages under way whose completion is waited for, a ring.
    pub marks: [Mark; MARKS],
    /// Where the oldest of them lies, modulo [`MARKS`].
    pub mark_first: u32,
    /// How many there are.
    pub mark_count: u32,
    /// The number of the stream; 0 while there is none.
    pub number: u32,
    /// The number of the last stream that began.
    pub begun: u32,
    /// Positions of the application that were taken.
    pub written: u32,
    /// See [`SeatState::written`].
    pub consumed: u32,
    /// Wishes that were obeyed.
    pub wishes: u32,
    /// How far bytes came.
    pub readable: u32,
    /// How far bytes were acknowledged.
    pub freed: u32,
    /// What [`StreamWords::readable`] says, without the carrier reading it.
    pub told_readable: u32,
    /// What [`StreamWords::freed`] says.
    pub told_freed: u32,
    /// What [`StreamWords::flags`] and, above 16 bits, [`StreamWords::state`] say.
    pub told: u32,
    /// Why it is over: a [`warpwire_protocols::tcp::Cause`], as its number and one; or 0.
    pub cause: u32,
    /// How the queue pair failed, as the number of a [`warpwire_ring::Cause`]; or 0.
    pub beneath: u32,
    /// The peer said that nothing follows.
    pub is_peer_closed: bool,
    /// The own end was acknowledged.
    pub is_end_heard: bool,
    /// The application gave it back.
    pub is_released: bool,
    /// The peer is still to be told that it was given up.
    pub is_aborting: bool,
    /// More is to be sent than there was room or time for.
    pub is_blocked: bool,
    /// It was counted as over.
    pub is_counted: bool,
    /// Written as zero.
    pub reserved: [bool; 2],
    /// When a stream that was given back is given up, in ns; all ones for never.
    pub orphan_ns: u64,
    /// When its place is free, in ns; all ones while that is not known.
    pub settled_ns: u64,
}

/// A message whose completion is waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Mark {
    /// Its number.
    pub first: u64,
    /// The slot behind it.
    pub end: u64,
    /// Bytes that it wrote.
    pub bytes: u32,
    /// [`LAST`], or 0.
    pub kind: u32,
}

/// In [`Mark::kind`]: it says that no data follows.
pub const LAST: u32 = 1;
/// Messages of a stream whose completion is waited for.
pub const MARKS: usize = 16;

const _: () = assert!(MARKS.is_power_of_two());

impl CarrierBlock {
    /// Hash of all layouts here, compared at attach.
    pub const LAYOUT: u64 = {
        let parts = [
            layout_hash!(CarrierBlock {
                header,
                seats,
                words,
                asked,
                told,
                accepts,
                counters,
                standing,
                place_count,
                share
            }),
            layout_hash!(SeatBlock {
                opening,
                report,
                state
            }),
            layout_hash!(Opening {
                number,
                listener,
                channel,
                send,
                receive,
                remote,
                terms,
                tuple,
                orphan_ns,
                linger_ns
            }),
            layout_hash!(SeatState {
                carrier,
                marks,
                mark_first,
                number,
                told,
                orphan_ns,
                settled_ns
            }),
            layout_hash!(StreamWords {
                written,
                readable,
                receive_ring,
                tuple,
                figures,
                beneath
            }),
            layout_hash!(AcceptBlock {
                written,
                depth,
                entries,
                read
            }),
            ChannelBlock::LAYOUT,
            size_of::<StreamCounters>() as u64,
        ];
        let mut hash = warpwire_ring::layout::SEED;
        let mut i = 0;
        while i < parts.len() {
            hash = fold(hash, parts[i] as usize);
            i += 1;
        }
        hash
    };

    /// The header of such a block.
    pub const HEADER: Header = Header {
        abi: ABI,
        bytes: size_of::<Self>() as u32,
        layout: Self::LAYOUT,
    };
}

const _: () = assert!(offset_of!(SeatBlock, report).is_multiple_of(128));
const _: () = assert!(offset_of!(SeatBlock, state).is_multiple_of(128));
const _: () = assert!(size_of::<Report>() == 128);
