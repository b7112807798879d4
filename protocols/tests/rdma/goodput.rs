//! What a link brings that loses packets: bytes of messages in virtual time, going back to what was
//! lost and repeating it selectively.

use std::collections::VecDeque;

use warpwire_protocols::rdma::{Attributes, Mtu, Operation, Request};

use crate::end::{BASE, BYTES, End, KEY, pair};
use crate::fabric::Dice;

/// A link between two ends: a rate, a way, and losses, the same in both directions.
#[derive(Clone, Copy)]
struct Link {
    name: &'static str,
    mtu: Mtu,
    /// Bits a nanosecond.
    rate: u64,
    /// There and back, without the time that bits take.
    trip_ns: u64,
    /// Lost packets in 10,000.
    loss: u64,
    /// The acknowledgement timeout's code.
    timeout: u8,
    /// How many times as much selective repetition brings at least.
    ratio: f64,
}

/// One direction.
#[derive(Default)]
struct Lane {
    free_at_ns: u64,
    under_way: VecDeque<(u64, Vec<u8>)>,
}

/// Ethernet, IPv4, UDP, both CRCs, preamble and gap: what a packet takes beside its transport.
const AROUND: u64 = 14 + 20 + 8 + 4 + 4 + 20;
/// Bytes of a message.
const MESSAGE: u32 = 1 << 20;

struct Outcome {
    /// Bits of messages a nanosecond.
    goodput: f64,
    packets: u64,
    timeouts: u64,
}

/// What is transferred, a MiB at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    Just(Operation),
    /// Writes of so many bytes, each with a signal behind it.
    Signalled(u32),
}

fn post(end: &mut End, work: Work) {
    let request = |operation, length, offset: u32| Request {
        operation,
        length,
        address: BASE + u64::from(offset),
        key: KEY,
        ..Request::default()
    };
    match work {
        Work::Just(operation) => _ = end.post(request(operation, MESSAGE, 0), 0),
        Work::Signalled(length) => {
            for offset in (0..MESSAGE).step_by(length as usize) {
                end.post(request(Operation::Write, length, offset), offset as usize);
                end.post(request(Operation::Write, 8, 0), 0);
            }
        }
    }
}

fn transfer(seed: u64, link: Link, work: Work, messages: usize, selective: bool) -> Outcome {
    let attributes = Attributes {
        mtu: link.mtu,
        timeout: link.timeout,
        selective,
        ..Attributes::default()
    };
    let mut dice = Dice::new(seed);
    let mut ends = pair(attributes, [dice.next() as u32, dice.next() as u32]);
    assert_eq!(BYTES, MESSAGE as usize);
    let from = usize::from(work == Work::Just(Operation::Read));
    for word in ends[from].around.memory.chunks_exact_mut(8) {
        word.copy_from_slice(&dice.next().to_le_bytes());
    }
    for _ in 0..messages {
        post(&mut ends[0], work);
        ends[1].receive(0, MESSAGE);
    }
    let requests = ends[0].posted() as usize;
    let mut lanes = [Lane::default(), Lane::default()];
    let (mut now_ns, mut packets, mut timeouts) = (1, 0, 0);
    while ends[0].sent.len() < requests {
        for (side, lane) in lanes.iter_mut().enumerate() {
            if lane.free_at_ns <= now_ns
                && let Some(bytes) = ends[side].poll(now_ns)
            {
                let bits = (bytes.len() as u64 + AROUND) * 8;
                lane.free_at_ns = now_ns + bits / link.rate;
                packets += u64::from(side == 0);
                if !dice.happens(link.loss) {
                    let at_ns = lane.free_at_ns + link.trip_ns / 2;
                    lane.under_way.push_back((at_ns, bytes));
                }
            }
        }
        now_ns = next_event(&lanes, &ends, now_ns);
        for (side, lane) in lanes.iter_mut().enumerate() {
            while let Some((_, bytes)) = lane.under_way.pop_front_if(|one| one.0 <= now_ns) {
                ends[1 - side].take(now_ns, &bytes, false);
            }
        }
        let asked = ends[0]
            .pair
            .timeout_ns(now_ns)
            .is_some_and(|at| at <= now_ns);
        timeouts += u64::from(asked);
        ends[0].on_timer(now_ns);
        assert_eq!(ends[0].pair.fault(), None, "{}", link.name);
    }
    let [one, other] = &ends;
    assert!(one.around.memory == other.around.memory, "{}", link.name);
    Outcome {
        goodput: messages as f64 * f64::from(MESSAGE) * 8.0 / now_ns as f64,
        packets,
        timeouts,
    }
}

