//! Captures of Linux's rdma_rxe on both ends: our responder is given what rxe's was given and must
//! answer the same; our requester is given the same requests and answers, and must send the same.
//! Where we differ on purpose, a table says why.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::fmt;
use std::path::Path;

use warpwire_protocols::rdma::{Access, Attributes, Mtu, Operation, Region, Request, Start};
use warpwire_protocols::wire::aeth::RnrTimer;
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_protocols::wire::opcode::{Class, ExtendedHeaders, Opcode};

use crate::captures;
use crate::end::End;

/// A packet of a reliable connection.
#[derive(Clone)]
struct Packet {
    source: Vec<u8>,
    opcode: Opcode,
    psn: u32,
    acknowledge: bool,
    /// From the base header to before the invariant CRC.
    bytes: Vec<u8>,
}

impl Packet {
    fn word(&self, at: usize) -> u32 {
        let at = 12 + at * 4;
        u32::from_be_bytes(self.bytes[at..at + 4].try_into().expect("four"))
    }

    fn address(&self) -> u64 {
        u64::from(self.word(0)) << 32 | u64::from(self.word(1))
    }

    fn payload(&self) -> usize {
        let pad = usize::from(self.bytes[1] >> 4 & 3);
        self.bytes.len() - 12 - self.opcode.headers().length() - pad
    }

    fn syndrome(&self) -> u8 {
        match self.opcode.headers().contains(ExtendedHeaders::AETH) {
            true => self.bytes[12],
            false => 0,
        }
    }

    /// What must be equal of answers and requests.
    fn told(&self) -> Told {
        Told {
            opcode: self.opcode,
            psn: self.psn,
            syndrome: self.syndrome(),
            payload: self.payload(),
            headers: self.bytes[12..12 + self.opcode.headers().length()].to_vec(),
        }
    }
}

#[derive(Clone, PartialEq, Eq)]
struct Told {
    opcode: Opcode,
    psn: u32,
    syndrome: u8,
    payload: usize,
    headers: Vec<u8>,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers = self.headers.iter().map(|byte| format!("{byte:02x}"));
        let headers: String = headers.collect();
        let Self {
            opcode,
            psn,
            payload,
            ..
        } = self;
        write!(f, "{opcode} {psn:06x} {headers} +{payload}")
    }
}

fn read(bytes: &[u8]) -> Option<Packet> {
    let (source, udp) = match bytes.get(12..14)? {
        [0x08, 0x00] => (bytes.get(26..30)?, 34),
        [0x86, 0xdd] => (bytes.get(22..38)?, 54),
        _ => return None,
    };
    if bytes.get(udp + 2..udp + 4)? != 4791u16.to_be_bytes() {
        return None;
    }
    let length = u16::from_be_bytes(bytes.get(udp + 4..udp + 6)?.try_into().ok()?);
    let port = bytes.get(udp..udp + 2)?;
    let transport = bytes.get(udp + 8..udp + usize::from(length) - 4)?;
    let opcode = Opcode::new(*transport.first()?)?;
    let mut source = source.to_vec();
    source.extend_from_slice(port);
    Some(Packet {
        source,
        opcode,
        psn: u32::from_be_bytes([0, transport[9], transport[10], transport[11]]),
        acknowledge: transport[8] & 0x80 != 0,
        bytes: transport.to_vec(),
    })
}

/// The reliable connections of a capture: packets of both directions use the same source port.
fn connections(path: &Path) -> BTreeMap<Vec<u8>, Vec<Packet>> {
    let mut all = BTreeMap::<Vec<u8>, Vec<Packet>>::new();
    for frame in captures::frames(path) {
        let Some(packet) = read(&frame.bytes) else {
            continue;
        };
        if packet.opcode.class() == Class::Rc {
            let port = packet.source[packet.source.len() - 2..].to_vec();
            all.entry(port).or_default().push(packet);
        }
    }
    all
}

/// A difference that is meant.
struct Meant {
    capture: &'static str,
    ours: &'static [&'static str],
    theirs: &'static [&'static str],
    reason: &'static str,
}

