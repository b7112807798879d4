//! Answers ARP, neighbour solicitations and pings for declared addresses, in the kernel.

use warpwire_device::{Piece, Simt};
use warpwire_protocols::checksum::{Sum, patch16};
use warpwire_protocols::parse::{Fragment, Kind};
use warpwire_protocols::wire::IpProtocol;
use zerocopy::{FromBytes, Immutable, KnownLayout};

use crate::context::Context;
use crate::packet::Packet;
use crate::repair::sum;
use crate::spec::{CounterSpec, Field, FieldKind, Given, Outcome, PackedAddress, Span, Spec};
use crate::stage::{Stage, Verdict};

/// Turns a request for one of the addresses into its answer and sends it back; other frames go on.
#[derive(Clone, Copy, Debug)]
pub struct Respond;

/// What is answered, and for whom.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Args {
    given: Given,
    answer: u32,
    addresses: Span,
}

const ARP: u32 = 1;
const NEIGHBOUR: u32 = 2;
const ECHO: u32 = 4;

impl Stage for Respond {
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
        let answer = if args.given.has(0) {
            args.answer
        } else {
            u32::MAX
        };
        let own = context.addresses(args.addresses);
        let headers = packet.headers();
        let answered = match headers.kind {
            _ if headers.fragment != Fragment::None => fragment(packet, own),
            Kind::Arp if answer & ARP != 0 => arp(packet, own, context.mac()),
            Kind::Icmpv4 if answer & ECHO != 0 => echo(packet, own, context.mac()),
            Kind::Icmpv6 => match headers.icmp_type() {
                SOLICITATION if answer & NEIGHBOUR != 0 => neighbour(packet, own, context.mac()),
                ECHO_REQUEST_V6 if answer & ECHO != 0 => echo(packet, own, context.mac()),
                _ => None,
            },
            _ => None,
        };
        match answered {
            None => Verdict::Next,
            Some(counter) => {
                context.count(counter);
                match counter {
                    FRAGMENTS | NO_ROOM => Verdict::Next,
                    _ => Verdict::Send(context.own_port()),
                }
            }
        }
    }
}

/// Turns a request for one of our addresses into its reply; the counter of it, or `None`.
#[inline]
fn arp(packet: &mut Packet<'_>, own: &[PackedAddress], mac: [u8; 6]) -> Option<u32> {
    let bytes = packet.bytes();
    let l3 = u32::from(packet.headers().l3);
    let target = bytes.be32(l3 + 24)?;
    let is_request = bytes.be16(l3 + 6)? == 1;
    if !is_request || !is_own(own, 4, [target, 0, 0, 0]) || !is_for(packet, mac) {
        return None;
    }
    let asker = packet.mac(l3 + 8)?;
    let sender = bytes.be32(l3 + 14)?;
    bytes.set_be16(l3 + 6, 2);
    packet.set_mac(l3 + 8, mac);
    packet.bytes().set_be32(l3 + 14, target);
    packet.set_mac(l3 + 18, asker);
    packet.bytes().set_be32(l3 + 24, sender);
    packet.set_mac(0, asker);
    packet.set_mac(6, mac);
    packet.edited();
    Some(ARP_ANSWERED)
}

/// A fragment of a ping to one of our addresses is not put together here: it is counted and goes
/// on.
#[cold]
#[inline(never)]
fn fragment(packet: &Packet<'_>, own: &[PackedAddress]) -> Option<u32> {
    let headers = packet.headers();
    let (_, destination) = packet.ip_addresses();
    let is_icmp = matches!(headers.protocol, IpProtocol::ICMPV4 | IpProtocol::ICMPV6);
    let ours = is_own(own, headers.ip_version.into(), destination);
    (is_icmp && ours).then_some(FRAGMENTS)
}

/// Turns an echo request to one of our addresses into its reply.
///
/// Exchanging the addresses leaves every sum as it is; the type and the time to live are patched.
#[inline]
fn echo(packet: &mut Packet<'_>, own: &[PackedAddress], mac: [u8; 6]) -> Option<u32> {
    let headers = *packet.headers();
    let (request, reply, counter) = match headers.ip_version {
        4 => (ECHO_REQUEST, ECHO_REPLY, ECHO_V4),
        _ => (ECHO_REQUEST_V6, ECHO_REPLY_V6, ECHO_V6),
    };
    let (source, destination) = packet.ip_addresses();
    let for_us = packet.mac(0)? == mac && is_own(own, headers.ip_version.into(), destination);
    if headers.icmp_type() != request || headers.icmp_code() != 0 || !for_us {
        return None;
    }
    let bytes = packet.bytes();
    let (l3, l4) = (u32::from(headers.l3), u32::from(headers.l4));
    let checksum = bytes.be16(l4 + 2)?;
    let (old, new) = (u16::from(request) << 8, u16::from(reply) << 8);
    bytes.set_be16(l4, new);
    let patched = patch16(checksum, old, new);
    bytes.set_be16(l4 + 2, patched);
    if patched == 0 && headers.ip_version == 4 && is_zero(packet) {
        bytes.set_be16(l4 + 2, 0xffff);
    }
    let (at, words) = if headers.ip_version == 4 {
        (l3 + 12, 1)
    } else {
        (l3 + 8, 4)
    };
    write_words(&bytes, at, destination, words);
    write_words(&bytes, at + 4 * words, source, words);
    packet.swap_macs();
    packet.set_mac(6, mac);
    packet.set_ttl(TTL);
    Some(counter)
}

