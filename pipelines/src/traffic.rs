//! Frames for generators, built from a few words each.

use std::net::{IpAddr, Ipv4Addr};

use warpwire_protocols::checksum::{Fill, Host, Sum, icrc, pseudo_ipv4, pseudo_ipv6};
use warpwire_protocols::wire::bth::{PKey, Pad};
use warpwire_protocols::wire::icmpv4::Echo;
use warpwire_protocols::wire::opcode::Opcode;
use warpwire_protocols::wire::tcp::TcpSequence;
use warpwire_protocols::wire::{
    EtherType, IpProtocol, MacAddress, Psn, Qpn, TagControl, TcpFlags, TrafficClass, VlanId, arp,
    bth, ethernet, icmpv4, icmpv6, ipv4, ipv6, tcp, tcp_option, udp, vlan,
};

/// What a generated frame is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// An ARP request for the destination.
    Arp,
    /// An ICMP or ICMPv6 echo request.
    Ping,
    /// A UDP datagram.
    Udp,
    /// A TCP segment.
    Tcp,
    /// A DNS query for a name.
    Dns,
    /// The start of an HTTP request.
    Http,
    /// A RoCEv2 packet with a right ICRC.
    Roce,
    /// An IP packet that says it is longer than its frame.
    Cut,
}

impl Kind {
    /// Every kind with its word.
    pub const ALL: &[(&str, Kind)] = &[
        ("arp", Kind::Arp),
        ("ping", Kind::Ping),
        ("udp", Kind::Udp),
        ("tcp", Kind::Tcp),
        ("dns", Kind::Dns),
        ("http", Kind::Http),
        ("roce", Kind::Roce),
        ("cut", Kind::Cut),
    ];

    /// The destination port of the kind, unless told.
    pub const fn port(self) -> u16 {
        match self {
            Self::Dns => 53,
            Self::Http => 80,
            Self::Roce => bth::UDP_PORT,
            _ => 9,
        }
    }
}

/// The words that a frame is built from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipe {
    /// What it is.
    pub kind: Kind,
    /// Ethernet source.
    pub source_mac: [u8; 6],
    /// Ethernet destination.
    pub destination_mac: [u8; 6],
    /// IP source; of the family of `destination`.
    pub source: IpAddr,
    /// IP destination.
    pub destination: IpAddr,
    /// Source port of UDP and TCP.
    pub source_port: u16,
    /// Destination port of UDP and TCP.
    pub destination_port: u16,
    /// A VLAN tag.
    pub vlan: Option<u16>,
    /// Bytes of the frame; more if the headers need more.
    pub length: u32,
    /// Payload of HTTP, or the name that DNS asks for.
    pub text: String,
    /// RoCE: the opcode.
    pub opcode: Opcode,
    /// RoCE: the queue pair that it is for.
    pub qp: u32,
}

/// A frame, and where its flows differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Offset of the 16-bit field that tells flows apart, 0 if none may.
    pub vary_at: u32,
    /// Offset of the checksum over that field.
    pub checksum_at: u32,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            kind: Kind::Udp,
            source_mac: [2, 0, 0, 0, 0, 2],
            destination_mac: [2, 0, 0, 0, 0, 1],
            source: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 2)),
            destination: IpAddr::V4(Ipv4Addr::new(198, 18, 0, 1)),
            source_port: 10_000,
            destination_port: 9,
            vlan: None,
            length: 64,
            text: String::new(),
            opcode: Opcode::SEND_ONLY,
            qp: 0x11,
        }
    }
}

