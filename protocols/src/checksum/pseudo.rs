//! Pseudo headers: RFC 9293 section 3.1 (TCP), RFC 768 (UDP), RFC 8200 section 8.1 (IPv6).
//!
//! ```text
//! IPv4: source (4), destination (4), zero (1), protocol (1), transport length (2)
//! IPv6: source (16), destination (16), transport length (4), zero (3), protocol (1)
//! ```

use super::internet::Sum;
use crate::wire::IpProtocol;
use core::net::{Ipv4Addr, Ipv6Addr};

/// The sum over an IPv4 pseudo header; `length` counts the transport header and its payload.
#[inline(always)]
pub const fn pseudo_ipv4(
    source: Ipv4Addr,
    destination: Ipv4Addr,
    protocol: IpProtocol,
    length: u16,
) -> Sum {
    Sum::ZERO
        .add_field32(source.to_bits())
        .add_field32(destination.to_bits())
        .add_field(protocol.0 as u16)
        .add_field(length)
}

/// The sum over an IPv6 pseudo header; `length` counts the transport header and its payload,
/// and `protocol` is the one behind all extension headers.
#[inline(always)]
pub const fn pseudo_ipv6(
    source: Ipv6Addr,
    destination: Ipv6Addr,
    protocol: IpProtocol,
    length: u32,
) -> Sum {
    add128(add128(Sum::ZERO, source.to_bits()), destination.to_bits())
        .add_field32(length)
        .add_field(protocol.0 as u16)
}

#[inline(always)]
const fn add128(sum: Sum, bits: u128) -> Sum {
    sum.add_field32((bits >> 96) as u32)
        .add_field32((bits >> 64) as u32)
        .add_field32((bits >> 32) as u32)
        .add_field32(bits as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::hex;

    #[test]
    fn sums_are_those_of_the_bytes() {
        let source = Ipv4Addr::new(10, 0, 0, 1);
        let destination = Ipv4Addr::new(192, 168, 255, 254);
        let sum = pseudo_ipv4(source, destination, IpProtocol::UDP, 0x1234);
        assert_eq!(
            sum.fold(),
            Sum::of(&hex("0a000001 c0a8fffe 0011 1234")).fold()
        );

        let source: Ipv6Addr = "fe80::1:2".parse().unwrap();
        let destination: Ipv6Addr = "ff02::1:ff00:3".parse().unwrap();
        let sum = pseudo_ipv6(source, destination, IpProtocol::ICMPV6, 0x0001_0020);
        let bytes = hex(
            "fe800000000000000000000000010002 ff0200000000000000000001ff000003
             00010020 0000003a",
        );
        assert_eq!(sum.fold(), Sum::of(&bytes).fold());
    }
}
