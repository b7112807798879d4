//! InfiniBand base transport header, as RoCEv2 carries it behind UDP port 4791.

use core::fmt;

/// The UDP destination port of RoCEv2.
pub const UDP_PORT: u16 = 4791;

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 12;

/// The bits of the second byte that hold the transport version, which is 0.
pub const VERSION_MASK: u8 = 0x0f;

/// Bytes of the invariant CRC at the end of every packet.
pub const ICRC_LENGTH: usize = 4;

/// A 24-bit packet sequence number. Without an order: it wraps; see [`Psn::is_before`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Psn(u32);

impl Psn {
    const MASK: u32 = 0x00ff_ffff;

    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & Self::MASK)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }

    /// `count` packets later.
    pub const fn wrapping_add(self, count: u32) -> Self {
        Self::new(self.0.wrapping_add(count))
    }

    /// Packets from `earlier` to `self`: -2^23 to 2^23 - 1.
    pub const fn diff(self, earlier: Self) -> i32 {
        (self.0.wrapping_sub(earlier.0) << 8) as i32 >> 8
    }

    /// Whether `self` comes before `other`. Meaningful within half of the number space.
    pub const fn is_before(self, other: Self) -> bool {
        self.diff(other) < 0
    }
}

impl fmt::Display for Psn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}

/// A 24-bit queue pair number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Qpn(u32);

impl Qpn {
    /// The general services interface: connection management.
    pub const GSI: Self = Self(1);

    /// The low 24 bits of `value`.
    pub const fn new(value: u32) -> Self {
        Self(value & 0x00ff_ffff)
    }

    /// The value, below 2^24.
    pub const fn value(self) -> u32 {
        self.0
    }
}

impl fmt::Display for Qpn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#08x}", self.0)
    }
}
