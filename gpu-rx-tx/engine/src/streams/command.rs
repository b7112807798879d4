//! What the host wants: listeners, connections, and what ICMP said.
#![expect(
    unsafe_code,
    reason = "reads and writes commands by the addresses that the host gave"
)]

use core::mem::offset_of;

use warpwire_device::{SharedWord, Simt};
use warpwire_protocols::tcp::{Connection, Events, Initial, Listener, Secret};
use warpwire_protocols::wire::tcp::TcpSequence;
use warpwire_ring::DeviceAddress;

use super::arrive::{hash_of, is_own};
use super::book::Ends;
use super::count;
use super::decide::blank;
use super::flow::Flow;
use super::tables::{
    Address, BUSY, CONNECT, Command, CommandAnswer, CommandSlot, ConnectionBlock, DONE, LISTEN,
    MOVED, NO_CHUNK, NO_PLACE, NONE, TOO_BIG, UNKNOWN, UNLISTEN, UNREACHABLE, WRONG,
};
use super::words;
use crate::tables::Path;

impl Flow<'_> {
    /// *Collective.* Obeys some commands of the host, if there are any.
    #[inline(never)]
    pub(super) fn command<S: Simt>(&mut self, simt: &S) -> bool {
        let mut busy = false;
        if simt.is_leader() {
            for _ in 0..MOST_COMMANDS {
                if !self.next_command() {
                    break;
                }
                busy = true;
            }
        }
        // pairs with: lanes that look at connections afterwards.
        simt.sync_warp();
        simt.any(busy)
    }

    fn next_command(&mut self) -> bool {
        let standing = self.book.standing();
        let slot = self.book.command_slot(standing.commands);
        let number = standing.commands.wrapping_add(1);
        // pairs with: the host's release of the command.
        if word(slot, offset_of!(CommandSlot, command)).load() != number {
            return false;
        }
        standing.commands = number;
        let at = slot.value() as *const Command;
        // SAFETY: a command of the ring, live by the engine's promise, which the host does not
        // change before the answer.
        let command = unsafe { at.read() };
        let answer = match command.kind {
            LISTEN => outcome(self.begin_to_listen(&command)),
            UNLISTEN => outcome(self.end_to_listen(&command)),
            CONNECT => self.connect(&command),
            TOO_BIG | UNREACHABLE => outcome(self.hear(&command)),
            MOVED => outcome(self.follow_hop(&command.path)),
            _ => outcome(WRONG),
        };
        let at = slot.offset(offset_of!(CommandSlot, answer) as u64);
        // SAFETY: the answer of the slot, which the host does not look at before its number.
        unsafe { (at.value() as *mut CommandAnswer).write(answer) };
        // pairs with: the host's acquire.
        word(at, offset_of!(CommandAnswer, number)).store(number);
        true
    }

    fn begin_to_listen(&mut self, command: &Command) -> u32 {
        let path = &command.path;
        let address = Address {
            words: path.local,
            ip_version: u32::from(path.ip_version),
        };
        let is_port = (1..=u32::from(u16::MAX)).contains(&command.port);
        if !is_port || command.config >= self.book.block.config_count {
            return WRONG;
        }
        let other = (0..self.book.block.listener_count).find(|index| {
            let same = |one: &super::tables::ListenerBlock| {
                one.port == command.port && one.address == address
            };
            *index != command.listener && self.book.listener(*index).is_some_and(|one| same(one))
        });
        if other.is_some() {
            return BUSY;
        }
        let Some(block) = self.book.listener(command.listener) else {
            return WRONG;
        };
        block.listener = Listener::new(Secret(self.book.block.secret), command.backlog);
        block.address = address;
        block.port = command.port;
        block.config = command.config;
        block.backlog = command.backlog;
        DONE
    }

    fn end_to_listen(&mut self, command: &Command) -> u32 {
        let Some(block) = self.book.listener(command.listener) else {
            return WRONG;
        };
        block.port = 0;
        let used = self.book.standing().used;
        for place in 0..used {
            if let Some(block) = self.book.connection(place)
                && block.is_embryonic
                && block.listener == command.listener
            {
                block.is_released = true;
                block.connection.abort();
                self.ready.set(place);
            }
        }
        DONE
    }

    fn connect(&mut self, command: &Command) -> CommandAnswer {
        let path = command.path;
        let address = Address {
            words: path.local,
            ip_version: u32::from(path.ip_version),
        };
        let is_port = (1..=u32::from(u16::MAX)).contains(&command.port) && path.source_port != 0;
        let has_config = command.config < self.book.block.config_count;
        if !is_port || !has_config || !is_own(self.book.block, &address) {
            return outcome(WRONG);
        }
        let remote_port = command.port as u16;
        let hash = self.hash(&path, remote_port);
        let is_there = self
            .book
            .find(hash, &Ends::of(&path, remote_port))
            .is_some();
        if is_there || self.book.elsewhere(hash).is_some() {
            return outcome(BUSY);
        }
        if self.book.standing().free_chunks < 2 {
            return outcome(NO_CHUNK);
        }
        let secret = Secret(self.book.block.secret);
        let initial = Initial::new(&secret, &words::tuple(&path, remote_port), self.now_ns);
        let config = self.book.config(command.config);
        let connection = Connection::connect(config, initial, self.now_ns);
        let new = ConnectionBlock {
            config: command.config,
            follows: command.is_on_link != 0,
            hash,
            ..blank(connection, path, remote_port)
        };
        let Some(place) = self.take_place(new) else {
            return outcome(NO_PLACE);
        };
        let Some(block) = self.book.connection(place) else {
            return outcome(NO_PLACE);
        };
        // There are two: it was looked up above.
        self.book.take_chunks(block);
        self.tell_rings(place, block);
        self.ready.set(place);
        CommandAnswer {
            place,
            generation: block.generation,
            ..outcome(DONE)
        }
    }

    /// What ICMP said of a segment.
    fn hear(&mut self, command: &Command) -> u32 {
        let Ok(remote_port) = u16::try_from(command.port) else {
            return WRONG;
        };
        let path = &command.path;
        let hash = self.hash(path, remote_port);
        let found = self.book.find(hash, &Ends::of(path, remote_port));
        let Some((place, block)) =
            found.and_then(|place| Some((place, self.book.connection(place)?)))
        else {
            return UNKNOWN;
        };
        let sequence = TcpSequence(command.sequence);
        let mut events = Events::empty();
        match command.kind {
            UNREACHABLE => events = block.connection.on_unreachable(sequence),
            _ => {
                let config = self.book.config(block.config);
                let mtu = command.mtu.min(u32::from(u16::MAX)) as u16;
                block.connection.on_too_big(sequence, mtu, config);
            }
        }
        self.happened(place, block, events);
        self.ready.set(place);
        DONE
    }

    /// Whoever is reached by a next hop is reached by it where it is now.
    fn follow_hop(&mut self, hop: &Path) -> u32 {
        let used = self.book.standing().used;
        for place in 0..used {
            if let Some(block) = self.book.connection(place)
                && block.path.next_hop == hop.mac
                && block.path.ip_version == hop.ip_version
                && (hop.remote == [0; 4] || hop.remote == block.path.remote)
            {
                block.path.next_hop = hop.next_hop;
                self.counts.count(count::MOVED, 1);
            }
        }
        DONE
    }

    fn hash(&self, path: &Path, remote_port: u16) -> u32 {
        hash_of(&Secret(self.book.block.secret), path, remote_port)
    }
}

fn word(at: DeviceAddress, offset: usize) -> SharedWord {
    // SAFETY: a word of a command slot, live by the engine's promise.
    unsafe { SharedWord::attach(at.offset(offset as u64)) }
}

const fn outcome(outcome: u32) -> CommandAnswer {
    CommandAnswer {
        number: 0,
        outcome,
        place: NONE,
        generation: 0,
    }
}

/// Commands that are obeyed in a round.
const MOST_COMMANDS: u32 = 16;
