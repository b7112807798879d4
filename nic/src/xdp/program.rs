//! The XDP program: takes declared frames to the queue's socket, passes the rest to the host.

use std::net::IpAddr;

use super::assembler::Register::{R0, R1, R2, R3, R4, R5, R6, R7, R8, R9};
use super::assembler::{Assembler, Fault, Label, Operation, Register, When, Width};
use super::rules::{Flow, MacPolicy, PORT_PROTOCOLS, Prefix, Rules};

/// What the program shall do.
pub(super) struct Plan<'a> {
    pub(super) rules: &'a Rules,
    /// The interface's address, for [`MacPolicy::Own`].
    pub(super) mac: [u8; 6],
    /// The map from queue to socket.
    pub(super) sockets: i32,
    /// The verdict for a frame that is ours and whose queue has no socket.
    pub(super) without_socket: u32,
}

/// XDP's verdict: to the host's stack.
pub(super) const XDP_PASS: u32 = 2;

/// Translates a plan.
///
/// Registers: `R6` context, `R7` the header that is looked at, `R8` the frame's end, `R9` Ethernet
/// type, later the protocol. At the rules, `R4` and `R5` hold the destination address and `R3` the
/// port.
///
/// # Errors
/// A [`Fault`], which the bound on rules excludes.
pub(super) fn compile(plan: &Plan<'_>) -> Result<Vec<u64>, Fault> {
    let mut code = Assembler::default();
    let exits = Exits {
        take: code.label(),
        pass: code.label(),
    };
    code.with(Operation::Move, R6, R1);
    code.load(Width::Word, R7, R6, 0);
    code.load(Width::Word, R8, R6, 4);
    need(&mut code, 14, exits.pass);
    match plan.rules.mac {
        MacPolicy::Any => {}
        MacPolicy::Own => filter_mac(&mut code, plan.mac, exits),
        MacPolicy::Address(mac) => filter_mac(&mut code, mac, exits),
    }
    if plan.rules.everything {
        code.jump(exits.take);
    } else {
        filter_network(&mut code, plan.rules, exits);
    }
    code.place(exits.take);
    code.set_map(R1, plan.sockets);
    code.load(Width::Word, R2, R6, 16);
    code.with_value(Operation::Move, R3, plan.without_socket as i32);
    code.call(REDIRECT_MAP);
    code.exit();
    code.place(exits.pass);
    code.with_value(Operation::Move, R0, XDP_PASS as i32);
    code.exit();
    code.finish()
}

#[derive(Clone, Copy)]
struct Exits {
    take: Label,
    pass: Label,
}

/// Goes to `otherwise` unless `bytes` from `R7` on lie within the frame. Destroys `R2`.
fn need(code: &mut Assembler, bytes: i32, otherwise: Label) {
    code.with(Operation::Move, R2, R7);
    code.with_value(Operation::Add, R2, bytes);
    code.jump_if(R2, When::Above, R8, otherwise);
}

fn filter_mac(code: &mut Assembler, mac: [u8; 6], exits: Exits) {
    let (group, ours) = (code.label(), code.label());
    let [a, b, c, d, e, f] = mac;
    code.load(Width::Word, R2, R7, 0);
    code.load(Width::Half, R3, R7, 4);
    code.jump_if_value(R2, When::NotEqual, u32::from_ne_bytes([a, b, c, d]), group);
    code.jump_if_value(R3, When::Equal, u16::from_ne_bytes([e, f]).into(), ours);
    code.place(group);
    code.load(Width::Byte, R2, R7, 0);
    code.with_value(Operation::And, R2, 1);
    code.jump_if_value(R2, When::Equal, 0, exits.pass);
    code.place(ours);
}

/// Looks through up to two VLAN tags, then by Ethernet type.
fn filter_network(code: &mut Assembler, rules: &Rules, exits: Exits) {
    let network = code.label();
    code.load(Width::Half, R9, R7, 12);
    code.with_value(Operation::Add, R7, 14);
    for _ in 0..2 {
        let tag = code.label();
        for kind in [0x8100, 0x88a8] {
            code.jump_if_value(R9, When::Equal, network_16(kind), tag);
        }
        code.jump(network);
        code.place(tag);
        need(code, 4, exits.pass);
        code.load(Width::Half, R9, R7, 2);
        code.with_value(Operation::Add, R7, 4);
    }
    code.place(network);
    let (arp, ipv4, ipv6) = (code.label(), code.label(), code.label());
    for (kind, place) in [(0x0800, ipv4), (0x86dd, ipv6), (0x0806, arp)] {
        code.jump_if_value(R9, When::Equal, network_16(kind), place);
    }
    code.jump(exits.pass);
    code.place(arp);
    filter_arp(code, rules, exits);
    code.place(ipv4);
    filter_ipv4(code, rules, exits);
    code.place(ipv6);
    filter_ipv6(code, rules, exits);
}

