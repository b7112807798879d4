//! Changes addresses, ports, TTL, DSCP and VLAN in place, and repairs the checksums.

use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, PackedAddress, Spec};

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

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
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
        CounterSpec::one("not_in_one_piece"),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Splits,
};