impl Recipe {
    /// Builds the frame.
    pub fn build(&self) -> Frame {
        let (ether_type, mut packet) = match self.kind {
            Kind::Arp => (EtherType::ARP, self.arp()),
            _ => self.packet(),
        };
        if self.kind == Kind::Roce {
            let covered = packet.len() - bth::ICRC_LENGTH;
            let crc = icrc::of_packet::<Host>(packet.get(..covered).unwrap_or(&[]));
            packet.truncate(covered);
            packet.extend(crc.unwrap_or_default());
        }
        let mut bytes = self.ethernet(ether_type);
        let l4 = (bytes.len() + self.network_bytes()) as u32;
        bytes.append(&mut packet);
        if self.kind == Kind::Cut {
            bytes.truncate(bytes.len() - CUT_BYTES);
        }
        let (vary_at, checksum_at) = match self.kind {
            Kind::Udp | Kind::Dns => (l4, l4 + 6),
            Kind::Tcp | Kind::Http => (l4, l4 + 16),
            Kind::Ping => (l4 + 4, l4 + 2),
            Kind::Arp | Kind::Roce | Kind::Cut => (0, 0),
        };
        Frame {
            bytes,
            vary_at,
            checksum_at,
        }
    }

    /// Bytes of the Ethernet header, tag included.
    fn link_bytes(&self) -> usize {
        ethernet::Header::LENGTH + self.vlan.map_or(0, |_| vlan::Header::LENGTH)
    }

    fn network_bytes(&self) -> usize {
        match (self.kind, self.destination) {
            (Kind::Arp, _) => 0,
            (_, IpAddr::V4(_)) => ipv4::Header::LENGTH,
            (_, IpAddr::V6(_)) => ipv6::Header::LENGTH,
        }
    }

    fn ethernet(&self, ether_type: EtherType) -> Vec<u8> {
        let mut bytes = vec![0; self.link_bytes()];
        let outer = ethernet::Repr {
            destination: match self.kind {
                Kind::Arp => MacAddress::BROADCAST,
                _ => MacAddress(self.destination_mac),
            },
            source: MacAddress(self.source_mac),
            ether_type: match self.vlan {
                Some(_) => EtherType::VLAN,
                None => ether_type,
            },
        };
        let written = outer.emit(&mut bytes).unwrap_or(0);
        if let (Some(id), Some(rest)) = (self.vlan.and_then(VlanId::new), bytes.get_mut(written..))
        {
            let tag = vlan::Repr {
                control: TagControl::new(0, false, id),
                ether_type,
            };
            // The room was made for it above.
            let _ = tag.emit(rest);
        }
        bytes
    }

