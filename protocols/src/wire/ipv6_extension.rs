//! The chain of IPv6 extension headers, walked with a bound. RFC 8200 section 4.1.

use super::IpProtocol;
use super::ipv6_fragment as fragment;
use super::ipv6_options as options;
use super::ipv6_routing as routing;
use crate::DropReason;

/// Extension headers that are followed. RFC 8200 has each at most once but for destination options.
pub const MAX_EXTENSIONS: u8 = 8;

/// One extension header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extension<'a> {
    /// Options for every node on the way.
    HopByHop(options::View<'a>),
    /// Routing.
    Routing(routing::View<'a>),
    /// Fragmentation.
    Fragment(fragment::Repr),
    /// Options for the destination.
    Destination(options::View<'a>),
}

/// Walks the chain: `Err` once, and then the end, if it is malformed or longer than
/// [`MAX_EXTENSIONS`]. It ends before a header that is no extension, and behind a fragment header
/// that is not the first fragment's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extensions<'a> {
    next: IpProtocol,
    rest: &'a [u8],
    count: u8,
    is_done: bool,
}

impl<'a> Extensions<'a> {
    /// The chain that starts with `next_header` in the payload of an IPv6 header.
    pub const fn new(next_header: IpProtocol, payload: &'a [u8]) -> Self {
        Self {
            next: next_header,
            rest: payload,
            count: 0,
            is_done: false,
        }
    }

    /// The header that follows what was walked so far.
    pub const fn next_header(&self) -> IpProtocol {
        self.next
    }

    /// What follows what was walked so far.
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn step(&mut self) -> Result<Option<Extension<'a>>, DropReason> {
        let is_extension = matches!(
            self.next,
            IpProtocol::HOP_BY_HOP
                | IpProtocol::ROUTING
                | IpProtocol::FRAGMENT
                | IpProtocol::DESTINATION_OPTIONS
        );
        if !is_extension {
            return Ok(None);
        }
        if self.next == IpProtocol::HOP_BY_HOP && self.count > 0 {
            return Err(DropReason::ExtensionOrder);
        }
        if self.count == MAX_EXTENSIONS {
            return Err(DropReason::ExtensionCount);
        }
        self.count += 1;
        let (extension, next, rest) = match self.next {
            IpProtocol::ROUTING => {
                let (view, rest) = routing::View::split(self.rest)?;
                (Extension::Routing(view), view.next_header, rest)
            }
            IpProtocol::FRAGMENT => {
                let (header, rest) = fragment::Header::split(self.rest)?;
                let repr = fragment::Repr::parse(header);
                self.is_done = repr.offset.units() != 0;
                (Extension::Fragment(repr), repr.next_header, rest)
            }
            IpProtocol::HOP_BY_HOP => {
                let (view, rest) = options::View::split(self.rest)?;
                (Extension::HopByHop(view), view.next_header, rest)
            }
            _ => {
                let (view, rest) = options::View::split(self.rest)?;
                (Extension::Destination(view), view.next_header, rest)
            }
        };
        (self.next, self.rest) = (next, rest);
        Ok(Some(extension))
    }
}

impl<'a> Iterator for Extensions<'a> {
    type Item = Result<Extension<'a>, DropReason>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_done {
            return None;
        }
        let step = self.step();
        self.is_done |= !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::hex;
    use super::*;

    /// scapy: IPv6() / IPv6ExtHdrHopByHop(options=[RouterAlert(), PadN(optdata=b"")]) /
    /// IPv6ExtHdrRouting(addresses=["fd77::9"], segleft=1) /
    /// IPv6ExtHdrDestOpt(options=[PadN(optdata=b"\0" * 4)]) /
    /// IPv6ExtHdrFragment(m=1, id=0x99887766) / UDP(sport=1, dport=2) / b"12345678", its payload
    const CHAIN: &str = "2b00050200000100 3c02000100000000fd770000000000000000000000000009
        2c00010400000000 1100000199887766 00010002001033fb3132333435363738";

    #[test]
    fn golden_chain() {
        let bytes = hex(CHAIN);
        let mut chain = Extensions::new(IpProtocol::HOP_BY_HOP, &bytes);
        assert!(matches!(chain.next(), Some(Ok(Extension::HopByHop(_)))));
        assert!(matches!(chain.next(), Some(Ok(Extension::Routing(_)))));
        assert!(matches!(chain.next(), Some(Ok(Extension::Destination(_)))));
        assert!(matches!(chain.next(), Some(Ok(Extension::Fragment(_)))));
        assert_eq!(chain.next(), None);
        assert_eq!(chain.next_header(), IpProtocol::UDP);
        assert_eq!(chain.rest(), hex("00010002001033fb3132333435363738"));
    }

    fn check(first: IpProtocol, text: &str, count: usize, end: Option<DropReason>) {
        let bytes = hex(text);
        let steps: Vec<_> = Extensions::new(first, &bytes).collect();
        assert_eq!(
            steps.iter().filter(|step| step.is_ok()).count(),
            count,
            "{text}"
        );
        assert_eq!(steps.iter().find_map(|step| step.err()), end, "{text}");
        assert!(steps.len() <= count + 1);
    }

    #[test]
    fn chains_have_an_end() {
        let destination = IpProtocol::DESTINATION_OPTIONS;
        let one = "3c00010400000000";
        check(
            destination,
            &one.repeat(7),
            7,
            Some(DropReason::TruncatedL3),
        );
        check(
            destination,
            &one.repeat(9),
            8,
            Some(DropReason::ExtensionCount),
        );
        check(destination, &(one.repeat(7) + "1100010400000000"), 8, None);
        check(
            destination,
            "0000010400000000 1100010400000000",
            1,
            Some(DropReason::ExtensionOrder),
        );
        check(
            IpProtocol::HOP_BY_HOP,
            "0000010400000000",
            1,
            Some(DropReason::ExtensionOrder),
        );
        check(IpProtocol::UDP, "0000", 0, None);
        // Behind a later fragment nothing is a header, whatever the field says.
        check(IpProtocol::FRAGMENT, "3c00000999887766 00", 1, None);
        check(
            IpProtocol::FRAGMENT,
            "3c000009998877",
            0,
            Some(DropReason::TruncatedL3),
        );
    }
}
