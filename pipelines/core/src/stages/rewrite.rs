//! Changes addresses, ports, TTL, DSCP and VLAN in place, and repairs the checksums.

use warpwire_device::Simt;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::reason::Reason;
use crate::repair::End;
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, PackedAddress, Spec};
use crate::stage::{Stage, Verdict};

/// Changes fields that the frame has; fields that it has not are left out and counted.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite;

/// What to write.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    source_mac: [u8; 6],
    destination_mac: [u8; 6],
    source: PackedAddress,
    destination: PackedAddress,
    source_port: u16,
    destination_port: u16,
    vlan: u16,
    ttl: u8,
    dscp: u8,
}

impl Stage for Rewrite {
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
        let given = args.given;
        if given.has(DECREMENT_TTL) && packet.headers().ip_version != 0 {
            let ttl = packet.headers().ttl;
            if ttl <= 1 {
                context.count(TTL_EXPIRED);
                return Verdict::Drop(Reason::TTL_EXPIRED);
            }
            packet.set_ttl(ttl - 1);
        }
        let missing = ethernet(args, packet) + network(args, packet) + transport(args, packet);
        if packet.edits() > 0 {
            context.count(CHANGED);
        }
        if missing > 0 {
            context.count(FIELD_MISSING);
        }
        Verdict::Next
    }
}

/// Writes what is asked for at the Ethernet level; returns how many fields the frame has not.
#[inline(always)]
fn ethernet(args: &Args, packet: &mut Packet<'_>) -> u32 {
    let given = args.given;
    let mut missing = 0;
    if given.has(SWAP_MACS) {
        missing += u32::from(!packet.swap_macs());
    }
    if given.has(DESTINATION_MAC) {
        missing += u32::from(!packet.set_mac(0, args.destination_mac));
    }
    if given.has(SOURCE_MAC) {
        missing += u32::from(!packet.set_mac(6, args.source_mac));
    }
    if given.has(VLAN) {
        missing += u32::from(!packet.set_vlan(args.vlan));
    }
    missing
}

/// Writes what is asked for of the IP header.
#[inline(always)]
fn network(args: &Args, packet: &mut Packet<'_>) -> u32 {
    let given = args.given;
    let version = u32::from(packet.headers().ip_version);
    let mut missing = 0;
    let ends = [
        (SOURCE, &args.source, End::Source),
        (DESTINATION, &args.destination, End::Destination),
    ];
    for (field, address, end) in ends {
        if given.has(field) {
            let written = version == address.version && packet.set_ip_address(end, address.words);
            missing += u32::from(!written);
        }
    }
    if given.has(TTL) {
        missing += u32::from(!packet.set_ttl(args.ttl));
    }
    if given.has(DSCP) {
        missing += u32::from(!packet.set_dscp(args.dscp));
    }
    missing
}

/// Writes what is asked for of the transport header.
#[inline(always)]
fn transport(args: &Args, packet: &mut Packet<'_>) -> u32 {
    let given = args.given;
    let mut missing = 0;
    if given.has(SOURCE_PORT) {
        missing += u32::from(!packet.set_port(End::Source, args.source_port));
    }
    if given.has(DESTINATION_PORT) {
        missing += u32::from(!packet.set_port(End::Destination, args.destination_port));
    }
    missing
}

/// Places of the fields.
const SWAP_MACS: u32 = 0;
const SOURCE_MAC: u32 = 1;
const DESTINATION_MAC: u32 = 2;
const SOURCE: u32 = 3;
const DESTINATION: u32 = 4;
const SOURCE_PORT: u32 = 5;
const DESTINATION_PORT: u32 = 6;
const TTL: u32 = 7;
const DECREMENT_TTL: u32 = 8;
const DSCP: u32 = 9;
const VLAN: u32 = 10;

/// Places of the counters.
const CHANGED: u32 = 0;
const FIELD_MISSING: u32 = 1;
const TTL_EXPIRED: u32 = 2;