    fn arp(&self) -> Vec<u8> {
        let address = |address| match address {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        let request = arp::Repr {
            operation: arp::Operation::Request,
            sender_hardware: MacAddress(self.source_mac),
            sender: address(self.source),
            target_hardware: MacAddress::default(),
            target: address(self.destination),
        };
        let most = (self.length as usize).saturating_sub(self.link_bytes());
        let mut bytes = vec![0; arp::Header::LENGTH.max(most)];
        // The room was made for it above.
        let _ = request.emit(&mut bytes);
        bytes
    }

    /// The IP packet with its Ethernet type. The ICRC of RoCE is left to the caller.
    fn packet(&self) -> (EtherType, Vec<u8>) {
        let protocol = match (self.kind, self.destination) {
            (Kind::Ping, IpAddr::V4(_)) => IpProtocol::ICMPV4,
            (Kind::Ping, IpAddr::V6(_)) => IpProtocol::ICMPV6,
            (Kind::Tcp | Kind::Http, _) => IpProtocol::TCP,
            _ => IpProtocol::UDP,
        };
        let head = self.link_bytes() + self.network_bytes();
        let room = (self.length as usize).saturating_sub(head);
        let datagram = self.datagram(protocol, room);
        let payload_length = datagram.len() as u16;
        let mut bytes = vec![0; self.network_bytes()];
        let ether_type = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                let header = ipv4::Repr {
                    traffic_class: TrafficClass::default(),
                    identification: 0,
                    dont_fragment: true,
                    more_fragments: false,
                    fragment_offset: ipv4::FragmentOffset::default(),
                    ttl: 64,
                    protocol,
                    source,
                    destination,
                    payload_length,
                    options: ipv4::Options::default(),
                };
                // The room was made for it above.
                let _ = header.emit(&mut bytes);
                EtherType::IPV4
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                let header = ipv6::Repr {
                    traffic_class: TrafficClass::default(),
                    flow_label: ipv6::FlowLabel::default(),
                    payload_length,
                    next_header: protocol,
                    hop_limit: 64,
                    source,
                    destination,
                };
                // The room was made for it above.
                let _ = header.emit(&mut bytes);
                EtherType::IPV6
            }
            // Whoever read the words has seen to it that both are of one family.
            _ => EtherType::IPV4,
        };
        bytes.extend(datagram);
        (ether_type, bytes)
    }

    /// The transport header and what follows it, at least `room` bytes.
    fn datagram(&self, protocol: IpProtocol, room: usize) -> Vec<u8> {
        let header = match (protocol, self.kind) {
            (IpProtocol::TCP, _) => tcp::Header::LENGTH,
            (IpProtocol::UDP, Kind::Roce) => udp::Header::LENGTH,
            _ => udp::Header::LENGTH,
        };
        let payload = self.payload(room.saturating_sub(header));
        let length = header + payload.len();
        let pseudo = match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                pseudo_ipv4(source, destination, protocol, length as u16)
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                pseudo_ipv6(source, destination, protocol, length as u32)
            }
            _ => Sum::ZERO,
        };
        let mut bytes = vec![0; header];
        let fill = Fill::Compute {
            payload: Sum::of(&payload),
        };
        // The room was made for each of them above.
        let _ = match protocol {
            IpProtocol::TCP => self.tcp().emit(&mut bytes, pseudo, fill),
            IpProtocol::ICMPV4 => icmpv4::Repr::EchoRequest(ECHO).emit(&mut bytes, fill),
            IpProtocol::ICMPV6 => icmpv6::Repr::EchoRequest(ECHO).emit(&mut bytes, pseudo, fill),
            _ => {
                let fill = match self.kind {
                    Kind::Roce => Fill::Absent,
                    _ => fill,
                };
                self.udp(payload.len()).emit(&mut bytes, pseudo, fill)
            }
        };
        bytes.extend(payload);
        bytes
    }

    fn tcp(&self) -> tcp::Repr {
        tcp::Repr {
            source_port: self.source_port,
            destination_port: self.destination_port,
            sequence: TcpSequence(1),
            acknowledgement: TcpSequence(1),
            flags: TcpFlags::PSH | TcpFlags::ACK,
            window: 65_535,
            urgent: 0,
            options: tcp_option::Options::default(),
        }
    }

    fn udp(&self, payload: usize) -> udp::Repr {
        udp::Repr {
            source_port: self.source_port,
            destination_port: self.destination_port,
            payload_length: payload as u16,
        }
    }

    /// What follows the transport header: at least `room` bytes.
    fn payload(&self, room: usize) -> Vec<u8> {
        let mut bytes = match self.kind {
            Kind::Dns => dns_query(&self.text),
            Kind::Http => self.text.clone().into_bytes(),
            Kind::Roce => return self.roce(room),
            _ => Vec::new(),
        };
        // Bytes behind the text: a DNS message is followed by nothing.
        if self.kind != Kind::Dns {
            let count = room.saturating_sub(bytes.len());
            bytes.extend((0..count).map(|index| index as u8));
        }
        bytes
    }

    /// Base transport header, payload, pad, and room for the ICRC.
    fn roce(&self, room: usize) -> Vec<u8> {
        let payload = room.saturating_sub(bth::Header::LENGTH + bth::ICRC_LENGTH);
        let header = bth::Repr {
            opcode: self.opcode,
            solicited_event: false,
            migration: true,
            pad: Pad::of(payload as u32),
            pkey: PKey::DEFAULT,
            forward_congestion: false,
            backward_congestion: false,
            destination_qp: Qpn::new(self.qp),
            acknowledge: false,
            psn: Psn::new(0),
        };
        let mut bytes = vec![0; bth::Header::LENGTH];
        // The room was made for it above.
        let _ = header.emit(&mut bytes);
        bytes.extend((0..payload).map(|index| index as u8));
        let padded = payload.next_multiple_of(4) - payload;
        bytes.resize(bytes.len() + padded + bth::ICRC_LENGTH, 0);
        bytes
    }
}

