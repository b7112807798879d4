//! Selective repetition at the responder: writes that come before their turn are placed, and the
//! peer is told what came and what is missing.

use super::arrived::{Arrived, Report, SELECTIVE_WINDOW, block_of};
use super::attributes::{Access, Attributes};
use super::carry_out::check;
use super::forms::SIGNAL_BYTES;
use super::packet::{Incoming, Outgoing};
use super::regions::{Regions, Wanted};
use super::responder::{LAST, Landing, Responder, Taken};
use super::status::Note;
use crate::wire::aeth::{Credits, Msn, Nak, Syndrome};
use crate::wire::bth::Psn;
use crate::wire::opcode::Opcode;

impl Responder {
    /// The packets that were placed before their turn. They are kept where a write of several
    /// packets is kept otherwise: there are none.
    fn early(&self) -> Arrived {
        let [low, high] = [self.address as u32, (self.address >> 32) as u32];
        Arrived::from_words([low, high, self.key, self.left])
    }

    fn set_early(&mut self, early: Arrived) {
        let [low, high, key, left] = early.words();
        self.address = u64::from(high) << 32 | u64::from(low);
        self.key = key;
        self.left = left;
    }

    /// Takes a packet that comes after a gap.
    #[inline(never)]
    pub(super) fn on_early(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &impl Regions,
    ) -> Taken {
        let distance = packet.psn.diff(self.expected);
        if distance.unsigned_abs() >= SELECTIVE_WINDOW {
            return Taken::note(Note::Ahead);
        }
        self.came = (packet.psn.value() % CAME_MODULUS) as u8;
        self.untold |= 1 << block_of(packet.psn);
        let mut early = self.early();
        if early.has(packet.psn) {
            return Taken::note(Note::Duplicate);
        }
        let Some(landing) = placed(attributes, packet, around) else {
            return Taken::note(Note::Ahead);
        };
        early.put(packet.psn);
        self.set_early(early);
        Taken {
            landing: Some(landing),
            received: None,
            note: Some(Note::Early),
        }
    }

    /// The expected packet came: those behind it that came before are done as well.
    pub(super) fn pass_early(&mut self) {
        let mut early = self.early();
        let run = early.run(self.expected);
        if run == 0 {
            return;
        }
        early.clear(self.expected, run);
        self.set_early(early);
        self.expected = self.expected.wrapping_add(run);
        self.msn = self.msn.wrapping_add(run);
        self.came = NOTHING_CAME;
        if early.is_empty() {
            self.untold = 0;
        }
        let last = self.expected.wrapping_add(LAST);
        self.answer(last, Syndrome::Ack(Credits::UNLIMITED));
    }

    /// The peer repeats what was done: tells it all that it may not know. Says whether there is
    /// anything beyond what an acknowledgement says.
    pub(super) fn tell_again(&mut self) -> bool {
        let blocks = self.early().blocks();
        self.untold |= blocks;
        blocks != 0
    }

    /// What is to be told of packets that came after a gap.
    pub(super) fn report(&mut self) -> Option<Outgoing> {
        let early = self.early();
        while self.untold != 0 {
            let came = self.came();
            let block = came.map_or(self.untold.trailing_zeros(), block_of);
            self.untold &= !(1 << block);
            if came.is_some() {
                self.came = NOTHING_CAME;
            }
            if let Some(report) = Report::new(&early, block, came) {
                let missing = Syndrome::Nak(Nak::Sequence);
                let msn = Msn::new(report.value());
                return Some(Outgoing::answer(self.expected, missing, msn));
            }
        }
        None
    }

    /// The last packet that came after a gap, if that was not told.
    fn came(&self) -> Option<Psn> {
        if self.came == NOTHING_CAME {
            return None;
        }
        let ahead = u32::from(self.came).wrapping_sub(self.expected.value()) % CAME_MODULUS;
        Some(self.expected.wrapping_add(ahead))
    }
}

/// Where a packet that comes before its turn is placed, if it may be.
fn placed(attributes: &Attributes, packet: &Incoming, around: &impl Regions) -> Option<Landing> {
    let fields = &packet.extended;
    let length = packet.payload;
    let fits = packet.opcode == Opcode::WRITE_ONLY
        && length > SIGNAL_BYTES
        && length <= attributes.mtu.bytes()
        && length == fields.length
        && attributes.access.contains(Access::REMOTE_WRITE);
    if !fits {
        return None;
    }
    let wanted = Wanted {
        key: fields.key,
        domain: attributes.domain,
        access: Access::REMOTE_WRITE,
    };
    let address = fields.address;
    check(around, &wanted, address, length).ok()?;
    Some(Landing::Memory { address, length })
}

/// For [`Responder::came`]: sequence numbers are kept modulo this.
const CAME_MODULUS: u32 = 128;
/// For [`Responder::came`]: nothing that was not told.
pub(super) const NOTHING_CAME: u8 = u8::MAX;
