//! What a receiver may conclude from a transport checksum.
//!
//! A packet from a local peer (a virtual interface of the same kernel) may carry only the folded
//! pseudo-header sum: its sender left the rest to a NIC that the packet never met. Nothing marks
//! such packets. So a field is right if the sum holds, and is *partial* if it equals the folded
//! pseudo-header sum. A partial packet has no end-to-end protection, and must be completed before
//! it is sent on a real wire.

use super::internet::Sum;

/// What is known of a packet's transport checksum.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum ChecksumState {
    /// Not looked at.
    #[default]
    Unverified,
    /// The sum holds.
    Good,
    /// The field holds the pseudo-header sum only.
    Partial,
    /// UDP without a checksum.
    Absent,
    /// The sum does not hold.
    Bad,
}

impl ChecksumState {
    /// The name, for tables and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unverified => "unverified",
            Self::Good => "good",
            Self::Partial => "partial",
            Self::Absent => "absent",
            Self::Bad => "bad",
        }
    }
}

/// What a receiver does about transport checksums.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Policy {
    /// Only packets whose sum holds (or UDP without one) pass.
    #[default]
    Verify,
    /// Partial packets pass too: the peer is a kernel on this machine.
    AcceptPartial,
    /// Nothing is computed: the NIC has verified.
    Trust,
}

impl Policy {
    /// Whether a packet in this state passes.
    pub const fn accepts(self, state: ChecksumState) -> bool {
        match state {
            ChecksumState::Good | ChecksumState::Absent => true,
            ChecksumState::Partial => !matches!(self, Self::Verify),
            ChecksumState::Unverified | ChecksumState::Bad => matches!(self, Self::Trust),
        }
    }

    /// Whether a state must be computed at all.
    pub const fn needs_sum(self) -> bool {
        !matches!(self, Self::Trust)
    }
}

/// Judges a TCP or ICMP checksum (ICMPv4: `pseudo` is [`Sum::ZERO`]). `field` is what the packet
/// holds, `pseudo` the pseudo-header sum, `datagram` the sum over the transport header, field
/// included, and payload.
#[inline(always)]
pub const fn judge(field: u16, pseudo: Sum, datagram: Sum) -> ChecksumState {
    if pseudo.plus(datagram).holds() {
        ChecksumState::Good
    } else if field != 0 && field == pseudo.fold() {
        ChecksumState::Partial
    } else {
        ChecksumState::Bad
    }
}

/// [`judge`] for UDP, where a field of zero says that there is no checksum.
#[inline(always)]
pub const fn judge_udp(field: u16, pseudo: Sum, datagram: Sum) -> ChecksumState {
    if field == 0 {
        ChecksumState::Absent
    } else {
        judge(field, pseudo, datagram)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::pseudo_ipv4;
    use crate::wire::IpProtocol;
    use core::net::Ipv4Addr;

    #[test]
    fn verdicts() {
        let address = Ipv4Addr::new(10, 78, 0, 1);
        let pseudo = pseudo_ipv4(address, address, IpProtocol::UDP, 12);
        let rest = Sum::of(&[0x12, 0x34, 0x00, 0x35, 0, 12]).plus(Sum::of(b"ping"));
        let good = pseudo.plus(rest).checksum();
        for (field, state) in [
            (good, ChecksumState::Good),
            (pseudo.fold(), ChecksumState::Partial),
            (good ^ 1, ChecksumState::Bad),
            (!pseudo.fold(), ChecksumState::Bad),
        ] {
            let datagram = rest.add_field(field);
            assert_eq!(judge(field, pseudo, datagram), state);
            assert_eq!(judge_udp(field, pseudo, datagram), state);
        }
        assert_eq!(judge_udp(0, pseudo, rest), ChecksumState::Absent);
        assert_eq!(judge(0, pseudo, rest), ChecksumState::Bad);
    }

    #[test]
    fn policies() {
        use ChecksumState::*;
        for (policy, accepted) in [
            (Policy::Verify, vec![Good, Absent]),
            (Policy::AcceptPartial, vec![Good, Partial, Absent]),
            (Policy::Trust, vec![Unverified, Good, Partial, Absent, Bad]),
        ] {
            for state in [Unverified, Good, Partial, Absent, Bad] {
                assert_eq!(
                    policy.accepts(state),
                    accepted.contains(&state),
                    "{policy:?} {state:?}"
                );
            }
        }
    }
}
