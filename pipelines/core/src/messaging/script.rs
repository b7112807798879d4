//! Scripts: messages as a list in memory, which a kernel or the host carries out step by step, with
//! what came of each. For kernels that only move data, for measurements, and for tests that want
//! the same done everywhere.

use warpwire_device::{Simt, Wait};
use warpwire_ring::mlx5::post::{Gather, Payload};
use warpwire_ring::{Cause, DeviceAddress};

use super::channel::{Channel, Posting, Ticket};
use super::progress::{Progress, keep_on};
use super::request::{Remote, Request, Signal, Update};
use super::signal::{Goal, Signals};

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Verb {
    /// Nothing.
    Nothing = 0,
    /// Puts `local` to `remote`.
    Put = 1,
    /// Puts the eight bytes of `value` to `remote`.
    PutInline = 2,
    /// Puts `local` to `remote` and sets `signal` to `value`, each further one to one more.
    PutSet = 3,
    /// Puts `local` to `remote` and adds `value` to `signal`.
    PutAdd = 4,
    /// Sets `signal` to `value`, each further one to one more.
    Set = 5,
    /// Adds `value` to `signal`.
    Add = 6,
    /// Reads `remote` into `local`.
    Get = 7,
    /// Adds `value` to `remote`; what was there goes into `local`.
    FetchAdd = 8,
    /// Sets `remote` to `value` if it is `compare`; what was there goes into `local`.
    CompareSwap = 9,
    /// Sends `local`.
    Send = 10,
    /// Sends `local` with `value` as immediate, each further one with one more.
    SendImmediate = 11,
    /// Posts receives into `local`.
    Receive = 12,
    /// Waits for so many messages; finds the bytes of all, and the last immediate in `word`.
    Arrivals = 13,
    /// Waits until all of so many signals in `local`, one every `stride` bytes, reached `value`.
    /// Finds which, by bits.
    All = 14,
    /// The same for any of them.
    Any = 15,
    /// The same for some of them.
    Some = 16,
    /// Fences.
    Fence = 17,
    /// Waits until everything is complete.
    Quiet = 18,
}

impl Verb {
    /// Every verb, in the order of their numbers.
    pub const ALL: [Self; 19] = [
        Self::Nothing,
        Self::Put,
        Self::PutInline,
        Self::PutSet,
        Self::PutAdd,
        Self::Set,
        Self::Add,
        Self::Get,
        Self::FetchAdd,
        Self::CompareSwap,
        Self::Send,
        Self::SendImmediate,
        Self::Receive,
        Self::Arrivals,
        Self::All,
        Self::Any,
        Self::Some,
        Self::Fence,
        Self::Quiet,
    ];

    /// The verb of a number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| *verb as u32 == number)
    }
}

/// A step of a script.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(64))]
pub struct Step {
    /// A [`Verb`].
    pub verb: u32,
    /// How many of it; lanes do so many at once as there are.
    pub times: u32,
    /// Bytes from one to the next, in `local` and `remote`.
    pub stride: u64,
    /// Memory of one's own.
    pub local: Gather,
    /// Memory of the peer.
    pub remote: Remote,
    /// A signal of the peer.
    pub signal: Remote,
    /// See [`Verb`].
    pub value: u64,
    /// See [`Verb`].
    pub compare: u64,
    /// How long the step may take.
    pub timeout_ns: u64,
    /// Written by who carries it out: what it found.
    pub found: u64,
    /// Written by who carries it out: a word more.
    pub word: u32,
    /// Written by who carries it out, last: 0 before it is done, [`DONE`], or [`FAILED`] and the
    /// number of the [`Cause`].
    pub outcome: u32,
    /// Written as zero.
    pub reserved: [u32; 4],
}

/// An outcome: it was done.
pub const DONE: u32 = 1;
/// An outcome: the number of the cause is below.
pub const FAILED: u32 = 0x100;

