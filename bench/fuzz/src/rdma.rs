//! The RoCEv2 transport under arbitrary packets, requests, timers and changes of regions: nothing
//! is named outside what the peer may use, nothing is completed twice or out of turn, and a queue
//! pair that failed is silent.

use std::collections::VecDeque;

use warpwire_protocols::rdma::{
    Access, Attributes, EXTENDED_WORDS, Fetch, Fetched, Fetches, Incoming, Landing, Mtu, Operation,
    Outgoing, Payload, PostedReceive, QueuePair, Received, Receives, Region, Regions, Request,
    Requests, SELECTIVE_WINDOW, Service, Start, State, Status, Tuning,
};
use warpwire_protocols::wire::bth::{self, PKey, Psn, Qpn};
use warpwire_protocols::wire::opcode::Opcode;

use crate::choices::Choices;

const BASE: u64 = 0x1_0000;
const BYTES: u64 = 8192;

/// What surrounds the queue pair, and what is known of it.
struct World {
    requests: Vec<Request>,
    free: VecDeque<PostedReceive>,
    posted_receives: u64,
    /// Taken, and not complete.
    open: Vec<PostedReceive>,
    regions: Vec<Region>,
    fetches: Vec<Fetch>,
}

impl Requests for World {
    fn request(&self, index: u64) -> Option<Result<Request, Status>> {
        let request = self.requests.get(usize::try_from(index).ok()?)?;
        // A request that names memory which it may not use.
        match request.key {
            u32::MAX => Some(Err(Status::LocalProtection)),
            _ => Some(Ok(*request)),
        }
    }
}

impl Regions for World {
    fn region(&self, key: u32) -> Option<Region> {
        self.regions
            .iter()
            .find(|region| region.key >> 8 == key >> 8)
            .copied()
    }

    fn remove(&mut self, key: u32) {
        let before = self.regions.len();
        self.regions
            .retain(|region| region.key != key || region.may_invalidate == 0);
        assert!(self.regions.len() < before, "a key that may be taken away");
    }
}

impl Receives for World {
    fn take_receive(&mut self) -> Option<PostedReceive> {
        let receive = self.free.pop_front()?;
        self.open.push(receive);
        Some(receive)
    }

    fn taken_receive(&self, index: u64) -> PostedReceive {
        let mut open = self.open.iter();
        let receive = open.find(|receive| receive.index == index);
        *receive.expect("is open")
    }
}

impl Fetches for World {
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

impl World {
    fn allows(&self, address: u64, length: u32, access: Access) -> bool {
        self.regions.iter().any(|region| {
            let end = address.checked_add(u64::from(length));
            region.access.contains(access)
                && region.domain == 0
                && address >= region.address
                && end.is_some_and(|end| end <= region.address + region.length)
        })
    }

    fn look_at_landing(&self, landing: &Landing) {
        match *landing {
            Landing::Memory { address, length } => {
                assert!(self.allows(address, length, Access::REMOTE_WRITE));
            }
            Landing::Atomic { address, slot, .. } => {
                assert!(self.allows(address, 8, Access::REMOTE_ATOMIC));
                assert_eq!(address % 8, 0);
                assert!((slot as usize) < self.fetches.len());
            }
            Landing::Receive {
                index,
                offset,
                length,
            } => {
                let receive = self.open.iter().find(|one| one.index == index);
                let receive = receive.expect("a receive that was taken and is not complete");
                assert!(receive.may_use && offset + length <= receive.capacity);
            }
        }
    }

    fn complete(&mut self, received: &Received) {
        let place = self.open.iter().position(|one| one.index == received.index);
        let receive = self.open.remove(place.expect("completes once"));
        if received.status == Status::Success && !received.is_write {
            assert!(received.length <= receive.capacity);
        }
    }

    fn look_at_packet(&self, packet: &Outgoing, mtu: Mtu) {
        match packet.payload {
            Payload::None => {}
            Payload::Memory { address, length } => {
                assert!(self.allows(address, length, Access::REMOTE_READ));
                assert!((1..=mtu.bytes()).contains(&length));
            }
            Payload::Request {
                index,
                offset,
                length,
            } => {
                let request = self.requests[index as usize];
                assert!(
                    offset
                        .checked_add(length)
                        .is_some_and(|end| end <= request.length)
                );
                assert!((1..=mtu.bytes()).contains(&length));
            }
        }
        let (_, count) = packet.words(Qpn::new(9), PKey::DEFAULT);
        let reserved = match packet.opcode {
            Opcode::CNP => 4,
            _ => 0,
        };
        assert_eq!(count, 3 + packet.opcode.headers().length() / 4 + reserved);
    }
}

/// Which side of the transport the bytes attack.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Responder,
    Requester,
}

