//! One end of a connection: a queue pair with its memory, run as its owner would run it.

use std::collections::VecDeque;

use warpwire_protocols::rdma::{
    Access, Attributes, Delivery, EXTENDED_WORDS, Fetch, Fetched, Fetches, Incoming, Landing, Note,
    Outgoing, Payload, PostedReceive, QueuePair, ROUTE_HEADER_BYTES, Received, Receives, Region,
    Regions, Request, Requests, Service, Start, State, Status, Tuning,
};
use warpwire_protocols::wire::bth::{self, PKey, Psn, Qpn};

/// Where an end's memory begins, as keys' users name it.
pub(crate) const BASE: u64 = 0x7000_0000;
/// How much there is.
pub(crate) const BYTES: usize = 1 << 20;
/// The key to all of it.
pub(crate) const KEY: u32 = 0x0301;

/// A completed send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Sent {
    pub(crate) index: u64,
    pub(crate) status: Status,
}

/// What the owner of a queue pair keeps.
pub(crate) struct Around {
    /// The address of the first byte of the memory.
    pub(crate) base: u64,
    pub(crate) memory: Vec<u8>,
    pub(crate) regions: Vec<Region>,
    /// Requests, each with the place of its bytes in the memory.
    requests: Vec<(Request, usize)>,
    /// Places of receives.
    receives: Vec<(usize, u32)>,
    free: VecDeque<PostedReceive>,
    /// The memory of receives was released.
    pub(crate) released: bool,
    fetches: Vec<Fetch>,
}

impl Requests for Around {
    fn request(&self, index: u64) -> Option<Result<Request, Status>> {
        self.requests
            .get(index as usize)
            .map(|(request, _)| Ok(*request))
    }
}

impl Regions for Around {
    fn region(&self, key: u32) -> Option<Region> {
        let place = |region: &&Region| region.key >> 8 == key >> 8;
        self.regions.iter().find(place).copied()
    }

    fn remove(&mut self, key: u32) {
        self.regions.retain(|region| region.key != key);
    }
}

impl Receives for Around {
    fn take_receive(&mut self) -> Option<PostedReceive> {
        self.free.pop_front()
    }

    fn taken_receive(&self, index: u64) -> PostedReceive {
        let (_, capacity) = self.receives[index as usize];
        PostedReceive {
            index,
            capacity,
            may_use: !self.released,
        }
    }
}

impl Fetches for Around {
    fn slots(&self) -> u32 {
        self.fetches.len() as u32
    }

    fn fetch(&self, slot: u32) -> Fetch {
        self.fetches[slot as usize]
    }

    fn set_fetch(&mut self, slot: u32, fetch: Fetch) {
        self.fetches[slot as usize] = fetch;
    }
}

/// One end.
pub(crate) struct End {
    pub(crate) pair: QueuePair,
    pub(crate) around: Around,
    pub(crate) tuning: Tuning,
    /// Completions of requests that were told.
    pub(crate) sent: Vec<Sent>,
    /// Completions of receives that were told, with the bytes.
    pub(crate) received: Vec<(Received, Vec<u8>)>,
    pub(crate) notes: Vec<u64>,
    /// Receives that are posted now may be used.
    pub(crate) may_receive: bool,
    told: u64,
}

impl End {
    /// An end in RTS.
    pub(crate) fn new(attributes: Attributes, start: Start) -> Self {
        let mut pair = QueuePair::new();
        for state in [State::Init, State::ReadyToReceive] {
            pair.become_state(state).expect("is legal");
        }
        pair.connect(attributes, start, 0);
        pair.become_state(State::ReadyToSend).expect("is legal");
        let region = Region {
            address: BASE,
            length: BYTES as u64,
            key: KEY,
            domain: attributes.domain,
            access: Access::ALL,
            may_invalidate: 1,
        };
        Self {
            pair,
            around: Around {
                base: BASE,
                memory: vec![0; BYTES],
                regions: vec![region],
                requests: Vec::new(),
                receives: Vec::new(),
                free: VecDeque::new(),
                released: false,
                fetches: vec![Fetch::default(); 16],
            },
            tuning: Tuning::OFF,
            sent: Vec::new(),
            received: Vec::new(),
            notes: vec![0; Note::COUNT],
            may_receive: true,
            told: 0,
        }
    }

    /// Posts a request over bytes of the memory.
    pub(crate) fn post(&mut self, request: Request, place: usize) -> u64 {
        self.around.requests.push((request, place));
        self.around.requests.len() as u64 - 1
    }

    /// The sequence number of the next request of the peer.
    pub(crate) fn pair_expected(&self) -> u32 {
        self.pair.expected().value()
    }

    pub(crate) fn posted(&self) -> u64 {
        self.around.requests.len() as u64
    }

    pub(crate) fn receive(&mut self, place: usize, capacity: u32) {
        let index = self.around.receives.len() as u64;
        self.around.receives.push((place, capacity));
        self.around.free.push_back(PostedReceive {
            index,
            capacity,
            may_use: self.may_receive,
        });
    }

    pub(crate) fn note(&self, note: Note) -> u64 {
        self.notes[note as usize]
    }

