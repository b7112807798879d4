//! Wire formats, one header a file.
//!
//! Each file holds the spec section, a bit table, a zerocopy struct (`Header`: the view, which
//! holds any bits without loss), and a `Repr` that holds legal values only, with `parse`,
//! `header` (the bytes by value, for device code that stores them in words) and `emit`.

use core::fmt;
use zerocopy::{Immutable, IntoBytes};

pub mod bth;
pub mod ethernet;
mod protocol;
pub mod tcp;
mod traffic_class;
pub mod vlan;
pub mod vxlan;

pub use bth::{Psn, Qpn};
pub use ethernet::{EtherType, MacAddress};
pub use protocol::IpProtocol;
pub use tcp::TcpFlags;
pub use traffic_class::{Dscp, Ecn, TrafficClass};
pub use vlan::{TagControl, VlanId};

/// The buffer given to an `emit` cannot hold the header. The caller's fault, never a peer's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BufferTooShort {
    /// Bytes that the header takes.
    pub need: usize,
    /// Bytes that the buffer has.
    pub have: usize,
}

impl fmt::Display for BufferTooShort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the header takes {} bytes, the buffer has {}",
            self.need, self.have
        )
    }
}

impl core::error::Error for BufferTooShort {}

/// Writes a header to the start of `buffer`; returns the bytes written.
fn emit_header<T>(header: &T, buffer: &mut [u8]) -> Result<usize, BufferTooShort>
where
    T: IntoBytes + Immutable,
{
    let need = size_of::<T>();
    let have = buffer.len();
    match header.write_to_prefix(buffer) {
        Ok(()) => Ok(need),
        Err(_) => Err(BufferTooShort { need, have }),
    }
}

#[cfg(test)]
pub(crate) mod testing;
