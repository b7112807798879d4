//! How many 64-byte frames a second the device model moves, against a bare hand-off of payload
//! between two cores in the same run.
//!
//! `cargo bench -p warpwire-nic --bench soft_rate`. The application sends on one core and receives
//! its own frames on the same core; the model copies them on the other. Rounds of both are
//! interleaved.
#![expect(
    unsafe_code,
    reason = "drives queues and shared words as a kernel does"
)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use warpwire_gpu::{Arena, Service};
use warpwire_nic::Nic;
use warpwire_nic::soft::{self, AdapterConfig, Clock, Fabric, FabricConfig, Impairments, Offloads};
use warpwire_ring::memory::{self, Quad};
use warpwire_ring::mlx5::{Rx, Tx};
use warpwire_ring::{DeviceAddress, Location, Post, PostFlags, Receive, Transmit};

const FRAME: u32 = 64;
const BATCH: u64 = 32;
const ROUND: Duration = Duration::from_millis(100);
const ROUNDS: usize = 9;

type Row = (&'static str, fn() -> f64);

const ROWS: [Row; 6] = [
    ("bare hand-off with payload", bare),
    ("model, no offloads", || model(false, false)),
    ("model, hash", || model(false, true)),
    ("model, hash and checksums", || model(true, true)),
    ("one thread, no offloads", || one_thread(false, false)),
    ("one thread, hash and checksums", || one_thread(true, true)),
];

/// Words on the command line choose the rows whose names hold one of them.
fn main() {
    let words: Vec<String> = std::env::args()
        .skip(1)
        .filter(|word| word != "--bench")
        .collect();
    if words.iter().any(|word| word == "--test") {
        return;
    }
    let chosen = |name: &str| words.is_empty() || words.iter().any(|word| name.contains(word));
    let rows: Vec<Row> = ROWS.into_iter().filter(|(name, _)| chosen(name)).collect();
    let mut rates: Vec<(&str, Vec<f64>)> = Vec::new();
    for _ in 0..ROUNDS {
        for (name, run) in &rows {
            let rate = run();
            match rates.iter_mut().find(|(known, _)| known == name) {
                Some((_, list)) => list.push(rate),
                None => rates.push((name, vec![rate])),
            }
        }
    }
    if rates.is_empty() {
        return;
    }
    println!(
        "cache line ping-pong between the two cores: {:.0} ns",
        ping_pong()
    );
    let median = |list: &[f64]| {
        let mut sorted = list.to_vec();
        sorted.sort_by(f64::total_cmp);
        sorted[sorted.len() / 2]
    };
    let base = median(&rates[0].1);
    println!(
        "64-byte frames, Mpps, median [min..max] of {ROUNDS} interleaved rounds; ratio to the first"
    );
    for (name, list) in &rates {
        let (low, high) = list
            .iter()
            .fold((f64::MAX, 0.0), |(low, high): (f64, f64), &rate| {
                (low.min(rate), high.max(rate))
            });
        let middle = median(list);
        println!(
            "{name:30} {middle:6.1} [{low:.1}..{high:.1}]  {:.2}",
            middle / base
        );
    }
}

/// Runs `work` pinned to the second CPU until the flag is set, and `measure` on the first.
fn beside<T>(mut work: impl FnMut() + Send, measure: impl FnOnce() -> T) -> T {
    // On a line of its own: what lies beside it on this thread's stack changes all the time.
    let (stop, ready) = (Padded(AtomicU64::new(0)), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            pin(1);
            ready.wait();
            while stop.0.load(Ordering::Relaxed) == 0 {
                work();
            }
        });
        pin(0);
        ready.wait();
        let result = measure();
        stop.0.store(1, Ordering::Relaxed);
        result
    })
}

fn pin(cpu: usize) {
    // SAFETY: all zero is the empty set.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: a local set and a small number.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set outlives the call; a refusal leaves the thread where it is.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
}

/// Millions of frames a second through a soft NIC plugged into itself, the model on the other core.
fn model(checksum: bool, hash: bool) -> f64 {
    let (nic, mut service) = looped(checksum, hash);
    let rate = beside(
        || {
            service.run(256);
        },
        || application(&nic, || (), elapsed),
    );
    check(&nic);
    rate
}

