//! IP protocol numbers (IANA "Assigned Internet Protocol Numbers"), shared by IPv4 and IPv6.

use core::fmt;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An IP protocol number, which is also an IPv6 next header value.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    Debug,
    Default,
    FromBytes,
    IntoBytes,
    Immutable,
    KnownLayout,
    Unaligned,
)]
#[repr(transparent)]
pub struct IpProtocol(pub u8);

impl IpProtocol {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: Self = Self(0);
    /// ICMP for IPv4.
    pub const ICMPV4: Self = Self(1);
    /// IGMP.
    pub const IGMP: Self = Self(2);
    /// TCP.
    pub const TCP: Self = Self(6);
    /// UDP.
    pub const UDP: Self = Self(17);
    /// IPv6 routing header.
    pub const ROUTING: Self = Self(43);
    /// IPv6 fragment header.
    pub const FRAGMENT: Self = Self(44);
    /// GRE.
    pub const GRE: Self = Self(47);
    /// ICMP for IPv6.
    pub const ICMPV6: Self = Self(58);
    /// No next header (IPv6).
    pub const NO_NEXT_HEADER: Self = Self(59);
    /// IPv6 destination options.
    pub const DESTINATION_OPTIONS: Self = Self(60);

    /// The name, or `None` for a number without one here.
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::HOP_BY_HOP => "hop-by-hop",
            Self::ICMPV4 => "ICMP",
            Self::IGMP => "IGMP",
            Self::TCP => "TCP",
            Self::UDP => "UDP",
            Self::ROUTING => "routing",
            Self::FRAGMENT => "fragment",
            Self::GRE => "GRE",
            Self::ICMPV6 => "ICMPv6",
            Self::NO_NEXT_HEADER => "none",
            Self::DESTINATION_OPTIONS => "destination-options",
            _ => return None,
        })
    }
}

impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "protocol {}", self.0),
        }
    }
}
