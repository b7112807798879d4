//! First numbers of a connection. RFC 6528 section 3; RFC 7323 section 5.4 for timestamps.

use super::siphash::SipHash;
use crate::wire::tcp::TcpSequence;
use core::net::IpAddr;

/// What a host keeps to itself: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret(pub [u64; 2]);

/// The ends of a connection, addresses in 16 bytes (IPv4 mapped, RFC 4291 section 2.5.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(C)]
pub struct Tuple {
    /// Address here.
    pub local: [u8; 16],
    /// Address there.
    pub remote: [u8; 16],
    /// Port here.
    pub local_port: u16,
    /// Port there.
    pub remote_port: u16,
}

/// Where a connection's numbers begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Initial {
    /// Number of our SYN.
    pub sequence: TcpSequence,
    /// Is added to the clock of our timestamps, which counts milliseconds.
    pub timestamp: u32,
}

impl Initial {
    /// The numbers of a connection that begins now: they differ from those of an earlier one
    /// between the same ends by the time that passed, and tell nothing of those between others.
    pub fn new(secret: &Secret, tuple: &Tuple, now_ns: u64) -> Self {
        let hash = secret.hash(tuple, NUMBERS, 0);
        // The clock of RFC 6528 ticks every 4 microseconds, this one every 4.096.
        let clock = (now_ns >> 12) as u32;
        Self {
            sequence: TcpSequence((hash as u32).wrapping_add(clock)),
            timestamp: (hash >> 32) as u32,
        }
    }
}

impl Secret {
    /// Where a table of connections may have the one that these words name: nobody can choose ends
    /// that meet in one place who does not know the secret. The words have a fixed number.
    pub fn bucket(&self, words: &[u64]) -> u64 {
        let hash = SipHash::new(self.0).word(BUCKET);
        let hash = words.iter().fold(hash, |hash, word| hash.word(*word));
        hash.finish(0)
    }

    /// A number that nobody can guess who does not know the secret.
    pub(super) fn hash(&self, tuple: &Tuple, purpose: u64, more: u64) -> u64 {
        let hash = SipHash::new(self.0);
        let hash = split(hash, tuple.local);
        let hash = split(hash, tuple.remote);
        let ports = u64::from(tuple.local_port) << 16 | u64::from(tuple.remote_port);
        hash.word(ports | purpose << 32).word(more).finish(48 << 56)
    }
}

/// Hides the secret from logs.
impl core::fmt::Debug for Secret {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Secret")
    }
}

impl Tuple {
    /// The ends of a connection.
    pub const fn new(local: IpAddr, local_port: u16, remote: IpAddr, remote_port: u16) -> Self {
        Self {
            local: sixteen(local),
            remote: sixteen(remote),
            local_port,
            remote_port,
        }
    }
}

const fn sixteen(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

fn split(hash: SipHash, address: [u8; 16]) -> SipHash {
    let whole = u128::from_be_bytes(address);
    hash.word((whole >> 64) as u64).word(whole as u64)
}

/// What a hash is for: the numbers of a connection.
const NUMBERS: u64 = 1;
/// A cookie.
pub(super) const COOKIE: u64 = 2;
/// A port.
pub(super) const PORT: u64 = 3;
/// A place in a table. Other purposes have an address before theirs, this one begins.
const BUCKET: u64 = u64::MAX;

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn numbers_follow_the_clock_between_the_same_ends() {
        let secret = Secret([1, 2]);
        let here = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 2));
        let there = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 3));
        let tuple = Tuple::new(here, 80, there, 40000);
        let first = Initial::new(&secret, &tuple, 5_000_000);
        let later = Initial::new(&secret, &tuple, 5_000_000 + 4096 * 1000);
        assert_eq!(later.sequence.diff(first.sequence), 1000);
        assert_eq!(later.timestamp, first.timestamp);
        let others = [
            Tuple::new(here, 81, there, 40000),
            Tuple::new(here, 80, there, 40001),
            Tuple::new(there, 80, here, 40000),
            Tuple::new(here, 80, IpAddr::V6(Ipv6Addr::LOCALHOST), 40000),
        ];
        for other in others {
            let other = Initial::new(&secret, &other, 5_000_000);
            assert_ne!(other.sequence, first.sequence);
            assert_ne!(other.timestamp, first.timestamp);
        }
        let other = Initial::new(&Secret([1, 3]), &tuple, 5_000_000);
        assert_ne!(other, first);
    }
}
