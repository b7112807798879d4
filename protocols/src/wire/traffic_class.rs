//! The IPv4 TOS byte and the IPv6 traffic class. RFC 2474 section 3, RFC 3168 section 5.
//!
//! ```text
//!   0   1   2   3   4   5   6   7
//! +---+---+---+---+---+---+---+---+
//! |         DSCP          |  ECN  |
//! +---+---+---+---+---+---+---+---+
//! ```

use core::fmt;

/// A differentiated services code point: 0 to 63.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Dscp(u8);

impl Dscp {
    /// The largest value.
    pub const MAX: u8 = 63;

    /// `None` if `value` is above 63.
    pub const fn new(value: u8) -> Option<Self> {
        if value <= Self::MAX {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The value.
    pub const fn value(self) -> u8 {
        self.0
    }
}

/// Explicit congestion notification.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The sender does not take part.
    #[default]
    NotCapable = 0,
    /// ECT(1).
    Capable1 = 1,
    /// ECT(0), what RoCEv2 senders set.
    Capable0 = 2,
    /// Congestion was met on the way.
    CongestionExperienced = 3,
}

/// DSCP and ECN together.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(transparent)]
pub struct TrafficClass(pub u8);

impl TrafficClass {
    /// Joins the two fields.
    pub const fn new(dscp: Dscp, ecn: Ecn) -> Self {
        Self(dscp.0 << 2 | ecn as u8)
    }

    /// The code point.
    pub const fn dscp(self) -> Dscp {
        Dscp(self.0 >> 2)
    }

    /// The congestion field.
    pub const fn ecn(self) -> Ecn {
        match self.0 & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Capable1,
            2 => Ecn::Capable0,
            _ => Ecn::CongestionExperienced,
        }
    }
}

impl fmt::Display for TrafficClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "dscp {} ecn {}", self.0 >> 2, self.0 & 3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_splits_and_joins() {
        for byte in 0..=255 {
            let class = TrafficClass(byte);
            assert_eq!(TrafficClass::new(class.dscp(), class.ecn()), class);
            assert_eq!(class.dscp().value(), byte >> 2);
            assert_eq!(class.ecn() as u8, byte & 3);
        }
        assert_eq!(Dscp::new(63).map(Dscp::value), Some(63));
        assert_eq!(Dscp::new(64), None);
    }
}
