//! The forms that requests take on the wire, and which of them are legal.

use super::attributes::{Attributes, Mtu, Service, longest_message};
use super::packet::{Extended, Outgoing, Payload};
use super::request::{Operation, Request};
use super::requester::Place;
use super::status::Status;
use crate::wire::aeth::Nak;
use crate::wire::opcode::Opcode;

/// Writes of so many bytes are taken in their turn even where others may come early: signals are
/// written so.
pub(super) const SIGNAL_BYTES: u32 = 8;

/// Whether the request is one that the service and the peer take.
pub(super) fn legal(request: &Request, attributes: &Attributes) -> Result<(), Status> {
    let most = match attributes.service {
        Service::Ud => attributes.mtu.bytes(),
        Service::Rc | Service::Uc => attributes.max_message.min(longest_message(attributes.mtu)),
    };
    let operation = request.operation;
    let fits = match attributes.service {
        Service::Rc => true,
        Service::Uc => !operation.is_fetch() && operation != Operation::SendInvalidate,
        Service::Ud => matches!(operation, Operation::Send | Operation::SendImmediate),
    };
    if !fits {
        Err(Status::LocalQpOperation)
    } else if request.length > most || (operation.is_atomic() && request.length != 8) {
        Err(Status::LocalLength)
    } else {
        Ok(())
    }
}

/// The packet of a request at a place.
pub(super) fn packet(
    request: &Request,
    number: u64,
    place: &Place,
    total: u32,
    attributes: &Attributes,
) -> Option<Outgoing> {
    let (operation, mtu) = (request.operation, attributes.mtu);
    let offset = place.done * mtu.bytes();
    let is_last = place.done + 1 == total || operation.is_fetch();
    // Each packet of such a write says where it goes, and is whole without the others.
    let is_apart = attributes.is_selective() && operation.is_write();
    let code = match (is_apart, is_last) {
        (true, false) => code(Operation::Write, true, true),
        (true, true) => code(operation, true, true),
        (false, _) => code(operation, place.done == 0, is_last),
    };
    let opcode = Opcode::new(attributes.service.opcode_base() | code)?;
    let mut packet = Outgoing::new(opcode, place.next());
    packet.acknowledge = is_last && attributes.service == Service::Rc;
    packet.solicited = is_last && request.solicited;
    packet.request = number;
    packet.extended = Extended {
        address: request.address,
        key: request.key,
        length: request.length,
        value: request.value,
        compare: request.compare,
        aeth: 0,
        immediate: request.immediate,
        qkey: request.qkey,
        source_qp: attributes.local_qp.value(),
    };
    let left = request.length.saturating_sub(offset);
    let length = left.min(mtu.bytes());
    if operation == Operation::Read {
        packet.extended.address = request.address.wrapping_add(u64::from(offset));
        packet.extended.length = left;
    } else if operation.carries_payload() && left > 0 {
        packet.payload = Payload::Request {
            index: number,
            offset,
            length,
        };
    }
    // The last one of a write with immediate speaks of the whole: its completion does.
    if is_apart && !(is_last && operation == Operation::WriteImmediate) {
        packet.extended.address = request.address.wrapping_add(u64::from(offset));
        packet.extended.length = length;
    }
    Some(packet)
}

/// Whether a peer takes the packet after `done` others of a request in its turn alone.
pub(super) const fn comes_in_turn(request: &Request, done: u32, total: u32, mtu: Mtu) -> bool {
    let is_last = done + 1 >= total;
    let length = request.length.saturating_sub(done * mtu.bytes());
    match request.operation {
        Operation::Write => length <= SIGNAL_BYTES,
        Operation::WriteImmediate => is_last,
        _ => true,
    }
}

/// The lower five bits of the opcode of a packet in its place.
const fn code(operation: Operation, is_first: bool, is_last: bool) -> u8 {
    let (first, middle, last, only) = match operation {
        Operation::Send => (0x00, 0x01, 0x02, 0x04),
        Operation::SendImmediate => (0x00, 0x01, 0x03, 0x05),
        Operation::SendInvalidate => (0x00, 0x01, 0x16, 0x17),
        Operation::Write => (0x06, 0x07, 0x08, 0x0a),
        Operation::WriteImmediate => (0x06, 0x07, 0x09, 0x0b),
        Operation::Read => (0x0c, 0x0c, 0x0c, 0x0c),
        Operation::CompareSwap => (0x13, 0x13, 0x13, 0x13),
        Operation::FetchAdd => (0x14, 0x14, 0x14, 0x14),
    };
    match (is_first, is_last) {
        (true, true) => only,
        (true, false) => first,
        (false, true) => last,
        (false, false) => middle,
    }
}

pub(super) const fn status_of(nak: Nak) -> Status {
    match nak {
        Nak::Sequence | Nak::InvalidRequest | Nak::InvalidRdRequest => Status::RemoteInvalidRequest,
        Nak::RemoteAccess => Status::RemoteAccess,
        Nak::RemoteOperational => Status::RemoteOperation,
    }
}
