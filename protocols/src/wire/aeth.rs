//! Acknowledge extended transport header. InfiniBand Architecture Specification volume 1, sections
//! 9.5.2, 9.7.5.1.2 (syndromes) and 9.7.5.2.8 (timers).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-+---+---------+-----------------------------------------------+
//! |0| T |  value  |           message sequence number             |
//! +-+---+---------+-----------------------------------------------+
//! ```
//! T: 0 acknowledgement, value: credits; 1 receiver not ready, value: timer; 3 negative, value:
//! why.

use crate::DropReason;
use core::fmt;
use zerocopy::byteorder::network_endian::U32;

wire_header! {
    /// The header as it lies on the wire: any bits.
    Header: 4 bytes, else BthLength {
        /// Syndrome in the upper byte, message sequence number in the rest.
        syndrome_msn: U32,
    }
}

/// An acknowledge extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Repr {
    /// What is said.
    pub syndrome: Syndrome,
    /// Messages completed by the responder.
    pub msn: Msn,
}

/// What an acknowledgement says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Syndrome {
    /// All is well.
    Ack(Credits),
    /// No receive is posted: try again after this time.
    ReceiverNotReady(RnrTimer),
    /// A packet was refused.
    Nak(Nak),
}

/// Why a packet was refused.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Nak {
    /// A packet is missing: repeat from the sequence number of this NAK.
    Sequence = 0,
    /// The request breaks the rules.
    InvalidRequest = 1,
    /// Key, range or permission.
    RemoteAccess = 2,
    /// The responder cannot complete the request.
    RemoteOperational = 3,
    /// A reliable datagram rule was broken.
    InvalidRdRequest = 4,
}

impl Repr {
    /// Reads a header.
    ///
    /// # Errors
    /// [`DropReason::AethSyndrome`] for a reserved syndrome.
    pub const fn parse(header: &Header) -> Result<Self, DropReason> {
        let word = header.syndrome_msn.get();
        match Syndrome::new((word >> 24) as u8) {
            Some(syndrome) => Ok(Self {
                syndrome,
                msn: Msn::new(word),
            }),
            None => Err(DropReason::AethSyndrome),
        }
    }

    /// The header by value.
    pub const fn header(&self) -> Header {
        let syndrome = (self.syndrome.value() as u32) << 24;
        Header {
            syndrome_msn: U32::new(syndrome | self.msn.value()),
        }
    }
}

fixed_emit!(Repr, Header);

impl fmt::Display for Repr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.syndrome {
            Syndrome::Ack(_) => f.write_str("ack")?,
            Syndrome::ReceiverNotReady(timer) => {
                write!(f, "receiver not ready, {} us", timer.microseconds())?;
            }
            Syndrome::Nak(nak) => write!(f, "nak {}", nak.name())?,
        }
        write!(f, " msn {}", self.msn.value())
    }
}

impl Syndrome {
    /// `None` if the byte is reserved.
    pub const fn new(byte: u8) -> Option<Self> {
        let value = byte & 0x1f;
        Some(match (byte >> 5, value) {
            (0, _) => Self::Ack(Credits(value)),
            (1, _) => Self::ReceiverNotReady(RnrTimer(value)),
            (3, 0) => Self::Nak(Nak::Sequence),
            (3, 1) => Self::Nak(Nak::InvalidRequest),
            (3, 2) => Self::Nak(Nak::RemoteAccess),
            (3, 3) => Self::Nak(Nak::RemoteOperational),
            (3, 4) => Self::Nak(Nak::InvalidRdRequest),
            _ => return None,
        })
    }

    /// The byte.
    pub const fn value(self) -> u8 {
        match self {
            Self::Ack(credits) => credits.0,
            Self::ReceiverNotReady(timer) => 0x20 | timer.0,
            Self::Nak(nak) => 0x60 | nak as u8,
        }
    }
}

impl Nak {
    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequence => "sequence error",
            Self::InvalidRequest => "invalid request",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperational => "remote operational error",
            Self::InvalidRdRequest => "invalid RD request",
        }
    }
}

/// End-to-end credits, coded: 0 to 31.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Credits(u8);

impl Credits {
    /// The responder does not count credits.
    pub const UNLIMITED: Self = Self(31);

