//! ARP for IPv4 over Ethernet. RFC 826.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |  hardware type (1: Ethernet)  |  protocol type (0x0800: IPv4) |
//! +---------------+---------------+-------------------------------+
//! | hw length (6) |pr. length (4) |  operation (1 asks, 2 answers)|
//! +---------------+---------------+-------------------------------+
//! |                    sender hardware address                    |
//! |                               +-------------------------------+
//! |                               | sender protocol address (high)|
//! +-------------------------------+-------------------------------+
//! | sender protocol address (low) |    target hardware address    |
//! +-------------------------------+                               |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                    target protocol address                    |
//! +---------------------------------------------------------------+
//! ```

use super::{EtherType, MacAddress};
use crate::DropReason;
use core::fmt;
use core::net::Ipv4Addr;
use zerocopy::byteorder::network_endian::U16;

wire_header! {
    /// The packet as it lies on the wire: any bits.
    Header: 28 bytes, else TruncatedL3 {
        /// Hardware type.
        hardware_type: U16,
        /// Protocol type, an Ethernet type.
        protocol_type: U16,
        /// Bytes of a hardware address.
        hardware_length: u8,
        /// Bytes of a protocol address.
        protocol_length: u8,
        /// Operation.
        operation: U16,
        /// Hardware address of the sender.
        sender_hardware: MacAddress,
        /// Protocol address of the sender.
        sender: [u8; 4],
        /// Hardware address of the target.
        target_hardware: MacAddress,
        /// Protocol address of the target.
        target: [u8; 4],
    }
}

/// What an ARP packet wants.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Operation {
    /// Who has the target address?
    Request = 1,
    /// The sender has its address.
    Reply = 2,
}

/// An ARP packet for IPv4 over Ethernet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Request or reply.
    pub operation: Operation,
    /// Hardware address of the sender.
    pub sender_hardware: MacAddress,
    /// IPv4 address of the sender.
    pub sender: Ipv4Addr,
    /// Hardware address of the target; zero in a request.
    pub target_hardware: MacAddress,
    /// IPv4 address of the target.
    pub target: Ipv4Addr,
}

impl Repr {
    /// Reads a packet.
    ///
    /// # Errors
    /// [`DropReason::ArpFormat`] for other address types or operations.
    pub const fn parse(header: &Header) -> Result<Self, DropReason> {
        let is_ethernet = header.hardware_type.get() == 1 && header.hardware_length == 6;
        let is_ipv4 =
            header.protocol_type.get() == EtherType::IPV4.0 && header.protocol_length == 4;
        if !is_ethernet || !is_ipv4 {
            return Err(DropReason::ArpFormat);
        }
        let operation = match header.operation.get() {
            1 => Operation::Request,
            2 => Operation::Reply,
            _ => return Err(DropReason::ArpFormat),
        };
        Ok(Self {
            operation,
            sender_hardware: header.sender_hardware,
            sender: address(header.sender),
            target_hardware: header.target_hardware,
            target: address(header.target),
        })
    }

    /// The answer to this request from the holder of the target address.
    pub const fn answer(&self, hardware: MacAddress) -> Self {
        Self {
            operation: Operation::Reply,
            sender_hardware: hardware,
            sender: self.target,
            target_hardware: self.sender_hardware,
            target: self.sender,
        }
    }

    /// The packet by value.
    pub const fn header(&self) -> Header {
        Header {
            hardware_type: U16::new(1),
            protocol_type: U16::new(EtherType::IPV4.0),
            hardware_length: 6,
            protocol_length: 4,
            operation: U16::new(self.operation as u16),
            sender_hardware: self.sender_hardware,
            sender: self.sender.octets(),
            target_hardware: self.target_hardware,
            target: self.target.octets(),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.operation {
            Operation::Request => write!(f, "who has {}? tell {}", self.target, self.sender),
            Operation::Reply => write!(f, "{} is at {}", self.sender, self.sender_hardware),
        }
    }
}

const fn address([a, b, c, d]: [u8; 4]) -> Ipv4Addr {
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    const REQUEST: &str = "0001 0800 06 04 0001 525400770003 0a4d0003 000000000000 0a4d0002";

    fn request() -> Repr {
        Repr {
            operation: Operation::Request,
            sender_hardware: MacAddress([0x52, 0x54, 0, 0x77, 0, 3]),
            sender: Ipv4Addr::new(10, 77, 0, 3),
            target_hardware: MacAddress::default(),
            target: Ipv4Addr::new(10, 77, 0, 2),
        }
    }

    #[test]
    fn request_and_answer() {
        let repr = request();
        assert_eq!(check_emit(28, |buffer| repr.emit(buffer)), hex(REQUEST));
        let bytes = hex(REQUEST);
        let (header, _) = Header::split(&bytes).unwrap();
        assert_eq!(Repr::parse(header), Ok(repr));

        let answer = repr.answer(MacAddress([0x52, 0x54, 0, 0x77, 0, 2]));
        let bytes = check_emit(28, |buffer| answer.emit(buffer));
        assert_eq!(
            bytes,
            hex("0001 0800 06 04 0002 525400770002 0a4d0002 525400770003 0a4d0003")
        );
        assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Ok(answer));
        assert_eq!(repr.to_string(), "who has 10.77.0.2? tell 10.77.0.3");
        assert_eq!(answer.to_string(), "10.77.0.2 is at 52:54:00:77:00:02");
    }

    #[test]
    fn other_formats_are_refused() {
        for (at, byte) in [(1, 6), (2, 9), (4, 8), (5, 16), (7, 3), (7, 0)] {
            let mut bytes = hex(REQUEST);
            bytes[at] = byte;
            let (header, _) = Header::split(&bytes).unwrap();
            assert_eq!(Repr::parse(header), Err(DropReason::ArpFormat), "byte {at}");
        }
        assert_eq!(Header::split(&[0; 27]), Err(DropReason::TruncatedL3));
    }
}
