//! Simulation of whole stacks: two to eight endpoints with engines of their own on a switch that
//! loses, doubles, reorders and corrupts, in virtual time that a seed decides. Every pair of
//! endpoints sends everything that there is to each other, going back to what was lost or repeating
//! it selectively: each message arrives once and in order, atomics are exact, reads bring what is
//! there, signals and messages come after the data that was written before them, nothing is written
//! elsewhere, and it ends.
//!
//! Without end, or rather for so many seconds, from seed `WARPWIRE_SEED` on:
//! ```text
//! WARPWIRE_SOAK_S=600 cargo test -p warpwire-bench --test simulation -- --ignored --nocapture
//! ```

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warpwire::pipelines::messaging::{
    Completed, Endpoint, EndpointConfig, MemoryRegion, Message, Pair, PairConfig, Path, Work,
};
use warpwire_gpu::executor::{Backend, Placement, Time};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::Nic;
use warpwire_nic::soft::{Clock, Dice, Fabric, FabricConfig, Impairments, SoftNic};
use warpwire_protocols::rdma::{Access, Attributes, Mtu, Note, Start};
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::Location;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

/// Requests from each endpoint to each other one.
const REQUESTS: usize = 12;
/// The largest message.
const LARGEST: u64 = 8192;
/// In an endpoint's memory: what nobody may touch; a word that peers add to; what is sent and read;
/// then a part for each peer, with a place for each request that it writes to, and one for each
/// that fetches; and a place for each message that arrives. Behind all is what nobody may touch.
const GUARD: u64 = 4096;
const COUNTER: u64 = GUARD;
const SOURCE: u64 = GUARD + 4096;
const SOURCE_BYTES: u64 = 32 * 1024;
const PARTS: u64 = SOURCE + SOURCE_BYTES;
const PART: u64 = 3 * REQUESTS as u64 * LARGEST;

/// What endpoints are asked to do: a word behind data, or an operation of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Signal,
    Just(Opcode),
}

/// One direction of a connection: what was asked.
struct Asked {
    kind: Kind,
    opcode: Opcode,
    /// The first byte of what is sent, or of where fetched bytes go.
    place: u64,
    length: u32,
}

struct Endpoints {
    executor: Arc<CpuExecutor>,
    _fabric: Fabric,
    _nics: Vec<SoftNic>,
    sides: Vec<Side>,
}

struct Side {
    endpoint: Endpoint,
    memory: Arc<Arena>,
    region: MemoryRegion,
    /// By peer; none for itself.
    pairs: Vec<Option<Pair>>,
    asked: Vec<Vec<Asked>>,
    done: Vec<usize>,
    messages: Vec<Vec<Message>>,
    /// By peer: requests of the peer's whose data was seen to be here.
    seen: Vec<usize>,
}

impl Side {
    fn part(&self, peer: usize, kind: u64, number: usize) -> u64 {
        PARTS + peer as u64 * PART + (kind * REQUESTS as u64 + number as u64) * LARGEST
    }

    /// The address of a place, for the own requests and for peers.
    fn address(&self, at: u64) -> u64 {
        self.region.address - GUARD + at
    }

    fn bytes(&self, at: u64, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        let address = self.memory.whole().address.offset(at);
        self.memory.read(address, &mut bytes).expect("inside");
        bytes
    }

    fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes(at, 8).try_into().expect("eight"))
    }
}

const WRITTEN: u64 = 0;
const FETCHED: u64 = 1;
const RECEIVED: u64 = 2;

fn takes_receive(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::SEND | Opcode::SEND_IMM | Opcode::WRITE_IMM)
}

