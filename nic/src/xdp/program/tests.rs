//! The program as the kernel runs it, against a plain reading of the rules.

use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::AsRawFd;

use super::*;
use crate::spec::NicSpec;
use crate::xdp::bpf;

const OURS: [u8; 6] = [2, 0, 0, 0, 0, 2];
const TAKEN: u32 = 3;

/// A frame under construction.
struct Frame(Vec<u8>);

impl Frame {
    fn new(to: [u8; 6], tags: &[u16], kind: u16) -> Self {
        let mut bytes = to.to_vec();
        bytes.extend([2, 0, 0, 0, 0, 1]);
        for tag in tags {
            bytes.extend(tag.to_be_bytes());
            bytes.extend([0, 7]);
        }
        bytes.extend(kind.to_be_bytes());
        Self(bytes)
    }

    fn and(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn ipv4(self, to: &str, protocol: u8, fragment: u16, options: usize) -> Self {
        let to: IpAddr = to.parse().expect("address");
        let mut header = vec![0; 20 + options * 4];
        header[0] = 0x45 + options as u8;
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header[9] = protocol;
        if let IpAddr::V4(to) = to {
            header[16..20].copy_from_slice(&to.octets());
        }
        self.and(&header)
    }

    fn ipv6(self, to: &str, next: u8) -> Self {
        let to: Ipv6Addr = to.parse().expect("address");
        let mut header = [0; 40];
        header[0] = 0x60;
        header[6] = next;
        header[24..40].copy_from_slice(&to.octets());
        self.and(&header)
    }

    fn ports(self, port: u16) -> Self {
        let [high, low] = port.to_be_bytes();
        self.and(&[0x30, 0x39, high, low, 0, 8, 0, 0])
    }

    fn arp(self, target: [u8; 4]) -> Self {
        let mut body = [0; 28];
        body[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, 1]);
        body[24..].copy_from_slice(&target);
        self.and(&body)
    }

    fn solicitation(self, kind: u8, target: &str) -> Self {
        let target: Ipv6Addr = target.parse().expect("address");
        self.and(&[kind, 0, 0, 0, 0, 0, 0, 0]).and(&target.octets())
    }
}

/// The rules, read plainly.
fn naive(rules: &Rules, frame: &[u8]) -> bool {
    naive_of(rules, frame).is_some()
}

fn naive_of(rules: &Rules, frame: &[u8]) -> Option<()> {
    let half = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    frame.get(13)?;
    let to = frame.get(..6)?;
    let mac = match rules.mac {
        MacPolicy::Any => None,
        MacPolicy::Own => Some(OURS),
        MacPolicy::Address(mac) => Some(mac),
    };
    if mac.is_some_and(|mac| to != mac) && to[0] & 1 == 0 {
        return None;
    }
    if rules.everything {
        return Some(());
    }
    let (mut at, mut kind) = (14, half(12)?);
    for _ in 0..2 {
        if matches!(kind, 0x8100 | 0x88a8) {
            kind = half(at + 2)?;
            at += 4;
        }
    }
    let rest = frame.get(at..)?;
    match kind {
        0x0806 => {
            let target: [u8; 4] = rest.get(24..28)?.try_into().ok()?;
            let ours = rules.addresses.contains(&IpAddr::from(target));
            (rest[..4] == [0, 1, 8, 0] && ours).then_some(())
        }
        0x0800 => naive_ipv4(rules, rest),
        0x86dd => naive_ipv6(rules, rest),
        _ => None,
    }
}

#[derive(Clone, Copy)]
enum Port {
    None,
    Number(u16),
    Later,
}

fn port_of(protocol: u8, header: Option<&[u8]>) -> Port {
    match header.and_then(|header| header.get(..4)) {
        Some(bytes) if PORT_PROTOCOLS.contains(&protocol) => {
            Port::Number(u16::from_be_bytes([bytes[2], bytes[3]]))
        }
        _ => Port::None,
    }
}

fn naive_ipv4(rules: &Rules, packet: &[u8]) -> Option<()> {
    let header = packet.get(..20)?;
    let to: [u8; 4] = header[16..20].try_into().ok()?;
    let length = usize::from(header[0] & 15) * 4;
    let port = if u16::from_be_bytes([header[6], header[7]]) & 0x1fff != 0 {
        Port::Later
    } else if length < 20 {
        return None;
    } else {
        port_of(header[9], packet.get(length..))
    };
    naive_flows(rules, IpAddr::from(to), header[9], port)
}

