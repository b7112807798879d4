//! Applications over streams: echo, discard, source, files over HTTP/1.1, and splices.
//!
//! A [`Server`] is one warp that serves the streams of one table, whatever carries them, as long as
//! it is called. All state lies in memory, a [`Seat`] a place: a kernel may end between any two
//! turns, and another one goes on. A turn costs what has news, never what there is; each stream has
//! a share of bytes in a turn, and who has more to do comes again after the others.
//!
//! Two streams that are spliced have each other's names in their seats; who has news of one moves
//! the bytes of both.
//!
//! Invariant: what a peer makes a server keep is one [`Seat`], and what it makes it do in a turn is
//! bounded by the share.

mod block;
mod http;
mod plain;
mod server;
mod site;
mod splice;

pub(crate) use block::LAYOUT;
pub use block::{FileEntry, PARSER_WORDS, Seat, ServeBlock, ServeCounters, SiteBlock, Stand};
pub use server::Server;

/// What is served.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Service {
    /// What comes goes back: RFC 862.
    Echo = 1,
    /// What comes is thrown away: RFC 863.
    Discard = 2,
    /// A pattern, again and again, in the manner of RFC 864.
    Source = 3,
    /// Files, over HTTP/1.1.
    Http = 4,
    /// What comes of one stream goes to another, both ways.
    Splice = 5,
}

impl Service {
    /// Every service, in the order of their numbers.
    pub const ALL: [Self; 5] = [
        Self::Echo,
        Self::Discard,
        Self::Source,
        Self::Http,
        Self::Splice,
    ];

    /// The service of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u32 == number)
    }
}