/// Turns a neighbour solicitation for one of our addresses into an advertisement, RFC 4861 section
/// 7.2.4: solicited and override, with our Ethernet address as its option. Who asks without an
/// address (duplicate address detection) is answered by way of all nodes.
#[inline]
fn neighbour(packet: &mut Packet<'_>, own: &[PackedAddress], mac: [u8; 6]) -> Option<u32> {
    let headers = *packet.headers();
    let (l3, l4) = (u32::from(headers.l3), u32::from(headers.l4));
    let bytes = packet.bytes();
    let target = [8, 12, 16, 20].map(|at| bytes.be32(l4 + at).unwrap_or(0));
    let sound = headers.ttl == 255 && headers.icmp_code() == 0 && headers.end() >= l4 + 24;
    if !sound || !is_own(own, 6, target) || !is_for(packet, mac) {
        return None;
    }
    let (asker, _) = packet.ip_addresses();
    let asker_mac = packet.mac(6)?;
    if !packet.resize(l4 + ADVERTISEMENT) {
        return Some(NO_ROOM);
    }
    let anonymous = asker == [0; 4];
    let to = if anonymous { ALL_NODES } else { asker };
    let bytes = packet.bytes();
    packet.set_mac(0, if anonymous { ALL_NODES_MAC } else { asker_mac });
    packet.set_mac(6, mac);
    bytes.set_be16(l3 + 4, ADVERTISEMENT as u16);
    write_words(&bytes, l3 + 8, target, 4);
    write_words(&bytes, l3 + 24, to, 4);
    let flags = if anonymous {
        OVERRIDE
    } else {
        SOLICITED | OVERRIDE
    };
    bytes.set_be32(l4, u32::from(ADVERTISED) << 24);
    bytes.set_be32(l4 + 4, flags);
    bytes.set_be16(l4 + 24, TARGET_OPTION);
    packet.set_mac(l4 + 26, mac);
    let pseudo = [target, to]
        .into_iter()
        .flatten()
        .fold(Sum::ZERO, |sum, word| sum.add_field32(word))
        .add_field32(ADVERTISEMENT)
        .add_field(u16::from(headers.protocol.0));
    let message = sum(packet, l4, l4 + ADVERTISEMENT);
    packet
        .bytes()
        .set_be16(l4 + 2, pseudo.plus(message).checksum());
    packet.edited();
    Some(NEIGHBOUR_ANSWERED)
}

/// Whether a message is nothing but zeros: the checksum of an echo reply is then all ones, which a
/// patch of the request's cannot tell from zero (RFC 1624, section 3).
#[cold]
#[inline(never)]
fn is_zero(packet: &Packet<'_>) -> bool {
    let headers = packet.headers();
    sum(packet, u32::from(headers.l4), headers.end()).checksum() == 0xffff
}

/// Whether an address is one of ours.
#[inline]
fn is_own(own: &[PackedAddress], version: u32, words: [u32; 4]) -> bool {
    own.iter()
        .any(|one| one.version == version && one.words == words)
}

/// Whether a frame is for our Ethernet address or for a group.
#[inline]
fn is_for(packet: &Packet<'_>, mac: [u8; 6]) -> bool {
    packet.mac(0).is_some_and(|to| to == mac || to[0] & 1 != 0)
}

#[inline]
fn write_words(bytes: &Piece<'_>, at: u32, words: [u32; 4], count: u32) {
    for (word, index) in words.into_iter().zip(0..count) {
        bytes.set_be32(at + 4 * index, word);
    }
}

const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
const SOLICITATION: u8 = 135;
const ADVERTISED: u8 = 136;

/// Bytes of an advertisement: the message and its one option.
const ADVERTISEMENT: u32 = 32;
/// An option of type 2 (target link-layer address) and length 1 (8 bytes).
const TARGET_OPTION: u16 = 0x0201;
const SOLICITED: u32 = 1 << 30;
const OVERRIDE: u32 = 1 << 29;
const ALL_NODES: [u32; 4] = [0xff02_0000, 0, 0, 1];
const ALL_NODES_MAC: [u8; 6] = [0x33, 0x33, 0, 0, 0, 1];
/// Time to live of answers.
const TTL: u8 = 64;