/// The responder: most bytes become requests of a peer.
pub fn responder(data: &[u8]) {
    run(data, Side::Responder);
}

/// The requester: most bytes become requests of ours, and answers.
pub fn requester(data: &[u8]) {
    run(data, Side::Requester);
}

struct Run {
    pair: QueuePair,
    world: World,
    tuning: Tuning,
    now_ns: u64,
    completed: u64,
    failed: bool,
    /// Sequence numbers near what is expected or under way.
    near: u32,
    /// Sequence numbers of what was placed before its turn.
    early: Vec<u32>,
}

fn run(data: &[u8], side: Side) {
    let mut choices = Choices::new(data);
    let Some(mut run) = start(&mut choices) else {
        return;
    };
    for _ in 0..MOST_STEPS {
        let Some(choice) = choices.byte() else {
            break;
        };
        let done = match (choice % 8, side) {
            (0, _) => run.post(&mut choices),
            (1, _) => run.post_receive(&mut choices),
            (2, _) => run.pass_time(&mut choices),
            (3, _) => run.change_region(&mut choices),
            (4, Side::Requester) => run.post(&mut choices),
            (4..=5, Side::Responder) => run.packet(&mut choices, Side::Responder),
            (5..=6, Side::Requester) => run.packet(&mut choices, Side::Requester),
            _ if choice > 250 => run.packet(&mut choices, other(side)),
            _ => run.packet(&mut choices, side),
        };
        if done.is_none() {
            break;
        }
        run.poll();
        run.look();
    }
}

const fn other(side: Side) -> Side {
    match side {
        Side::Responder => Side::Requester,
        Side::Requester => Side::Responder,
    }
}

fn start(choices: &mut Choices<'_>) -> Option<Run> {
    let service = choices.one(&[Service::Rc, Service::Rc, Service::Uc, Service::Ud])?;
    let mtu = choices.one(&[Mtu::M256, Mtu::M512])?;
    let timeout = choices.byte()?;
    let attributes = Attributes {
        service,
        mtu,
        timeout: timeout % 12,
        selective: timeout & 0x80 != 0,
        retries: choices.byte()? % 8,
        rnr_retries: choices.byte()? % 8,
        reads: choices.byte()? % 4,
        reads_served: choices.byte()? % 5,
        window: u16::from(choices.byte()?),
        access: Access(u32::from(choices.byte()?) | 2),
        qkey: 0x1111_1111,
        max_message: 1 << 20,
        ..Attributes::default()
    };
    let psn = choices.one(&[0, 1, 0x00ff_fff0, 0x007f_ffff])?;
    let mut pair = QueuePair::new();
    pair.become_state(State::Init).ok()?;
    pair.become_state(State::ReadyToReceive).ok()?;
    let start = Start {
        send: Psn::new(psn),
        receive: Psn::new(psn),
    };
    pair.connect(attributes, start, 0);
    pair.become_state(State::ReadyToSend).ok()?;
    let region = Region {
        address: BASE,
        length: BYTES,
        key: 0x0101,
        domain: 0,
        access: Access::ALL,
        may_invalidate: 0,
    };
    let tuning = match choices.byte()? % 2 {
        0 => Tuning::OFF,
        _ => Tuning::of_link(1_000_000),
    };
    pair.tune(&tuning);
    Some(Run {
        pair,
        world: World {
            requests: Vec::new(),
            free: VecDeque::new(),
            posted_receives: 0,
            open: Vec::new(),
            regions: vec![region],
            fetches: vec![Fetch::default(); 4],
        },
        tuning,
        now_ns: 1,
        completed: 0,
        failed: false,
        near: psn,
        early: Vec::new(),
    })
}

impl Run {
    fn post(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        if self.world.requests.len() >= MOST_REQUESTS {
            return Some(());
        }
        let operation = choices.one(&[
            Operation::Send,
            Operation::SendImmediate,
            Operation::SendInvalidate,
            Operation::Write,
            Operation::WriteImmediate,
            Operation::Read,
            Operation::CompareSwap,
            Operation::FetchAdd,
        ])?;
        let length = choices.one(&[0, 1, 8, 255, 256, 257, 1029, 70_000, u32::MAX])?;
        let flags = choices.byte()?;
        self.world.requests.push(Request {
            operation,
            fence: flags & 1 != 0,
            solicited: flags & 2 != 0,
            length,
            address: BASE,
            key: if flags > 250 { u32::MAX } else { 0x0101 },
            qkey: 0x1111_1111,
            ..Request::default()
        });
        Some(())
    }