/// Takes ARP whose target is one of our addresses: requests for it and answers to us.
fn filter_arp(code: &mut Assembler, rules: &Rules, exits: Exits) {
    need(code, 28, exits.pass);
    code.load(Width::Word, R2, R7, 0);
    let ethernet_ipv4 = u32::from_ne_bytes([0, 1, 8, 0]);
    code.jump_if_value(R2, When::NotEqual, ethernet_ipv4, exits.pass);
    code.load(Width::Word, R2, R7, 24);
    for address in &rules.addresses {
        if let IpAddr::V4(address) = address {
            let target = u32::from_ne_bytes(address.octets());
            code.jump_if_value(R2, When::Equal, target, exits.take);
        }
    }
    code.jump(exits.pass);
}

fn filter_ipv4(code: &mut Assembler, rules: &Rules, exits: Exits) {
    let (flows, later) = (code.label(), code.label());
    need(code, 20, exits.pass);
    code.load(Width::Byte, R9, R7, 9);
    code.load(Width::Word, R4, R7, 16);
    code.with_value(Operation::Move, R3, NO_PORT);
    code.load(Width::Half, R5, R7, 6);
    code.swap_from_network_16(R5);
    code.jump_if_value(R5, When::BitsSet, 0x1fff, later);
    code.load(Width::Byte, R5, R7, 0);
    code.with_value(Operation::And, R5, 0x0f);
    code.with_value(Operation::ShiftLeft, R5, 2);
    code.jump_if_value(R5, When::Below, 20, exits.pass);
    code.with(Operation::Add, R7, R5);
    load_port(code, flows);
    code.place(later);
    code.with_value(Operation::Move, R3, LATER_FRAGMENT);
    code.place(flows);
    for flow in rules.all_flows() {
        match flow.prefix.map(|prefix| (prefix, prefix.address)) {
            None => match_flow(code, &flow, exits.take, |_, _| {}),
            Some((prefix, IpAddr::V4(address))) => {
                let address = u32::from_ne_bytes(address.octets());
                match_flow(code, &flow, exits.take, |code, next| {
                    match_ipv4(code, prefix, address, next);
                });
            }
            Some((_, IpAddr::V6(_))) => {}
        }
    }
    code.jump(exits.pass);
}

fn match_ipv4(code: &mut Assembler, prefix: Prefix, address: u32, next: Label) {
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix.length));
    code.with(Operation::Move, R2, R4);
    code.with_value_32(Operation::And, R2, mask.unwrap_or(0).to_be());
    code.jump_if_value(R2, When::NotEqual, address, next);
}

fn filter_ipv6(code: &mut Assembler, rules: &Rules, exits: Exits) {
    let (flows, ports) = (code.label(), code.label());
    need(code, 40, exits.pass);
    code.load(Width::Byte, R9, R7, 6);
    code.load(Width::Double, R4, R7, 24);
    code.load(Width::Double, R5, R7, 32);
    code.with_value(Operation::Move, R3, NO_PORT);
    code.with_value(Operation::Add, R7, 40);
    filter_solicitation(code, rules, exits);
    for _ in 0..MAX_EXTENSIONS {
        skip_extension(code, ports, flows);
    }
    code.place(ports);
    load_port(code, flows);
    code.place(flows);
    for flow in rules.all_flows() {
        match flow.prefix.map(|prefix| (prefix, prefix.address)) {
            None => match_flow(code, &flow, exits.take, |_, _| {}),
            Some((prefix, IpAddr::V6(address))) => {
                let address = u128::from(address);
                match_flow(code, &flow, exits.take, |code, next| {
                    match_ipv6(code, prefix, address, next);
                });
            }
            Some((_, IpAddr::V4(_))) => {}
        }
    }
    code.jump(exits.pass);
}

