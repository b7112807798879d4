//! VLAN tags. IEEE 802.1Q-2022 clause 9.6; stacked service tags (802.1ad) are the same four bytes
//! behind another type.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-----+-+-----------------------+-------------------------------+
//! | PCP |D|         VLAN id       |  type of what follows         |
//! +-----+-+-----------------------+-------------------------------+
//! ```
//! D: drop eligible (DEI). The type that announces the tag (0x8100, 0x88a8) lies in the two bytes
//! before it.

use super::EtherType;
use core::fmt;
use zerocopy::byteorder::network_endian::U16;

wire_header! {
    /// A tag as it lies on the wire, after the type that announced it: any bits.
    Header: 4 bytes, else TruncatedL2 {
        /// Priority, drop eligibility and VLAN id.
        control: U16,
        /// The type of what follows.
        type_or_length: U16,
    }
}

impl Header {
    /// Priority, drop eligibility and VLAN id.
    pub const fn control(&self) -> TagControl {
        TagControl(self.control.get())
    }

    /// The type of what follows.
    pub const fn ether_type(&self) -> EtherType {
        EtherType(self.type_or_length.get())
    }
}

/// A tag; every pattern of its bits is legal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// Priority, drop eligibility and VLAN id.
    pub control: TagControl,
    /// The type of what follows.
    pub ether_type: EtherType,
}

impl Repr {
    /// Reads a tag.
    pub const fn parse(header: &Header) -> Self {
        Self {
            control: header.control(),
            ether_type: header.ether_type(),
        }
    }

    /// The tag by value.
    pub const fn header(&self) -> Header {
        Header {
            control: U16::new(self.control.0),
            type_or_length: U16::new(self.ether_type.0),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.control, self.ether_type)
    }
}

/// A VLAN id: 0 (priority only) to 4095 (reserved).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct VlanId(u16);

impl VlanId {
    /// The largest value.
    pub const MAX: u16 = 4095;

    /// `None` if `value` is above 4095.
    pub const fn new(value: u16) -> Option<Self> {
        if value <= Self::MAX {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The value.
    pub const fn value(self) -> u16 {
        self.0
    }
}

/// The tag control information: priority, drop eligibility and VLAN id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct TagControl(pub u16);

impl TagControl {
    /// Joins the fields; of `priority` only the low three bits count.
    pub const fn new(priority: u8, drop_eligible: bool, id: VlanId) -> Self {
        Self((priority as u16 & 7) << 13 | (drop_eligible as u16) << 12 | id.0)
    }

    /// The priority code point, 0 to 7.
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }

    /// Whether the frame may be dropped first.
    pub const fn drop_eligible(self) -> bool {
        self.0 & 0x1000 != 0
    }

    /// The VLAN id.
    pub const fn id(self) -> VlanId {
        VlanId(self.0 & 0x0fff)
    }
}

impl fmt::Display for TagControl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "vlan {} priority {}", self.id().value(), self.priority())?;
        if self.drop_eligible() {
            f.write_str(" drop-eligible")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;
    use crate::DropReason;

    #[test]
    fn emit_then_parse() {
        for (bytes, priority, drop_eligible, id, ether_type) in [
            ("0020 0800", 0, false, 32, EtherType::IPV4),
            ("e064 8100", 7, false, 100, EtherType::VLAN),
            ("bfff 86dd", 5, true, 4095, EtherType::IPV6),
        ] {
            let control = TagControl::new(priority, drop_eligible, VlanId::new(id).unwrap());
            let repr = Repr {
                control,
                ether_type,
            };
            let emitted = check_emit(repr.length(), |buffer| repr.emit(buffer));
            assert_eq!(emitted, hex(bytes));
            let (header, rest) = Header::split(&emitted).unwrap();
            assert!(rest.is_empty());
            assert_eq!(Repr::parse(header), repr);
            assert_eq!(control.priority(), priority);
            assert_eq!(control.drop_eligible(), drop_eligible);
            assert_eq!(control.id().value(), id);
        }
    }

    #[test]
    fn limits() {
        assert_eq!(VlanId::new(4096), None);
        assert_eq!(Header::split(&[0; 3]), Err(DropReason::TruncatedL2));
        let control = TagControl::new(3, true, VlanId::new(7).unwrap());
        assert_eq!(control.to_string(), "vlan 7 priority 3 drop-eligible");
    }
}