    fn post_receive(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let capacity = choices.one(&[0, 4, 256, 300, 1024, 70_000])?;
        let may_use = choices.byte()? < 250;
        self.world.free.push_back(PostedReceive {
            index: self.world.posted_receives,
            capacity,
            may_use,
        });
        self.world.posted_receives += 1;
        Some(())
    }

    fn pass_time(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let step = choices.one(&[1, 10_000, 700_000, 20_000_000, 1 << 40])?;
        self.now_ns = match choices.byte()? % 2 {
            0 => self.now_ns.saturating_add(step),
            _ => self
                .pair
                .timeout_ns(self.now_ns)
                .unwrap_or(self.now_ns)
                .max(self.now_ns),
        };
        self.pair.on_timer(self.now_ns);
        Some(())
    }

    fn change_region(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let choice = choices.byte()?;
        match choice % 4 {
            0 => self.world.regions.clear(),
            1 => {
                for region in &mut self.world.regions {
                    region.access = Access(u32::from(choice >> 2));
                }
            }
            _ => {
                let generation = u32::from(choice >> 2);
                self.world.regions = vec![Region {
                    address: BASE,
                    length: BYTES >> (choice % 3),
                    key: 0x0100 | generation.max(1),
                    domain: u32::from(choice > 240),
                    access: Access::ALL,
                    may_invalidate: 1,
                }];
            }
        }
        Some(())
    }

    fn packet(&mut self, choices: &mut Choices<'_>, side: Side) -> Option<()> {
        let opcode = match side {
            Side::Responder => choices.one(Opcode::ALL)?,
            Side::Requester => choices.one(&[
                Opcode::ACKNOWLEDGE,
                Opcode::ACKNOWLEDGE,
                Opcode::READ_RESPONSE_FIRST,
                Opcode::READ_RESPONSE_MIDDLE,
                Opcode::READ_RESPONSE_LAST,
                Opcode::READ_RESPONSE_ONLY,
                Opcode::ATOMIC_ACKNOWLEDGE,
                Opcode::CNP,
            ])?,
        };
        let base = match side {
            Side::Responder => self.pair.expected().value(),
            Side::Requester => self.near,
        };
        let offset = choices.one(&[
            0,
            0,
            0,
            0,
            1,
            2,
            3,
            -1,
            -2,
            -5,
            1 << 22,
            -(1 << 22),
            4,
            7,
            16,
            33,
            64,
            111,
            112,
            128,
        ])?;
        let psn = Psn::new(base.wrapping_add_signed(offset));
        let payload = choices.one(&[0, 1, 4, 8, 255, 256, 257, 512, 513, 4096])?;
        let mut words = [0; EXTENDED_WORDS];
        let flags = choices.byte()?;
        self.headers(choices, opcode, &mut words)?;
        let mut packet = Outgoing::new(opcode, psn);
        packet.acknowledge = flags & 1 != 0;
        packet.payload = Payload::Memory {
            address: 0,
            length: payload,
        };
        let bth = bth::Repr {
            pad: bth::Pad::of(payload),
            ..packet.bth(Qpn::new(1), PKey::DEFAULT)
        };
        let pad = u32::from(bth.pad.value());
        let length = opcode.headers().length() as u32 + payload + pad;
        let Ok(incoming) = Incoming::new(&bth, &words, length) else {
            return Some(());
        };
        let failed = self.pair.state() == State::Error;
        let ahead = psn.diff(self.pair.expected());
        let delivery = self.pair.on_packet(
            self.now_ns,
            &incoming,
            flags & 2 != 0,
            &self.tuning,
            &mut self.world,
        );
        if failed {
            assert!(delivery.landing.is_none() && delivery.fetched.is_none());
        }
        if let Some(landing) = &delivery.landing {
            self.world.look_at_landing(landing);
            self.look_at_turn(landing, &incoming, ahead);
            if let Landing::Atomic { slot, .. } = *landing {
                self.pair.found(&mut self.world, slot, 0x42);
            }
        }
        self.look_at_fetched(delivery.fetched, &incoming);
        if let Some(received) = &delivery.received {
            self.world.complete(received);
        }
        if flags > 252 {
            self.pair.cannot();
        }
        Some(())
    }

