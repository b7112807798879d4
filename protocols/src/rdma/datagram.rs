//! Datagrams: each a message of its own, from anybody who knows the key.

use super::attributes::Attributes;
use super::packet::Incoming;
use super::request::Receives;
use super::responder::{Landing, Responder, Taken};
use super::status::Note;
use crate::wire::opcode::Opcode;

/// Bytes before a datagram in its receive: its global route header, or, with IPv4, 20 bytes of no
/// meaning and the IPv4 header.
pub const ROUTE_HEADER_BYTES: u32 = 40;

impl Responder {
    /// Takes a datagram. One that no receive holds is dropped, and the receive stays for the next.
    pub fn on_datagram(
        &mut self,
        attributes: &Attributes,
        packet: &Incoming,
        around: &mut impl Receives,
    ) -> Taken {
        let legal = matches!(
            packet.opcode,
            Opcode::UD_SEND_ONLY | Opcode::UD_SEND_ONLY_IMM
        );
        if !legal {
            return Taken::note(Note::Unsupported);
        }
        if packet.extended.qkey != attributes.qkey {
            return Taken::note(Note::DatagramKey);
        }
        if packet.payload > attributes.mtu.bytes() {
            return Taken::note(Note::Length);
        }
        let receive = match self.receive(around) {
            Ok(receive) => receive,
            Err((note @ Note::BadReceive, _)) => return self.give_up(note),
            Err((note, _)) => return Taken::note(note),
        };
        let length = packet.payload + ROUTE_HEADER_BYTES;
        if length > receive.capacity {
            return Taken::note(Note::TooLong);
        }
        let received = self.complete(packet, length, false);
        Taken {
            landing: Some(Landing::Receive {
                index: receive.index,
                offset: ROUTE_HEADER_BYTES,
                length: packet.payload,
            }),
            received: Some(received),
            note: None,
        }
    }
}
