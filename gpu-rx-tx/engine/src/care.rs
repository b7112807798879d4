//! Between packets: the host's wishes, clocks, and what a failed queue pair gives back.
#![expect(
    unsafe_code,
    reason = "reads mail and queues by the addresses that the host gave"
)]

use warpwire_device::SharedWord;
use warpwire_protocols::rdma::{Attributes, QueuePair, Start, State, Tuning};

use crate::engine::LARGEST_HEADERS;
use crate::tables::{Mail, PairBlock, REFUSED_MOVE, REFUSED_MTU, ReceiveBlock, Wanted};
use crate::tell;

/// The word by which the host asks.
pub(crate) fn command(block: &PairBlock) -> Option<SharedWord> {
    mail_word(block, core::mem::offset_of!(Mail, command))
}

fn mail_word(block: &PairBlock, offset: usize) -> Option<SharedWord> {
    if block.mail.is_null() {
        return None;
    }
    // SAFETY: a word of the mail, live by the engine's promise.
    Some(unsafe { SharedWord::attach(block.mail.offset(offset as u64)) })
}

/// Tells the host where the queue pair stands.
pub(crate) fn mail_state(block: &PairBlock) {
    let fault = block.pair.fault().map_or(0, |status| status as u32);
    let rate = block.pair.rate();
    let words = [
        (
            core::mem::offset_of!(Mail, state),
            block.pair.state() as u32,
        ),
        (core::mem::offset_of!(Mail, fault), fault),
        (core::mem::offset_of!(Mail, rate), rate.current()),
        (core::mem::offset_of!(Mail, target_rate), rate.target()),
        (core::mem::offset_of!(Mail, congestion), rate.alpha()),
    ];
    for (offset, value) in words {
        if let Some(word) = mail_word(block, offset)
            && word.load() != value
        {
            word.store(value);
        }
    }
}

#[inline(never)]
pub(crate) fn has_to_flush(block: &PairBlock) -> bool {
    // SAFETY: live by the engine's promise.
    let head = unsafe { block.send.head(block.head) };
    let at = block.receives.value() as *const ReceiveBlock;
    let receives = !at.is_null() && {
        // SAFETY: a receive block by the engine's promise.
        let receives = unsafe { &*at };
        // SAFETY: live by the engine's promise.
        let head = unsafe { receives.queue.head(receives.head) };
        receives.queue.number == block.number && receives.next != head
    };
    block.told != head || receives || block.pair.held_receive().is_some()
}

/// The leader's part: obeys the host, looks at the clock, and flushes what failed.
#[inline(never)]
pub(crate) fn care(block: &mut PairBlock, now_ns: u64, most_bytes: u32, tuning: &Tuning) {
    if let Some(word) = command(block) {
        let number = word.load();
        if number != block.obeyed {
            obey(block, most_bytes, tuning);
            block.obeyed = number;
            mail_state(block);
            if let Some(answer) = mail_word(block, core::mem::offset_of!(Mail, answer)) {
                answer.store(number);
            }
        }
    }
    block.pair.on_timer(now_ns);
    tell::tell_sends(block);
    tell::flush_receives(block);
    mail_state(block);
}

/// Does what the mail says.
#[inline(never)]
fn obey(block: &mut PairBlock, most_bytes: u32, tuning: &Tuning) {
    let at = block.mail.value() as *const Mail;
    let at = at.wrapping_byte_add(core::mem::offset_of!(Mail, wanted));
    // SAFETY: live by the engine's promise; the host leaves it alone until it is answered.
    let wanted = unsafe { core::ptr::read_volatile(at.cast::<Wanted>()) };
    let state = STATES.into_iter().find(|one| *one as u32 == wanted.state);
    let largest = wanted.attributes.mtu.bytes() + LARGEST_HEADERS;
    let fits = wanted.connects == 0 || largest <= most_bytes;
    let moved = fits && state.is_some_and(|state| become_state(block, state));
    if moved && wanted.connects != 0 {
        // SAFETY: live by the engine's promise.
        block.head = unsafe { block.send.head(block.head) };
        block
            .pair
            .connect(wanted.attributes, wanted.start, block.told);
        block.pair.tune(tuning);
        block.path = wanted.path;
        block.receives = wanted.receives;
        block.receive_completions = wanted.receive_completions;
        block.group = wanted.group;
    }
    if moved && state == Some(State::Reset) {
        reset(block);
    }
    if let Some(word) = mail_word(block, core::mem::offset_of!(Mail, refused)) {
        word.store(match (moved, fits) {
            (true, _) => 0,
            (false, true) => REFUSED_MOVE,
            (false, false) => REFUSED_MTU,
        });
    }
}

/// Says whether the specification has such a move.
fn become_state(block: &mut PairBlock, to: State) -> bool {
    if (block.pair.state(), to) != (State::SendError, State::ReadyToSend) {
        return block.pair.become_state(to).is_ok();
    }
    // What was posted so far fails with what failed; there is room for as many completions as there
    // are slots.
    tell::tell_sends(block);
    block.failed = false;
    block.pair.resume(block.told).is_ok()
}

/// Forgets everything: what is posted is dropped and told to nobody, and the queues go on behind
/// it. Only a receive that others share comes back.
fn reset(block: &mut PairBlock) {
    let at = block.receives.value() as *mut ReceiveBlock;
    if !at.is_null() {
        // SAFETY: a receive block by the engine's promise, driven by this block alone.
        let receives = unsafe { &mut *at };
        if receives.queue.number == block.number {
            // SAFETY: live by the engine's promise.
            receives.head = unsafe { receives.queue.head(receives.head) };
            receives.next = receives.head;
        } else {
            // Its queue has room for as many completions as it has receives.
            tell::flush_held(block);
        }
    }
    // SAFETY: live by the engine's promise.
    block.head = unsafe { block.send.head(block.head) };
    block.told = block.head;
    block.pair = QueuePair::new();
    let (attributes, start) = (Attributes::default(), Start::default());
    block.pair.connect(attributes, start, block.told);
    block.failed = false;
}

const STATES: [State; 7] = [
    State::Reset,
    State::Init,
    State::ReadyToReceive,
    State::ReadyToSend,
    State::Draining,
    State::SendError,
    State::Error,
];
