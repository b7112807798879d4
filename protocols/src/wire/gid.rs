//! Global identifiers. InfiniBand Architecture Specification volume 1, section 4.1; annex A17.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

/// Who a port is: on RoCEv2 an IP address; an IPv4 one as `::ffff:a.b.c.d`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Gid(pub [u8; 16]);

impl Gid {
    /// The identifier of an address.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self(address.to_ipv6_mapped().octets()),
            IpAddr::V6(address) => Self(address.octets()),
        }
    }

    /// The address that packets go to.
    pub const fn address(self) -> IpAddr {
        let address = Ipv6Addr::from_octets(self.0);
        match address.to_ipv4_mapped() {
            Some(address) => IpAddr::V4(address),
            None => IpAddr::V6(address),
        }
    }

    /// Whether a connection can have an end there: not with nobody, and not with many.
    pub const fn is_unicast(self) -> bool {
        match self.address() {
            IpAddr::V4(address) => {
                !address.is_unspecified() && !address.is_multicast() && !address.is_broadcast()
            }
            IpAddr::V6(address) => !address.is_unspecified() && !address.is_multicast(),
        }
    }
}

impl fmt::Display for Gid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ipv6Addr::from_octets(self.0).fmt(f)
    }
}

/// A 64-bit identifier of an adapter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct Guid(pub u64);

impl fmt::Display for Guid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_become_identifiers_and_come_back() {
        for (address, text, is_unicast) in [
            ("10.77.0.2", "::ffff:10.77.0.2", true),
            ("0.0.0.0", "::ffff:0.0.0.0", false),
            ("224.0.0.1", "::ffff:224.0.0.1", false),
            ("255.255.255.255", "::ffff:255.255.255.255", false),
            ("fd77::2", "fd77::2", true),
            ("::", "::", false),
            ("ff02::1", "ff02::1", false),
        ] {
            let address: IpAddr = address.parse().unwrap();
            let gid = Gid::of(address);
            assert_eq!(gid.address(), address);
            assert_eq!(gid.to_string(), text);
            assert_eq!(gid.is_unicast(), is_unicast, "{text}");
        }
        assert_eq!(Guid(0x5054_00ff_fe77_0003).to_string(), "505400fffe770003");
    }
}
