//! Queue pairs as the host has them: connecting, posting, polling.
#![expect(
    unsafe_code,
    reason = "attaching carries the promise that a queue's memory is live"
)]

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpwire_core::messaging::{Channel, ChannelBlock, Cursor, Request};
use warpwire_device::Scalar;
use warpwire_engine::tables::{Mail, Path, REFUSED_MTU, Wanted};
use warpwire_gpu::Arena;
use warpwire_protocols::rdma::{Attributes, Start, State, Status};
use warpwire_protocols::wire::bth::Qpn;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};
use warpwire_ring::mlx5::serve::WorkQueue;
use warpwire_ring::{Cause, DeviceAddress};

use super::completed::Completed;
use super::host::HostWarp;
use super::table::{PairPlaces, SharedPlaces};
use super::vacancy::{Vacancies, Vacancy};
use crate::messaging::Error;

/// What belongs to a queue pair and not to its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PairConfig {
    /// How long the engine may take to obey.
    pub patience: Duration,
}

/// A queue pair. Its memory stays as long as this does.
pub struct Pair {
    pub(super) channel: Channel,
    pub(super) home: Home,
    place: usize,
    places: PairPlaces,
    shared: Option<SharedPlaces>,
    patience: Duration,
    /// Completions of requests that failed, and were not polled before it sent again.
    failed: VecDeque<Completed>,
    /// The engine did not answer, or a kernel has the queues: the place cannot be given back.
    is_lost: bool,
}

/// What a queue pair has of its endpoint.
pub(super) struct Home {
    pub(super) tables: Arc<Arena>,
    pub(super) memory: Vec<Arc<Arena>>,
    pub(super) host: HostWarp,
    pub(super) vacancies: Vacancies,
}

/// A send request.
#[derive(Clone, Copy, Debug)]
pub struct Work<'a> {
    /// What it does.
    pub order: Order,
    /// Its bytes.
    pub payload: Payload<'a>,
}

/// How fast a queue pair may send; see [`warpwire_protocols::rdma::Rate`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SendRate {
    /// The rate now, in kbit/s.
    pub kbits: u32,
    /// The rate that it comes back to, in kbit/s.
    pub target_kbits: u32,
    /// How much congestion there is, in 1/65536.
    pub congestion: u32,
}

impl Pair {
    pub(super) fn new(
        home: Home,
        vacancy: Vacancy,
        config: PairConfig,
        shared: Option<SharedPlaces>,
    ) -> Result<Self, Error> {
        let Vacancy {
            place,
            places,
            cursor,
            owed,
        } = vacancy;
        let mut block = ChannelBlock {
            cursor,
            ..places.block
        };
        if let Some(shared) = shared {
            block.receive = WorkQueue::default();
            block.arrived = shared.block.arrived;
        }
        let mut pair = Self {
            // SAFETY: the queues lie in the arena that the pair keeps, and this is their only user;
            // a kernel that is given them gives them back.
            channel: unsafe { Channel::of(&block, places.home) },
            home,
            place,
            places,
            shared,
            patience: match config.patience.is_zero() {
                true => Duration::from_secs(5),
                false => config.patience,
            },
            failed: VecDeque::new(),
            is_lost: false,
        };
        if let Some(number) = owed {
            pair.is_lost = true;
            pair.answered(number)?;
            pair.is_lost = false;
            pair.rewind();
        }
        Ok(pair)
    }

    /// Its number.
    pub const fn number(&self) -> u32 {
        self.places.number()
    }

    /// Gives it back: nothing that it had under way is sent or received any more when this returns,
    /// and its place can be taken again. Dropping it does the same without waiting.
    ///
    /// # Errors
    /// [`Error::Deadline`] if the engine does not obey; then the place is lost.
    pub fn close(mut self) -> Result<(), Error> {
        self.reset()
    }

    /// After a reset: the queues go on where they stand, with nothing under way.
    fn rewind(&mut self) {
        let simt = Scalar::new(&self.home.host);
        self.failed.clear();
        while self.channel.poll_sent(&simt).is_some() {}
        if self.shared.is_none() {
            while self.channel.poll_arrival(&simt).is_some() {}
        }
        let block = ChannelBlock {
            cursor: idle(self.channel.cursor()),
            ..self.block()
        };
        // SAFETY: as in `new`.
        self.channel = unsafe { Channel::of(&block, self.places.home) };
    }

    /// Its block, but for where it stands.
    fn block(&self) -> ChannelBlock {
        match self.shared {
            None => self.places.block,
            Some(shared) => ChannelBlock {
                receive: WorkQueue::default(),
                arrived: shared.block.arrived,
                ..self.places.block
            },
        }
    }