/// The same with application and model in turns on one core, in its processor time: what both cost
/// without the way between cores.
fn one_thread(checksum: bool, hash: bool) -> f64 {
    let (nic, mut service) = looped(checksum, hash);
    let turn = || {
        service.run(256);
    };
    let rate = application(&nic, turn, processor_time);
    check(&nic);
    rate
}

fn check(nic: &soft::SoftNic) {
    let counters = nic.counters();
    assert_eq!(counters.dropped(), 0, "{counters:?}");
}

fn looped(checksum: bool, hash: bool) -> (soft::SoftNic, soft::FabricService) {
    let fabric = Fabric::new(FabricConfig::default(), Clock::system());
    let config = AdapterConfig {
        offloads: Offloads {
            checksum,
            hash,
            vlan_strip: false,
        },
        ..AdapterConfig::default()
    };
    let spec = "soft".parse().expect("words");
    let nic = fabric
        .plug(spec, config, Impairments::default())
        .expect("opens");
    fabric.cable(nic.port(), nic.port());
    let service = fabric.service();
    (nic, service)
}

/// Sends and receives until the round is over; returns millions of frames a second.
fn application(nic: &soft::SoftNic, mut turn: impl FnMut(), clock: fn() -> Duration) -> f64 {
    let pair = &nic.queues()[0];
    // SAFETY: the NIC holds the memory, and nobody else drives the queue.
    let tx = unsafe { Tx::attach(&pair.transmit) }.expect("attaches");
    // SAFETY: as above.
    let rx = unsafe { Rx::attach(&pair.receive) }.expect("attaches");
    let (mut sent, mut freed, mut entries, mut received) = (0u64, 0u64, 0u64, 0u64);
    let depth = u64::from(tx.depth());
    let mut wrong = 0u64;
    let start = clock();
    let mut spins = 0u32;
    loop {
        // Frames under way stay below the depth of both queues.
        let room = depth - (sent - received).max(sent - freed);
        if room >= BATCH {
            for index in sent..sent + BATCH {
                let address = tx.buffer(index).address;
                write_frame(address, index);
                let last = index + 1 == sent + BATCH;
                let flags = if last {
                    PostFlags::SIGNAL
                } else {
                    PostFlags::empty()
                };
                let post = Post {
                    address,
                    length: FRAME,
                    parts: 1,
                    flags,
                    ..Post::default()
                };
                tx.write(index, &post).expect("posts");
            }
            sent += BATCH;
            tx.publish(sent);
            tx.ring(sent);
            (sent..sent + BATCH).for_each(|index| tx.prepare(index));
        }
        while let Some(completion) = tx.completion(entries, freed) {
            (freed, entries) = (completion.upto, entries + 1);
        }
        tx.retire(entries);
        let first = received;
        while received < first + BATCH && rx.owned(received) {
            received += 1;
        }
        if received > first {
            rx.observe();
            for index in first..received {
                let segment = rx.segment(index, 0);
                wrong += u64::from(read_frame(segment.address) != index);
            }
            rx.release(received);
        }
        turn();
        spins += 1;
        if spins.is_multiple_of(256) && (clock() - start) > ROUND {
            break;
        }
    }
    assert_eq!(wrong, 0, "frames arrive in order and whole");
    received as f64 / (clock() - start).as_secs_f64() / 1e6
}

/// A UDP frame of 64 bytes with a number in it.
fn write_frame(address: DeviceAddress, number: u64) {
    let (low, high) = (number as u32, (number >> 32) as u32);
    let quads = [
        [0xffff_ffff, 0x5702_ffff, 0x0100_0000, 0x0045_0008],
        [0x0000_3200, 0x1140_0000, 0x010a_0000, 0x020a_0000],
        [0x0102_0000, 0x1e00_b7a2, 0x0000_0000, low],
        [high, low ^ high, 0, 0],
    ];
    for (offset, quad) in [0, 16, 32, 48].into_iter().zip(quads) {
        // SAFETY: the slot's buffer has room for 64 bytes and is this thread's.
        unsafe { memory::store_quad(address.offset(offset), Quad(quad)) }
    }
}

