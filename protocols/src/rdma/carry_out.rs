//! Carrying requests out: what a responder does with each packet that is in its place.

use super::attributes::{Access, Attributes, MAX_MESSAGE, Service};
use super::fetch::{Fetch, Kind};
use super::packet::Incoming;
use super::regions::{Regions, Wanted};
use super::request::{PostedReceive, Receives};
use super::responder::{Fetches, Landing, Message, Received, Refusal, Responder, Taken};
use super::status::{Note, Status};
use crate::wire::aeth::{Credits, Nak, Syndrome};
use crate::wire::opcode::{ExtendedHeaders, Opcode};

impl Responder {
    /// Carries out the request that is expected.
    #[inline(never)]
    pub(super) fn carry_out<S>(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut S,
    ) -> Result<Taken, Refusal>
    where
        S: Regions + Receives + Fetches,
    {
        let under_way = match packet.opcode.operation() {
            0x00..=0x05 | 0x16 | 0x17 => Message::Send,
            0x06..=0x0b => Message::Write,
            _ => Message::None,
        };
        // Where repetition is selective, each packet of a write is whole.
        let is_apart = attributes.is_selective() && under_way == Message::Write;
        let fits = match packet.opcode.starts_message() {
            true => self.message == Message::None && (!is_apart || packet.opcode.ends_message()),
            false => self.message == under_way && !is_apart,
        };
        if !fits {
            return Err((Note::Order, Nak::InvalidRequest));
        }
        let mtu = attributes.mtu.bytes();
        let ends = packet.opcode.ends_message();
        let fits = match (packet.opcode.starts_message(), ends) {
            (_, false) => packet.payload == mtu,
            (false, true) => (1..=mtu).contains(&packet.payload),
            (true, true) => packet.payload <= mtu,
        };
        if !fits {
            return Err((Note::Length, Nak::InvalidRequest));
        }
        match packet.opcode {
            Opcode::READ_REQUEST => self.read(attributes, packet, around),
            Opcode::COMPARE_SWAP | Opcode::FETCH_ADD => self.atomic(attributes, packet, around),
            _ if under_way == Message::Send => self.send(attributes, packet, around),
            _ if under_way == Message::Write => self.write(attributes, packet, around),
            _ => Err((Note::Unsupported, Nak::InvalidRequest)),
        }
    }

    /// A receive for a message: the one that was taken for it, or the next. Looked at anew for each
    /// packet, as keys can go.
    pub(super) fn receive(&mut self, around: &mut impl Receives) -> Result<PostedReceive, Refusal> {
        let receive = match self.has_receive {
            true => around.taken_receive(self.receive),
            false => {
                let taken = around.take_receive();
                let receive = taken.ok_or((Note::NoReceive, Nak::RemoteOperational))?;
                self.receive = receive.index;
                self.capacity = receive.capacity;
                self.has_receive = true;
                receive
            }
        };
        match receive.may_use {
            true => Ok(receive),
            false => Err((Note::BadReceive, Nak::RemoteOperational)),
        }
    }

    /// The packet is done: the next one is expected, and this one acknowledged if that is wanted.
    fn accept(&mut self, attributes: &Attributes, packet: &Incoming, message: Message) {
        self.message = message;
        self.expected = packet.psn.wrapping_add(1);
        if packet.opcode.ends_message() {
            self.msn = self.msn.wrapping_add(1);
        }
        if packet.acknowledge && attributes.service == Service::Rc {
            self.answer(packet.psn, Syndrome::Ack(Credits::UNLIMITED));
        }
    }