fn set_up(seed: u64, count: usize, selective: bool, link: Impairments) -> Endpoints {
    let mut dice = Dice::new(seed ^ 0xabcd);
    let executor = CpuExecutor::builder()
        .backend(Backend::Scalar)
        .clock(Time::Virtual { seed })
        .build();
    let executor = Arc::new(executor.expect("builds"));
    let config = FabricConfig {
        seed,
        ..FabricConfig::default()
    };
    let fabric = Fabric::new(config, Clock::Executor(executor.clock()));
    let mut nics: Vec<SoftNic> = (0..count)
        .map(|place| {
            let words = format!("soft:n{place}");
            fabric.open(&words.parse().expect("words")).expect("opens")
        })
        .collect();
    for nic in &nics {
        fabric.impair(nic.port(), link);
        fabric.pin(nic.mac(), nic.port());
    }
    for service in nics.iter_mut().flat_map(Nic::take_services) {
        executor.add_service(service, Placement::Any).expect("runs");
    }
    let idle = {
        let executor = Arc::clone(&executor);
        Arc::new(move || {
            executor
                .advance(Duration::from_micros(20))
                .expect("goes on")
        })
    };
    let mut sides: Vec<Side> = Vec::new();
    for (place, nic) in nics.iter().enumerate() {
        let end = PARTS + count as u64 * PART;
        let memory = Arena::new((end + GUARD) as usize, Location::Device);
        let memory = Arc::new(memory.expect("maps"));
        let config = EndpointConfig {
            warps: 1 + dice.below(4) as u32,
            pairs: 8,
            regions: 4,
            first_number: 0x0100 * (place as u32 + 1),
            ..EndpointConfig::default()
        };
        let arenas = [Arc::clone(&memory)];
        let endpoint = Endpoint::start(&executor, nic, &arenas, config, Placement::Any);
        let endpoint = endpoint.expect("starts").idle_by(idle.clone());
        let address = memory.whole().address;
        let inner = address.offset(GUARD);
        let region = endpoint.register(inner, end - GUARD, Access::ALL, dice.roll());
        for at in (0..SOURCE_BYTES).step_by(8) {
            let word = memory.word(address.offset(SOURCE + at)).expect("inside");
            word.store(dice.roll(), Ordering::Relaxed);
        }
        let pairs = (0..count).map(|peer| {
            let pair = endpoint.pair(PairConfig::default());
            (peer != place).then(|| pair.expect("is free"))
        });
        sides.push(Side {
            pairs: pairs.collect(),
            endpoint,
            memory,
            region: region.expect("fits"),
            asked: (0..count).map(|_| Vec::new()).collect(),
            done: vec![0; count],
            messages: vec![Vec::new(); count],
            seen: vec![0; count],
        });
    }
    let mut endpoints = Endpoints {
        executor,
        sides,
        _fabric: fabric,
        _nics: nics,
    };
    endpoints.connect(&mut dice, selective);
    endpoints
}

impl Endpoints {
    fn connect(&mut self, dice: &mut Dice, selective: bool) {
        let count = self.sides.len();
        for one in 0..count {
            for other in one + 1..count {
                let psns = [dice.roll(), dice.roll()].map(|psn| Psn::new(psn as u32));
                let mtu = [Mtu::M256, Mtu::M512, Mtu::M1024][dice.below(3) as usize];
                for (own, peer, send, receive) in [
                    (one, other, psns[0], psns[1]),
                    (other, one, psns[1], psns[0]),
                ] {
                    let pair = self.sides[peer].pairs[own].as_ref();
                    let remote_qp = Qpn::new(pair.expect("is one").number());
                    let attributes = Attributes {
                        mtu,
                        timeout: 8,
                        window: [8, 32, 128][dice.below(3) as usize],
                        reads: 1 + dice.below(4) as u8,
                        reads_served: 8,
                        remote_qp,
                        selective,
                        ..Attributes::default()
                    };
                    let address = |place: usize| [0x0a00_0001 + place as u32, 0, 0, 0];
                    let path = Path {
                        local: address(own),
                        remote: address(peer),
                        next_hop: self._nics[peer].mac(),
                        mac: self._nics[own].mac(),
                        source_port: 0xc000 | (dice.roll() as u16 & 0x3fff),
                        ip_version: 4,
                        hop_limit: 64,
                        ..Path::default()
                    };
                    let start = Start { send, receive };
                    let pair = self.sides[own].pairs[peer].as_mut().expect("is one");
                    pair.connect(attributes, start, path).expect("connects");
                }
            }
        }
    }

