//! A path, as a request describes it. InfiniBand Architecture Specification volume 1, section
//! 12.6.5.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------------------------------+-------------------------------+
//! |           local LID           |          remote LID           |
//! +-------------------------------+-------------------------------+
//! |                         local GID (16)                        |
//! +---------------------------------------------------------------+
//! |                        remote GID (16)                        |
//! +---------------------------------------+-----------+-----------+
//! |              flow label               | reserved  |   rate    |
//! +---------------+---------------+-------+-+-----+---+-----+-----+
//! | traffic class |   hop limit   |  SL   |S|rsvd | timeout |rsvd |
//! +---------------+---------------+-------+-+-----+---------+-----+
//! ```
//! SL: service level. S: within one subnet. Timeout: of acknowledgements, 4.096 us times 2 to it.
//! Local and remote as the sender of the request sees them. LIDs are 0xffff on RoCE.

use super::Bits;
use crate::wire::{FlowLabel, Gid, TrafficClass};
use core::fmt;
use zerocopy::byteorder::network_endian::{U16, U32};

wire_header! {
    /// The path as it lies in a message: any bits.
    Header: 44 bytes, else MadLength {
        /// Local identifier of the sender's port.
        local_lid: U16,
        /// Local identifier of the receiver's port.
        remote_lid: U16,
        /// The sender's port.
        local_gid: [u8; 16],
        /// The receiver's port.
        remote_gid: [u8; 16],
        /// Flow label and packet rate.
        flow_rate: U32,
        /// Traffic class.
        traffic_class: u8,
        /// Hop limit.
        hop_limit: u8,
        /// Service level, and whether the path stays in the subnet.
        level: u8,
        /// Timeout of acknowledgements.
        timeout: u8,
    }
}

/// A path.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Repr {
    /// Local identifier of the sender's port.
    pub local_lid: u16,
    /// Local identifier of the receiver's port.
    pub remote_lid: u16,
    /// The sender's port.
    pub local_gid: Gid,
    /// The receiver's port.
    pub remote_gid: Gid,
    /// Flow label.
    pub flow_label: FlowLabel,
    /// Packet rate, coded; 0 on RoCE.
    pub packet_rate: Bits<6>,
    /// Traffic class.
    pub traffic_class: TrafficClass,
    /// Hop limit.
    pub hop_limit: u8,
    /// Service level.
    pub service_level: Bits<4>,
    /// The path stays in the subnet.
    pub is_subnet_local: bool,
    /// Timeout of acknowledgements: 4.096 us times 2 to it.
    pub ack_timeout: Bits<5>,
}

/// The local identifier of ports that have none.
pub const NO_LID: u16 = 0xffff;

impl Repr {
    /// Reads a path; reserved bits are ignored.
    pub const fn parse(header: &Header) -> Self {
        let flow_rate = header.flow_rate.get();
        Self {
            local_lid: header.local_lid.get(),
            remote_lid: header.remote_lid.get(),
            local_gid: Gid(header.local_gid),
            remote_gid: Gid(header.remote_gid),
            flow_label: match FlowLabel::new(flow_rate >> 12) {
                Some(label) => label,
                None => FlowLabel::ZERO,
            },
            packet_rate: Bits::of(flow_rate as u8, 0),
            traffic_class: TrafficClass(header.traffic_class),
            hop_limit: header.hop_limit,
            service_level: Bits::of(header.level, 4),
            is_subnet_local: header.level & SUBNET_LOCAL != 0,
            ack_timeout: Bits::of(header.timeout, 3),
        }
    }

    /// The path by value.
    pub const fn header(&self) -> Header {
        let local = if self.is_subnet_local {
            SUBNET_LOCAL
        } else {
            0
        };
        Header {
            local_lid: U16::new(self.local_lid),
            remote_lid: U16::new(self.remote_lid),
            local_gid: self.local_gid.0,
            remote_gid: self.remote_gid.0,
            flow_rate: U32::new(self.flow_label.value() << 12 | self.packet_rate.value() as u32),
            traffic_class: self.traffic_class.0,
            hop_limit: self.hop_limit,
            level: self.service_level.value() << 4 | local,
            timeout: self.ack_timeout.value() << 3,
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} to {}", self.local_gid, self.remote_gid)
    }
}

const SUBNET_LOCAL: u8 = 0x08;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DropReason;
    use crate::wire::testing::{check_emit, hex};

    #[test]
    fn a_path_of_soft_roce_and_one_with_every_bit() {
        let soft_roce = "ffffffff 00000000000000000000ffff0a4d0003
                         00000000000000000000ffff0a4d0002 2b04b000 00400098";
        let everywhere = format!("{0} to {0}", ["ffff"; 8].join(":"));
        let full = format!("{} fffff03f fffff8f8", "ff".repeat(36));
        for (text, display) in [
            (soft_roce, "::ffff:10.77.0.3 to ::ffff:10.77.0.2"),
            (full.as_str(), everywhere.as_str()),
        ] {
            let bytes = hex(text);
            let repr = Repr::parse(Header::split(&bytes).unwrap().0);
            assert_eq!(check_emit(44, |buffer| repr.emit(buffer)), bytes);
            assert_eq!(repr.to_string(), display);
        }
        let bytes = hex(soft_roce);
        let repr = Repr::parse(Header::split(&bytes).unwrap().0);
        assert_eq!(repr.flow_label.value(), 0x2b04b);
        assert_eq!((repr.hop_limit, repr.ack_timeout.value()), (64, 19));
    }

    #[test]
    fn reserved_bits_are_ignored() {
        let text = format!("{} 00000fc0 00000707", "00".repeat(36));
        let bytes = hex(&text);
        let repr = Repr::parse(Header::split(&bytes).unwrap().0);
        assert_eq!(repr, Repr::default());
        assert_eq!(Header::split(&bytes[..43]), Err(DropReason::MadLength));
    }
}