    fn send<S>(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut S,
    ) -> Result<Taken, Refusal>
    where
        S: Regions + Receives,
    {
        let receive = self.receive(around)?;
        let offset = match packet.opcode.starts_message() {
            true => 0,
            false => self.done,
        };
        let length = packet.payload;
        let end = offset.checked_add(length);
        let Some(end) = end.filter(|end| *end <= receive.capacity) else {
            return Err((Note::TooLong, Nak::InvalidRequest));
        };
        if packet.opcode.headers().contains(ExtendedHeaders::IETH) {
            let gone = around.invalidate(packet.extended.immediate, attributes.domain);
            gone.map_err(|_| (Note::Access, Nak::RemoteAccess))?;
        }
        self.done = end;
        let ends = packet.opcode.ends_message();
        let received = ends.then(|| self.complete(packet, end, false));
        let message = if ends { Message::None } else { Message::Send };
        self.accept(attributes, packet, message);
        Ok(Taken {
            landing: (length > 0).then_some(Landing::Receive {
                index: receive.index,
                offset,
                length,
            }),
            received,
            note: None,
        })
    }

    /// The message under way completes its receive.
    pub(super) fn complete(&mut self, packet: &Incoming, length: u32, is_write: bool) -> Received {
        self.has_receive = false;
        let headers = packet.opcode.headers();
        let word = packet.extended.immediate;
        Received {
            index: self.receive,
            status: Status::Success,
            length,
            is_write,
            immediate: headers.contains(ExtendedHeaders::IMM_DT).then_some(word),
            invalidate: headers.contains(ExtendedHeaders::IETH).then_some(word),
            solicited: packet.solicited,
            source_qp: packet.extended.source_qp,
        }
    }

    fn write<S>(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut S,
    ) -> Result<Taken, Refusal>
    where
        S: Regions + Receives,
    {
        let starts = packet.opcode.starts_message();
        let ends = packet.opcode.ends_message();
        let (address, key, left) = match starts {
            true => {
                let fields = &packet.extended;
                (fields.address, fields.key, fields.length)
            }
            false => (self.address, self.key, self.left),
        };
        let length = packet.payload;
        let has_immediate = packet.opcode.headers().contains(ExtendedHeaders::IMM_DT);
        // The end of a message whose other packets were writes of their own.
        let is_end = has_immediate && attributes.is_selective();
        let fits = match (is_end, ends) {
            (true, _) => left >= length,
            (false, true) => left == length,
            (false, false) => left > length,
        };
        if !fits || left > MAX_MESSAGE {
            return Err((Note::Length, Nak::InvalidRequest));
        }
        allowed(attributes, Access::REMOTE_WRITE)?;
        // A first packet must lie well as a whole; each later one anew, as keys can go.
        let checked = if starts { left } else { length };
        let wanted = Wanted {
            key,
            domain: attributes.domain,
            access: Access::REMOTE_WRITE,
        };
        check(around, &wanted, address, checked)?;
        if has_immediate {
            self.receive(around)?;
        }
        let before = if starts { 0 } else { self.done };
        let skipped = if is_end { left - length } else { 0 };
        let address = address.wrapping_add(u64::from(skipped));
        if !attributes.is_selective() {
            self.address = address.wrapping_add(u64::from(length));
            self.key = key;
            self.left = left - length;
        }
        self.done = before.wrapping_add(skipped).wrapping_add(length);
        let received = has_immediate.then(|| self.complete(packet, self.done, true));
        let message = if ends { Message::None } else { Message::Write };
        self.accept(attributes, packet, message);
        Ok(Taken {
            landing: (length > 0).then_some(Landing::Memory { address, length }),
            received,
            note: None,
        })
    }

    /// A slot for a read or an atomic.
    fn slot(&mut self, attributes: &Attributes, around: &mut impl Fetches) -> Result<u32, Refusal> {
        let slots = around.slots();
        let slot = self.fetches & slots.wrapping_sub(1);
        if self.due >= attributes.reads_served || around.fetch(slot).is_due {
            self.forget_repeats(u32::from(attributes.reads_served), around);
        }
        let is_free = slots != 0 && !around.fetch(slot).is_due;
        if !is_free || self.due >= attributes.reads_served {
            return Err((Note::TooManyReads, Nak::InvalidRequest));
        }
        Ok(slot)
    }