impl Step {
    /// A step that may take ten seconds.
    pub fn new(verb: Verb) -> Self {
        Self {
            verb: verb as u32,
            times: 1,
            timeout_ns: 10_000_000_000,
            ..Self::default()
        }
    }

    /// Why it failed, if it did.
    pub const fn cause(&self) -> Option<Cause> {
        match self.outcome & FAILED {
            0 => None,
            _ => Cause::from_number(self.outcome & (FAILED - 1)),
        }
    }
}

/// *Collective.* Carries out one step. Returns what it found.
///
/// # Errors
/// What its verb says: the same to all lanes.
///
/// # Safety
/// *The script's promise*: the words that a step waits for are live memory.
#[expect(
    unsafe_code,
    reason = "words are named by the addresses that a script gives"
)]
pub unsafe fn perform<S: Simt, P: Progress>(
    simt: &S,
    channel: &mut Channel,
    step: &Step,
    wait: &Wait,
    progress: &mut P,
) -> Result<(u64, u32), Cause> {
    let verb = Verb::from_number(step.verb).ok_or(Cause::LocalQpOperation)?;
    let first = DeviceAddress::new(step.local.address);
    let mut run = Run {
        verb,
        step,
        // SAFETY: the script's promise; of other verbs nobody looks at them.
        signals: unsafe { Signals::attach(first, step.times, step.stride as u32) },
        until: channel.all(),
        done: 0,
        posting: None,
        bytes: 0,
        word: 0,
    };
    let wait = channel.guarded(wait);
    // The only place that depends on where the engine runs: a kernel has the rest once, however
    // many engines there are.
    keep_on(simt, &wait, progress, |_| run.look(simt, channel))?
}

/// A step that is being carried out.
struct Run<'a> {
    verb: Verb,
    step: &'a Step,
    /// What it waits for, if those are signals.
    signals: Signals,
    /// What it waits for, if that is quiet.
    until: Ticket,
    /// How many of it are done.
    done: u32,
    /// What became of the lane's request, of those that are being posted.
    posting: Option<Posting>,
    /// What it found.
    bytes: u64,
    word: u32,
}

impl Run<'_> {
    /// *Collective.* Does what can be done at once. Gives what the step found when it is done, or
    /// why it failed.
    #[inline(never)]
    fn look<S: Simt>(&mut self, simt: &S, channel: &mut Channel) -> Option<Found> {
        let goal = match self.verb {
            Verb::Nothing => return Some(Ok((0, 0))),
            Verb::Fence => {
                channel.fence();
                return Some(Ok((0, 0)));
            }
            Verb::Quiet => {
                let state = channel.try_wait(simt, Some(self.until))?;
                return Some(state.map(|()| (0, 0)));
            }
            Verb::Receive => return Some(receives(simt, channel, self.step)),
            Verb::Arrivals => return self.arrivals(simt, channel),
            Verb::All => Goal::All,
            Verb::Any => Goal::Any,
            Verb::Some => Goal::Some,
            _ => return self.post(simt, channel),
        };
        let there = channel.try_signals(simt, &self.signals, (goal, self.step.value))?;
        Some(there.map(|there| (there, 0)))
    }

    /// *Collective.* Posts `times` requests, a lane each as long as there are lanes.
    fn post<S: Simt>(&mut self, simt: &S, channel: &mut Channel) -> Option<Found> {
        let times = self.step.times;
        while self.done < times {
            let number = self.done.saturating_add(simt.lane());
            let own = at(self.step, number);
            let pieces = [own.local];
            let bytes = own.value.to_le_bytes();
            let scratch = [channel.scratch];
            let request = request(self.verb, &own, (&pieces, &bytes, &scratch));
            let mine = (number < times).then_some(&request);
            let mut posting = self.posting.take().unwrap_or(Posting::of(mine));
            if !channel.try_post(simt, mine, &mut posting) {
                self.posting = Some(posting);
                return None;
            }
            if let Err(cause) = agree(simt, posting.outcome.err()) {
                return Some(Err(cause));
            }
            self.done = self.done.saturating_add(S::WIDTH);
        }
        Some(Ok((u64::from(times), 0)))
    }

    /// *Collective.* Takes messages until there were `times`.
    fn arrivals<S: Simt>(&mut self, simt: &S, channel: &mut Channel) -> Option<Found> {
        while self.done < self.step.times {
            let arrival = match channel.try_arrival(simt)? {
                Ok(arrival) => arrival,
                Err(cause) => return Some(Err(cause)),
            };
            self.bytes = self.bytes.wrapping_add(u64::from(arrival.length));
            self.word = arrival.immediate.unwrap_or(self.word);
            self.done += 1;
        }
        Some(Ok((self.bytes, self.word)))
    }
}