    /// Posts everything, and the receives for it.
    fn ask(&mut self, dice: &mut Dice) {
        let count = self.sides.len();
        for own in 0..count {
            for peer in 0..count {
                if own == peer {
                    continue;
                }
                for number in 0..REQUESTS {
                    let asked = self.post(dice, own, peer, number);
                    if takes_receive(asked.opcode) {
                        self.post_receive(peer, own, number);
                    }
                    self.sides[own].asked[peer].push(asked);
                }
            }
        }
    }

    fn post_receive(&mut self, own: usize, peer: usize, number: usize) {
        let side = &mut self.sides[own];
        let at = side.part(peer, RECEIVED, number);
        let piece = Gather {
            address: side.address(at),
            length: LARGEST as u32,
            key: side.region.key,
        };
        let pair = side.pairs[peer].as_mut().expect("is one");
        pair.receive(&[piece]).expect("there is room");
    }

    fn post(&mut self, dice: &mut Dice, own: usize, peer: usize, number: usize) -> Asked {
        let kinds = [
            Kind::Just(Opcode::SEND),
            Kind::Just(Opcode::SEND_IMM),
            Kind::Just(Opcode::WRITE),
            Kind::Just(Opcode::WRITE),
            Kind::Just(Opcode::WRITE_IMM),
            Kind::Just(Opcode::READ),
            Kind::Just(Opcode::FETCH_ADD),
            Kind::Signal,
        ];
        let kind = kinds[dice.below(kinds.len() as u64) as usize];
        let opcode = match kind {
            Kind::Signal => Opcode::WRITE,
            Kind::Just(opcode) => opcode,
        };
        let there = &self.sides[peer];
        let written = there.part(own, WRITTEN, number);
        let key = there.region.key;
        let side = &self.sides[own];
        let length = match kind {
            Kind::Signal | Kind::Just(Opcode::FETCH_ADD) => 8,
            Kind::Just(_) => dice.below(LARGEST) as u32,
        };
        let (place, at) = match opcode {
            Opcode::READ => (side.part(peer, FETCHED, number), SOURCE),
            Opcode::FETCH_ADD => (side.part(peer, FETCHED, number), COUNTER),
            _ => (SOURCE + dice.below(SOURCE_BYTES - LARGEST), written),
        };
        let order = Order {
            immediate: number as u32,
            fence: dice.below(8) == 0,
            address: there.address(at),
            key,
            value: 1,
            ..Order::new(opcode)
        };
        let piece = Gather {
            address: side.address(place),
            length,
            key: side.region.key,
        };
        let pieces = if length == 0 { vec![] } else { vec![piece] };
        let payload = Payload::Pieces(&pieces);
        let pair = self.sides[own].pairs[peer].as_mut().expect("is one");
        pair.post(&[Work { order, payload }])
            .expect("there is room");
        Asked {
            kind,
            opcode,
            place,
            length,
        }
    }

    /// Polls all completions; says whether all is done.
    fn poll(&mut self) -> bool {
        let mut done = true;
        for side in &mut self.sides {
            for (peer, pair) in side.pairs.iter_mut().enumerate() {
                let Some(pair) = pair else {
                    continue;
                };
                while let Some(completed) = pair.poll() {
                    match completed {
                        Completed::Sent { .. } => side.done[peer] += 1,
                        Completed::Received(message) => side.messages[peer].push(message),
                        other => panic!("queue pair {:#x}: {other:?}", pair.number()),
                    }
                }
                done &= side.done[peer] == REQUESTS;
            }
        }
        done
    }

