//! Frames of our own: questions for next hops, and answers to who wants one of our addresses.

use std::net::{IpAddr, Ipv6Addr};

use warpwire_protocols::checksum::pseudo_ipv6;
use warpwire_protocols::parse::{Headers, Kind};
use warpwire_protocols::wire::{
    EtherType, FlowLabel, IpProtocol, MacAddress, TrafficClass, arp, ethernet, ipv6, ndp_neighbor,
};

use super::addresses::Addresses;

/// The question who has `via`, from an own address. `None` if the families differ.
pub(super) fn question(mac: [u8; 6], source: IpAddr, via: IpAddr) -> Option<Vec<u8>> {
    match (source, via) {
        (IpAddr::V4(sender), IpAddr::V4(target)) => {
            let repr = arp::Repr {
                operation: arp::Operation::Request,
                sender_hardware: MacAddress(mac),
                sender,
                target_hardware: MacAddress::default(),
                target,
            };
            of_arp(MacAddress::BROADCAST, &repr)
        }
        (IpAddr::V6(source), IpAddr::V6(target)) => {
            let repr = ndp_neighbor::Repr {
                message: ndp_neighbor::Message::Solicitation,
                target,
                link: Some(MacAddress(mac)),
            };
            let [.., a, b, c] = target.octets();
            let group = MacAddress([0x33, 0x33, 0xff, a, b, c]);
            of_discovery(mac, group, source, solicited_node(target), &repr)
        }
        _ => None,
    }
}

/// The answer to who looks whether an own address is free before he takes it: ARP from 0.0.0.0
/// (RFC 5227), neighbour solicitation from :: (RFC 4862 section 5.4.3).
pub(super) fn defence(frame: &[u8], headers: &Headers, addresses: &Addresses) -> Option<Vec<u8>> {
    let mac = addresses.mac();
    match headers.kind {
        Kind::Arp => {
            let probe = read_arp(frame, headers)?;
            let is_probe = probe.operation == arp::Operation::Request
                && probe.sender.is_unspecified()
                && addresses.is_own(probe.target.into());
            let answer = probe.answer(MacAddress(mac));
            is_probe.then(|| of_arp(probe.sender_hardware, &answer))?
        }
        Kind::Icmpv6 => {
            let (source, _) = headers.ipv6_addresses(frame)?;
            let probe = read_discovery(frame, headers)?;
            let is_probe = probe.message == ndp_neighbor::Message::Solicitation
                && source.is_unspecified()
                && probe.link.is_none()
                && addresses.is_own(probe.target.into());
            // To all nodes: nobody has the other address yet.
            let mut answer = probe.answer(MacAddress(mac));
            answer.message = ndp_neighbor::Message::Advertisement {
                is_router: false,
                is_solicited: false,
                overrides: true,
            };
            let group = MacAddress([0x33, 0x33, 0, 0, 0, 1]);
            is_probe.then(|| of_discovery(mac, group, probe.target, ALL_NODES, &answer))?
        }
        _ => None,
    }
}

/// An ARP packet.
pub(super) fn read_arp(frame: &[u8], headers: &Headers) -> Option<arp::Repr> {
    let bytes = frame.get(usize::from(headers.l3)..)?;
    let (header, _) = arp::Header::split(bytes).ok()?;
    arp::Repr::parse(header).ok()
}

/// A neighbour solicitation or advertisement with the right checksum.
pub(super) fn read_discovery(frame: &[u8], headers: &Headers) -> Option<ndp_neighbor::Repr> {
    let message = super::icmp::message(frame, headers)?;
    ndp_neighbor::Repr::parse(message, headers.ttl).ok()
}

fn of_arp(to: MacAddress, repr: &arp::Repr) -> Option<Vec<u8>> {
    let mut frame = begin(to, repr.sender_hardware, EtherType::ARP, repr.length())?;
    repr.emit(frame.get_mut(ethernet::Header::LENGTH..)?).ok()?;
    Some(frame)
}

fn of_discovery(
    mac: [u8; 6],
    to: MacAddress,
    source: Ipv6Addr,
    destination: Ipv6Addr,
    repr: &ndp_neighbor::Repr,
) -> Option<Vec<u8>> {
    let length = repr.length();
    let network = ipv6::Repr {
        traffic_class: TrafficClass::default(),
        flow_label: FlowLabel::ZERO,
        payload_length: u16::try_from(length).ok()?,
        next_header: IpProtocol::ICMPV6,
        hop_limit: ndp_neighbor::HOP_LIMIT,
        source,
        destination,
    };
    let bytes = ipv6::Header::LENGTH + length;
    let mut frame = begin(to, MacAddress(mac), EtherType::IPV6, bytes)?;
    let behind = frame.get_mut(ethernet::Header::LENGTH..)?;
    let header = network.emit(behind).ok()?;
    let pseudo = pseudo_ipv6(source, destination, IpProtocol::ICMPV6, length as u32);
    repr.emit(behind.get_mut(header..)?, pseudo).ok()?;
    Some(frame)
}

/// A frame with its Ethernet header, and room for so many bytes.
fn begin(to: MacAddress, from: MacAddress, kind: EtherType, bytes: usize) -> Option<Vec<u8>> {
    let mut frame = vec![0; ethernet::Header::LENGTH + bytes];
    let repr = ethernet::Repr {
        destination: to,
        source: from,
        ether_type: kind,
    };
    repr.emit(&mut frame).ok()?;
    Some(frame)
}

/// The group that a holder of the address listens to. RFC 4291 section 2.7.1.
const fn solicited_node(target: Ipv6Addr) -> Ipv6Addr {
    let [.., high, low] = target.segments();
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | (high & 0xff), low)
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
