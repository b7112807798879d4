//! Queue pairs as the host has them: connecting, posting, polling.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpwire_engine::tables::{Mail, Path, REFUSED_MTU, Wanted};
use warpwire_gpu::Arena;
use warpwire_protocols::rdma::{Attributes, Start, State, Status};
use warpwire_ring::mlx5::layout::{Cqe, CqeOpcode};
use warpwire_ring::mlx5::post::{Completions, Gather, Order, Payload, ReceiveQueue, SendQueue};
use warpwire_ring::{Cause, Scope};

use super::endpoint::Idle;
use super::table::PairPlaces;
use crate::messaging::Error;

/// What belongs to a queue pair and not to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PairConfig {
    /// How long the engine may take to obey.
    pub patience: Duration,
}

/// A queue pair. Its memory stays as long as this does.
pub struct Pair {
    arena: Arc<Arena>,
    places: PairPlaces,
    sends: SendQueue,
    receives: ReceiveQueue,
    completions: Completions,
    patience: Duration,
    idle: Idle,
}

/// A send request.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// What it does.
    pub order: Order,
    /// Its bytes.
    pub payload: Payload<'a>,
}

/// A message that arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its receive.
    pub index: u64,
    /// Bytes.
    pub length: u32,
    /// Its immediate.
    pub immediate: Option<u32>,
    /// A key of ours that the peer took away.
    pub invalidate: Option<u32>,
    /// Whether the bytes were written to memory that the peer named, not to the receive.
    pub is_write: bool,
    /// Of a datagram: who sent it.
    pub source_qp: u32,
}

/// What a completion says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completed {
    /// A send request, and all before it, are done.
    Sent {
        /// Its number.
        index: u64,
    },
    /// A receive was filled.
    Received(Message),
    /// A send request failed.
    SendFailed {
        /// Its number.
        index: u64,
        /// Why.
        cause: Cause,
    },
    /// A receive failed.
    ReceiveFailed {
        /// Its number.
        index: u64,
        /// Why.
        cause: Cause,
    },
}

impl Pair {
    pub(super) fn new(
        arena: Arc<Arena>,
        places: PairPlaces,
        config: PairConfig,
        idle: Idle,
    ) -> Self {
        let queue = places.completions;
        Self {
            arena,
            // SAFETY: the queue lies in the arena, and this is its only user.
            sends: unsafe { SendQueue::attach(places.send, 0) },
            // SAFETY: as above.
            receives: unsafe { ReceiveQueue::attach(places.receive, 0) },
            // SAFETY: as above; its memory was set up.
            completions: unsafe {
                Completions::attach(queue.ring, queue.record, queue.log_depth, Scope::System, 0)
            },
            patience: match config.patience.is_zero() {
                true => Duration::from_secs(5),
                false => config.patience,
            },
            places,
            idle,
        }
    }

    /// Its number.
    pub const fn number(&self) -> u32 {
        self.places.number
    }

    /// Where it stands, by what the engine told last.
    pub fn state(&self) -> State {
        let number = self.mail_word(std::mem::offset_of!(Mail, state));
        STATES
            .into_iter()
            .find(|state| *state as u32 == number)
            .unwrap_or(State::Reset)
    }

    /// How it failed, if it did.
    pub fn fault(&self) -> Option<Status> {
        let number = self.mail_word(std::mem::offset_of!(Mail, fault));
        Status::from_number(number as u8).filter(|status| *status != Status::Success)
    }

    /// Takes it from its first state to where it receives and sends.
    ///
    /// # Errors
    /// [`Error::Move`], [`Error::Deadline`].
    pub fn connect(
        &mut self,
        attributes: Attributes,
        start: Start,
        path: Path,
    ) -> Result<(), Error> {
        connect_all(std::slice::from_mut(self), &[(attributes, start, path)])
    }

    /// Moves it to a state.
    ///
    /// # Errors
    /// [`Error::Move`], [`Error::Deadline`].
    pub fn become_state(&mut self, state: State) -> Result<(), Error> {
        self.ask(state, None)
    }

