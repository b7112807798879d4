//! Addresses of memory that the NIC, the host and the device share.

use core::fmt;

/// An address in the address space of the code that runs the rings.
///
/// It is a number, not a pointer: holding one gives no right to read. The only code that turns it
/// into an access is [`crate::memory`], on behalf of a queue whose memory the host promised at
/// set-up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct DeviceAddress(u64);

impl DeviceAddress {
    /// The address that points nowhere.
    pub const NULL: Self = Self(0);

    /// Wraps a raw number of bytes from address zero.
    pub const fn new(address: u64) -> Self {
        Self(address)
    }

    /// The raw number.
    pub const fn value(self) -> u64 {
        self.0
    }

    /// The address `bytes` further on; wraps at 2^64.
    #[inline(always)]
    pub const fn offset(self, bytes: u64) -> Self {
        Self(self.0.wrapping_add(bytes))
    }

    /// Whether the address is a multiple of `alignment`, a power of two.
    #[inline(always)]
    pub const fn is_aligned(self, alignment: u64) -> bool {
        self.0 & (alignment - 1) == 0
    }

    /// Whether this is [`Self::NULL`].
    pub const fn is_null(self) -> bool {
        self.0 == 0
    }
}

impl fmt::Debug for DeviceAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}