    /// Requests of a reliable connection are carried out in turn and once; early are long writes
    /// alone, if both ends want them so.
    fn look_at_turn(&mut self, landing: &Landing, packet: &Incoming, ahead: i32) {
        let attributes = self.pair.attributes();
        if attributes.service != Service::Rc {
            return;
        }
        let number = packet.psn.value();
        if ahead == 0 {
            assert!(!self.early.contains(&number), "placed twice");
            self.early.retain(|early| *early != number);
            return;
        }
        let may = attributes.is_selective()
            && (1..SELECTIVE_WINDOW as i32).contains(&ahead)
            && matches!(landing, Landing::Memory { length: 9.., .. });
        assert!(may && !self.early.contains(&number), "out of turn");
        self.early.push(number);
        let expected = self.pair.expected();
        self.early
            .retain(|early| !Psn::new(*early).is_before(expected));
    }

    fn look_at_fetched(&self, fetched: Option<Fetched>, packet: &Incoming) {
        let (index, fits) = match fetched {
            None => return,
            Some(Fetched::Payload {
                index,
                offset,
                length,
            }) => {
                let request = self.world.requests[index as usize];
                let end = offset.checked_add(length);
                let inside = end.is_some_and(|end| end <= request.length);
                (index, inside && length == packet.payload)
            }
            Some(Fetched::Value { index, .. }) => (index, true),
        };
        assert!(fits && (index as usize) < self.world.requests.len());
        assert!(
            index >= self.completed,
            "a request that was completed before"
        );
    }

    /// Extended headers that are sometimes right.
    fn headers(
        &self,
        choices: &mut Choices<'_>,
        opcode: Opcode,
        words: &mut [u32; EXTENDED_WORDS],
    ) -> Option<()> {
        if choices.byte()? >= 200 {
            for word in words {
                *word = choices.u32()?;
            }
            return Some(());
        }
        let key = self.world.regions.first().map_or(7, |region| region.key);
        let length = choices.one(&[0, 1, 8, 256, 257, 512, 1029, 8192, 8193, u32::MAX])?;
        let at = choices.one(&[0, 8, 4, 7936, 8184, 8192])?;
        let syndromes = [0x1f, 0x00, 0x20, 0x2c, 0x60, 0x61, 0x62, 0x63, 0x40_u32];
        let syndrome = choices.one(&syndromes)?;
        // What came, where the requester repeats selectively.
        let near = (self.near & 0x70) << 16 | 0x000f_ffff;
        let told = match self.pair.attributes().is_selective() && syndrome == 0x60 {
            true => choices.u32()? & choices.one(&[0, near, 0x00ff_ffff])?,
            false => 0,
        };
        let fields = warpwire_protocols::rdma::Extended {
            address: BASE + at,
            key,
            length,
            value: 1,
            compare: 0,
            aeth: syndrome << 24 | told,
            immediate: if opcode.value() & 0x16 == 0x16 {
                key
            } else {
                5
            },
            qkey: 0x1111_1111,
            source_qp: 3,
        };
        let mut packet = Outgoing::new(opcode, Psn::new(0));
        packet.extended = fields;
        let (all, _) = packet.words(Qpn::new(1), PKey::DEFAULT);
        let [_, _, _, extended @ ..] = all;
        *words = extended;
        Some(())
    }

    fn poll(&mut self) {
        let mtu = self.pair.attributes().mtu;
        for _ in 0..8 {
            let packet = self.pair.poll(self.now_ns, &self.tuning, &mut self.world);
            let Some(packet) = packet else {
                break;
            };
            self.world.look_at_packet(&packet, mtu);
            if !packet.opcode.is_response() && packet.opcode != Opcode::CNP {
                self.near = packet.psn.value();
            }
        }
    }

    /// What must hold at all times.
    fn look(&mut self) {
        let completed = self.pair.completed();
        assert!(completed >= self.completed, "completions do not go back");
        assert!(completed <= self.world.requests.len() as u64);
        if self.failed {
            assert_eq!(
                completed, self.completed,
                "nothing succeeds behind a failure"
            );
        }
        self.completed = completed;
        self.failed = self.pair.fault().is_some();
        if self.failed {
            let state = self.pair.state();
            assert!(matches!(state, State::Error | State::SendError));
        }
        // One message at a time holds a receive.
        let held = u64::from(self.pair.held_receive().is_some());
        assert!(self.world.open.len() as u64 <= held, "receives are lost");
    }
}

const MOST_STEPS: usize = 400;
const MOST_REQUESTS: usize = 64;
