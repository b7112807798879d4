//! Wire formats, one header a file.
//!
//! Each file holds the spec section, a bit table, a zerocopy struct `Header` (the view: it lies
//! over the bytes and holds any bits without loss), and a `Repr` that holds legal values only,
//! with `parse`, `length`, `header` (the bytes by value, for device code that stores them as
//! words) and `emit`. `emit` writes every byte that it counts, reserved ones too.
//!
//! No function here panics, whatever the bytes.

use core::fmt;
use zerocopy::{Immutable, IntoBytes};

/// Declares a header struct over wire bytes, its size assertion, and `split`.
macro_rules! wire_header {
    (
        $(#[$meta:meta])*
        $name:ident: $length:literal bytes, else $short:ident {
            $($(#[$field_meta:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, PartialEq, Eq, Debug,
            zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::Immutable,
            zerocopy::KnownLayout, zerocopy::Unaligned,
        )]
        #[repr(C)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)*
        }

        const _: () = assert!(size_of::<$name>() == $length);

        impl $name {
            /// Bytes of the header.
            pub const LENGTH: usize = $length;

            #[doc = concat!("The header and what follows it; [`DropReason::", stringify!($short),
                "`](crate::DropReason::", stringify!($short), ") if `bytes` are too few.")]
            ///
            /// # Errors
            /// The reason above.
            pub fn split(bytes: &[u8]) -> Result<(&Self, &[u8]), crate::DropReason> {
                zerocopy::FromBytes::ref_from_prefix(bytes)
                    .map_err(|_| crate::DropReason::$short)
            }
        }
    };
}

/// Gives a `Repr` of fixed size, which has `header()`, its `length` and `emit`.
macro_rules! fixed_emit {
    ($repr:ident, $header:ident) => {
        impl $repr {
            /// Bytes that `emit` writes.
            pub const fn length(&self) -> usize {
                $header::LENGTH
            }

            /// Writes the header to the start of `buffer`; returns the bytes written.
            ///
            /// # Errors
            /// [`BufferTooShort`](crate::wire::BufferTooShort) if `buffer` cannot hold it.
            pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, crate::wire::BufferTooShort> {
                crate::wire::emit_header(&self.header(), buffer)
            }
        }
    };
}

pub mod aeth;
pub mod arp;
pub mod atomic_ack_eth;
pub mod atomic_eth;
pub mod bth;
pub mod cm;
pub mod cnp;
pub mod deth;
pub mod ethernet;
pub mod feth;
mod gid;
pub mod icmpv4;
pub mod icmpv6;
pub mod ieth;
pub mod imm_dt;
pub mod ipv4;
pub mod ipv6;
pub mod ipv6_extension;
pub mod ipv6_fragment;
pub mod ipv6_options;
pub mod ipv6_routing;
pub mod mad;
pub mod ndp_neighbor;
pub mod ndp_option;
pub mod ndp_redirect;
pub mod ndp_router;
pub mod opcode;
mod protocol;
pub mod reth;
pub mod tcp;
pub mod tcp_option;
mod traffic_class;
pub mod udp;
pub mod vlan;
pub mod vxlan;

pub use bth::{PKey, Psn, Qpn};
pub use ethernet::{EtherType, MacAddress};
pub use gid::{Gid, Guid};
pub use ipv6::FlowLabel;
pub use opcode::Opcode;
pub use protocol::IpProtocol;
pub use tcp::{TcpFlags, TcpSequence};
pub use traffic_class::{Dscp, Ecn, TrafficClass};
pub use vlan::{TagControl, VlanId};
pub use vxlan::Vni;

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
