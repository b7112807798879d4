//! Commands of the host to the engine, answered by number.
#![expect(
    unsafe_code,
    reason = "writes a command into its slot, which the host alone has then"
)]

use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_engine::streams::tables::{Command, CommandAnswer, CommandSlot, DONE};
use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_ring::DeviceAddress;

use super::table::{COMMANDS, Table};

/// The ring of commands.
pub(super) struct Commands {
    arena: Arc<Arena>,
    slots: DeviceAddress,
    next: u32,
    /// Whose answers somebody waits for.
    awaited: [bool; COMMANDS as usize],
}

/// What the engine answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answered {
    pub(super) outcome: u32,
    pub(super) place: u32,
    pub(super) generation: u32,
}

impl Commands {
    pub(super) fn new(table: &Table) -> Self {
        Self {
            arena: Arc::clone(&table.places.arena),
            slots: table.commands,
            next: 0,
            awaited: [false; COMMANDS as usize],
        }
    }

    /// Gives a command. `None` if there is no slot for it now. Who wants the answer must take it.
    pub(super) fn give(
        &mut self,
        command: &Command,
        wants_answer: bool,
    ) -> Result<Option<u32>, ArenaError> {
        let number = self.next;
        let slot = self.slot(number);
        let awaited = self.awaited.get_mut((number % COMMANDS) as usize);
        let Some(awaited) = awaited.filter(|awaited| !**awaited) else {
            return Ok(None);
        };
        let before = number.wrapping_sub(COMMANDS).wrapping_add(1);
        let answered = self.arena.half_word(slot.offset(ANSWER as u64))?;
        // pairs with: the engine's release of its answer.
        let answered = answered.load(Ordering::Acquire);
        if number >= COMMANDS && answered != before {
            return Ok(None);
        }
        let word = self.arena.half_word(slot)?;
        let at = slot.value() as *mut Command;
        let command = Command {
            number: word.load(Ordering::Relaxed),
            ..*command
        };
        // SAFETY: the slot lies in the arena, as its first word does, and the engine is done with
        // what was there.
        unsafe { at.write(command) };
        // pairs with: the engine's acquire.
        word.store(number.wrapping_add(1), Ordering::Release);
        *awaited = wants_answer;
        self.next = number.wrapping_add(1);
        Ok(Some(number))
    }

    /// Takes the answer to a command, once it is there.
    pub(super) fn answer(&mut self, number: u32) -> Result<Option<Answered>, ArenaError> {
        let slot = self.slot(number);
        let word = |offset: usize| {
            let at = slot.offset((ANSWER + offset) as u64);
            self.arena.half_word(at)
        };
        // pairs with: the engine's release.
        let answered = word(offset_of!(CommandAnswer, number))?.load(Ordering::Acquire);
        if answered != number.wrapping_add(1) {
            return Ok(None);
        }
        let load = |offset: usize| Ok::<_, ArenaError>(word(offset)?.load(Ordering::Relaxed));
        let answer = Answered {
            outcome: load(offset_of!(CommandAnswer, outcome))?,
            place: load(offset_of!(CommandAnswer, place))?,
            generation: load(offset_of!(CommandAnswer, generation))?,
        };
        self.forget(number);
        Ok(Some(answer))
    }

    /// Nobody waits for the answer any more.
    pub(super) fn forget(&mut self, number: u32) {
        if let Some(awaited) = self.awaited.get_mut((number % COMMANDS) as usize) {
            *awaited = false;
        }
    }

    fn slot(&self, number: u32) -> DeviceAddress {
        let offset = u64::from(number % COMMANDS) * size_of::<CommandSlot>() as u64;
        self.slots.offset(offset)
    }
}

impl Answered {
    pub(super) const fn is_done(&self) -> bool {
        self.outcome == DONE
    }
}

const ANSWER: usize = offset_of!(CommandSlot, answer);
