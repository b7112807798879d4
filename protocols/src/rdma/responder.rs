//! The responder: carries out the peer's requests in order, each once, and answers.
//!
//! Answers leave in the order of their sequence numbers: what a read or an atomic is owed before
//! the acknowledgement of what came after. Reads and atomics are kept until as many newer ones came
//! as the peer may have under way, so that a repeated one is answered again: a read from memory, an
//! atomic with what it found the first time.

use super::attributes::{Attributes, Service};
use super::early::NOTHING_CAME;
use super::fetch::Fetch;
use super::packet::Incoming;
use super::regions::Regions;
use super::request::{PostedReceive, Receives};
use super::status::{Note, Status};
use crate::wire::aeth::{Msn, Nak, Syndrome};
use crate::wire::bth::Psn;

/// Answers the requests of one peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Responder {
    /// Of a message under way: the number of its receive.
    pub(super) receive: u64,
    /// Of a write under way: where its next byte goes. With selective repetition no write is under
    /// way; this, the key and the bytes to come are then the packets that came early.
    pub(super) address: u64,
    /// Of a message under way: bytes that its receive holds.
    pub(super) capacity: u32,
    /// Of a write under way: its key.
    pub(super) key: u32,
    /// Of a write under way: bytes to come.
    pub(super) left: u32,
    /// Of a message under way: bytes that came.
    pub(super) done: u32,
    /// The sequence number of the next request.
    pub(super) expected: Psn,
    /// Messages carried out.
    pub(super) msn: Msn,
    /// Whom the answer is about.
    pub(super) answer_psn: Psn,
    /// Reads and atomics that came.
    pub(super) fetches: u32,
    /// The first of them that may have an answer due.
    pub(super) due_from: u32,
    /// How many have.
    pub(super) due: u8,
    /// What the answer says, as on the wire.
    pub(super) answer: u8,
    /// Whether there is one to be sent.
    pub(super) has_answer: bool,
    /// Which message is under way.
    pub(super) message: Message,
    /// A receive was taken for the next message.
    pub(super) has_receive: bool,
    /// The peer was told of a gap, or asked to wait: what follows it is dropped silently.
    pub(super) is_told: bool,
    /// Of an unreliable connection: the rest of the message is dropped.
    pub(super) drops: bool,
    /// The answer is the last one: the queue pair fails with it.
    pub(super) is_over: bool,
    /// Selective: blocks of packets that came early and that the peer was not told of, a bit each.
    pub(super) untold: u8,
    /// Selective: the last packet that came after a gap, taken or not, if that was not told.
    pub(super) came: u8,
}

/// A message of which more packets are to come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Message {
    None,
    Send,
    Write,
}

/// Memory that the surroundings keep for a responder.
pub trait Fetches {
    /// How many reads and atomics are kept: a power of two, not fewer than are served at once.
    fn slots(&self) -> u32;
    /// Slot `slot`.
    fn fetch(&self, slot: u32) -> Fetch;
    /// Changes a slot.
    fn set_fetch(&mut self, slot: u32, fetch: Fetch);
}

/// What a request asks to be done with memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Landing {
    /// The payload goes into the pieces of a receive.
    Receive {
        /// The receive.
        index: u64,
        /// First byte of its pieces.
        offset: u32,
        /// Bytes.
        length: u32,
    },
    /// The payload goes to memory whose key and bounds were checked just now.
    Memory {
        /// First byte.
        address: u64,
        /// Bytes.
        length: u32,
    },
    /// 64 bits of memory are to be changed, once and undivided; [`Responder::found`] is then told
    /// what was there. Key, bounds and alignment were checked just now.
    Atomic {
        /// The word.
        address: u64,
        /// What is added, or what replaces.
        value: u64,
        /// What must be there for a replacement; `None` to add.
        compare: Option<u64>,
        /// For [`Responder::found`].
        slot: u32,
    },
}

/// A receive that a message completed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// The receive.
    pub index: u64,
    /// How it ended.
    pub status: Status,
    /// Bytes of the message.
    pub length: u32,
    /// Whether the bytes were written to memory that the peer named, not to the receive.
    pub is_write: bool,
    /// The immediate of the message.
    pub immediate: Option<u32>,
    /// A key that the peer took away: nobody can use it any more.
    pub invalidate: Option<u32>,
    /// The completion shall raise an event.
    pub solicited: bool,
    /// Of a datagram: who sent it.
    pub source_qp: u32,
}

/// What came of a request. Memory is changed before a completion is told, and before the next
/// answer is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// What is to be done with memory.
    pub landing: Option<Landing>,
    /// A receive that is complete after that.
    pub received: Option<Received>,
    /// What is to be counted.
    pub note: Option<Note>,
}

impl Taken {
    pub(super) fn note(note: Note) -> Self {
        Self {
            note: Some(note),
            ..Self::default()
        }
    }
}

/// A request that is refused: what is counted, and what the peer is told.
pub(super) type Refusal = (Note, Nak);