    /// A peer that begins another read has the answers of all but the last ones that were agreed.
    /// Those that it asked for again are still due, and not wanted any more.
    fn forget_repeats(&mut self, under_way: u32, around: &mut impl Fetches) {
        let slots = around.slots();
        for back in under_way..=slots.min(self.fetches) {
            let slot = self.fetches.wrapping_sub(back) & slots.wrapping_sub(1);
            let mut fetch = around.fetch(slot);
            if back > 0 && fetch.is_due && fetch.is_repeat {
                fetch.is_due = false;
                around.set_fetch(slot, fetch);
                self.due -= 1;
            }
        }
    }

    fn read<S>(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut S,
    ) -> Result<Taken, Refusal>
    where
        S: Regions + Fetches,
    {
        allowed(attributes, Access::REMOTE_READ)?;
        let fields = &packet.extended;
        if fields.length > MAX_MESSAGE {
            return Err((Note::Length, Nak::InvalidRequest));
        }
        let wanted = Wanted {
            key: fields.key,
            domain: attributes.domain,
            access: Access::REMOTE_READ,
        };
        check(around, &wanted, fields.address, fields.length)?;
        let slot = self.slot(attributes, around)?;
        let packets = attributes.mtu.packets(fields.length);
        self.keep(packet, packets, Kind::Read, slot, around);
        Ok(Taken::default())
    }

    fn atomic<S>(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut S,
    ) -> Result<Taken, Refusal>
    where
        S: Regions + Fetches,
    {
        allowed(attributes, Access::REMOTE_ATOMIC)?;
        let fields = &packet.extended;
        let address = fields.address;
        if !address.is_multiple_of(8) {
            return Err((Note::Misaligned, Nak::InvalidRequest));
        }
        let wanted = Wanted {
            key: fields.key,
            domain: attributes.domain,
            access: Access::REMOTE_ATOMIC,
        };
        check(around, &wanted, address, 8)?;
        let slot = self.slot(attributes, around)?;
        self.keep(packet, 1, Kind::Atomic, slot, around);
        let swaps = packet.opcode == Opcode::COMPARE_SWAP;
        Ok(Taken {
            landing: Some(Landing::Atomic {
                address,
                value: fields.value,
                compare: swaps.then_some(fields.compare),
                slot,
            }),
            received: None,
            note: None,
        })
    }

    /// Keeps a read or an atomic, whose answer is due.
    fn keep(
        &mut self,
        packet: &Incoming,
        packets: u32,
        kind: Kind,
        slot: u32,
        around: &mut impl Fetches,
    ) {
        self.msn = self.msn.wrapping_add(1);
        let fields = &packet.extended;
        let fetch = Fetch {
            address: fields.address,
            value: 0,
            psn: packet.psn,
            packets,
            key: fields.key,
            length: fields.length,
            msn: self.msn,
            sent: 0,
            restarts: true,
            is_due: true,
            is_repeat: false,
            kind,
        };
        around.set_fetch(slot, fetch);
        if self.due == 0 {
            self.due_from = self.fetches;
        }
        self.due += 1;
        self.fetches = self.fetches.wrapping_add(1);
        self.expected = packet.psn.wrapping_add(packets);
    }

    /// What an atomic found, once it is done.
    pub fn found(&mut self, around: &mut impl Fetches, slot: u32, value: u64) {
        let fetch = around.fetch(slot);
        around.set_fetch(slot, Fetch { value, ..fetch });
    }
}

/// Whether the peer may do such a thing at all.
fn allowed(attributes: &Attributes, access: Access) -> Result<(), Refusal> {
    match attributes.access.contains(access) {
        true => Ok(()),
        false => Err((Note::Access, Nak::InvalidRequest)),
    }
}

/// Whether memory may be used so. Where nothing is moved, nothing is asked.
pub(super) fn check(
    regions: &impl Regions,
    wanted: &Wanted,
    address: u64,
    length: u32,
) -> Result<(), Refusal> {
    if length == 0 || regions.check(wanted, address, length).is_ok() {
        return Ok(());
    }
    Err((Note::Access, Nak::RemoteAccess))
}
