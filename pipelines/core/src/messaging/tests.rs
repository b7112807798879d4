//! Channels, shared receives and tags against naive models, with an engine that only completes.
#![expect(
    unsafe_code,
    reason = "tests own the memory that they attach to, and play the engine"
)]

use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

use warpwire_device::{Scalar, ScalarHost, Wait};
use warpwire_ring::mlx5::layout::{
    COMPLETE_ALWAYS, CQE_BYTES, Cqe, CqeOpcode, ErrorCqe, NEVER_WRITTEN,
};
use warpwire_ring::mlx5::post::{Gather, Payload};
use warpwire_ring::mlx5::serve::{CompletionQueue, WorkQueue};
use warpwire_ring::{Cause, DeviceAddress, Scope};

use super::*;

/// A host whose clock goes on with every look at it.
struct Host(core::cell::Cell<u64>);

impl ScalarHost for Host {
    fn now_ns(&self) -> u64 {
        self.0.set(self.0.get() + 1);
        self.0.get()
    }

    fn pause(&self) {}

    fn sync_block(&self) {}
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(0x5851_f42d_4c95_7f2d)
            .wrapping_add(0x1405_7b7e_f767_814f);
        (self.0 >> 33) % bound
    }
}

/// Memory, in lines.
#[repr(C, align(128))]
#[derive(Clone, Copy)]
struct Line([u8; 128]);

fn lines(bytes: usize) -> Vec<Line> {
    vec![Line([0; 128]); bytes.div_ceil(128)]
}

fn at(lines: &mut [Line]) -> DeviceAddress {
    DeviceAddress::new(lines.as_mut_ptr() as u64)
}

/// A queue pair, its memory, and the engine's end of it.
struct Ends {
    _memory: Vec<Vec<Line>>,
    block: ChannelBlock,
    sent: CompletionQueue,
    arrived: CompletionQueue,
    /// The engine's place in the send queue.
    head: u64,
}

const NUMBER: u32 = 0x77;

impl Ends {
    fn new(log: u32) -> Self {
        let scope = Scope::System as u32;
        let mut memory = Vec::new();
        let mut piece = |bytes: usize| {
            let mut lines = lines(bytes);
            let address = at(&mut lines);
            memory.push(lines);
            address
        };
        let mut completions = || {
            let ring = piece((CQE_BYTES as usize) << log);
            for entry in 0..1u64 << log {
                let last = ring.offset(entry * CQE_BYTES + 63).value() as *mut u8;
                // SAFETY: the last byte of an entry.
                unsafe { last.write(NEVER_WRITTEN) };
            }
            let record = piece(8);
            let queue = CompletionQueue {
                ring,
                record,
                produced: 0,
                consumed: 0,
                log_depth: log,
                scope,
            };
            let ring = CompletionRing {
                ring,
                record,
                log_depth: log,
                scope,
            };
            (queue, ring)
        };
        let ((sent, sent_ring), (arrived, arrived_ring)) = (completions(), completions());
        let mut queue = |bytes: usize| WorkQueue {
            ring: piece(bytes),
            record: piece(8),
            log_depth: log,
            log_stride: 0,
            number: NUMBER,
            scope,
        };
        let (send, receive) = (queue(64 << log), queue(16 << log));
        Self {
            block: ChannelBlock {
                header: ChannelBlock::HEADER,
                send,
                receive,
                sent: sent_ring,
                arrived: arrived_ring,
                scratch: Gather::default(),
                heartbeat: DeviceAddress::NULL,
                stale_ns: 0,
                cursor: Cursor::default(),
            },
            _memory: memory,
            sent,
            arrived,
            head: 0,
        }
    }

    fn channel(&self) -> Channel {
        // SAFETY: the ends' own memory.
        unsafe { Channel::of(&self.block, DeviceAddress::NULL) }
    }