    /// Ends its connection, if it has one: what was posted comes back and is forgotten. Then it can
    /// be connected again.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub fn reset(&mut self) -> Result<(), Error> {
        // Everything comes back before the engine hears the second wish: there is room, because
        // slots whose completions were not polled cannot be posted again.
        self.ask(State::Error, None)?;
        self.ask(State::Reset, None)?;
        while self.poll().is_some() {}
        // Some ended without a word: sends that were not to tell, a receive that was half full.
        let (send, receive) = (self.sends.next(), self.receives.next());
        // SAFETY: the queue lies in the arena, this is its only user, and nothing is under way.
        self.sends = unsafe { SendQueue::attach(self.places.send, send) };
        // SAFETY: as above.
        self.receives = unsafe { ReceiveQueue::attach(self.places.receive, receive) };
        Ok(())
    }

    /// Gives way, unless the patience is at its end.
    fn still_waiting(&self, started: Instant, what: &'static str) -> Result<(), Error> {
        if started.elapsed() >= self.patience {
            return Err(Error::Deadline {
                number: self.places.number,
                what,
                waited: self.patience,
            });
        }
        (self.idle)();
        Ok(())
    }

    fn ask(
        &mut self,
        state: State,
        connection: Option<(Attributes, Start, Path)>,
    ) -> Result<(), Error> {
        let wish = self.wish(state, connection)?;
        self.obeyed(&wish)
    }

    /// Tells the engine what is wanted.
    fn wish(
        &mut self,
        state: State,
        connection: Option<(Attributes, Start, Path)>,
    ) -> Result<Wish, Error> {
        let (attributes, start, path) = connection.unwrap_or_default();
        let wanted = Wanted {
            state: state as u32,
            connects: u32::from(connection.is_some()),
            attributes,
            start,
            path,
        };
        let offset = std::mem::offset_of!(Mail, wanted) as u64;
        let at = self.places.mail.offset(offset).value() as *mut Wanted;
        // SAFETY: the mail lies in the arena; the engine looks at it only after the command below.
        unsafe { at.write_volatile(wanted) };
        let command = self.word(std::mem::offset_of!(Mail, command))?;
        let number = command.load(Ordering::Relaxed).wrapping_add(1);
        // pairs with: the engine's load of the command.
        command.store(number, Ordering::Release);
        Ok(Wish {
            number,
            state,
            mtu: attributes.mtu.bytes(),
        })
    }

    /// Waits until the engine has done what is wanted.
    fn obeyed(&self, wish: &Wish) -> Result<(), Error> {
        let started = Instant::now();
        let answer = self.word(std::mem::offset_of!(Mail, answer))?;
        while answer.load(Ordering::Acquire) != wish.number {
            self.still_waiting(started, "the engine did not obey")?;
        }
        match self.mail_word(std::mem::offset_of!(Mail, refused)) {
            0 => Ok(()),
            REFUSED_MTU => Err(Error::Mtu {
                number: self.places.number,
                mtu: wish.mtu,
            }),
            _ => Err(Error::Move {
                number: self.places.number,
                to: wish.state,
            }),
        }
    }

    fn word(&self, offset: usize) -> Result<&std::sync::atomic::AtomicU32, Error> {
        Ok(self
            .arena
            .half_word(self.places.mail.offset(offset as u64))?)
    }

    fn mail_word(&self, offset: usize) -> u32 {
        self.word(offset)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Send slots that are free.
    pub const fn free_sends(&self) -> u32 {
        self.sends.free()
    }

    /// Send slots that there are.
    pub const fn send_slots(&self) -> u32 {
        1 << self.places.send.log_depth
    }

    /// Receives that can be posted.
    pub const fn free_receives(&self) -> u32 {
        self.receives.free()
    }

    /// Posts send requests, all or as many as there is room for. Returns the number of the last.
    ///
    /// # Errors
    /// [`Error::Post`] for the first that could not be; those before it are posted.
    pub fn post(&mut self, works: &[Work<'_>]) -> Result<u64, Error> {
        let mut last = self.sends.next();
        let mut outcome = Ok(());
        for work in works {
            match self.sends.write(&work.order, work.payload) {
                Ok(index) => last = index,
                Err(cause) => {
                    outcome = Err(self.refused(cause));
                    break;
                }
            }
        }
        self.sends.publish();
        outcome.map(|()| last)
    }

    /// Posts a receive over pieces of registered memory. Returns its number.
    ///
    /// # Errors
    /// [`Error::Post`].
    pub fn receive(&mut self, pieces: &[Gather]) -> Result<u64, Error> {
        let index = self.receives.write(pieces);
        let index = index.map_err(|cause| self.refused(cause))?;
        self.receives.publish();
        Ok(index)
    }

    fn refused(&self, cause: Cause) -> Error {
        Error::Post {
            number: self.places.number,
            cause,
        }
    }

    /// The next completion, if there is one.
    pub fn poll(&mut self) -> Option<Completed> {
        let cqe = self.completions.poll()?;
        let counter = cqe.wqe_counter.get();
        let opcode = cqe.opcode();
        Some(match opcode {
            CqeOpcode::REQUEST => Completed::Sent {
                index: self.sends.retire(counter).unwrap_or(u64::MAX),
            },
            CqeOpcode::REQUEST_ERROR => Completed::SendFailed {
                index: self.sends.retire(counter).unwrap_or(u64::MAX),
                cause: Cause::from_syndrome(cqe.as_error().syndrome),
            },
            CqeOpcode::RESPONSE_ERROR => Completed::ReceiveFailed {
                index: self.receives.retire(counter).unwrap_or(u64::MAX),
                cause: Cause::from_syndrome(cqe.as_error().syndrome),
            },
            _ => Completed::Received(self.message(&cqe, counter)),
        })
    }

    fn message(&mut self, cqe: &Cqe, counter: u16) -> Message {
        let opcode = cqe.opcode();
        let word = cqe.imm_inval_pkey.get();
        let has_immediate = matches!(
            opcode,
            CqeOpcode::RESPONSE_WRITE_IMM | CqeOpcode::RESPONSE_SEND_IMM
        );
        let invalidates = opcode == CqeOpcode::RESPONSE_SEND_INVALIDATE;
        Message {
            index: self.receives.retire(counter).unwrap_or(u64::MAX),
            length: cqe.byte_cnt.get(),
            immediate: has_immediate.then_some(word),
            invalidate: invalidates.then_some(word),
            is_write: opcode == CqeOpcode::RESPONSE_WRITE_IMM,
            source_qp: cqe.flags_rqpn.get() & 0x00ff_ffff,
        }
    }

    /// Waits for the next completion.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub fn wait(&mut self, longest: Duration) -> Result<Completed, Error> {
        let started = Instant::now();
        loop {
            if let Some(completed) = self.poll() {
                return Ok(completed);
            }
            if started.elapsed() >= longest {
                return Err(Error::Deadline {
                    number: self.places.number,
                    what: "nothing completed",
                    waited: longest,
                });
            }
            (self.idle)();
        }
    }
}

/// What was asked of the engine.
struct Wish {
    number: u32,
    state: State,
    mtu: u32,
}

/// Takes queue pairs from their first state to where they receive and send, all at once.
///
/// # Errors
/// [`Error::Move`], [`Error::Deadline`].
pub fn connect_all(
    pairs: &mut [Pair],
    connections: &[(Attributes, Start, Path)],
) -> Result<(), Error> {
    for state in [State::Init, State::ReadyToReceive, State::ReadyToSend] {
        let mut wishes = Vec::with_capacity(pairs.len());
        for (pair, (attributes, start, path)) in pairs.iter_mut().zip(connections) {
            let attributes = Attributes {
                local_qp: warpwire_protocols::wire::bth::Qpn::new(pair.places.number),
                ..*attributes
            };
            let connects = state == State::ReadyToReceive;
            let connection = connects.then_some((attributes, *start, *path));
            wishes.push(pair.wish(state, connection)?);
        }
        for (pair, wish) in pairs.iter().zip(&wishes) {
            pair.obeyed(wish)?;
        }
    }
    Ok(())
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