fn naive_ipv6(rules: &Rules, packet: &[u8]) -> Option<()> {
    let header = packet.get(..40)?;
    let to: [u8; 16] = header[24..40].try_into().ok()?;
    let mut rest = &packet[40..];
    let mut next = header[6];
    if next == 58 && rest.len() >= 24 && rest[0] == 135 {
        let target: [u8; 16] = rest[8..24].try_into().ok()?;
        if rules.addresses.contains(&IpAddr::from(target)) {
            return Some(());
        }
    }
    let mut port = None;
    for _ in 0..MAX_EXTENSIONS {
        if !matches!(next, 0 | 43 | 44 | 60) {
            break;
        }
        if rest.len() < 8 {
            port = Some(Port::None);
            break;
        }
        let length = if next == 44 {
            8
        } else {
            (usize::from(rest[1]) + 1) * 8
        };
        if next == 44 && u16::from_be_bytes([rest[2], rest[3]]) & 0xfff8 != 0 {
            port = Some(Port::Later);
        }
        next = rest[0];
        rest = rest.get(length..).unwrap_or(&[]);
        if port.is_some() {
            break;
        }
    }
    let port = port.unwrap_or_else(|| port_of(next, Some(rest)));
    naive_flows(rules, IpAddr::from(to), next, port)
}

fn naive_flows(rules: &Rules, to: IpAddr, protocol: u8, port: Port) -> Option<()> {
    let mut flows = rules.all_flows();
    let found = flows.any(|flow| {
        let here = flow.prefix.is_none_or(|prefix| prefix.contains(to));
        let same = flow.protocol.is_none_or(|wanted| wanted == protocol);
        let port = match (flow.port, port) {
            (None, _) => true,
            (Some(wanted), Port::Number(port)) => wanted == port,
            (Some(_), Port::Later) => flow.prefix.is_some(),
            (Some(_), Port::None) => false,
        };
        here && same && port
    });
    found.then_some(())
}

fn rules(words: &str) -> Rules {
    let spec: NicSpec = format!("xdp:v1,{words}").parse().expect(words);
    Rules::of(&spec).expect(words)
}

/// The program in the kernel. None without the right to load one.
struct Loaded {
    rules: Rules,
    program: std::os::fd::OwnedFd,
    _map: std::os::fd::OwnedFd,
}

impl Loaded {
    fn new(rules: Rules) -> Self {
        let map = bpf::create_socket_map(1).expect("map");
        let plan = Plan {
            rules: &rules,
            mac: OURS,
            sockets: map.as_raw_fd(),
            without_socket: TAKEN,
        };
        let code = compile(&plan).expect("assembles");
        let program = match bpf::load(&code, true) {
            Ok(program) => program,
            Err(fault) => panic!("{}: {}", fault.source, fault.log),
        };
        Self {
            rules,
            program,
            _map: map,
        }
    }

    fn takes(&self, frame: &[u8]) -> bool {
        match bpf::verdict(&self.program, frame).expect("runs") {
            TAKEN => true,
            XDP_PASS => false,
            other => panic!("verdict {other}"),
        }
    }
}

fn may_load() -> bool {
    let able = warpwire_skip::is_root();
    if !able {
        warpwire_skip::installable("loading an XDP program needs root");
    }
    able
}