const SPEC: Spec = Spec {
    name: "rewrite",
    about: "changes header fields in place and repairs the checksums",
    fields: &[
        Field::optional(
            "swap_macs",
            FieldKind::Flag,
            0,
            "exchange the Ethernet addresses",
        ),
        Field::optional(
            "source_mac",
            FieldKind::Mac,
            core::mem::offset_of!(Args, source_mac),
            "Ethernet source to write",
        ),
        Field::optional(
            "destination_mac",
            FieldKind::Mac,
            core::mem::offset_of!(Args, destination_mac),
            "Ethernet destination to write",
        ),
        Field::optional(
            "source",
            FieldKind::Address,
            core::mem::offset_of!(Args, source),
            "IP source to write into packets of its family",
        ),
        Field::optional(
            "destination",
            FieldKind::Address,
            core::mem::offset_of!(Args, destination),
            "IP destination to write into packets of its family",
        ),
        Field::optional(
            "source_port",
            FieldKind::Number {
                bytes: 2,
                low: 1,
                high: 65535,
            },
            core::mem::offset_of!(Args, source_port),
            "TCP or UDP source port to write",
        ),
        Field::optional(
            "destination_port",
            FieldKind::Number {
                bytes: 2,
                low: 1,
                high: 65535,
            },
            core::mem::offset_of!(Args, destination_port),
            "TCP or UDP destination port to write",
        ),
        Field::optional(
            "ttl",
            FieldKind::Number {
                bytes: 1,
                low: 1,
                high: 255,
            },
            core::mem::offset_of!(Args, ttl),
            "time to live or hop limit to write",
        ),
        Field::optional(
            "decrement_ttl",
            FieldKind::Flag,
            0,
            "take one from the time to live; a packet that has none left is dropped",
        ),
        Field::optional(
            "dscp",
            FieldKind::Number {
                bytes: 1,
                low: 0,
                high: 63,
            },
            core::mem::offset_of!(Args, dscp),
            "differentiated services code point to write",
        ),
        Field::optional(
            "vlan",
            FieldKind::Number {
                bytes: 2,
                low: 0,
                high: 4094,
            },
            core::mem::offset_of!(Args, vlan),
            "VLAN id to write into the outer tag of tagged frames",
        ),
    ],
    one_of: &[
        "swap_macs",
        "source_mac",
        "destination_mac",
        "source",
        "destination",
        "source_port",
        "destination_port",
        "ttl",
        "decrement_ttl",
        "dscp",
        "vlan",
    ],
    counters: &[
        CounterSpec::one("changed"),
        CounterSpec::one("field_missing"),
        CounterSpec::one("ttl_expired"),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Splits,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Scene;

    const NONE: Args = Args {
        given: Given(0),
        source_mac: [2, 0, 0, 0, 0, 0x0c],
        destination_mac: [2, 0, 0, 0, 0, 0x0d],
        source: PackedAddress {
            words: [0xc000_0207, 0, 0, 0],
            version: 4,
        },
        destination: PackedAddress {
            words: [0xc633_6409, 0, 0, 0],
            version: 4,
        },
        source_port: 4444,
        destination_port: 5555,
        vlan: 99,
        ttl: 77,
        dscp: 26,
    };

    /// Everything but the exchange of addresses, the decrement and the VLAN.
    const ALL: Args = Args {
        given: Given(0b010_1111_1110 & !(1 << DECREMENT_TTL)),
        ..NONE
    };

    fn check(args: &Args, from: &str, to: &str, counts: &[(&str, u64)]) {
        Scene::default().check::<Rewrite>(args, (from, to), Verdict::Next, counts);
    }

    #[test]
    fn every_field_is_written_and_every_checksum_repaired() {
        for (from, to) in [
            ("udp4", "udp4_rewritten"),
            ("udp4_absent", "udp4_absent_rewritten"),
            ("tcp4", "tcp4_rewritten"),
        ] {
            check(&ALL, from, to, &[("changed", 1)]);
        }
        // Behind another destination port it would no longer be RoCE.
        let roce = Args {
            given: Given(ALL.given.0 & !(1 << DESTINATION_PORT)),
            ..NONE
        };
        check(&roce, "roce4", "roce4_rewritten", &[("changed", 1)]);
        let six = |last| PackedAddress {
            words: [0x2001_0db8, 0, 0, last],
            version: 6,
        };
        let all = Args {
            source: six(7),
            destination: six(9),
            ..ALL
        };
        check(&all, "tcp6", "tcp6_rewritten", &[("changed", 1)]);
    }

    #[test]
    fn single_fields() {
        let only = |field| Args {
            given: Given(1u32 << field),
            ..NONE
        };
        check(&only(SWAP_MACS), "udp4", "udp4_swapped", &[("changed", 1)]);
        check(
            &only(DECREMENT_TTL),
            "udp4",
            "udp4_decremented",
            &[("changed", 1)],
        );
        check(
            &only(VLAN),
            "tagged_udp4",
            "tagged_udp4_rewritten",
            &[("changed", 1)],
        );
        check(&only(VLAN), "udp4", "udp4", &[("field_missing", 1)]);
        check(&only(SOURCE), "tcp6", "tcp6", &[("field_missing", 1)]);
        check(
            &only(SOURCE_PORT),
            "echo4_request",
            "echo4_request",
            &[("field_missing", 1)],
        );
        check(
            &only(TTL),
            "arp_request",
            "arp_request",
            &[("field_missing", 1)],
        );
    }

    #[test]
    fn a_packet_without_time_to_live_ends() {
        let args = Args {
            given: Given(1 << DECREMENT_TTL),
            ..NONE
        };
        let ended = Verdict::Drop(Reason::TTL_EXPIRED);
        let name = ("udp4_last_hop", "udp4_last_hop");
        Scene::default().check::<Rewrite>(&args, name, ended, &[("ttl_expired", 1)]);
    }

    #[test]
    fn a_partial_checksum_stays_partial() {
        // The field of a frame whose checksum was left to a NIC holds the pseudo-header sum.
        let mut from = crate::testing::frame("tcp4");
        let pseudo = |frame: &[u8]| {
            let word = |at: usize| u16::from_be_bytes([frame[at], frame[at + 1]]);
            let length = frame.len() as u32 - 34;
            let words = (26..34).step_by(2).map(word);
            let sum = words.fold(u32::from(frame[23]) + length, |sum, word| {
                sum + u32::from(word)
            });
            ((sum & 0xffff) + (sum >> 16)) as u16
        };
        let field = pseudo(&from);
        from[50..52].copy_from_slice(&field.to_be_bytes());
        let seen = Scene::default().run::<Rewrite>(&ALL, &from);
        let field = u16::from_be_bytes([seen.bytes[50], seen.bytes[51]]);
        assert_eq!(field, pseudo(&seen.bytes));
    }
}