    /// Looks at the signals and messages of all peers: what was written before them is there.
    fn look(&mut self) {
        let count = self.sides.len();
        for (own, peer) in (0..count).flat_map(|own| (0..count).map(move |peer| (own, peer))) {
            let (side, there) = (&self.sides[own], &self.sides[peer]);
            let messages = side.messages[peer].len();
            let (mut seen, mut taken) = (side.seen[peer], 0);
            for (number, asked) in there.asked[own].iter().enumerate() {
                taken += usize::from(takes_receive(asked.opcode));
                let is_told = takes_receive(asked.opcode) && taken <= messages;
                let signal = side.part(peer, WRITTEN, number);
                if is_told || (asked.kind == Kind::Signal && side.word(signal) != 0) {
                    seen = seen.max(number + 1);
                }
            }
            for number in side.seen[peer]..seen {
                let asked = &there.asked[own][number];
                if matches!(asked.opcode, Opcode::WRITE | Opcode::WRITE_IMM) {
                    let written = side.bytes(side.part(peer, WRITTEN, number), asked.length);
                    let sent = there.bytes(asked.place, asked.length);
                    assert!(
                        written == sent,
                        "{own}: {seen} of {peer} came before {number}"
                    );
                }
            }
            self.sides[own].seen[peer] = seen;
        }
    }

    fn run(&mut self) {
        for _ in 0..40_000 {
            let done = self.poll();
            self.look();
            if done {
                return;
            }
            let step = Duration::from_micros(50);
            self.executor.advance(step).expect("goes on");
        }
        panic!("not done after two seconds of virtual time");
    }

    fn check(&self) {
        let count = self.sides.len();
        let mut added = vec![0u64; count];
        for own in 0..count {
            for (peer, added) in added
                .iter_mut()
                .enumerate()
                .filter(|(peer, _)| *peer != own)
            {
                *added += self.check_connection(own, peer);
            }
        }
        for (side, added) in self.sides.iter().zip(added) {
            assert_eq!(side.word(COUNTER), added, "atomics are exact");
            for guard in [0, side.memory.whole().length - GUARD] {
                let bytes = side.bytes(guard, GUARD as u32);
                assert!(bytes.iter().all(|byte| *byte == 0), "bounds");
            }
        }
    }

    /// What one endpoint asked of another. Returns how many atomics.
    fn check_connection(&self, own: usize, peer: usize) -> u64 {
        let (side, there) = (&self.sides[own], &self.sides[peer]);
        let mut messages = there.messages[own].iter();
        let (mut atomics, mut last) = (0, None);
        for (number, asked) in side.asked[peer].iter().enumerate() {
            let sent = side.bytes(asked.place, asked.length);
            match asked.opcode {
                Opcode::READ => {
                    assert_eq!(sent, there.bytes(SOURCE, asked.length), "read {number}");
                }
                Opcode::FETCH_ADD => {
                    atomics += 1;
                    let found = side.word(asked.place);
                    assert!(last.is_none_or(|last| last < found), "atomics go up");
                    last = Some(found);
                }
                _ => {}
            }
            if matches!(asked.opcode, Opcode::WRITE | Opcode::WRITE_IMM) {
                let at = there.part(own, WRITTEN, number);
                assert_eq!(there.bytes(at, asked.length), sent, "write {number}");
            }
            if takes_receive(asked.opcode) {
                let message = messages.next().expect("arrived");
                assert_eq!(message.length, asked.length);
                let immediate = asked.opcode != Opcode::SEND;
                assert_eq!(message.immediate, immediate.then_some(number as u32));
                // Receives are used in the order in which they were posted.
                let used = side.asked[peer].iter().enumerate();
                let used = used.filter(|(_, one)| takes_receive(one.opcode));
                let used = used.map(|(number, _)| number).nth(message.index as usize);
                let at = there.part(own, RECEIVED, used.expect("was posted"));
                if asked.opcode != Opcode::WRITE_IMM {
                    assert_eq!(there.bytes(at, asked.length), sent, "send {number}");
                }
            }
        }
        assert!(messages.next().is_none(), "nothing arrives twice");
        atomics
    }

    fn stop(self) {
        for side in self.sides {
            drop(side.pairs);
            side.endpoint.stop(Duration::from_secs(5)).expect("stops");
        }
    }
}

