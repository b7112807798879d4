//! Counts frames by kind, Ethernet type, VLAN, protocol, port and BTH opcode.

use warpwire_protocols::DropReason;
use warpwire_protocols::parse::Kind;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};

/// Counts; changes nothing. Malformed frames are counted by what could be read of them.
#[derive(Clone, Copy, Debug)]
pub struct Classify;

/// Which tables are kept.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    tables: u32,
}

const ETHER_TYPE: u32 = 1;
const VLAN: u32 = 2;
const PROTOCOL: u32 = 4;
const PORT: u32 = 8;
const OPCODE: u32 = 16;

/// What the stage says about itself.
pub const SPEC: Spec = Spec {
    name: "classify",
    about: "counts frames by kind, Ethernet type, VLAN, IP protocol, port and BTH opcode",
    fields: &[Field::optional(
        "tables",
        FieldKind::Words(&[
            ("ether_type", ETHER_TYPE),
            ("vlan", VLAN),
            ("protocol", PROTOCOL),
            ("port", PORT),
            ("opcode", OPCODE),
        ]),
        core::mem::offset_of!(Args, tables),
        "which tables to keep; all if left out",
    )],
    one_of: &[],
    counters: &[
        CounterSpec::labelled("kind", &KIND_NAMES),
        CounterSpec::labelled("malformed", &REASON_NAMES),
        CounterSpec::hexadecimal("ether_type", 65536),
        CounterSpec::table("vlan", 4096),
        CounterSpec::table("inner_vlan", 4096),
        CounterSpec::table("protocol", 256),
        CounterSpec::table("tcp_source_port", 65536),
        CounterSpec::table("tcp_destination_port", 65536),
        CounterSpec::table("udp_source_port", 65536),
        CounterSpec::table("udp_destination_port", 65536),
        CounterSpec::hexadecimal("bth_opcode", 256),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Continues,
};

const KIND_NAMES: [&str; Kind::COUNT] = {
    let mut names = [""; Kind::COUNT];
    let mut index = 0;
    while index < Kind::COUNT {
        names[index] = Kind::ALL[index].name();
        index += 1;
    }
    names
};

const REASON_NAMES: [&str; DropReason::COUNT] = {
    let mut names = [""; DropReason::COUNT];
    let mut index = 0;
    while index < DropReason::COUNT {
        names[index] = DropReason::ALL[index].name();
        index += 1;
    }
    names
};
