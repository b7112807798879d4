//! IPv6 hop-by-hop and destination options headers. RFC 8200 sections 4.2, 4.3, 4.6.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+-------------------------------+
//! |  next header  | units of 8 - 1|  options ...
//! +---------------+---------------+---
//! option: +---------------+---------------+---
//!         |     kind      | bytes of data | data ...      (kind 0: this byte alone)
//!         +---------------+---------------+---
//! ```

use super::IpProtocol;
use crate::DropReason;

/// An options header: what follows it, and its options.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct View<'a> {
    /// What follows.
    pub next_header: IpProtocol,
    /// The options.
    pub options: Options<'a>,
}

impl<'a> View<'a> {
    /// The header and what follows it.
    ///
    /// # Errors
    /// [`DropReason::TruncatedL3`] if `bytes` end inside it.
    pub fn split(bytes: &'a [u8]) -> Result<(Self, &'a [u8]), DropReason> {
        let [next, units, ..] = *bytes else {
            return Err(DropReason::TruncatedL3);
        };
        let length = (usize::from(units) + 1) * 8;
        let (header, rest) = bytes
            .split_at_checked(length)
            .ok_or(DropReason::TruncatedL3)?;
        let options = Options(header.get(2..).unwrap_or(&[]));
        Ok((
            Self {
                next_header: IpProtocol(next),
                options,
            },
            rest,
        ))
    }
}

/// Walks options, padding skipped: `Err` once, and then the end, if a length is illegal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Iterator for Options<'a> {
    type Item = Result<Option6<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let (kind, rest) = self.0.split_first()?;
            if *kind == PAD1 {
                self.0 = rest;
                continue;
            }
            let whole = rest
                .split_first()
                .and_then(|(length, rest)| rest.split_at_checked(usize::from(*length)));
            let Some((data, rest)) = whole else {
                self.0 = &[];
                return Some(Err(DropReason::ExtensionOption));
            };
            self.0 = rest;
            if *kind != PADN {
                return Some(Ok(Option6 { kind: *kind, data }));
            }
        }
    }
}

/// An option that is not padding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Option6<'a> {
    /// The kind; its two upper bits say what a node that does not know it does.
    pub kind: u8,
    /// The data.
    pub data: &'a [u8],
}

impl Option6<'_> {
    /// The kind of a router alert (RFC 2711).
    pub const ROUTER_ALERT: u8 = 5;
    /// The kind of a jumbo payload length (RFC 2675).
    pub const JUMBO: u8 = 0xc2;

    /// Whether a node that does not know the option skips it.
    pub const fn may_be_skipped(&self) -> bool {
        self.kind >> 6 == 0
    }
}

const PAD1: u8 = 0;
const PADN: u8 = 1;

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;

    fn check(text: &str, expected: Result<Vec<Result<Option6<'_>, DropReason>>, DropReason>) {
        let bytes = hex(text);
        let options = View::split(&bytes).map(|(view, _)| view.options.collect::<Vec<_>>());
        assert_eq!(options, expected, "{text}");
    }

    #[test]
    fn options_are_walked_with_a_bound() {
        let alert = Option6 {
            kind: Option6::ROUTER_ALERT,
            data: &[0, 0],
        };
        let bad = Err(DropReason::ExtensionOption);
        assert!(alert.may_be_skipped());
        check("3a00 0502 0000 0100", Ok(vec![Ok(alert)]));
        check("3a00 0000 0502 0000", Ok(vec![Ok(alert)]));
        check("3a00 0104 00000000", Ok(vec![]));
        check("3a00 0105 00000000", Ok(vec![bad]));
        check("3a00 0000 00000005", Ok(vec![bad]));
        check("3a01 0000 00000005", Err(DropReason::TruncatedL3));
        check("3a00 0502 0000 01", Err(DropReason::TruncatedL3));
        check("3a", Err(DropReason::TruncatedL3));
    }

    #[test]
    fn what_follows_is_given() {
        let bytes = hex("1100 0104 00000000 aabb");
        let (view, rest) = View::split(&bytes).unwrap();
        assert_eq!(view.next_header, IpProtocol::UDP);
        assert_eq!(rest, [0xaa, 0xbb]);
    }
}
