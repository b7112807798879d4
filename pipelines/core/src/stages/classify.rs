//! Counts frames by kind, Ethernet type, VLAN, protocol, port and BTH opcode.

use warpwire_device::Simt;
use warpwire_protocols::DropReason;
use warpwire_protocols::parse::Kind;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, Spec};
use crate::stage::{Stage, Verdict};

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

impl Stage for Classify {
    const SPEC: Spec = SPEC;
    const SEES_MALFORMED: bool = true;
    type Args = Args;

    #[inline(always)]
    fn run<S: Simt>(
        context: &Context<'_, S>,
        args: &Args,
        packet: Option<&mut Packet<'_>>,
    ) -> Verdict {
        if let Some(packet) = packet {
            let tables = if args.given.has(0) {
                args.tables
            } else {
                u32::MAX
            };
            tally(context, tables, packet);
        }
        Verdict::Next
    }
}

#[inline(always)]
fn tally<S: Simt>(context: &Context<'_, S>, tables: u32, packet: &Packet<'_>) {
    let headers = packet.headers();
    let has = |table: u32| tables & table != 0;
    context.count(KIND + headers.kind.index() as u32);
    if let Some(reason) = packet.fault() {
        context.count(MALFORMED + reason.index() as u32);
    }
    if has(ETHER_TYPE) && headers.ether_type.is_type() {
        context.count(ETHER_TYPES + u32::from(headers.ether_type.0));
    }
    if has(VLAN) && headers.tags > 0 {
        context.count(VLANS + u32::from(headers.outer_tag.id().value()));
        if headers.tags > 1 {
            context.count(INNER_VLANS + u32::from(headers.inner_tag.id().value()));
        }
    }
    if has(PROTOCOL) && headers.ip_version != 0 {
        context.count(PROTOCOLS + u32::from(headers.protocol.0));
    }
    if has(PORT) && headers.has_ports() {
        let (source, destination) = match headers.kind {
            Kind::Tcp => (TCP_SOURCES, TCP_DESTINATIONS),
            _ => (UDP_SOURCES, UDP_DESTINATIONS),
        };
        context.count(source + u32::from(headers.source_port()));
        context.count(destination + u32::from(headers.destination_port()));
    }
    if has(OPCODE) && headers.kind == Kind::RoceV2 {
        context.count(OPCODES + u32::from(headers.bth_opcode));
    }
}

/// Where each array of counters starts.
const KIND: u32 = 0;
const MALFORMED: u32 = KIND + Kind::COUNT as u32;
const ETHER_TYPES: u32 = MALFORMED + DropReason::COUNT as u32;
const VLANS: u32 = ETHER_TYPES + 65536;
const INNER_VLANS: u32 = VLANS + 4096;
const PROTOCOLS: u32 = INNER_VLANS + 4096;
const TCP_SOURCES: u32 = PROTOCOLS + 256;
const TCP_DESTINATIONS: u32 = TCP_SOURCES + 65536;
const UDP_SOURCES: u32 = TCP_DESTINATIONS + 65536;
const UDP_DESTINATIONS: u32 = UDP_SOURCES + 65536;
const OPCODES: u32 = UDP_DESTINATIONS + 65536;

const SPEC: Spec = Spec {
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