    /// Leaves it to a kernel: returns where its block lies.
    pub(crate) fn lend(&mut self) -> Result<DeviceAddress, Error> {
        let block = ChannelBlock {
            cursor: self.channel.cursor(),
            ..self.block()
        };
        let at = self.places.home.value() as *mut ChannelBlock;
        self.home.tables.word(self.places.home)?;
        // SAFETY: the block's own place in the arena; nobody else looks at it now.
        unsafe { at.write_volatile(block) };
        // Until it comes back the place is the kernel's.
        self.is_lost = true;
        Ok(self.places.home)
    }

    /// Takes it back from a kernel that ended.
    pub(crate) fn take_back(&mut self) {
        let at = self.places.home.value() as *const ChannelBlock;
        // SAFETY: the block's own place in the arena; the kernel ended.
        let block = unsafe { at.read_volatile() };
        self.is_lost = false;
        // SAFETY: as in `new`.
        self.channel = unsafe { Channel::of(&block, self.places.home) };
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

    /// How congestion slows it, by what the engine told last.
    pub fn rate(&self) -> SendRate {
        SendRate {
            kbits: self.mail_word(std::mem::offset_of!(Mail, rate)),
            target_kbits: self.mail_word(std::mem::offset_of!(Mail, target_rate)),
            congestion: self.mail_word(std::mem::offset_of!(Mail, congestion)),
        }
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
    /// From [`State::SendError`] to [`State::ReadyToSend`], what was posted before comes back
    /// failed from [`Pair::poll`] and [`Pair::wait`]; who waits by tickets asks for those that
    /// failed before the move, as they count as over after it.
    ///
    /// # Errors
    /// [`Error::Move`], [`Error::Deadline`].
    pub fn become_state(&mut self, state: State) -> Result<(), Error> {
        let before = self.state();
        self.ask(state, None)?;
        if (before, state) == (State::SendError, State::ReadyToSend) {
            let simt = Scalar::new(&self.home.host);
            while let Some(sent) = self.channel.poll_sent(&simt) {
                self.failed.push_back(Completed::of(sent));
            }
            self.channel.forgive();
        }
        Ok(())
    }

    /// Ends its connection, if it has one: what was posted is forgotten. Then it can be connected
    /// again.
    ///
    /// # Errors
    /// [`Error::Deadline`].
    pub fn reset(&mut self) -> Result<(), Error> {
        self.ask(State::Reset, None)?;
        self.rewind();
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
        let own = &self.places;
        let wanted = Wanted {
            state: state as u32,
            connects: u32::from(connection.is_some()),
            receives: self.shared.map_or(own.receives, |shared| shared.receives),
            receive_completions: match self.shared {
                None => own.receive_completions,
                Some(shared) => shared.receive_completions,
            },
            group: self.shared.map_or(own.number(), |shared| shared.group),
            attributes,
            start,
            path,
        };
        let offset = std::mem::offset_of!(Mail, wanted) as u64;
        let at = self.places.mail.offset(offset).value() as *mut Wanted;
        // SAFETY: the mail lies in the arena; the engine looks at it only after the command below.
        unsafe { at.write_volatile(wanted) };
        let number = self.command()?;
        self.is_lost = true;
        Ok(Wish {
            number,
            state,
            mtu: attributes.mtu.bytes(),
        })
    }

    /// Waits until the engine has done what is wanted.
    fn obeyed(&mut self, wish: &Wish) -> Result<(), Error> {
        self.answered(wish.number)?;
        self.is_lost = false;
        match self.mail_word(std::mem::offset_of!(Mail, refused)) {
            0 => Ok(()),
            REFUSED_MTU => Err(Error::Mtu {
                number: self.number(),
                mtu: wish.mtu,
            }),
            _ => Err(Error::Move {
                number: self.number(),
                to: wish.state,
            }),
        }
    }

    /// Asks the engine for what the mail says. Returns the number that it will answer.
    fn command(&self) -> Result<u32, Error> {
        let command = self.word(std::mem::offset_of!(Mail, command))?;
        let number = command.load(Ordering::Relaxed).wrapping_add(1);
        // pairs with: the engine's load of the command.
        command.store(number, Ordering::Release);
        Ok(number)
    }

    /// Waits for the engine's answer.
    fn answered(&self, number: u32) -> Result<(), Error> {
        let started = Instant::now();
        let answer = self.word(std::mem::offset_of!(Mail, answer))?;
        while answer.load(Ordering::Acquire) != number {
            if started.elapsed() >= self.patience {
                return Err(Error::Deadline {
                    number: self.number(),
                    what: "the engine did not obey",
                    waited: self.patience,
                });
            }
            (self.home.host.idle)();
        }
        Ok(())
    }

    fn word(&self, offset: usize) -> Result<&std::sync::atomic::AtomicU32, Error> {
        let at = self.places.mail.offset(offset as u64);
        Ok(self.home.tables.half_word(at)?)
    }

    fn mail_word(&self, offset: usize) -> u32 {
        self.word(offset)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// Send slots that are free, as far as completions were polled.
    pub const fn free_sends(&self) -> u32 {
        self.channel.free()
    }

    /// Send slots that there are.
    pub const fn send_slots(&self) -> u32 {
        self.channel.depth()
    }

    /// Receives that can be posted; 0 if they are shared.
    pub fn free_receives(&self) -> u32 {
        self.channel.free_receives()
    }

    /// Posts send requests, all or as many as there is room for. Returns the number of the last.
    ///
    /// # Errors
    /// [`Error::Post`] for the first that could not be; those before it are posted.
    pub fn post(&mut self, works: &[Work<'_>]) -> Result<u64, Error> {
        self.post_all(works.iter().copied())
    }

    /// [`Pair::post`], of requests that are made one by one.
    ///
    /// # Errors
    /// As [`Pair::post`].
    pub fn post_all<'a>(
        &mut self,
        works: impl IntoIterator<Item = Work<'a>>,
    ) -> Result<u64, Error> {
        let simt = Scalar::new(&self.home.host);
        let mut last = self.channel.next();
        let mut outcome = Ok(());
        for work in works {
            let request = Request::new(work.order, work.payload);
            match self.channel.write(&simt, Some(&request)) {
                Ok(Some(ticket)) => last = ticket.first,
                Ok(None) => {}
                Err(cause) => {
                    outcome = Err(self.refused(cause));
                    break;
                }
            }
        }
        self.channel.publish(&simt);
        outcome.map(|()| last)
    }

    /// Posts a receive over pieces of registered memory. Returns its number.
    ///
    /// # Errors
    /// [`Error::Post`].
    pub fn receive(&mut self, pieces: &[Gather]) -> Result<u64, Error> {
        let simt = Scalar::new(&self.home.host);
        match self.channel.post_receive(&simt, Some(pieces)) {
            Ok(index) => Ok(index.unwrap_or(u64::MAX)),
            Err(cause) => Err(self.refused(cause)),
        }
    }

    pub(super) fn refused(&self, cause: Cause) -> Error {
        Error::Post {
            number: self.number(),
            cause,
        }
    }

    /// The next completion, if there is one: of a send first.
    pub fn poll(&mut self) -> Option<Completed> {
        let simt = Scalar::new(&self.home.host);
        if let Some(failed) = self.failed.pop_front() {
            return Some(failed);
        }
        if let Some(sent) = self.channel.poll_sent(&simt) {
            return Some(Completed::of(sent));
        }
        let arrival = self.channel.poll_arrival(&simt)?;
        Some(Completed::of_arrival(&arrival))
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
                    number: self.number(),
                    what: "nothing completed",
                    waited: longest,
                });
            }
            (self.home.host.idle)();
        }
    }
}