    /// Carries out up to `most` requests; the last of them fails if `fails`.
    fn carry_out(&mut self, most: u64, fails: bool) -> u64 {
        let send = self.block.send;
        // SAFETY: the ends' own queue.
        let posted = unsafe { send.head(self.head) };
        for number in 0..most {
            if self.head == posted {
                return number;
            }
            // SAFETY: the slot is posted.
            let entry = unsafe { send.entry(self.head, posted - self.head, false) };
            let entry = entry.expect("is well formed");
            let failed = fails && number + 1 == most;
            if failed || entry.modes & COMPLETE_ALWAYS != 0 {
                let cqe = match failed {
                    true => ErrorCqe::new(CqeOpcode::REQUEST_ERROR, self.head, 0x13).as_cqe(),
                    false => Cqe::new(CqeOpcode::REQUEST, self.head),
                };
                // SAFETY: the ends' own queue.
                assert!(unsafe { self.sent.has_room() }, "completions never overrun");
                // SAFETY: as above.
                unsafe { self.sent.write(cqe) };
            }
            self.head += u64::from(entry.slots);
        }
        most
    }
}

fn gather(length: u32) -> Gather {
    Gather {
        address: 0x1000,
        length,
        key: 1,
    }
}

#[test]
fn requests_are_done_when_the_engine_said_so() {
    let host = Host(core::cell::Cell::new(0));
    let simt = Scalar::new(&host);
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut ends = Ends::new(1 + dice.below(6) as u32);
        let mut channel = ends.channel();
        let depth = u64::from(channel.depth());
        let mut tickets: VecDeque<Ticket> = VecDeque::new();
        let bytes = [0; 300];
        for _ in 0..2000 {
            match dice.below(4) {
                0 => {
                    ends.carry_out(1 + dice.below(3), false);
                }
                1 => channel.collect(&simt),
                _ => {
                    let length = dice.below(200) as usize;
                    let payload = Payload::Inline(&bytes[..length]);
                    let mut request = Request::put(payload, Remote::default());
                    if dice.below(3) == 0 {
                        let update = Update::Set(1);
                        let at = Remote::default();
                        request = request.then(Signal { at, update });
                    }
                    if dice.below(5) == 0 {
                        request = request.tracked();
                    }
                    let before = channel.next();
                    match channel.post(&simt, Some(&request)) {
                        Ok(ticket) => {
                            let ticket = ticket.expect("one lane");
                            assert_eq!(ticket.first, before);
                            tickets.push_back(ticket);
                        }
                        Err(cause) => {
                            assert_eq!(cause, Cause::NoResource);
                            assert_eq!(channel.next(), before, "nothing was posted");
                        }
                    }
                }
            }
            // No more than there is; no request is done that the engine did not carry out.
            assert!(channel.next() - channel.cursor().send_freed <= depth);
            let done = |ticket: &Ticket| channel.is_done(*ticket).expect("none fails");
            while tickets.front().is_some_and(done) {
                let ticket = tickets.pop_front().expect("there is one");
                assert!(ticket.end <= ends.head, "seed {seed}");
            }
            assert!(!tickets.iter().any(done), "in order");
        }
        // Whatever was not asked for: completions free at least half of the queue.
        ends.carry_out(u64::MAX, false);
        channel.collect(&simt);
        assert!(
            u64::from(channel.free()) >= depth.div_ceil(2),
            "seed {seed}"
        );
    }
}

#[test]
fn what_is_behind_a_failure_fails_and_what_is_before_does_not() {
    let host = Host(core::cell::Cell::new(0));
    let simt = Scalar::new(&host);
    let mut ends = Ends::new(4);
    let mut channel = ends.channel();
    let post = |channel: &mut Channel| {
        let ticket = channel.put(&simt, gather(8), Remote::default());
        ticket.map(|ticket| ticket.expect("one lane"))
    };
    let tickets = [(); 4].map(|()| post(&mut channel).expect("room"));
    ends.carry_out(3, true);
    channel.collect(&simt);
    let states = tickets.map(|ticket| channel.is_done(ticket));
    let failed = Err(Cause::RemoteAccess);
    assert_eq!(states, [Ok(true), Ok(true), failed, failed]);
    assert_eq!(post(&mut channel), Err(Cause::RemoteAccess));
    let wait = Wait::until(1 << 40);
    let outcome = channel.quiet(&simt, &wait, &mut Elsewhere);
    assert_eq!(outcome, Err(Cause::RemoteAccess));
    // It is known to who attaches next.
    ends.block.cursor = channel.cursor();
    assert_eq!(ends.channel().fault(), Some(Cause::RemoteAccess));
}