/// What our responder answers otherwise.
const ANSWERS: &[Meant] = &[
    Meant {
        capture: "loss_read_resp",
        ours: &["READ_RESPONSE_FIRST 00a001 1f000001 +1024"],
        theirs: &[],
        reason: "an answer that is repeated from its middle begins with a first packet, as the \
                 specification has it; rxe goes on with middle packets, and takes both",
    },
    Meant {
        capture: "rc_nak_toolong",
        ours: &["ACKNOWLEDGE 00a001 61000000 +0"],
        theirs: &["ACKNOWLEDGE 00a001 63000000 +0"],
        reason: "a message longer than its receive is an invalid request; rxe says operational \
                 error",
    },
    Meant {
        capture: "rc_sendinv",
        ours: &["ACKNOWLEDGE 00a000 62000000 +0"],
        theirs: &["ACKNOWLEDGE 00a000 1f000000 +0"],
        reason: "a key that may not be taken away is a remote access error; rxe acknowledges and \
                 does not count the message, and fails its receive",
    },
    Meant {
        capture: "rc_rnr",
        ours: &[],
        theirs: &[
            "ACKNOWLEDGE 00a000 60000000 +0",
            "ACKNOWLEDGE 00a000 60000000 +0",
            "ACKNOWLEDGE 00a000 60000000 +0",
            "ACKNOWLEDGE 00a000 60000000 +0",
            "ACKNOWLEDGE 00a000 60000000 +0",
            "ACKNOWLEDGE 00a000 60000000 +0",
        ],
        reason: "whoever was told to wait is not told of the gap that this makes",
    },
];

/// What our requester sends otherwise.
const REQUESTS: &[Meant] = &[Meant {
    capture: "rc_rnr",
    ours: &[],
    theirs: &[],
    reason: "rxe's second packet was under way when the answer to the first was captured",
}];

/// Requests that were captured before they were lost: the responder never saw them.
const UNSEEN: &[(&str, usize)] = &[
    ("loss_retry_exceeded", 0),
    ("loss_retry_exceeded", 1),
    ("loss_retry_exceeded", 2),
    ("loss_retry_exceeded", 3),
    ("loss_send_last", 1),
    ("loss_send_middle", 1),
];

/// Requests that lie so far beyond the start of the peer's region.
const BEYOND: &[(&str, u64)] = &[("rc_nak_access", 70_000), ("rc_nak_access_rd", 70_000)];

/// Answers that were lost behind the point of capture: the requester never saw them.
const LOST: &[(&str, usize)] = &[
    ("loss_ack", 0),
    ("loss_atomic_ack", 0),
    ("loss_read_resp", 1),
];

fn mtu(packets: &[Packet]) -> Mtu {
    let most = packets.iter().map(Packet::payload).max().unwrap_or(0);
    let fits = |mtu: &&Mtu| mtu.bytes() as usize >= most.max(1);
    let least = Mtu::ALL.iter().find(fits);
    // A capture without long messages does not tell.
    let cut = packets.iter().any(|packet| !packet.opcode.ends_message());
    let least = *least.expect("fits one");
    if cut { least } else { least.max(Mtu::M1024) }
}

/// Where the memory lies that requests name: for each key 64 KiB from the start of a page, as most
/// peers of these captures had.
fn regions(name: &str, packets: &[&Packet]) -> Vec<Region> {
    let mut lowest = BTreeMap::<u32, u64>::new();
    for packet in packets {
        let headers = ExtendedHeaders::RETH.union(ExtendedHeaders::ATOMIC_ETH);
        if packet.opcode.headers().intersects(headers) {
            let address = packet.address();
            let entry = lowest.entry(packet.word(2)).or_insert(address);
            *entry = address.min(*entry);
        }
    }
    let beyond = BEYOND.iter().find(|(capture, _)| *capture == name);
    let beyond = beyond.map_or(0, |(_, beyond)| *beyond);
    let regions = lowest.into_iter().map(|(key, address)| Region {
        address: (address - beyond) & !0xfff,
        length: 0x1_0000,
        key,
        domain: 0,
        access: Access::ALL,
        may_invalidate: 0,
    });
    regions.collect()
}

