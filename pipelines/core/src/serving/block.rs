//! What the host hands to a server, as plain data.

use warpwire_protocols::stream::http::{Limits, Parser};
use warpwire_ring::layout::fold;
use warpwire_ring::{DeviceAddress, layout_hash};

use crate::streaming::{Name, TableBlock};

/// What one warp serves. The host fills it and does not change it while the kernel runs.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub struct ServeBlock {
    /// The streams: a [`TableBlock`] with bits of who has news.
    pub table: DeviceAddress,
    /// [`Seat`]s, one a place, zeros.
    pub seats: DeviceAddress,
    /// The block's [`ServeCounters`], zeros.
    pub counters: DeviceAddress,
    /// [`Service::Http`](super::Service): the [`SiteBlock`].
    pub site: DeviceAddress,
    /// [`Service::Source`](super::Service): the pattern, many times, so that it can be copied.
    pub pattern: DeviceAddress,
    /// Bytes of it; a multiple of [`ServeBlock::pattern_period`].
    pub pattern_bytes: u32,
    /// Bytes after which it begins again.
    pub pattern_period: u32,
    /// [`Service::Source`](super::Service): bytes of each stream, then its end; all ones for no
    /// end.
    pub source_bytes: u64,
    /// [`Service::Http`](super::Service): nanoseconds from 1970 to the zero of the clock; all ones
    /// if that is not known, and answers have no date.
    pub epoch_ns: u64,
    /// [`Service::Http`](super::Service): what a client may make the server read.
    pub limits: Limits,
    /// [`Service::Splice`](super::Service): an
    /// [`AcceptBlock`](warpwire_engine::streams::tables::AcceptBlock) that the host fills, two
    /// entries a pair. Null for none.
    pub pairs: DeviceAddress,
    /// Bytes that a stream may have read and written in a turn; at least one.
    pub share: u32,
    /// Streams and listeners with news that are looked at in a turn; at least one.
    pub most: u32,
    /// A [`Service`](super::Service).
    pub service: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// What is kept of a stream that is served. The server's own.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(128))]
pub struct Seat {
    /// Where it stands.
    pub stand: Stand,
    /// Of HTTP: the parser. Of no meaning to anybody else.
    pub parser: [u64; PARSER_WORDS],
}

/// Where a stream stands that is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct Stand {
    /// The generation of the stream; 0 if nobody is served here.
    pub generation: u32,
    /// [`LAST`] or 0.
    pub flags: u32,
    /// Bytes that came and were consumed.
    pub came: u64,
    /// Bytes that were written.
    pub went: u64,
    /// Splice: the other stream.
    pub partner: Name,
    /// HTTP: bytes that came behind the last answer.
    pub ignored: u64,
    /// HTTP: what is to be said, or 0: a status, and the bits above.
    pub say: u32,
    /// HTTP: the file that follows, or all ones.
    pub file: u32,
    /// HTTP: content that is to be written.
    pub content: DeviceAddress,
    /// HTTP: its bytes.
    pub left: u64,
}

/// In [`Stand::flags`]: nothing is answered any more.
pub(super) const LAST: u32 = 1;
/// Words that a parser of HTTP has room for.
pub const PARSER_WORDS: usize = 48;

/// The files of a site, in memory that nobody changes.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct SiteBlock {
    /// [`FileEntry`]s, in the order of their paths.
    pub files: DeviceAddress,
    /// How many.
    pub file_count: u32,
    /// Written as zero.
    pub reserved: u32,
}

/// A file. A folder has an entry of its own, with a path that ends with `/`.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FileEntry {
    /// Its path, as requests name it.
    pub path: DeviceAddress,
    /// Its media type.
    pub media: DeviceAddress,
    /// Its bytes.
    pub content: DeviceAddress,
    /// How many.
    pub content_bytes: u64,
    /// Bytes of the path.
    pub path_bytes: u32,
    /// Bytes of the media type; at most 256.
    pub media_bytes: u32,
}

/// What a server counted; each word has one writer, the server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(128))]
pub struct ServeCounters {
    /// Streams that were accepted.
    pub accepted: u64,
    /// Streams that the server is done with.
    pub ended: u64,
    /// Of these, those that broke before.
    pub broken: u64,
    /// Bytes that came.
    pub came: u64,
    /// Bytes that were written.
    pub left: u64,
    /// Turns of streams.
    pub turns: u64,
    /// Of these, those after which the stream had more to do.
    pub held: u64,
    /// HTTP: answers.
    pub answers: u64,
    /// HTTP: of these, those without a file.
    pub refusals: u64,
    /// Written as zero.
    pub reserved: [u64; 7],
}

impl ServeCounters {
    /// Counters, as a row of words of 64 bits.
    pub const ENTRIES: u32 = (size_of::<Self>() / 8) as u32;
}

/// Hash of all layouts here.
pub(crate) const LAYOUT: u64 = {
    let parts = [
        layout_hash!(ServeBlock {
            table,
            seats,
            counters,
            site,
            pattern,
            source_bytes,
            epoch_ns,
            limits,
            pairs,
            service,
            share,
            most,
        }),
        layout_hash!(Seat { stand, parser }),
        layout_hash!(Stand {
            generation,
            came,
            partner,
            say,
            content,
            left,
        }),
        layout_hash!(SiteBlock { files, file_count }),
        layout_hash!(FileEntry {
            path,
            media,
            content,
            content_bytes,
            path_bytes,
            media_bytes,
        }),
        layout_hash!(ServeCounters {
            accepted,
            came,
            answers,
        }),
    ];
    let mut hash = TableBlock::LAYOUT;
    let mut i = 0;
    while i < parts.len() {
        hash = fold(hash, parts[i] as usize);
        i += 1;
    }
    hash
};

const _: () = assert!(size_of::<Parser>() <= PARSER_WORDS * 8);
const _: () = assert!(align_of::<Parser>() <= 8);
const _: () = assert!(size_of::<Seat>() == 512);