/// Places of the counters.
const ARP_ANSWERED: u32 = 0;
const NEIGHBOUR_ANSWERED: u32 = 1;
const ECHO_V4: u32 = 2;
const ECHO_V6: u32 = 3;
const FRAGMENTS: u32 = 4;
const NO_ROOM: u32 = 5;

const SPEC: Spec = Spec {
    name: "respond",
    about: "answers ARP, neighbour discovery and ICMP echo for declared addresses",
    fields: &[
        Field::optional(
            "answer",
            FieldKind::Words(&[("arp", ARP), ("neighbour", NEIGHBOUR), ("echo", ECHO)]),
            core::mem::offset_of!(Args, answer),
            "what to answer; all if left out",
        ),
        Field::optional(
            "addresses",
            FieldKind::OwnAddresses,
            core::mem::offset_of!(Args, addresses),
            "whom to answer for; the NIC's addresses if left out",
        ),
    ],
    one_of: &[],
    counters: &[
        CounterSpec::one("arp"),
        CounterSpec::one("neighbour"),
        CounterSpec::one("echo_v4"),
        CounterSpec::one("echo_v6"),
        CounterSpec::one("fragments"),
        CounterSpec::one("no_room"),
    ],
    args_bytes: size_of::<Args>(),
    outcome: Outcome::Splits,
};

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{OWN, PORT, Scene, frame};

    const ALL: Args = Args {
        given: Given(0),
        answer: 0,
        addresses: OWN,
    };

    #[test]
    fn requests_become_the_answers_that_a_host_would_give() {
        let cases = [
            ("arp_request", "arp_reply", "arp"),
            ("arp_tagged_request", "arp_tagged_reply", "arp"),
            ("echo4_request", "echo4_reply", "echo_v4"),
            ("echo4_options_request", "echo4_options_reply", "echo_v4"),
            ("echo6_request", "echo6_reply", "echo_v6"),
            ("solicitation", "advertisement", "neighbour"),
            ("dad_solicitation", "dad_advertisement", "neighbour"),
        ];
        for (from, to, counter) in cases {
            let sent = Verdict::Send(PORT);
            Scene::default().check::<Respond>(&ALL, (from, to), sent, &[(counter, 1)]);
        }
    }

    #[test]
    fn what_is_not_for_us_goes_on_unchanged() {
        let cases = [
            "arp_for_other",
            "arp_reply",
            "echo4_other_mac",
            "echo4_reply",
            "echo6_reply",
            "advertisement",
            "solicitation_hop_limit",
            "udp4",
        ];
        for name in cases {
            Scene::default().check::<Respond>(&ALL, (name, name), Verdict::Next, &[]);
        }
        for name in ["echo4_first_fragment", "echo4_later_fragment"] {
            let counts = [("fragments", 1)];
            Scene::default().check::<Respond>(&ALL, (name, name), Verdict::Next, &counts);
        }
    }

    #[test]
    fn an_answer_of_zeros_has_a_checksum_of_ones() {
        let mut request = frame("echo4_request");
        let l4 = 34;
        let length = usize::from(u16::from_be_bytes([request[16], request[17]])) + 14;
        request[l4..length].fill(0);
        request[l4..l4 + 4].copy_from_slice(&[8, 0, 0xf7, 0xff]);
        let answered = Scene::default().run::<Respond>(&ALL, &request);
        assert_eq!(answered.verdict, Verdict::Send(PORT));
        assert_eq!(answered.bytes[l4..l4 + 4], [0, 0, 0xff, 0xff]);
        // The same checksum over words that sum up to all ones stays in its usual form.
        request[length - 2..length].fill(0xff);
        let answered = Scene::default().run::<Respond>(&ALL, &request);
        assert_eq!(answered.bytes[l4..l4 + 4], [0, 0, 0, 0]);
    }

    #[test]
    fn only_what_is_asked_for_is_answered() {
        let only = |answer| Args {
            given: Given(1),
            answer,
            addresses: OWN,
        };
        let cases = [
            ("arp_request", ARP),
            ("solicitation", NEIGHBOUR),
            ("echo4_request", ECHO),
            ("echo6_request", ECHO),
        ];
        for (name, bit) in cases {
            let request = frame(name);
            let answered = Scene::default().run::<Respond>(&only(bit), &request);
            assert_eq!(answered.verdict, Verdict::Send(PORT), "{name}");
            let refused = Scene::default().run::<Respond>(&only(!bit), &request);
            assert_eq!(refused.verdict, Verdict::Next, "{name}");
            assert_eq!(refused.bytes, request, "{name}");
        }
    }

    #[test]
    fn an_answer_that_does_not_fit_its_slot_is_counted() {
        let scene = Scene {
            room: 80,
            ..Scene::default()
        };
        let name = ("dad_solicitation", "dad_solicitation");
        scene.check::<Respond>(&ALL, name, Verdict::Next, &[("no_room", 1)]);
    }
}