/// Reads all 64 bytes; the number in them.
fn read_frame(address: DeviceAddress) -> u64 {
    let mut quads = [[0; 4]; 4];
    for (offset, quad) in [0, 16, 32, 48].into_iter().zip(&mut quads) {
        // SAFETY: the frame has 64 bytes and is lent to this thread.
        *quad = unsafe { memory::load_quad(address.offset(offset)) }.0;
    }
    let [_, _, [.., low], [high, check, ..]] = quads;
    let sum = quads.iter().flatten().fold(0u32, |sum, word| sum ^ word);
    std::hint::black_box(sum);
    if low ^ high == check {
        u64::from(low) | u64::from(high) << 32
    } else {
        u64::MAX
    }
}

/// How long a line takes to the other core and back, in nanoseconds: it varies with where the
/// machine puts its cores, and everything above with it.
fn ping_pong() -> f64 {
    const TURNS: u64 = 100_000;
    let ball = Padded::default();
    let answer = || {
        let ball = &ball.0;
        let seen = ball.load(Ordering::Acquire);
        if seen % 2 == 1 {
            ball.store(seen + 1, Ordering::Release);
        }
    };
    beside(answer, || {
        let start = elapsed();
        for turn in 0..TURNS {
            ball.0.store(2 * turn + 1, Ordering::Release);
            while ball.0.load(Ordering::Acquire) == 2 * turn + 1 {
                std::hint::spin_loop();
            }
        }
        (elapsed() - start).as_nanos() as f64 / TURNS as f64
    })
}

/// Millions of frames a second over a hand-written ring: descriptor, 64 bytes of payload written on
/// one core and read on the other, and the buffer handed back.
fn bare() -> f64 {
    const SLOTS: u64 = 1024;
    let arena =
        Arc::new(Arena::new(SLOTS as usize * 2048 + 65536, Location::PageableHost).expect("maps"));
    let descriptors = arena.allocate(SLOTS * 16, 128).expect("fits").address;
    let buffers = arena.allocate(SLOTS * 2048, 4096).expect("fits").address;
    let head = Arc::new((Padded::default(), Padded::default()));
    let there = Arc::clone(&head);
    let (mut taken, mut known) = (0u64, 0u64);
    let consume = move || {
        let (produced, consumed) = &*there;
        if known == taken {
            known = produced.0.load(Ordering::Acquire);
        }
        let upto = known.min(taken + BATCH);
        let mut wrong = 0;
        for index in taken..upto {
            let descriptor = descriptors.offset(index % SLOTS * 16);
            // SAFETY: the descriptor was published with release, and stays until it is consumed.
            let [low, high, ..] = unsafe { memory::load_quad(descriptor) }.0;
            let address = u64::from(low) | u64::from(high) << 32;
            wrong += u64::from(read_frame(DeviceAddress::new(address)) != index);
        }
        assert_eq!(wrong, 0);
        if upto > taken {
            taken = upto;
            consumed.0.store(taken, Ordering::Release);
        }
    };
    beside(consume, || {
        let (produced, consumed) = &*head;
        let (mut sent, mut free, mut spins) = (0u64, 0u64, 0u32);
        let start = elapsed();
        loop {
            if sent + BATCH - free > SLOTS {
                free = consumed.0.load(Ordering::Acquire);
            } else {
                for index in sent..sent + BATCH {
                    let address = buffers.offset(index % SLOTS * 2048);
                    write_frame(address, index);
                    let descriptor = descriptors.offset(index % SLOTS * 16);
                    let value = address.value();
                    let quad = Quad([value as u32, (value >> 32) as u32, FRAME, 0]);
                    // SAFETY: the descriptor is free and this thread's.
                    unsafe { memory::store_quad(descriptor, quad) }
                }
                sent += BATCH;
                produced.0.store(sent, Ordering::Release);
            }
            spins += 1;
            if spins.is_multiple_of(256) && (elapsed() - start) > ROUND {
                break;
            }
        }
        free as f64 / (elapsed() - start).as_secs_f64() / 1e6
    })
}

/// Time of the machine's clock.
fn elapsed() -> Duration {
    time(libc::CLOCK_MONOTONIC)
}

/// Time that this thread had a processor.
fn processor_time() -> Duration {
    time(libc::CLOCK_THREAD_CPUTIME_ID)
}

fn time(clock: libc::clockid_t) -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: writes to a local.
    unsafe { libc::clock_gettime(clock, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

#[derive(Default)]
#[repr(align(128))]
struct Padded(AtomicU64);
