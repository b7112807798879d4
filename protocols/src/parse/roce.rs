//! The parts of a RoCEv2 packet behind its base transport header.

use super::headers::Headers;
use crate::DropReason;
use crate::wire::Opcode;
use crate::wire::bth::{self, Pad};
use crate::wire::opcode::{Class, ExtendedHeaders};

/// How a RoCEv2 packet divides: extended headers, payload, pad and invariant CRC, in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RoceLayout {
    /// What the packet is.
    pub opcode: Opcode,
    /// The extended headers.
    pub extended: ExtendedHeaders,
    /// Bytes of the extended headers, which start at [`Headers::payload`].
    pub extended_length: u32,
    /// Bytes of the payload.
    pub payload_length: u32,
    /// Bytes of the pad.
    pub pad: u32,
}

impl RoceLayout {
    /// Divides a packet that was parsed as RoCEv2.
    ///
    /// # Errors
    /// [`DropReason::BthOpcode`] if the opcode is not defined; [`DropReason::BthLength`] if the
    /// packet is shorter than its parts, has a payload that its opcode does not have, or if payload
    /// and pad are no multiple of 4.
    #[inline]
    pub const fn new(headers: &Headers) -> Result<Self, DropReason> {
        let Some(opcode) = Opcode::new(headers.bth_opcode) else {
            return Err(DropReason::BthOpcode);
        };
        let extended = opcode.headers();
        let extended_length = extended.length() as u32;
        let pad = bth::pad_of(headers.bth_flags) as u32;
        let fixed = extended_length + pad + bth::ICRC_LENGTH as u32;
        let Some(payload_length) = headers.payload_length.checked_sub(fixed) else {
            return Err(DropReason::BthLength);
        };
        let is_legal = match opcode.class() {
            Class::Cnp => payload_length >= CNP_RESERVED,
            _ => opcode.has_payload() || payload_length == 0,
        };
        if !is_legal || Pad::of(payload_length).value() as u32 != pad {
            return Err(DropReason::BthLength);
        }
        Ok(Self {
            opcode,
            extended,
            extended_length,
            payload_length,
            pad,
        })
    }
}

/// Reserved bytes behind the base transport header of a congestion notification.
const CNP_RESERVED: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn check(opcode: u8, pad: u8, behind: u32, expected: Result<(u32, u32), DropReason>) {
        let headers = Headers {
            bth_opcode: opcode,
            bth_flags: 0x40 | pad << 4,
            payload_length: behind,
            ..Headers::default()
        };
        let layout = RoceLayout::new(&headers);
        let parts = layout.map(|layout| (layout.extended_length, layout.payload_length));
        assert_eq!(
            parts, expected,
            "opcode {opcode:#x} pad {pad} with {behind} bytes"
        );
    }

    #[test]
    fn packets_divide_or_are_refused() {
        let short = Err(DropReason::BthLength);
        check(0x04, 0, 4, Ok((0, 0)));
        check(0x04, 0, 3, short);
        check(0x04, 3, 8, Ok((0, 1)));
        check(0x04, 3, 7, short);
        check(0x04, 3, 4, short);
        check(0x04, 0, 9, short);
        check(0x04, 1, 8, Ok((0, 3)));
        check(0x0a, 0, 16 + 1024 + 4, Ok((16, 1024)));
        check(0x0a, 0, 19, short);
        check(0x0b, 2, 20 + 4 + 4, Ok((20, 2)));
        check(0x11, 0, 8, Ok((4, 0)));
        check(0x11, 0, 12, short);
        check(0x0c, 0, 20, Ok((16, 0)));
        check(0x0c, 0, 24, short);
        check(0x64, 0, 8 + 64 + 4, Ok((8, 64)));
        check(0x81, 0, 20, Ok((0, 16)));
        check(0x81, 0, 16, short);
        check(0x15, 0, 100, Err(DropReason::BthOpcode));
        check(0x44, 0, 100, Err(DropReason::BthOpcode));
    }
}