/// Answers of our responder, and those of rxe, to the requests that one side sent.
fn answers(name: &str, packets: &[Packet], side: &[u8]) -> (Vec<Told>, Vec<Told>) {
    let is_request = |packet: &&Packet| packet.source == side && !packet.opcode.is_response();
    let is_answer = |packet: &&Packet| packet.source != side && packet.opcode.is_response();
    let requests: Vec<_> = packets.iter().filter(is_request).collect();
    let theirs: Vec<_> = packets.iter().filter(is_answer).collect();
    let rnr = theirs.iter().find(|one| one.syndrome() >> 5 == 1);
    let timer = rnr.and_then(|one| RnrTimer::new(one.syndrome() & 0x1f));
    let attributes = Attributes {
        mtu: mtu(packets),
        rnr_timer: timer.unwrap_or(RnrTimer::SHORTEST),
        remote_qp: Qpn::new(1),
        ..Attributes::default()
    };
    let start = Start {
        send: Psn::new(0),
        receive: Psn::new(requests[0].psn),
    };
    let mut end = End::new(attributes, start);
    end.around.regions.clear();
    let regions = regions(name, &requests);
    if let Some(base) = regions.iter().map(|region| region.address).min() {
        end.around.base = base;
        end.around.regions = regions;
        // Atomics find what they found there.
        let mut known = HashSet::new();
        for (request, answer) in requests.iter().filter_map(|request| {
            let is_atomic = request
                .opcode
                .headers()
                .contains(ExtendedHeaders::ATOMIC_ETH);
            let matches =
                |one: &&&Packet| one.opcode == Opcode::ATOMIC_ACKNOWLEDGE && one.psn == request.psn;
            let answer = theirs.iter().find(matches)?;
            is_atomic.then_some((request, answer))
        }) {
            if known.insert(request.address()) {
                let place = (request.address() - base) as usize;
                let value = u64::from_be_bytes(answer.bytes[16..24].try_into().expect("eight"));
                end.around.memory[place..place + 8].copy_from_slice(&value.to_le_bytes());
            }
        }
    }
    let mut ours = Vec::new();
    let mut seen = 0;
    for (number, packet) in packets.iter().enumerate() {
        if !is_request(&packet) {
            continue;
        }
        let is_unseen = UNSEEN.contains(&(name, seen));
        seen += 1;
        if is_unseen {
            continue;
        }
        // rxe had a receive unless it said otherwise before it was asked again.
        let rest = &packets[number + 1..];
        let again = rest
            .iter()
            .position(|one| one.source == side && one.psn == packet.psn);
        let until = &rest[..again.unwrap_or(rest.len())];
        let had_none = until.iter().filter(is_answer);
        let mut had_none = had_none.filter(|one| one.psn == packet.psn);
        let had_none = had_none.any(|one| one.syndrome() >> 5 == 1);
        let takes = match packet.opcode.operation() {
            0x09 | 0x0b => true,
            0x00..=0x05 | 0x16 | 0x17 => packet.opcode.starts_message(),
            _ => false,
        };
        if takes && packet.psn == end.pair_expected() && !had_none {
            let capacity = if name == "rc_nak_toolong" {
                1024
            } else {
                0x8000
            };
            end.receive(0x2_0000, capacity);
        }
        end.take(1, &packet.bytes, false);
        while let Some(bytes) = end.poll(1) {
            let answer = read_own(&bytes);
            ours.push(answer.told());
        }
    }
    (ours, theirs.into_iter().map(Packet::told).collect())
}

fn read_own(bytes: &[u8]) -> Packet {
    Packet {
        source: Vec::new(),
        opcode: Opcode::new(bytes[0]).expect("is defined"),
        psn: u32::from_be_bytes([0, bytes[9], bytes[10], bytes[11]]),
        acknowledge: bytes[8] & 0x80 != 0,
        bytes: bytes.to_vec(),
    }
}

/// The requests whose packets one side sent, in order.
fn requests(packets: &[&Packet]) -> Vec<Request> {
    let mut list = Vec::new();
    let mut next = packets[0].psn;
    let mut request = Request::default();
    let mtu = mtu(&packets.iter().map(|one| (*one).clone()).collect::<Vec<_>>());
    for packet in packets {
        if packet.psn != next {
            continue;
        }
        if packet.opcode.starts_message() {
            request = Request::default();
        }
        let headers = packet.opcode.headers();
        request.operation = match packet.opcode.operation() {
            0x03 | 0x05 => Operation::SendImmediate,
            0x16 | 0x17 => Operation::SendInvalidate,
            0x00..=0x05 => Operation::Send,
            0x09 | 0x0b => Operation::WriteImmediate,
            0x06..=0x0b => Operation::Write,
            0x0c => Operation::Read,
            0x13 => Operation::CompareSwap,
            _ => Operation::FetchAdd,
        };
        request.solicited = packet.bytes[1] & 0x80 != 0;
        if headers.contains(ExtendedHeaders::RETH) {
            (request.address, request.key) = (packet.address(), packet.word(2));
        }
        if headers.contains(ExtendedHeaders::ATOMIC_ETH) {
            (request.address, request.key) = (packet.address(), packet.word(2));
            request.value = u64::from(packet.word(3)) << 32 | u64::from(packet.word(4));
            request.compare = u64::from(packet.word(5)) << 32 | u64::from(packet.word(6));
            request.length = 8;
        }
        if headers.intersects(ExtendedHeaders::IMM_DT.union(ExtendedHeaders::IETH)) {
            request.immediate = packet.word(headers.length() / 4 - 1);
        }
        let mut taken = 1;
        match request.operation {
            Operation::Read => {
                request.length = packet.word(3);
                taken = mtu.packets(request.length);
            }
            Operation::CompareSwap | Operation::FetchAdd => {}
            _ => request.length += packet.payload() as u32,
        }
        next = (next + taken) & 0x00ff_ffff;
        if packet.opcode.ends_message() {
            list.push(request);
        }
    }
    list
}