    /// Takes a packet as it lies on the wire from the base header to before the invariant CRC.
    pub(crate) fn take(&mut self, now_ns: u64, bytes: &[u8], marked: bool) -> Delivery {
        let (bth, rest) = bth::Header::split(bytes).expect("is whole");
        let bth = bth::Repr::parse(bth).expect("is legal");
        let mut words = [0; EXTENDED_WORDS];
        for (word, four) in words.iter_mut().zip(rest.chunks_exact(4)) {
            *word = u32::from_be_bytes(four.try_into().expect("four"));
        }
        let packet = Incoming::new(&bth, &words, rest.len() as u32).expect("is legal");
        let headers = bth.opcode.headers().length();
        let payload = &rest[headers..headers + packet.payload as usize];
        let tuning = self.tuning;
        let delivery = self
            .pair
            .on_packet(now_ns, &packet, marked, &tuning, &mut self.around);
        self.carry_out(&delivery, payload);
        self.tell();
        delivery
    }

    fn carry_out(&mut self, delivery: &Delivery, payload: &[u8]) {
        if let Some(note) = delivery.note {
            self.notes[note as usize] += 1;
        }
        let memory = &mut self.around.memory;
        match delivery.landing {
            None => {}
            Some(Landing::Receive {
                index,
                offset,
                length,
            }) => {
                let (place, capacity) = self.around.receives[index as usize];
                assert!(offset + length <= capacity, "more than the receive holds");
                let place = place + offset as usize;
                memory[place..][..length as usize].copy_from_slice(payload);
            }
            Some(Landing::Memory { address, length }) => {
                let place = inside(self.around.base, &self.around.regions, address, length);
                memory[place..][..length as usize].copy_from_slice(payload);
            }
            Some(Landing::Atomic {
                address,
                value,
                compare,
                slot,
            }) => {
                let place = inside(self.around.base, &self.around.regions, address, 8);
                let word: [u8; 8] = memory[place..][..8].try_into().expect("eight");
                let old = u64::from_le_bytes(word);
                let new = match compare {
                    None => old.wrapping_add(value),
                    Some(compare) if compare == old => value,
                    Some(_) => old,
                };
                memory[place..][..8].copy_from_slice(&new.to_le_bytes());
                self.pair.found(&mut self.around, slot, old);
            }
        }
        match delivery.fetched {
            None => {}
            Some(Fetched::Payload {
                index,
                offset,
                length,
            }) => {
                let (request, place) = self.around.requests[index as usize];
                assert!(offset + length <= request.length, "more than was asked for");
                let place = place + offset as usize;
                self.around.memory[place..][..length as usize].copy_from_slice(payload);
            }
            Some(Fetched::Value { index, value }) => {
                let place = self.around.requests[index as usize].1;
                self.around.memory[place..][..8].copy_from_slice(&value.to_le_bytes());
            }
        }
        if let Some(received) = delivery.received {
            let (place, _) = self.around.receives[received.index as usize];
            let skip = match self.pair.attributes().service {
                Service::Ud => ROUTE_HEADER_BYTES,
                _ => 0,
            };
            let length = if received.is_write {
                0
            } else {
                received.length
            };
            let bytes = self.around.memory[place..][..length as usize].to_vec();
            self.received
                .push((received, bytes[skip.min(length) as usize..].to_vec()));
        }
    }

    /// Tells completions of requests.
    fn tell(&mut self) {
        while self.told < self.pair.completed() {
            self.sent.push(Sent {
                index: self.told,
                status: Status::Success,
            });
            self.told += 1;
        }
        if let Some(status) = self.pair.fault()
            && self
                .sent
                .last()
                .is_none_or(|last| last.status == Status::Success)
        {
            self.sent.push(Sent {
                index: self.told,
                status,
            });
        }
    }

    /// The next packet, as it lies on the wire.
    pub(crate) fn poll(&mut self, now_ns: u64) -> Option<Vec<u8>> {
        let tuning = self.tuning;
        let packet = self.pair.poll(now_ns, &tuning, &mut self.around);
        let bytes = packet.map(|packet| self.bytes(&packet));
        self.tell();
        bytes
    }

    fn bytes(&self, packet: &Outgoing) -> Vec<u8> {
        let remote = self.pair.attributes().remote_qp;
        let (words, count) = packet.words(remote, PKey::DEFAULT);
        let words = words[..count].iter().flat_map(|word| word.to_be_bytes());
        let mut bytes: Vec<u8> = words.collect();
        let memory = &self.around.memory;
        let payload = match packet.payload {
            Payload::None => &[][..],
            Payload::Request {
                index,
                offset,
                length,
            } => {
                let (request, place) = self.around.requests[index as usize];
                assert!(offset + length <= request.length, "beyond the request");
                &memory[place + offset as usize..][..length as usize]
            }
            Payload::Memory { address, length } => {
                let place = inside(self.around.base, &self.around.regions, address, length);
                &memory[place..][..length as usize]
            }
        };
        bytes.extend_from_slice(payload);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    pub(crate) fn on_timer(&mut self, now_ns: u64) {
        self.pair.on_timer(now_ns);
        self.tell();
    }
}

/// The place of memory that a region holds; what the transport names must lie in one.
fn inside(base: u64, regions: &[Region], address: u64, length: u32) -> usize {
    let holds = |region: &&Region| {
        address >= region.address && address + u64::from(length) <= region.address + region.length
    };
    assert!(
        regions.iter().any(|region| holds(&region)),
        "{length} bytes at {address:#x} lie in no region"
    );
    (address - base) as usize
}

/// Two ends that know each other.
pub(crate) fn pair(attributes: Attributes, psns: [u32; 2]) -> [End; 2] {
    let [a, b] = psns.map(Psn::new);
    let of = |remote_qp, send, receive| {
        let attributes = Attributes {
            remote_qp: Qpn::new(remote_qp),
            ..attributes
        };
        End::new(attributes, Start { send, receive })
    };
    [of(0x22, a, b), of(0x11, b, a)]
}