#[test]
fn declared_frames_are_taken_and_the_rest_passes() {
    if !may_load() {
        return;
    }
    let ip4 = |to, protocol, fragment, options| {
        Frame::new(OURS, &[], 0x0800).ipv4(to, protocol, fragment, options)
    };
    let ip6 = |to, next| Frame::new(OURS, &[], 0x86dd).ipv6(to, next);
    let other = [2, 0, 0, 0, 0, 9];
    let group = [0x33, 0x33, 0xff, 0, 0, 2];
    let (host, flow) = ("address=10.0.0.2,address=fd00::2", "flow=udp/4791");
    let place = "flow=udp/4791@10.1.0.0/16,flow=tcp/80@fd01::/32,prefix=192.0.2.128/25";
    let hop = [17, 0, 0, 0, 0, 0, 0, 0];
    let fragment = |offset: u8| [17, 0, 0, offset, 0, 0, 0, 1];
    let cases = [
        (
            host,
            ip4("10.0.0.2", 1, 0, 0).and(&[8; 8]),
            true,
            "to our address",
        ),
        (
            host,
            ip4("10.0.0.3", 1, 0, 0).and(&[8; 8]),
            false,
            "to the host's",
        ),
        (
            host,
            ip4("10.0.0.2", 17, 0x2000, 0).ports(9),
            true,
            "first fragment",
        ),
        (
            host,
            ip4("10.0.0.2", 17, 185, 0).and(&[0; 8]),
            true,
            "later fragment",
        ),
        (
            host,
            Frame::new(other, &[], 0x0800).ipv4("10.0.0.2", 1, 0, 0),
            false,
            "other MAC",
        ),
        (
            host,
            Frame::new([255; 6], &[], 0x0806).arp([10, 0, 0, 2]),
            true,
            "ARP for us",
        ),
        (
            host,
            Frame::new([255; 6], &[], 0x0806).arp([10, 0, 0, 1]),
            false,
            "ARP for the host",
        ),
        (
            host,
            Frame::new(group, &[], 0x86dd)
                .ipv6("ff02::1:ff00:2", 58)
                .solicitation(135, "fd00::2"),
            true,
            "solicitation for us",
        ),
        (
            host,
            Frame::new(group, &[], 0x86dd)
                .ipv6("ff02::1:ff00:2", 58)
                .solicitation(135, "fd01::2"),
            false,
            "solicitation for another",
        ),
        (
            host,
            Frame::new(group, &[], 0x86dd)
                .ipv6("ff02::1:ff00:2", 58)
                .solicitation(136, "fd00::2"),
            false,
            "advertisement about us",
        ),
        (host, ip6("fd00::2", 58).and(&[128; 8]), true, "IPv6 to us"),
        (
            host,
            ip6("fd00::3", 58).and(&[128; 8]),
            false,
            "IPv6 to the host",
        ),
        (
            host,
            Frame::new(OURS, &[0x8100], 0x0800).ipv4("10.0.0.2", 1, 0, 0),
            true,
            "tagged",
        ),
        (
            host,
            Frame::new(OURS, &[0x88a8, 0x8100], 0x86dd).ipv6("fd00::2", 6),
            true,
            "twice tagged",
        ),
        (
            host,
            Frame::new(OURS, &[0x8100; 3], 0x0800).ipv4("10.0.0.2", 1, 0, 0),
            false,
            "three tags",
        ),
        (
            host,
            Frame::new(OURS, &[], 0x88cc).and(&[0; 46]),
            false,
            "LLDP",
        ),
        (
            flow,
            ip4("10.9.9.9", 17, 0, 0).ports(4791),
            true,
            "flow to anybody",
        ),
        (
            flow,
            ip4("10.9.9.9", 17, 0, 10).ports(4791),
            true,
            "flow behind options",
        ),
        (
            flow,
            ip4("10.9.9.9", 17, 0, 0).ports(4792),
            false,
            "next port",
        ),
        (
            flow,
            ip4("10.9.9.9", 6, 0, 0).ports(4791),
            false,
            "other protocol",
        ),
        (
            flow,
            ip4("10.9.9.9", 17, 185, 0).ports(4791),
            false,
            "later fragment of who knows",
        ),
        (
            flow,
            ip4("10.9.9.9", 17, 0, 0).and(&[0, 1]),
            false,
            "cut before the port",
        ),
        (flow, ip6("fd09::9", 17).ports(4791), true, "flow over IPv6"),
        (
            flow,
            ip6("fd09::9", 0).and(&hop).ports(4791),
            true,
            "behind hop-by-hop",
        ),
        (
            flow,
            ip6("fd09::9", 44).and(&fragment(1)).ports(4791),
            true,
            "IPv6 first fragment",
        ),
        (
            flow,
            ip6("fd09::9", 44).and(&fragment(8)).ports(4791),
            false,
            "IPv6 later fragment",
        ),
        (
            place,
            ip4("10.1.2.3", 17, 0, 0).ports(4791),
            true,
            "flow to a prefix",
        ),
        (
            place,
            ip4("10.2.2.3", 17, 0, 0).ports(4791),
            false,
            "flow to another prefix",
        ),
        (
            place,
            ip4("10.1.2.3", 17, 185, 0).and(&[0; 8]),
            true,
            "later fragment by prefix",
        ),
        (place, ip4("192.0.2.200", 89, 0, 0), true, "whole prefix"),
        (
            place,
            ip4("192.0.2.100", 89, 0, 0),
            false,
            "below the prefix",
        ),
        (
            place,
            ip6("fd01::77", 6).ports(80),
            true,
            "IPv6 flow to a prefix",
        ),
        (
            place,
            ip6("fd02::77", 6).ports(80),
            false,
            "IPv6 flow to another prefix",
        ),
        (
            "all",
            Frame::new(other, &[], 0x88cc).and(&[0; 46]),
            true,
            "everything",
        ),
        (
            "all,mac=own",
            Frame::new(other, &[], 0x88cc).and(&[0; 46]),
            false,
            "own frames alone",
        ),
        (
            "all,mac=02:00:00:00:00:09",
            Frame::new(other, &[], 0x88cc).and(&[0; 46]),
            true,
            "added MAC",
        ),
    ];
    for (words, frame, want, what) in cases {
        let loaded = Loaded::new(rules(words));
        assert_eq!(
            naive(&loaded.rules, &frame.0),
            want,
            "plain reading: {what}"
        );
        assert_eq!(loaded.takes(&frame.0), want, "{what}");
    }
}