/// What our requester sends, and what rxe sent, from one side.
fn sends(name: &str, packets: &[Packet], side: &[u8]) -> (Vec<Told>, Vec<Told>) {
    let is_request = |packet: &&Packet| packet.source == side && !packet.opcode.is_response();
    let theirs: Vec<_> = packets.iter().filter(is_request).collect();
    let attributes = Attributes {
        mtu: mtu(packets),
        timeout: 14,
        remote_qp: Qpn::new(1),
        ..Attributes::default()
    };
    let start = Start {
        send: Psn::new(theirs[0].psn),
        receive: Psn::new(0),
    };
    let mut end = End::new(attributes, start);
    let mut to_post: VecDeque<_> = requests(&theirs).into();
    let mut posted = theirs[0].psn;
    let (mut now, mut answers) = (1, 0);
    let mut ours = Vec::new();
    for packet in packets {
        if packet.source != side && packet.opcode.is_response() {
            let lost = LOST.contains(&(name, answers));
            answers += 1;
            if !lost {
                end.take(now, &packet.bytes, false);
            }
            continue;
        }
        if !is_request(&packet) {
            continue;
        }
        // Posted when rxe began with it: its application may have waited for those before.
        while posted == packet.psn
            && let Some(request) = to_post.pop_front()
        {
            end.post(request, 0);
            posted = (posted + request.packets(attributes.mtu)) & 0x00ff_ffff;
        }
        let mut sent = end.poll(now);
        if sent.is_none()
            && let Some(at) = end.pair.timeout_ns(now)
        {
            now = at;
            end.on_timer(now);
            sent = end.poll(now);
        }
        let Some(bytes) = sent else {
            break;
        };
        let sent = read_own(&bytes);
        if packet.acknowledge {
            assert!(sent.acknowledge, "{name}: wants an acknowledgement");
        }
        ours.push(sent.told());
    }
    (ours, theirs.into_iter().map(Packet::told).collect())
}

type Play = fn(&str, &[Packet], &[u8]) -> (Vec<Told>, Vec<Told>);

/// Plays all captures; every difference must be in the table, and every row be met.
fn play(play: Play, table: &[Meant]) -> usize {
    let (mut played, mut met, mut wrong) = (0, HashSet::new(), Vec::new());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/rxe");
    let mut files: Vec<_> = std::fs::read_dir(folder).expect("is committed").collect();
    files.sort_by_key(|file| file.as_ref().map(std::fs::DirEntry::path).ok());
    for file in files {
        let path = file.expect("is there").path();
        let name = path
            .file_stem()
            .expect("has one")
            .to_string_lossy()
            .into_owned();
        for packets in connections(&path).into_values() {
            let asks = |one: &&Packet| !one.opcode.is_response();
            let sides: HashSet<_> = packets.iter().filter(asks).map(|one| &one.source).collect();
            for side in sides {
                played += 1;
                let (ours, theirs) = play(&name, &packets, side);
                if ours == theirs {
                    continue;
                }
                let words = |list: &[Told], other: &[Told]| -> Vec<String> {
                    let only = list.iter().filter(|one| !other.contains(one));
                    only.map(ToString::to_string).collect()
                };
                let (mine, other) = (words(&ours, &theirs), words(&theirs, &ours));
                let row = table
                    .iter()
                    .position(|row| row.capture == name && row.ours == mine && row.theirs == other);
                match row {
                    Some(row) => {
                        println!("{name}: {}", table[row].reason);
                        met.insert(row);
                    }
                    None => wrong.push(format!(
                        "{name}: {} of ours, {} of theirs\n  only ours {mine:#?}\n  only \
                         theirs {other:#?}",
                        ours.len(),
                        theirs.len()
                    )),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert_eq!(met.len(), table.len(), "rows that no capture meets");
    played
}

#[test]
fn our_responder_answers_as_rxe_does() {
    let played = play(answers, ANSWERS);
    assert!(played >= 30, "{played} sides");
}

#[test]
fn our_requester_sends_as_rxe_does() {
    let played = play(sends, REQUESTS);
    assert!(played >= 30, "{played} sides");
}