/// A recursive query for the addresses of a name, RFC 1035 section 4.
fn dns_query(name: &str) -> Vec<u8> {
    let mut bytes = vec![0, 1, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.split('.').map(str::as_bytes) {
        bytes.push(label.len() as u8);
        bytes.extend(label);
    }
    bytes.extend([0, 0, 1, 0, 1]);
    bytes
}

/// The numbers of the first echo.
const ECHO: Echo = Echo {
    identifier: 1,
    sequence: 1,
};

/// Bytes that a cut frame lacks at its end.
const CUT_BYTES: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use warpwire_protocols::DropReason;
    use warpwire_protocols::checksum::{ChecksumState, transport_state};
    use warpwire_protocols::parse::{self, parse_bytes};

    fn recipe(kind: Kind) -> Recipe {
        Recipe {
            kind,
            destination_port: kind.port(),
            text: match kind {
                Kind::Dns => "www.example.org".to_owned(),
                Kind::Http => "GET / HTTP/1.1\r\n\r\n".to_owned(),
                _ => String::new(),
            },
            ..Recipe::default()
        }
    }

    #[test]
    fn every_kind_is_what_it_says_in_both_families_and_behind_a_tag() {
        let six = |last| IpAddr::V6(std::net::Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last));
        for (word, kind) in Kind::ALL {
            for vlan in [None, Some(7)] {
                for (source, destination) in [
                    (Recipe::default().source, Recipe::default().destination),
                    (six(2), six(1)),
                ] {
                    let recipe = Recipe {
                        source,
                        destination,
                        vlan,
                        ..recipe(*kind)
                    };
                    check(word, &recipe);
                }
            }
        }
    }

    fn check(word: &str, recipe: &Recipe) {
        let frame = recipe.build();
        let parsed = parse_bytes(&frame.bytes, frame.bytes.len() as u32);
        if recipe.kind == Kind::Cut {
            let reason = parsed.expect_err("is malformed").reason;
            assert_eq!(reason, DropReason::IpLengthOverFrame);
            return;
        }
        let headers = parsed.expect(word);
        let want = match (recipe.kind, recipe.destination) {
            (Kind::Arp, _) => parse::Kind::Arp,
            (Kind::Ping, IpAddr::V4(_)) => parse::Kind::Icmpv4,
            (Kind::Ping, IpAddr::V6(_)) => parse::Kind::Icmpv6,
            (Kind::Tcp | Kind::Http, _) => parse::Kind::Tcp,
            (Kind::Roce, _) => parse::Kind::RoceV2,
            _ => parse::Kind::Udp,
        };
        assert_eq!(headers.kind, want, "{word}");
        assert_eq!(headers.tags > 0, recipe.vlan.is_some(), "{word}");
        let state = transport_state(&frame.bytes, &headers);
        let right = match recipe.kind {
            Kind::Arp => state == ChecksumState::Unverified,
            Kind::Roce => state == ChecksumState::Absent,
            _ => state == ChecksumState::Good,
        };
        assert!(right, "{word}: {state:?}");
        if recipe.kind == Kind::Roce {
            let datagram = &frame.bytes[usize::from(headers.l3)..headers.end() as usize];
            icrc::verify::<Host>(datagram).expect("the ICRC holds");
        }
    }

    #[test]
    fn lengths_are_kept_where_headers_allow() {
        for length in [64, 65, 66, 67, 128, 1514] {
            let frame = Recipe {
                length,
                ..recipe(Kind::Udp)
            };
            assert_eq!(frame.build().bytes.len(), length as usize);
        }
        let small = Recipe {
            length: 1,
            ..recipe(Kind::Udp)
        };
        assert_eq!(small.build().bytes.len(), 42);
    }
}
