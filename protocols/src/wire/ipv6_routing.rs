//! IPv6 routing header. RFC 8200 section 4.4; segment routing: RFC 8754 section 2.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! |  next header  | units of 8 - 1|  routing type | segments left |
//! +---------------+---------------+---------------+---------------+
//! |  data that the type defines ...
//! +---
//! ```
//! Walked over, not acted on: a final destination skips it.

use super::IpProtocol;
use crate::DropReason;

/// A routing header: what follows it, and its fixed part.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View<'a> {
    /// What follows.
    pub next_header: IpProtocol,
    /// The kind of routing header: 3 RPL, 4 segment routing; 0 and 1 are deprecated.
    pub routing_type: u8,
    /// Nodes still to be visited.
    pub segments_left: u8,
    /// What the type defines.
    pub data: &'a [u8],
}

impl<'a> View<'a> {
    /// The header and what follows it.
    ///
    /// # Errors
    /// [`DropReason::TruncatedL3`] if `bytes` end inside it.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DropReason> {
        let [next, units, routing_type, segments_left, ..] = *bytes else {
            return Err(DropReason::TruncatedL3);
        };
        let length = (usize::from(units) + 1) * 8;
        let (header, rest) = bytes
            .split_at_checked(length)
            .ok_or(DropReason::TruncatedL3)?;
        let data = header.get(4..).unwrap_or(&[]);
        Ok((
            Self {
                next_header: IpProtocol(next),
                routing_type,
                segments_left,
                data,
            },
            rest,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;

    #[test]
    fn the_length_is_checked() {
        let bytes = hex("2c02000100000000fd770000000000000000000000000009 aa");
        let (view, rest) = View::split(&bytes).unwrap();
        assert_eq!(view.next_header, IpProtocol::FRAGMENT);
        assert_eq!((view.routing_type, view.segments_left), (0, 1));
        assert_eq!(view.data.len(), 20);
        assert_eq!(rest, [0xaa]);
        for length in 0..24 {
            assert_eq!(View::split(&bytes[..length]), Err(DropReason::TruncatedL3));
        }
    }
}