/// When something can happen: a lane that becomes free, an arrival, a timer.
fn next_event(lanes: &[Lane; 2], ends: &[End; 2], now_ns: u64) -> u64 {
    let arrivals = lanes
        .iter()
        .filter_map(|lane| Some(lane.under_way.front()?.0));
    let free = lanes.iter().map(|lane| lane.free_at_ns);
    let timers = ends.iter().filter_map(|end| end.pair.timeout_ns(now_ns));
    let later = arrivals.chain(free).chain(timers).filter(|at| *at > now_ns);
    later.min().expect("something happens")
}

/// Rates and ways of data centres. 14 is the timeout of verbs' tools, 67 ms: who goes back meets it
/// when a repetition is lost as well, for a gap is told once. With one of 4.2 ms less is to be won.
/// What comes in its turn is repeated from the gap on in both ways, but found sooner.
const LINKS: [Link; 4] = [
    Link {
        name: "100 Gbit/s, 8 us, MTU 4096, timeout 14",
        mtu: Mtu::M4096,
        rate: 100,
        trip_ns: 8_000,
        loss: 100,
        timeout: 14,
        ratio: 5.0,
    },
    Link {
        name: "100 Gbit/s, 8 us, MTU 4096, timeout 10",
        mtu: Mtu::M4096,
        rate: 100,
        trip_ns: 8_000,
        loss: 100,
        timeout: 10,
        ratio: 1.5,
    },
    Link {
        name: "25 Gbit/s, 12 us, MTU 1024, timeout 14",
        mtu: Mtu::M1024,
        rate: 25,
        trip_ns: 12_000,
        loss: 100,
        timeout: 14,
        ratio: 5.0,
    },
    Link {
        name: "25 Gbit/s, 12 us, MTU 1024, timeout 10",
        mtu: Mtu::M1024,
        rate: 25,
        trip_ns: 12_000,
        loss: 100,
        timeout: 10,
        ratio: 1.5,
    },
];

#[test]
fn selective_repetition_brings_five_times_as_much_at_one_percent_of_loss() {
    let works = [
        Work::Just(Operation::Write),
        Work::Just(Operation::WriteImmediate),
        Work::Signalled(64 << 10),
        Work::Just(Operation::Send),
        Work::Just(Operation::Read),
    ];
    for (link, work) in LINKS
        .into_iter()
        .flat_map(|link| works.map(|work| (link, work)))
    {
        let messages = 24 * link.mtu.bytes() as usize / 1024;
        let back = transfer(1, link, work, messages, false);
        let selective = transfer(1, link, work, messages, true);
        let ratio = selective.goodput / back.goodput;
        let told = format!(
            "{}, {work:?}: going back {:.2} Gbit/s ({} packets, {} timers), selective {:.2} \
             Gbit/s ({} packets, {} timers): {ratio:.1} times",
            link.name,
            back.goodput,
            back.packets,
            back.timeouts,
            selective.goodput,
            selective.packets,
            selective.timeouts,
        );
        println!("{told}");
        assert!(ratio >= link.ratio, "{told}");
    }
}

#[test]
fn without_losses_both_bring_what_the_link_has() {
    for link in LINKS {
        let fine = Link { loss: 0, ..link };
        for selective in [false, true] {
            let outcome = transfer(1, fine, Work::Just(Operation::Write), 4, selective);
            let packets = u64::from(4 * MESSAGE / link.mtu.bytes());
            assert_eq!(
                (outcome.packets, outcome.timeouts),
                (packets, 0),
                "{}",
                link.name
            );
            let least = 0.85 * link.rate as f64;
            assert!(
                outcome.goodput > least,
                "{}: {}",
                link.name,
                outcome.goodput
            );
        }
    }
}
