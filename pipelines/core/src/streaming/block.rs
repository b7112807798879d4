//! What the host hands to code that uses streams, as plain data.

use warpwire_engine::streams::tables::{AcceptBlock, LAYOUT as WORDS};
use warpwire_ring::layout::fold;
use warpwire_ring::{DeviceAddress, layout_hash};

use crate::block::{ABI, Header};

/// The streams of one carrier, for code that uses them. What carries them is not seen here.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct TableBlock {
    /// [`TableBlock::HEADER`].
    pub header: Header,
    /// A [`warpwire_engine::streams::tables::StreamWords`] a place.
    pub words: DeviceAddress,
    /// [`warpwire_engine::streams::Bits`], one a place: who uses a stream did something.
    pub asked: DeviceAddress,
    /// [`warpwire_engine::streams::Bits`], one a place and behind them one a listener: the carrier
    /// did something. Null if nobody looks.
    pub told: DeviceAddress,
    /// A word of 64 bits a listener: where its [`AcceptBlock`] lies, or null.
    pub accepts: DeviceAddress,
    /// A word of 32 bits that changes as long as the carrier runs, or null.
    pub heartbeat: DeviceAddress,
    /// How long it may stand still.
    pub stale_ns: u64,
    /// Places.
    pub place_count: u32,
    /// Listeners.
    pub listener_count: u32,
}

impl TableBlock {
    /// Hash of the layout, of this block and of the words and rings that it names.
    pub const LAYOUT: u64 = {
        let block = layout_hash!(TableBlock {
            header,
            words,
            asked,
            told,
            accepts,
            heartbeat,
            stale_ns,
            place_count,
            listener_count,
        });
        let accepts = layout_hash!(AcceptBlock {
            written,
            depth,
            entries,
            read,
        });
        fold(fold(block, accepts as usize), WORDS as usize)
    };

    /// The header of such a block.
    pub const HEADER: Header = Header {
        abi: ABI,
        bytes: size_of::<Self>() as u32,
        layout: Self::LAYOUT,
    };
}
