//! The IP addresses of a connection, at the start of a request's private data. InfiniBand
//! Architecture Specification volume 1, annex A11.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+-------+-------+-------------------------------+
//! |    version    | IP v. | rsvd  |          source port          |
//! +---------------+-------+-------+-------------------------------+
//! |                       source address (16)                     |
//! +---------------------------------------------------------------+
//! |                    destination address (16)                   |
//! +---------------------------------------------------------------+
//! ```
//! Version: 0. An IPv4 address lies in the last 4 of its 16 bytes, behind zeros.

use crate::DropReason;
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use zerocopy::byteorder::network_endian::U16;

wire_header! {
    /// The header as it lies in private data: any bits.
    Header: 36 bytes, else CmField {
        /// Version of the header.
        version: u8,
        /// IP version in the upper four bits.
        ip_version: u8,
        /// Source port.
        source_port: U16,
        /// Source address.
        source: [u8; 16],
        /// Destination address.
        destination: [u8; 16],
    }
}

/// Two addresses of one family.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Addresses {
    /// IPv4.
    V4 {
        /// Who asks.
        source: Ipv4Addr,
        /// Who is asked.
        destination: Ipv4Addr,
    },
    /// IPv6.
    V6 {
        /// Who asks.
        source: Ipv6Addr,
        /// Who is asked.
        destination: Ipv6Addr,
    },
}

impl Addresses {
    /// `None` if the two are of different families.
    pub const fn new(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Self::V4 {
                source,
                destination,
            }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Self::V6 {
                source,
                destination,
            }),
            _ => None,
        }
    }

    /// Who asks.
    pub const fn source(&self) -> IpAddr {
        match self {
            Self::V4 { source, .. } => IpAddr::V4(*source),
            Self::V6 { source, .. } => IpAddr::V6(*source),
        }
    }

    /// Who is asked.
    pub const fn destination(&self) -> IpAddr {
        match self {
            Self::V4 { destination, .. } => IpAddr::V4(*destination),
            Self::V6 { destination, .. } => IpAddr::V6(*destination),
        }
    }
}

/// The addresses of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Repr {
    /// The port of who asks.
    pub source_port: u16,
    /// Both addresses.
    pub addresses: Addresses,
}

impl Repr {
    /// Reads a header; reserved bits and the bytes before an IPv4 address are ignored.
    ///
    /// # Errors
    /// [`DropReason::CmField`] if it is of another version, or of an unknown IP version.
    pub const fn parse(header: &Header) -> Result<Self, DropReason> {
        if header.version != 0 {
            return Err(DropReason::CmField);
        }
        let addresses = match header.ip_version >> 4 {
            4 => Addresses::V4 {
                source: last_four(header.source),
                destination: last_four(header.destination),
            },
            6 => Addresses::V6 {
                source: Ipv6Addr::from_octets(header.source),
                destination: Ipv6Addr::from_octets(header.destination),
            },
            _ => return Err(DropReason::CmField),
        };
        Ok(Self {
            source_port: header.source_port.get(),
            addresses,
        })
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        let (ip_version, source, destination) = match self.addresses {
            Addresses::V4 {
                source,
                destination,
            } => (0x40, behind_zeros(source), behind_zeros(destination)),
            Addresses::V6 {
                source,
                destination,
            } => (0x60, source.octets(), destination.octets()),
        };
        Header {
            version: 0,
            ip_version,
            source_port: U16::new(self.source_port),
            source,
            destination,
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (source, destination) = (self.addresses.source(), self.addresses.destination());
        write!(
            f,
            "from {source} port {} to {destination}",
            self.source_port
        )
    }
}

const fn last_four(bytes: [u8; 16]) -> Ipv4Addr {
    let word = u128::from_be_bytes(bytes) as u32;
    Ipv4Addr::from_bits(word)
}

const fn behind_zeros(address: Ipv4Addr) -> [u8; 16] {
    (address.to_bits() as u128).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::testing::{check_emit, hex};

    #[test]
    fn the_headers_of_rping() {
        for (text, display) in [
            (
                "004086e6 0000000000000000000000000a4d0003 0000000000000000000000000a4d0002",
                "from 10.77.0.3 port 34534 to 10.77.0.2",
            ),
            (
                "0060e567 fd770000000000000000000000000003 fd770000000000000000000000000002",
                "from fd77::3 port 58727 to fd77::2",
            ),
        ] {
            let bytes = hex(text);
            let repr = Repr::parse(Header::split(&bytes).unwrap().0).unwrap();
            assert_eq!(repr.to_string(), display);
            assert_eq!(check_emit(36, |buffer| repr.emit(buffer)), bytes);
        }
    }

    #[test]
    fn what_is_refused() {
        let addresses = "0000000000000000000000000a4d0003 0000000000000000000000000a4d0002";
        for start in ["014086e6", "005086e6", "000086e6"] {
            let bytes = hex(&format!("{start} {addresses}"));
            let parsed = Repr::parse(Header::split(&bytes).unwrap().0);
            assert_eq!(parsed, Err(DropReason::CmField), "{start}");
        }
        assert_eq!(Header::split(&[0; 35]), Err(DropReason::CmField));
        let (four, six) = ("10.0.0.1".parse().unwrap(), "::1".parse().unwrap());
        assert_eq!(Addresses::new(four, six), None);
        assert_eq!(Addresses::new(four, four).unwrap().source(), four);
        assert_eq!(Addresses::new(six, six).unwrap().destination(), six);
    }
}