#[test]
fn a_completion_of_nothing_is_a_fault() {
    let host = Host(core::cell::Cell::new(0));
    let simt = Scalar::new(&host);
    let mut ends = Ends::new(3);
    let mut channel = ends.channel();
    channel
        .put(&simt, gather(8), Remote::default())
        .expect("room");
    // SAFETY: the ends' own queue.
    unsafe { ends.sent.write(Cqe::new(CqeOpcode::REQUEST, 5)) };
    channel.collect(&simt);
    assert_eq!(channel.fault(), Some(Cause::RingCorrupted));
}

#[test]
fn blocks_of_another_layout_are_refused() {
    let mut ends = Ends::new(3);
    let block = core::ptr::from_mut(&mut ends.block) as u64;
    let attach = |at: u64| {
        // SAFETY: a block of the test, or no address.
        let channel = unsafe { Channel::attach(DeviceAddress::new(at)) };
        channel.map(|channel| channel.number())
    };
    assert_eq!(attach(block), Ok(NUMBER));
    assert_eq!(attach(0), Err(Cause::LayoutMismatch));
    assert_eq!(attach(block + 8), Err(Cause::LayoutMismatch));
    ends.block.header.layout ^= 1;
    assert_eq!(attach(block), Err(Cause::LayoutMismatch));
}

#[test]
fn shared_receives_come_back_in_any_order() {
    let host = Host(core::cell::Cell::new(0));
    let simt = Scalar::new(&host);
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut ends = Ends::new(1 + dice.below(8) as u32);
        let mut done = lines(64);
        let block = SharedBlock {
            header: SharedBlock::HEADER,
            receive: ends.block.receive,
            arrived: ends.block.arrived,
            done: at(&mut done),
            heartbeat: DeviceAddress::NULL,
            stale_ns: 0,
            next: 0,
            freed: 0,
            arrived_next: 0,
            returned: 0,
        };
        // SAFETY: memory of the test.
        let mut receives = unsafe { SharedReceives::of(&block, DeviceAddress::NULL) };
        let depth = 1u64 << block.receive.log_depth;
        let (mut next, mut out): (u64, Vec<u64>) = (0, Vec::new());
        for _ in 0..4000 {
            let oldest = out.iter().copied().min().unwrap_or(next);
            if dice.below(2) == 0 {
                let outcome = receives.post(&simt, Some(&[gather(8)]));
                if next - oldest < depth {
                    assert_eq!(outcome, Ok(Some(next)), "seed {seed}");
                    out.push(next);
                    next += 1;
                } else {
                    assert_eq!(outcome, Err(Cause::NoResource), "seed {seed}");
                }
            } else if !out.is_empty() {
                let index = out.swap_remove(dice.below(out.len() as u64) as usize);
                let mut cqe = Cqe::new(CqeOpcode::RESPONSE_SEND, index);
                cqe.sop_drop_qpn = (NUMBER + index as u32).into();
                // SAFETY: the ends' own queue.
                unsafe { ends.arrived.write(cqe) };
                let arrival = receives.poll(&simt).expect("came");
                assert_eq!(arrival.index, index);
                assert_eq!(arrival.pair, NUMBER + index as u32);
            }
            assert_eq!(receives.posted() as usize, out.len());
            let oldest = out.iter().copied().min().unwrap_or(next);
            assert_eq!(u64::from(receives.free()), depth - (next - oldest));
        }
    }
}