/// Early packets that endpoints placed.
fn simulate(seed: u64, selective: bool) -> u64 {
    let count = 2 + (seed % 7) as usize;
    let mut dice = Dice::new(seed);
    let link = Impairments {
        delay_ns: dice.below(20_000),
        jitter_ns: dice.below(10_000),
        loss_ppm: dice.below(20_000) as u32,
        duplicate_ppm: dice.below(20_000) as u32,
        reorder_ppm: dice.below(20_000) as u32,
        reorder_ns: 30_000,
        corrupt_ppm: dice.below(10_000) as u32,
        ..Impairments::default()
    };
    let mut endpoints = set_up(seed, count, selective, link);
    endpoints.ask(&mut dice);
    endpoints.run();
    endpoints.check();
    let early = |side: &Side| side.endpoint.counters().notes[Note::Early as usize];
    let early = endpoints.sides.iter().map(early).sum();
    endpoints.stop();
    early
}

/// Seeds to be run, from `WARPWIRE_SEED` alone if that is given.
fn seeds(count: u64) -> Vec<u64> {
    match std::env::var("WARPWIRE_SEED") {
        Ok(seed) => vec![seed.parse().expect("WARPWIRE_SEED is a number")],
        Err(_) => (0..count).collect(),
    }
}

fn tell_how_to_repeat(seed: u64, test: &str) {
    eprintln!(
        "to repeat: WARPWIRE_SEED={seed} cargo test -p warpwire-bench --test simulation {test}"
    );
}

fn over_seeds(count: u64, test: &str, run: impl Fn(u64)) {
    for seed in seeds(count) {
        let outcome = std::panic::catch_unwind(AssertUnwindSafe(|| run(seed)));
        if let Err(panic) = outcome {
            tell_how_to_repeat(seed, test);
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn endpoints_on_a_hostile_switch() {
    over_seeds(64, "endpoints_on_a_hostile_switch", |seed| {
        assert_eq!(simulate(seed, false), 0, "nothing is placed early");
    });
}

#[test]
fn endpoints_that_repeat_selectively() {
    let early = AtomicU64::new(0);
    over_seeds(64, "endpoints_that_repeat_selectively", |seed| {
        early.fetch_add(simulate(seed, true), Ordering::Relaxed);
    });
    let early = early.into_inner();
    println!("{early} packets came early");
    assert!(early > 0 || std::env::var("WARPWIRE_SEED").is_ok());
}

/// Bytes of memory that the process has, as the kernel counts them.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = pages
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse::<u64>().ok());
    pages.expect("a number") * 4096
}

#[test]
#[ignore = "as long as WARPWIRE_SOAK_S says, 600 seconds if it does not"]
fn soak() {
    let seconds = std::env::var("WARPWIRE_SOAK_S").map_or(600, |word| {
        word.parse()
            .expect("WARPWIRE_SOAK_S is a number of seconds")
    });
    let first = std::env::var("WARPWIRE_SEED").map_or(1_000, |word| {
        word.parse().expect("WARPWIRE_SEED is a number")
    });
    let (started, mut told) = (Instant::now(), 0);
    let (mut early, mut after_warm_up) = (0, 0);
    let mut seed: u64 = first;
    while started.elapsed() < Duration::from_secs(seconds) {
        // As many endpoints and both ways of repetition in turn.
        let selective = seed / 7 % 2 == 1;
        let run = AssertUnwindSafe(|| simulate(seed, selective));
        match std::panic::catch_unwind(run) {
            Ok(more) => early += more,
            Err(panic) => {
                let test = match selective {
                    true => "endpoints_that_repeat_selectively",
                    false => "endpoints_on_a_hostile_switch",
                };
                tell_how_to_repeat(seed, test);
                std::panic::resume_unwind(panic);
            }
        }
        seed += 1;
        if seed == first + 28 {
            after_warm_up = resident();
        }
        if started.elapsed().as_secs() / 60 > told {
            told += 1;
            println!(
                "{told} min: {} seeds, {} MiB",
                seed - first,
                resident() >> 20
            );
        }
    }
    let seeds = seed - first;
    println!(
        "{seeds} seeds in {:?}, {early} packets came early",
        started.elapsed()
    );
    let grown = resident().saturating_sub(after_warm_up);
    assert!(
        seeds < 28 || grown < 16 << 20,
        "grew by {} MiB",
        grown >> 20
    );
}