    /// `None` if `code` is above 31.
    pub const fn new(code: u8) -> Option<Self> {
        if code <= 31 { Some(Self(code)) } else { None }
    }

    /// The code.
    pub const fn code(self) -> u8 {
        self.0
    }
}

/// How long a sender waits before it tries again, coded: 0 to 31. Code 0 is the longest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RnrTimer(u8);

impl RnrTimer {
    /// The shortest: 10 us.
    pub const SHORTEST: Self = Self(1);

    /// `None` if `code` is above 31.
    pub const fn new(code: u8) -> Option<Self> {
        if code <= 31 { Some(Self(code)) } else { None }
    }

    /// The code.
    pub const fn code(self) -> u8 {
        self.0
    }

    /// The time in microseconds.
    pub const fn microseconds(self) -> u32 {
        // From code 2 on, values grow in pairs: 2^n and 1.5 * 2^n times 10 us.
        match self.0 {
            0 => 655_360,
            1 => 10,
            code => ((2 + (code as u32 & 1)) * 10) << ((code as u32 - 2) / 2),
        }
    }
}

/// A 24-bit message sequence number. Without an order: it wraps; see [`Msn::is_before`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Msn(u32);

impl Msn {
    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// `count` messages later.
    pub const fn wrapping_add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Messages from `earlier` to `self`: -2^23 to 2^23 - 1.
    pub const fn diff(self, earlier: Self) -> i32 {
        (self.0.wrapping_sub(earlier.0) << 8) as i32 >> 8
    }

    /// Whether `self` comes before `other`. Meaningful within half of the number space.
    pub const fn is_before(self, other: Self) -> bool {
        self.diff(other) < 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{check_emit, hex};
    use super::*;

    #[test]
    fn emit_then_parse() {
        let timer = RnrTimer::new(14).unwrap();
        for (text, syndrome, display) in [
            ("1f000012", Syndrome::Ack(Credits::UNLIMITED), "ack msn 18"),
            (
                "60000012",
                Syndrome::Nak(Nak::Sequence),
                "nak sequence error msn 18",
            ),
            (
                "62000012",
                Syndrome::Nak(Nak::RemoteAccess),
                "nak remote access error msn 18",
            ),
            (
                "2e000012",
                Syndrome::ReceiverNotReady(timer),
                "receiver not ready, 1280 us msn 18",
            ),
        ] {
            let repr = Repr {
                syndrome,
                msn: Msn::new(0x12),
            };
            let bytes = check_emit(4, |buffer| repr.emit(buffer));
            assert_eq!(bytes, hex(text));
            assert_eq!(Repr::parse(Header::split(&bytes).unwrap().0), Ok(repr));
            assert_eq!(repr.to_string(), display);
        }
        assert_eq!(Header::split(&[0; 3]), Err(DropReason::BthLength));
    }

    #[test]
    fn every_byte_is_a_syndrome_or_reserved() {
        let mut legal = 0;
        for byte in 0..=255 {
            if let Some(syndrome) = Syndrome::new(byte) {
                assert_eq!(syndrome.value(), byte);
                legal += 1;
            }
        }
        assert_eq!(legal, 32 + 32 + 5);
        let bytes = [0x65, 0, 0, 0];
        let parsed = Repr::parse(Header::split(&bytes).unwrap().0);
        assert_eq!(parsed, Err(DropReason::AethSyndrome));
    }

    #[test]
    fn timers_are_those_of_the_table() {
        // Table 45, in hundredths of a millisecond.
        let table = [
            65536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768,
            1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152,
        ];
        for (code, expected) in table.into_iter().enumerate() {
            let timer = RnrTimer::new(code as u8).unwrap();
            assert_eq!(timer.microseconds(), expected * 10, "code {code}");
        }
        assert_eq!(RnrTimer::new(32), None);
        assert_eq!(Credits::new(32), None);
    }

    #[test]
    fn message_numbers_wrap_at_24_bits() {
        let (before, after) = (Msn::new(0xff_ffff), Msn::new(1));
        assert_eq!(before.wrapping_add(2), after);
        assert_eq!(before.diff(after), -2);
        assert!(before.is_before(after) && !after.is_before(before));
    }
}