/// What a step found, two words, or why it failed.
type Found = Result<(u64, u32), Cause>;

/// The step of one of its times.
fn at(step: &Step, number: u32) -> Step {
    let offset = step.stride.wrapping_mul(u64::from(number));
    let counts = [
        Verb::PutSet as u32,
        Verb::Set as u32,
        Verb::SendImmediate as u32,
    ];
    let more = match counts.contains(&step.verb) {
        true => u64::from(number),
        false => 0,
    };
    Step {
        local: Gather {
            address: step.local.address.wrapping_add(offset),
            ..step.local
        },
        remote: step.remote.offset(offset),
        value: step.value.wrapping_add(more),
        ..*step
    }
}

#[inline(always)]
fn request<'a>(
    verb: Verb,
    step: &Step,
    (pieces, bytes, scratch): (&'a [Gather; 1], &'a [u8; 8], &'a [Gather; 1]),
) -> Request<'a> {
    let [local] = pieces;
    let local: &[Gather] = if local.length == 0 { &[] } else { pieces };
    let set = Signal {
        at: step.signal,
        update: Update::Set(step.value),
    };
    let add = Signal {
        at: step.signal,
        update: Update::Add(step.value),
    };
    let put = Request::put(Payload::Pieces(local), step.remote);
    match verb {
        Verb::Put => put,
        Verb::PutSet => put.then(set),
        Verb::PutAdd => put.then(add),
        Verb::Set => Request::put(Payload::Inline(bytes), step.signal),
        Verb::Add => Request::fetch_add(step.signal, step.value, scratch),
        Verb::Get => Request::get(step.remote, local),
        Verb::FetchAdd => Request::fetch_add(step.remote, step.value, local),
        Verb::CompareSwap => Request::compare_swap(step.remote, step.compare, step.value, local),
        Verb::Send => Request::send(Payload::Pieces(local), None),
        Verb::SendImmediate => Request::send(Payload::Pieces(local), Some(step.value as u32)),
        _ => Request::put(Payload::Inline(bytes), step.remote),
    }
}

/// *Collective.* Posts `times` receives.
fn receives<S: Simt>(simt: &S, channel: &mut Channel, step: &Step) -> Found {
    let mut done = 0;
    while done < step.times {
        let number = done.saturating_add(simt.lane());
        let pieces = [at(step, number).local];
        let local: &[Gather] = if step.local.length == 0 { &[] } else { &pieces };
        let mine = (number < step.times).then_some(local);
        let outcome = channel.post_receive(simt, mine);
        agree(simt, outcome.err())?;
        done = done.saturating_add(S::WIDTH);
    }
    Ok((u64::from(step.times), 0))
}

/// *Collective.* The cause of the first lane that has one, for all of them.
fn agree<S: Simt>(simt: &S, cause: Option<Cause>) -> Result<(), Cause> {
    let failing = simt.ballot(cause.is_some());
    if failing == 0 {
        return Ok(());
    }
    let number = cause.map_or(0, |cause| cause as u32);
    let number = simt.shuffle(number, failing.trailing_zeros());
    Err(Cause::from_number(number).unwrap_or(Cause::LocalQpOperation))
}