impl Responder {
    /// One that has received nothing.
    pub fn new(expected: Psn) -> Self {
        Self {
            receive: 0,
            address: 0,
            capacity: 0,
            key: 0,
            left: 0,
            done: 0,
            expected,
            msn: Msn::default(),
            answer_psn: expected,
            fetches: 0,
            due_from: 0,
            due: 0,
            answer: 0,
            has_answer: false,
            message: Message::None,
            has_receive: false,
            is_told: false,
            drops: false,
            is_over: false,
            untold: 0,
            came: NOTHING_CAME,
        }
    }

    /// The sequence number of the next request.
    pub const fn expected(&self) -> Psn {
        self.expected
    }

    /// Whether the peer broke the rules: no more requests are taken, and the queue pair fails when
    /// the answer is sent.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// Whether something is to be sent.
    pub const fn has_answer(&self) -> bool {
        self.has_answer || self.due > 0 || (self.untold != 0 && !self.is_over)
    }

    /// A receive that was taken for a message that never came to its end.
    pub const fn held_receive(&self) -> Option<PostedReceive> {
        if self.has_receive {
            Some(PostedReceive {
                index: self.receive,
                capacity: self.capacity,
                // One that may not be used fails at once.
                may_use: true,
            })
        } else {
            None
        }
    }

    /// Whoever held it for us has it back.
    pub(super) const fn give_receive_back(&mut self) {
        self.has_receive = false;
    }

    /// Takes a request of a connected service.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub fn on_request<S>(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut S,
    ) -> Taken
    where
        S: Regions + Receives + Fetches,
    {
        if self.is_over {
            return Taken::note(Note::WrongState);
        }
        if attributes.service == Service::Uc {
            return self.on_unreliable(attributes, packet, around);
        }
        let distance = packet.psn.diff(self.expected);
        if distance > 0 && attributes.is_selective() {
            return self.on_early(attributes, packet, around);
        }
        if distance > 0 {
            if !self.is_told {
                self.is_told = true;
                self.answer(self.expected, Syndrome::Nak(Nak::Sequence));
            }
            return Taken::note(Note::Ahead);
        }
        if distance < 0 {
            return self.on_duplicate(attributes, packet, around);
        }
        self.is_told = false;
        match self.carry_out(attributes, packet, around) {
            Ok(taken) => {
                if attributes.is_selective() {
                    self.pass_early();
                }
                taken
            }
            Err((Note::NoReceive, _)) => {
                // Whatever follows is silently dropped: the peer comes back by itself.
                self.is_told = true;
                let timer = Syndrome::ReceiverNotReady(attributes.rnr_timer);
                self.answer(self.expected, timer);
                Taken::note(Note::NoReceive)
            }
            Err((note, nak)) => self.refuse(note, nak),
        }
    }

    /// The peer broke the rules: tells it and fails. A receive that was taken fails with it.
    fn refuse(&mut self, note: Note, nak: Nak) -> Taken {
        self.answer(self.expected, Syndrome::Nak(nak));
        self.give_up(note)
    }

    /// Fails, and with it a receive that was taken.
    pub(super) fn give_up(&mut self, note: Note) -> Taken {
        self.is_over = true;
        let received = self.has_receive.then_some(Received {
            index: self.receive,
            status: match note {
                Note::TooLong => Status::LocalLength,
                Note::BadReceive => Status::LocalProtection,
                _ => Status::Flushed,
            },
            length: 0,
            is_write: false,
            immediate: None,
            invalidate: None,
            solicited: false,
            source_qp: 0,
        });
        self.has_receive = false;
        Taken {
            landing: None,
            received,
            note: Some(note),
        }
    }

    /// What was taken last could not be done here: tells the peer and fails.
    pub fn cannot(&mut self) {
        let last = self.expected.wrapping_add(LAST);
        self.answer(last, Syndrome::Nak(Nak::RemoteOperational));
        self.is_over = true;
    }

    pub(super) fn answer(&mut self, psn: Psn, syndrome: Syndrome) {
        self.answer_psn = psn;
        self.answer = syndrome.value();
        self.has_answer = true;
    }

    fn on_unreliable<S>(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut S,
    ) -> Taken
    where
        S: Regions + Receives + Fetches,
    {
        let mut resumed = None;
        if self.drops || packet.psn != self.expected {
            if !packet.opcode.starts_message() {
                self.drops = true;
                self.message = Message::None;
                return Taken::note(Note::Ahead);
            }
            self.drops = false;
            self.expected = packet.psn;
        }
        if self.message != Message::None && packet.opcode.starts_message() {
            self.message = Message::None;
            resumed = Some(Note::Resumed);
        }
        match self.carry_out(attributes, packet, around) {
            Ok(taken) => Taken {
                note: taken.note.or(resumed),
                ..taken
            },
            Err((note @ Note::BadReceive, _)) => self.give_up(note),
            Err((note, _)) => {
                self.drops = !packet.opcode.ends_message();
                self.message = Message::None;
                self.expected = packet.psn.wrapping_add(1);
                Taken::note(note)
            }
        }
    }
}

/// One before, among sequence numbers.
pub(super) const LAST: u32 = (1 << 24) - 1;