/// A generator of numbers; one seed, one sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % bound as u64) as usize
    }

    fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

fn random_frame(random: &mut Random) -> Vec<u8> {
    let to = random.of(&[OURS, [2, 0, 0, 0, 0, 9], [255; 6]]);
    let tags: &[u16] = random.of(&[&[][..], &[][..], &[0x8100], &[0x88a8, 0x8100]]);
    let kind = random.of(&[0x0800, 0x0800, 0x86dd, 0x86dd, 0x0806, 0x88cc]);
    let protocol = random.of(&[6, 17, 17, 17, 1, 58, 44, 0, 43, 60, 132]);
    let extensions = random.of(&[0, 0, 0, 1, 2, 5]);
    let mut frame = Frame::new(to, tags, kind);
    frame = match kind {
        0x0806 => frame.arp(random.of(&[[10, 0, 0, 1], [10, 0, 0, 2]])),
        0x0800 => {
            let to = random.of(&["10.0.0.1", "10.0.0.2", "10.1.0.2", "192.0.2.1"]);
            let fragment = random.of(&[0, 0, 0x2000, 0x4000, 7]);
            let options = random.of(&[0, 0, 0, 1, 10]);
            frame.ipv4(to, protocol, fragment, options)
        }
        0x86dd => {
            let chained = random.of(&[0, 43, 44, 60]);
            let first = if extensions == 0 { protocol } else { chained };
            let to = random.of(&["fd00::1", "fd00::2", "fd01::7", "ff02::1"]);
            frame.ipv6(to, first)
        }
        _ => frame,
    };
    for left in (0..extensions).rev().filter(|_| kind == 0x86dd) {
        let chained = random.of(&[0, 43, 44, 60]);
        let next = if left == 0 { protocol } else { chained };
        let offset = random.of(&[0, 0, 1, 8]);
        frame = frame.and(&[next, 0, 0, offset, 0, 0, 0, 0]);
    }
    let port = random.of(&[80, 4791, 4791, 53]);
    frame = frame.ports(port).solicitation(135, "fd00::2");
    let mut bytes = frame.0;
    if random.below(3) == 0 {
        let at = random.below(bytes.len());
        bytes[at] ^= 1 << random.below(8);
    }
    let keep = 14 + random.below(bytes.len() - 13);
    bytes.truncate(if random.below(3) == 0 {
        keep
    } else {
        bytes.len()
    });
    bytes
}

#[test]
fn random_frames_are_judged_as_the_rules_say() {
    if !may_load() {
        return;
    }
    let sets = [
        "address=10.0.0.2,address=fd00::2",
        "flow=udp/4791,flow=tcp/80@fd00::/16,mac=any",
        "prefix=10.0.0.0/15,flow=icmpv6,flow=udp/53@10.1.0.0/16,flow=132/80",
        "flow=udp@10.0.0.2,prefix=fd01::/17,prefix=0.0.0.0/0,mac=02:00:00:00:00:09",
    ];
    for words in sets {
        let loaded = Loaded::new(rules(words));
        let (mut random, mut taken) = (Random(7), 0);
        for round in 0..4000 {
            let frame = random_frame(&mut random);
            let want = naive(&loaded.rules, &frame);
            taken += usize::from(want);
            assert_eq!(
                loaded.takes(&frame),
                want,
                "{words}, seed 7, round {round}: {frame:02x?}"
            );
        }
        assert!(
            (150..3850).contains(&taken),
            "{words}: {taken} of 4000 taken"
        );
    }
}

#[test]
fn the_largest_set_of_rules_is_accepted_by_the_verifier() {
    if !may_load() {
        return;
    }
    let words: Vec<String> = (0..16)
        .flat_map(|n| {
            [
                format!("address=fd00::{n:x}"),
                format!("address=10.0.0.{n}"),
                format!("flow=udp/{}@fd00:{n:x}::/77", 1000 + n),
                format!("flow=tcp/{}@10.{n}.0.0/17", 1000 + n),
            ]
        })
        .collect();
    let loaded = Loaded::new(rules(&words.join(",")));
    let frame = Frame::new(OURS, &[0x88a8, 0x8100], 0x86dd).ipv6("fd00:f::9", 0);
    let frame = frame
        .and(&[60, 0, 0, 0, 0, 0, 0, 0])
        .and(&[17, 0, 0, 0, 0, 0, 0, 0])
        .ports(1015);
    assert!(loaded.takes(&frame.0));
}
