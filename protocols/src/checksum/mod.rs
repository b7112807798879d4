//! Checksums: the internet checksum, CRC-32, and the invariant CRC of RoCE.
//!
//! What to do about a checksum is a value ([`Fill`] when sending, [`Policy`] when receiving) that
//! is made from what a NIC can do, and never a property of the build.

mod crc32;
pub mod icrc;
mod internet;
mod patch;
mod pseudo;
mod transport;
mod verdict;

#[cfg(feature = "host")]
pub use crc32::Host;
pub use crc32::{Arithmetic, Crc32, Engine, MOST_HEADER_WORDS, Shift, combine};
pub use internet::{PiecewiseSum, Sum};
pub use patch::{patch_bytes, patch_udp16, patch_udp32, patch16, patch32};
pub use pseudo::{pseudo_ipv4, pseudo_ipv6};
pub use transport::transport_state;
pub use verdict::{ChecksumState, Policy, judge, judge_udp};

/// What goes into a transport checksum field.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// The checksum over the pseudo header, the header and this payload.
    Compute {
        /// The sum over all that follows the header, which starts at an even offset.
        payload: Sum,
    },
    /// The folded sum over the pseudo header only: the NIC, or the kernel behind a virtual
    /// device, completes it. For ICMPv4, which has no pseudo header, this is zero.
    Partial,
    /// Zero: no checksum. Legal for UDP over IPv4, and for RoCEv2 and VXLAN over either.
    Absent,
}

/// What a receiver checks; the rest was checked by the NIC. Made from what the NIC can do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReceiveChecks {
    /// The IPv4 header checksum is verified.
    pub ipv4_header: bool,
    /// What is done about TCP, UDP and ICMP checksums.
    pub transport: Policy,
    /// The invariant CRC of RoCE packets is verified. No NIC does it for raw packets.
    pub icrc: bool,
}

impl Default for ReceiveChecks {
    /// Everything is verified.
    fn default() -> Self {
        Self {
            ipv4_header: true,
            transport: Policy::Verify,
            icrc: true,
        }
    }
}