#[test]
fn tags_match_as_a_list_would() {
    let host = Host(core::cell::Cell::new(0));
    let simt = Scalar::new(&host);
    const SLOTS: u32 = 8;
    const EXPECTED: u32 = 5;
    for seed in 0..40 {
        let mut dice = Dice(seed);
        let mut ends = Ends::new(3);
        let mut channel = ends.channel();
        let table = |count: u32| lines(count as usize * size_of::<TagSlot>());
        let (mut expected, mut unexpected) = (table(EXPECTED), table(SLOTS));
        let (mut posted, mut slots) = (lines(32), lines(SLOTS as usize * 16));
        let mut memory = lines(128);
        let mut block = TagBlock {
            header: TagBlock::HEADER,
            expected: at(&mut expected),
            unexpected: at(&mut unexpected),
            posted: at(&mut posted),
            slots: Gather {
                address: at(&mut slots).value(),
                length: SLOTS * 16,
                key: 1,
            },
            slot_bytes: 16,
            slot_count: SLOTS,
            expected_count: EXPECTED,
            receives: SLOTS,
            order: 0,
        };
        let home = DeviceAddress::new(core::ptr::from_mut(&mut block) as u64);
        // SAFETY: memory of the test.
        let mut tags = unsafe { Tags::attach(home) }.expect("is one");
        tags.start(&simt, &mut channel).expect("room");
        // The model: receives and messages in the order in which they came.
        let mut receives: Vec<(u64, u32, u32)> = Vec::new();
        let mut messages: Vec<u32> = Vec::new();
        let mut taken = 0u64;
        for number in 0..3000u32 {
            let tag = dice.below(6) as u32;
            if dice.below(2) == 0 {
                let mask = [u32::MAX, 6, 0][dice.below(3) as usize];
                let into = Gather {
                    address: at(&mut memory).value(),
                    length: 16,
                    key: 0,
                };
                let wanted = messages.iter().position(|one| (one ^ tag) & mask == 0);
                // SAFETY: memory of the test.
                let outcome = unsafe { tags.expect(&simt, &mut channel, (tag, mask), into) };
                match (outcome, wanted) {
                    (Ok(Expected::Matched(matched)), Some(place)) => {
                        assert_eq!(matched.tag, messages.remove(place), "seed {seed}");
                    }
                    (Ok(Expected::Waiting(order)), None) => receives.push((order, tag, mask)),
                    (Err(Cause::NoResource), None) => {
                        assert_eq!(receives.len(), EXPECTED as usize);
                    }
                    (outcome, wanted) => panic!("seed {seed}: {outcome:?}, {wanted:?}"),
                }
            } else if channel.free_receives() < SLOTS {
                // A message into the oldest receive, whose slot begins with its number.
                let receive = ends.block.receive;
                // SAFETY: it is posted.
                let bytes = unsafe { receive.receive_bytes(taken, 0) }.expect("a piece");
                // SAFETY: a slot of the test.
                unsafe { (bytes.address.value() as *mut u32).write(number) };
                let mut cqe = Cqe::new(CqeOpcode::RESPONSE_SEND_IMM, taken);
                cqe.imm_inval_pkey = tag.into();
                cqe.byte_cnt = 4.into();
                // SAFETY: the ends' own queue.
                unsafe { ends.arrived.write(cqe) };
                taken += 1;
                let wanted = receives
                    .iter()
                    .position(|(_, one, mask)| (one ^ tag) & mask == 0);
                let matched = tags.poll(&simt, &mut channel).expect("works");
                match wanted {
                    Some(place) => {
                        let matched = matched.expect("one waits");
                        let (order, ..) = receives.remove(place);
                        assert_eq!((matched.receive, matched.tag), (order, tag), "seed {seed}");
                        // SAFETY: memory of the test.
                        let bytes = unsafe { (at(&mut memory).value() as *const u32).read() };
                        assert_eq!(bytes, number, "its own bytes");
                    }
                    None => {
                        assert_eq!(matched, None, "seed {seed}");
                        messages.push(tag);
                    }
                }
            } else {
                assert_eq!(messages.len(), SLOTS as usize, "all slots are kept");
            }
        }
    }
}

#[test]
fn every_verb_has_its_number() {
    for (number, verb) in (0..).zip(Verb::ALL) {
        assert_eq!(verb as u32, number);
        assert_eq!(Verb::from_number(number), Some(verb));
    }
    assert_eq!(Verb::from_number(19), None);
}
