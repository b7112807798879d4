//! A whole frame at once: what it is, where its parts lie, and why it is refused if it is.
//!
//! [`parse_fast`] looks at the first 64 bytes, held in registers, at constant offsets: untagged
//! Ethernet with ARP, with IPv4 without options, or with IPv6 without extension headers, and TCP,
//! UDP, ICMP or RoCEv2 behind it. Everything else, and everything malformed, is
//! [`Fast::Slow`] and goes to [`parse_slow`] over a copy of the header bytes. Both give the same
//! [`Headers`].
//!
//! The parse is structural: lengths, versions, bounds. Checksums are another question.
//!
//! Device code: call [`parse_slow`] from an outlined function of its own that also holds the copy
//! of the header bytes, or that copy's local memory belongs to the fast path's frame.

mod fast;
mod headers;
mod roce;
mod slow;
mod window;

pub use fast::{Fast, parse_fast, parse_fast_with, reaches_last_quarter};
pub use headers::{Dropped, Extent, Fragment, Headers, Kind};
pub use roce::RoceLayout;
pub use slow::{HEADER_BYTES, MAX_TAGS, parse_slow};
pub use window::{Tail, Window};

/// Parses a frame given as bytes: the fast path, then the slow one. For hosts and tests.
///
/// # Errors
/// The reason, with what was read before it.
pub fn parse_bytes(frame: &[u8], length: u32) -> Result<Headers, Dropped> {
    let available = u32::try_from(frame.len()).unwrap_or(u32::MAX);
    let extent = Extent { length, available };
    let tail = || Some(Tail::from_bytes(frame));
    match parse_fast_with(&Window::from_bytes(frame), extent, tail) {
        Fast::Parsed(headers) => Ok(headers),
        Fast::Slow => parse_slow(frame, length),
    }
}

#[cfg(test)]
mod tests;
