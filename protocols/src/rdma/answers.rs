//! What a responder sends: data of reads and atomics, acknowledgements, refusals, in order.

use super::attributes::{Access, Attributes};
use super::carry_out::check;
use super::fetch::{Fetch, Kind};
use super::packet::{Incoming, Outgoing, Payload};
use super::regions::{Regions, Wanted};
use super::responder::{Fetches, LAST, Responder, Taken};
use super::status::Note;
use crate::wire::aeth::{Credits, Nak, Syndrome};
use crate::wire::opcode::Opcode;

impl Responder {
    /// A request that was carried out before is answered again, and not carried out.
    #[inline(never)]
    pub(super) fn on_duplicate<S>(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut S,
    ) -> Taken
    where
        S: Regions + Fetches,
    {
        let is_read = packet.opcode == Opcode::READ_REQUEST;
        let is_atomic = matches!(packet.opcode, Opcode::COMPARE_SWAP | Opcode::FETCH_ADD);
        if is_read || is_atomic {
            return Taken::note(match self.again(attributes, packet, around) {
                true => Note::Duplicate,
                false => Note::DuplicateGone,
            });
        }
        if attributes.is_selective() && self.tell_again() {
            return Taken::note(Note::Duplicate);
        }
        // An answer that says more is not replaced: it says this as well.
        if !self.has_answer {
            let last = self.expected.wrapping_add(LAST);
            self.answer(last, Syndrome::Ack(Credits::UNLIMITED));
        }
        Taken::note(Note::Duplicate)
    }

    /// Makes the answer of a read or an atomic due again. Says whether it is still kept.
    fn again<S>(&mut self, attributes: &Attributes, packet: &Incoming, around: &mut S) -> bool
    where
        S: Fetches,
    {
        let slots = around.slots();
        let kept = self.fetches.min(slots);
        for back in 1..=kept {
            let number = self.fetches.wrapping_sub(back);
            let slot = number & slots.wrapping_sub(1);
            let mut fetch = around.fetch(slot);
            let Some(offset) = fetch.offset_of(packet, attributes.mtu) else {
                continue;
            };
            fetch.sent = offset;
            fetch.restarts = true;
            if !fetch.is_due {
                fetch.is_due = true;
                fetch.is_repeat = true;
                let is_first = self.due == 0 || before(number, self.due_from);
                if is_first {
                    self.due_from = number;
                }
                self.due += 1;
            }
            around.set_fetch(slot, fetch);
            return true;
        }
        false
    }

    /// The next answer, if one is to be sent.
    #[inline(never)]
    pub fn poll<S>(&mut self, attributes: &Attributes, around: &mut S) -> Option<Outgoing>
    where
        S: Regions + Fetches,
    {
        if let Some((slot, fetch)) = self.first_due(around) {
            let psn = fetch.psn.wrapping_add(fetch.sent);
            let is_first = !self.has_answer || !self.answer_psn.is_before(psn);
            if is_first && let Some(packet) = self.respond(attributes, slot, fetch, around) {
                return Some(packet);
            }
        }
        if !self.has_answer {
            return match self.is_over {
                true => None,
                false => self.report(),
            };
        }
        self.has_answer = false;
        let syndrome = Syndrome::new(self.answer)?;
        Some(Outgoing::answer(self.answer_psn, syndrome, self.msn))
    }

    /// The oldest read or atomic whose answer is due.
    fn first_due(&mut self, around: &impl Fetches) -> Option<(u32, Fetch)> {
        if self.due == 0 {
            return None;
        }
        let slots = around.slots();
        let mut number = self.due_from;
        while before(number, self.fetches) {
            let slot = number & slots.wrapping_sub(1);
            let fetch = around.fetch(slot);
            if fetch.is_due {
                self.due_from = number;
                return Some((slot, fetch));
            }
            number = number.wrapping_add(1);
        }
        self.due = 0;
        None
    }

    /// The next packet that a read or an atomic is owed.
    fn respond<S>(
        &mut self,
        attributes: &Attributes,
        slot: u32,
        mut fetch: Fetch,
        around: &mut S,
    ) -> Option<Outgoing>
    where
        S: Regions + Fetches,
    {
        let psn = fetch.psn.wrapping_add(fetch.sent);
        let mut packet = Outgoing::answer(psn, Syndrome::Ack(Credits::UNLIMITED), fetch.msn);
        if fetch.kind == Kind::Atomic {
            packet.opcode = Opcode::ATOMIC_ACKNOWLEDGE;
            packet.extended.value = fetch.value;
        } else {
            let (address, length) = fetch.piece(attributes.mtu);
            let wanted = Wanted {
                key: fetch.key,
                domain: attributes.domain,
                access: Access::REMOTE_READ,
            };
            if check(around, &wanted, address, length).is_err() {
                // The key went while the read was under way.
                self.due = 0;
                self.answer(psn, Syndrome::Nak(Nak::RemoteAccess));
                self.is_over = true;
                return None;
            }
            packet.opcode = fetch.opcode();
            if length > 0 {
                packet.payload = Payload::Memory { address, length };
            }
        }
        fetch.sent += 1;
        fetch.restarts = false;
        if fetch.sent >= fetch.packets {
            fetch.is_due = false;
            self.due -= 1;
        }
        around.set_fetch(slot, fetch);
        Some(packet)
    }
}

/// Whether a running number comes before another.
const fn before(number: u32, other: u32) -> bool {
    (number.wrapping_sub(other) as i32) < 0
}