impl Drop for Pair {
    /// Asks for a reset and leaves the place to who takes it next.
    fn drop(&mut self) {
        if self.is_lost {
            return;
        }
        let at = std::mem::offset_of!(Mail, wanted) as u64;
        let at = self.places.mail.offset(at).value() as *mut Wanted;
        // SAFETY: the mail lies in the arena; everything that it said before was answered.
        let mut wanted = unsafe { at.read_volatile() };
        wanted.state = State::Reset as u32;
        wanted.connects = 0;
        // SAFETY: as above; the engine looks at it only after the command.
        unsafe { at.write_volatile(wanted) };
        if let Ok(number) = self.command() {
            self.home.vacancies.give(Vacancy {
                place: self.place,
                places: self.places,
                cursor: self.channel.cursor(),
                owed: Some(number),
            });
        }
    }
}

/// Where a channel stands that has nothing under way.
const fn idle(cursor: Cursor) -> Cursor {
    Cursor {
        send_freed: cursor.send_next,
        tracked_to: cursor.send_next,
        receive_freed: cursor.receive_next,
        fault: 0,
        fault_at: 0,
        fence: 0,
        ..cursor
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
                local_qp: Qpn::new(pair.number()),
                ..*attributes
            };
            let connects = state == State::ReadyToReceive;
            let connection = connects.then_some((attributes, *start, *path));
            wishes.push(pair.wish(state, connection)?);
        }
        for (pair, wish) in pairs.iter_mut().zip(&wishes) {
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
