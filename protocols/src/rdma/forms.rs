//! The forms that requests take on the wire, and which of them are legal.

use super::attributes::{Attributes, Service, longest_message};
use super::request::{Operation, Request};
use super::status::Status;
use crate::wire::aeth::Nak;

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

/// The lower five bits of the opcode of a packet in its place.
pub(super) const fn code(operation: Operation, is_first: bool, is_last: bool) -> u8 {
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
