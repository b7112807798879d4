//! Reads and atomics that a responder keeps until they cannot be asked for again.

use super::attributes::Mtu;
use super::packet::Incoming;
use crate::wire::aeth::Msn;
use crate::wire::bth::Psn;
use crate::wire::opcode::Opcode;

/// What is kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub(super) enum Kind {
    /// Nothing yet.
    #[default]
    None,
    /// A read.
    Read,
    /// An atomic.
    Atomic,
}

/// A read or an atomic.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Fetch {
    /// First byte.
    pub(super) address: u64,
    /// Of an atomic: what it found.
    pub(super) value: u64,
    /// Its first sequence number.
    pub(super) psn: Psn,
    /// Packets of its answer.
    pub(super) packets: u32,
    /// Key of the region.
    pub(super) key: u32,
    /// Bytes.
    pub(super) length: u32,
    /// Messages carried out, this one included.
    pub(super) msn: Msn,
    /// Packets of the answer that were sent, or need not be.
    pub(super) sent: u32,
    /// The next packet is the first of an answer, be it one from the middle on.
    pub(super) restarts: bool,
    /// There are packets to be sent.
    pub(super) is_due: bool,
    /// They were sent before, and asked for again.
    pub(super) is_repeat: bool,
    /// Which it is.
    pub(super) kind: Kind,
}

impl Fetch {
    /// Where in its answer a repeated request wants to begin; `None` if the request is another.
    pub(super) fn offset_of(&self, packet: &Incoming, mtu: Mtu) -> Option<u32> {
        let fields = &packet.extended;
        let offset = packet.psn.diff(self.psn);
        if offset < 0 || offset as u32 >= self.packets || fields.key != self.key {
            return None;
        }
        let offset = offset as u32;
        let skipped = offset * mtu.bytes();
        let fits = match self.kind {
            Kind::None => false,
            Kind::Read => {
                packet.opcode == Opcode::READ_REQUEST
                    && fields.address == self.address.wrapping_add(u64::from(skipped))
                    && fields.length == self.length.wrapping_sub(skipped)
            }
            Kind::Atomic => packet.opcode != Opcode::READ_REQUEST && fields.address == self.address,
        };
        fits.then_some(offset)
    }

    /// The bytes of the next packet of a read.
    pub(super) fn piece(&self, mtu: Mtu) -> (u64, u32) {
        let offset = self.sent * mtu.bytes();
        let length = self.length.wrapping_sub(offset).min(mtu.bytes());
        (self.address.wrapping_add(u64::from(offset)), length)
    }

    /// The opcode of the next packet of a read.
    pub(super) fn opcode(&self) -> Opcode {
        let is_last = self.sent + 1 >= self.packets;
        match (self.restarts, is_last) {
            (true, true) => Opcode::READ_RESPONSE_ONLY,
            (true, false) => Opcode::READ_RESPONSE_FIRST,
            (false, true) => Opcode::READ_RESPONSE_LAST,
            (false, false) => Opcode::READ_RESPONSE_MIDDLE,
        }
    }
}