/// Takes the question who has one of our addresses: it goes to a group that is shared with others.
fn filter_solicitation(code: &mut Assembler, rules: &Rules, exits: Exits) {
    const ICMPV6: u32 = 58;
    const NEIGHBOUR_SOLICITATION: u32 = 135;
    let other = code.label();
    code.jump_if_value(R9, When::NotEqual, ICMPV6, other);
    need(code, 24, other);
    code.load(Width::Byte, R2, R7, 0);
    code.jump_if_value(R2, When::NotEqual, NEIGHBOUR_SOLICITATION, other);
    code.load(Width::Double, R1, R7, 8);
    code.load(Width::Double, R2, R7, 16);
    for address in &rules.addresses {
        if let IpAddr::V6(address) = address {
            let next = code.label();
            let (high, low) = halves((*address).into());
            code.set(R0, high.to_be());
            code.jump_if(R1, When::NotEqual, R0, next);
            code.set(R0, low.to_be());
            code.jump_if(R2, When::Equal, R0, exits.take);
            code.place(next);
        }
    }
    code.place(other);
}

/// Steps over one extension header. Goes to `ports` at a header that is none, to `flows` where no
/// port can be read.
fn skip_extension(code: &mut Assembler, ports: Label, flows: Label) {
    const FRAGMENT: u32 = 44;
    let (options, fragment, next) = (code.label(), code.label(), code.label());
    for kind in [0, 43, 60] {
        code.jump_if_value(R9, When::Equal, kind, options);
    }
    code.jump_if_value(R9, When::Equal, FRAGMENT, fragment);
    code.jump(ports);
    code.place(options);
    need(code, 8, flows);
    code.load(Width::Byte, R9, R7, 0);
    code.load(Width::Byte, R2, R7, 1);
    code.with_value(Operation::Add, R2, 1);
    code.with_value(Operation::ShiftLeft, R2, 3);
    code.with(Operation::Add, R7, R2);
    code.jump(next);
    code.place(fragment);
    need(code, 8, flows);
    code.load(Width::Byte, R9, R7, 0);
    code.load(Width::Half, R2, R7, 2);
    code.swap_from_network_16(R2);
    code.with_value(Operation::Add, R7, 8);
    let first = code.label();
    code.with_value(Operation::And, R2, 0xfff8);
    code.jump_if_value(R2, When::Equal, 0, first);
    code.with_value(Operation::Move, R3, LATER_FRAGMENT);
    code.jump(flows);
    code.place(first);
    code.place(next);
}

fn match_ipv6(code: &mut Assembler, prefix: Prefix, address: u128, next: Label) {
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix.length));
    let (masks, values) = (halves(mask.unwrap_or(0)), halves(address));
    let parts = [(R4, masks.0, values.0), (R5, masks.1, values.1)];
    for (half, mask, value) in parts {
        if mask == 0 {
            continue;
        }
        code.set(R2, mask.to_be());
        code.with(Operation::And, R2, half);
        code.set(R1, value.to_be());
        code.jump_if(R2, When::NotEqual, R1, next);
    }
}

/// Loads the destination port of the header at `R7` into `R3`, if protocol `R9` has one that can be
/// read; always goes to `then`.
fn load_port(code: &mut Assembler, then: Label) {
    let has_ports = code.label();
    for protocol in PORT_PROTOCOLS {
        code.jump_if_value(R9, When::Equal, protocol.into(), has_ports);
    }
    code.jump(then);
    code.place(has_ports);
    need(code, 4, then);
    code.load(Width::Half, R3, R7, 2);
    code.swap_from_network_16(R3);
    code.jump(then);
}

/// Goes to `take` if all that the flow names agrees; `place` compares the address or jumps on.
fn match_flow(
    code: &mut Assembler,
    flow: &Flow,
    take: Label,
    place: impl FnOnce(&mut Assembler, Label),
) {
    let next = code.label();
    place(code, next);
    if let Some(protocol) = flow.protocol {
        code.jump_if_value(R9, When::NotEqual, protocol.into(), next);
    }
    match flow.port {
        None => code.jump(take),
        Some(port) => {
            code.jump_if_value(R3, When::Equal, port.into(), take);
            if flow.prefix.is_some() {
                code.jump_if_value(R3, When::Equal, LATER_FRAGMENT as u32, take);
            }
        }
    }
    code.place(next);
}

/// A number in network order as a little-endian load shows it.
fn network_16(number: u16) -> u32 {
    number.to_be().into()
}

fn halves(address: u128) -> (u64, u64) {
    ((address >> 64) as u64, address as u64)
}

/// No port was read; ports are below this.
const NO_PORT: i32 = 0x1_0000;
/// A fragment that is not the first.
const LATER_FRAGMENT: i32 = 0x2_0000;
/// Extension headers that are stepped over in search of ports.
const MAX_EXTENSIONS: usize = 4;
/// The helper `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;

const _: () = assert!(Register::R9 as u8 == 9);
const _: () = assert!(
    cfg!(target_endian = "little"),
    "the program compares as loaded"
);

#[cfg(test)]
mod tests;
