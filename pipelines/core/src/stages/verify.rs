//! Drops frames whose checksums are wrong.

use warpwire_device::Simt;
use warpwire_protocols::DropReason;
use warpwire_protocols::checksum::{ChecksumState, Sum, judge, judge_udp};
use warpwire_protocols::parse::{Fragment, Kind};
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::reason::Reason;
use crate::repair::{icrc_holds, sum};
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};

/// Checks the IPv4 header checksum, the TCP, UDP or ICMP checksum and the RoCEv2 ICRC.
///
/// A TCP or UDP checksum that holds nothing but the pseudo-header sum is how a local Linux peer
/// hands over a frame whose checksum its NIC was to fill in: it passes, and is counted.
#[derive(Clone, Copy, Debug)]
pub struct Verify;

/// What to check.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    checks: u32,
}

const IPV4: u32 = 1;
const TRANSPORT: u32 = 2;
const ICRC: u32 = 4;

impl Stage for Verify {
    const SPEC: Spec = SPEC;
    type Args = Args;

    #[inline(always)]
    fn run<S: Simt>(
        context: &Context<'_, S>,
        args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        let Some(packet) = packet else {
            return Verdict::Next;
        };
        let checks = if args.given.has(0) {
            args.checks
        } else {
            u32::MAX
        };
        match verify(checks, packet) {
            Ok(found) => {
                context.count(found);
                Verdict::Next
            }
            Err(reason) => Verdict::Drop(Reason::malformed(reason)),
        }
    }
}

/// The counter of a frame that passes, or why it does not.
#[inline]
fn verify(checks: u32, packet: &Packet<'_>) -> Result<u32, DropReason> {
    let headers = packet.headers();
    let (l3, l4) = (u32::from(headers.l3), u32::from(headers.l4));
    let mut found = UNCHECKED;
    if checks & IPV4 != 0 && headers.ip_version == 4 {
        let words = packet.bytes().byte(l3).unwrap_or(0) & 0x0f;
        if !sum(packet, l3, l3 + u32::from(words) * 4).holds() {
            return Err(DropReason::Ipv4Checksum);
        }
        found = RIGHT;
    }
    let field = packet
        .transport_checksum()
        .and_then(|at| packet.bytes().be16(at));
    let whole = headers.fragment == Fragment::None;
    if checks & TRANSPORT != 0
        && whole
        && let Some(field) = field
    {
        let pseudo = match headers.kind {
            Kind::Icmpv4 => Sum::ZERO,
            _ => packet.pseudo(),
        };
        let datagram = sum(packet, l4, headers.end());
        let state = match packet.is_udp() {
            true => judge_udp(field, pseudo, datagram),
            false => judge(field, pseudo, datagram),
        };
        found = match state {
            ChecksumState::Good => RIGHT,
            ChecksumState::Partial => PARTIAL,
            ChecksumState::Absent | ChecksumState::Unverified => found,
            ChecksumState::Bad => return Err(DropReason::L4Checksum),
        };
    }
    if checks & ICRC != 0 && whole && headers.kind == Kind::RoceV2 {
        if !icrc_holds(packet) {
            return Err(DropReason::Icrc);
        }
        found = RIGHT;
    }
    Ok(found)
}

/// Places of counters.
const RIGHT: u32 = 0;
const PARTIAL: u32 = 1;
const UNCHECKED: u32 = 2;

const SPEC: Spec = Spec {
    name: "verify",
    about: "drops frames whose IPv4, TCP, UDP, ICMP or RoCE checksum is wrong",
    fields: &[Field::optional(
        "checks",
        FieldKind::Words(&[("ipv4", IPV4), ("transport", TRANSPORT), ("icrc", ICRC)]),
        core::mem::offset_of!(Args, checks),
        "what to check; all if left out",
    )],
    one_of: &[],
    counters: &[
        CounterSpec::one("right"),
        CounterSpec::one("partial"),
        CounterSpec::one("unchecked"),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Splits,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Scene, frame};

    const ALL: Args = Args {
        given: Given(0),
        checks: 0,
    };

    #[test]
    fn right_checksums_pass() {
        let cases = [
            ("udp4", "right"),
            ("udp4_absent", "right"),
            ("tcp4", "right"),
            ("tcp6", "right"),
            ("echo4_request", "right"),
            ("echo6_request", "right"),
            ("solicitation", "right"),
            ("roce4", "right"),
            ("tagged_udp4", "right"),
            ("arp_request", "unchecked"),
        ];
        for (name, counter) in cases {
            Scene::default().check::<Verify>(&ALL, (name, name), Verdict::Next, &[(counter, 1)]);
        }
    }

    /// Every byte that a checksum covers, flipped bit by bit: what the parser does not refuse, the
    /// sums do.
    #[test]
    fn a_flipped_bit_in_any_covered_byte_is_caught() {
        for (name, exempt) in [
            ("udp4", &[][..]),
            ("tcp4", &[]),
            ("tcp6", &[14, 15, 16, 17, 21]),
            ("echo6_request", &[14, 15, 16, 17, 21]),
            ("roce4", &[46]),
        ] {
            let whole = frame(name);
            for at in (14..whole.len()).filter(|at| !exempt.contains(at)) {
                for bit in 0..8 {
                    let mut bytes = whole.clone();
                    bytes[at] ^= 1 << bit;
                    let parsed = warpwire_protocols::parse::parse_bytes(&bytes, bytes.len() as u32);
                    // A changed length, version or protocol makes it another packet, not a wrong
                    // one.
                    let same = parsed.is_ok_and(|headers| {
                        let before = warpwire_protocols::parse::parse_bytes(&whole, 200);
                        before.is_ok_and(|before| before.kind == headers.kind)
                    });
                    if same && !(name == "roce4" && (40..42).contains(&at)) {
                        let seen = Scene::default().run::<Verify>(&ALL, &bytes);
                        assert!(
                            matches!(seen.verdict, Verdict::Drop(_)),
                            "{name}: byte {at} bit {bit}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn each_check_can_be_left_out() {
        let only = |checks| Args {
            given: Given(1),
            checks,
        };
        let mut bytes = frame("udp4");
        bytes[24] ^= 1;
        let seen = Scene::default().run::<Verify>(&only(TRANSPORT), &bytes);
        assert_eq!(seen.verdict, Verdict::Next);
        let wrong = Verdict::Drop(Reason::malformed(DropReason::Ipv4Checksum));
        let seen = Scene::default().run::<Verify>(&only(IPV4), &bytes);
        assert_eq!(seen.verdict, wrong);
        let mut bytes = frame("roce4");
        let last = bytes.len() - 1;
        bytes[last] ^= 0x80;
        let wrong = Verdict::Drop(Reason::malformed(DropReason::Icrc));
        assert_eq!(
            Scene::default().run::<Verify>(&only(ICRC), &bytes).verdict,
            wrong
        );
        let seen = Scene::default().run::<Verify>(&only(IPV4 | TRANSPORT), &bytes);
        assert_eq!(seen.verdict, Verdict::Next);
    }
}
