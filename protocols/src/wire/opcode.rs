//! Opcodes of the base transport header. InfiniBand Architecture Specification volume 1, section
//! 9.2.2 (table 38); flush and atomic write: volume 1 annex A19.
//!
//! ```text
//!    7   6   5   4   3   2   1   0
//!  +-----------+-------------------+
//!  |   class   |     operation     |
//!  +-----------+-------------------+
//! ```
//! Class: 0 RC, 1 UC, 2 RD, 3 UD, 4 CNP and others, 5 XRC. An operation means the same in all
//! classes that have it. Which extended headers follow is a function of the operation, but for UD,
//! where every packet has a DETH.

use bitflags::bitflags;
use core::fmt;

/// A service class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
pub enum Class {
    /// Reliable connection.
    Rc = 0,
    /// Unreliable connection.
    Uc = 1,
    /// Reliable datagram: recognised, none of its opcodes are.
    Rd = 2,
    /// Unreliable datagram.
    Ud = 3,
    /// Congestion notification.
    Cnp = 4,
    /// Extended reliable connection: recognised, none of its opcodes are.
    Xrc = 5,
}

impl Class {
    /// The class of any opcode byte; `None` for manufacturer opcodes (0xc0 and above).
    pub const fn of(opcode: u8) -> Option<Self> {
        Some(match opcode >> 5 {
            0 => Self::Rc,
            1 => Self::Uc,
            2 => Self::Rd,
            3 => Self::Ud,
            4 => Self::Cnp,
            5 => Self::Xrc,
            _ => return None,
        })
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rc => "RC",
            Self::Uc => "UC",
            Self::Rd => "RD",
            Self::Ud => "UD",
            Self::Cnp => "CNP",
            Self::Xrc => "XRC",
        }
    }
}

bitflags! {
    /// Extended headers, in the order in which they follow the base transport header.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct ExtendedHeaders: u8 {
        /// Datagram: Q_Key and source queue pair, 8 bytes.
        const DETH = 0x01;
        /// Flush, 4 bytes.
        const FETH = 0x02;
        /// Remote address, key and length, 16 bytes.
        const RETH = 0x04;
        /// Atomic request, 28 bytes.
        const ATOMIC_ETH = 0x08;
        /// Acknowledgement, 4 bytes.
        const AETH = 0x10;
        /// Original value of an atomic, 8 bytes.
        const ATOMIC_ACK_ETH = 0x20;
        /// Immediate data, 4 bytes.
        const IMM_DT = 0x40;
        /// Key to invalidate, 4 bytes.
        const IETH = 0x80;
    }
}

impl ExtendedHeaders {
    /// Bytes of all of them.
    pub const fn length(self) -> usize {
        let bits = self.bits() as usize;
        // One byte of this constant per header, in the order of the bits.
        let mut lengths = 0x0404_0804_1c10_0408_u64;
        let (mut bit, mut length) = (0, 0);
        while bit < 8 {
            length += (bits >> bit & 1) * (lengths & 0xff) as usize;
            lengths >>= 8;
            bit += 1;
        }
        length
    }
}

/// A defined opcode of the classes RC, UC, UD and CNP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Opcode(u8);

/// Declares the opcodes with their values and names from one table.
macro_rules! opcodes {
    ($($(#[$meta:meta])* $constant:ident = $value:literal $name:literal;)*) => {
        impl Opcode {
            $($(#[$meta])* #[doc = $name] pub const $constant: Self = Self($value);)*

            /// Every opcode, in the order of their values.
            pub const ALL: &'static [Opcode] = &[$(Self::$constant,)*];

            /// The name, without its class for RC.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$constant => $name,)* _ => "undefined" }
            }
        }
    };
}

opcodes! {
    SEND_FIRST = 0x00 "SEND_FIRST";
    SEND_MIDDLE = 0x01 "SEND_MIDDLE";
    SEND_LAST = 0x02 "SEND_LAST";
    SEND_LAST_IMM = 0x03 "SEND_LAST_IMM";
    SEND_ONLY = 0x04 "SEND_ONLY";
    SEND_ONLY_IMM = 0x05 "SEND_ONLY_IMM";
    WRITE_FIRST = 0x06 "WRITE_FIRST";
    WRITE_MIDDLE = 0x07 "WRITE_MIDDLE";
    WRITE_LAST = 0x08 "WRITE_LAST";
    WRITE_LAST_IMM = 0x09 "WRITE_LAST_IMM";
    WRITE_ONLY = 0x0a "WRITE_ONLY";
    WRITE_ONLY_IMM = 0x0b "WRITE_ONLY_IMM";
    READ_REQUEST = 0x0c "READ_REQUEST";
    READ_RESPONSE_FIRST = 0x0d "READ_RESPONSE_FIRST";
    READ_RESPONSE_MIDDLE = 0x0e "READ_RESPONSE_MIDDLE";
    READ_RESPONSE_LAST = 0x0f "READ_RESPONSE_LAST";
    READ_RESPONSE_ONLY = 0x10 "READ_RESPONSE_ONLY";
    ACKNOWLEDGE = 0x11 "ACKNOWLEDGE";
    ATOMIC_ACKNOWLEDGE = 0x12 "ATOMIC_ACKNOWLEDGE";
    COMPARE_SWAP = 0x13 "COMPARE_SWAP";
    FETCH_ADD = 0x14 "FETCH_ADD";
    SEND_LAST_INVALIDATE = 0x16 "SEND_LAST_INVALIDATE";
    SEND_ONLY_INVALIDATE = 0x17 "SEND_ONLY_INVALIDATE";
    FLUSH = 0x1c "FLUSH";
    ATOMIC_WRITE = 0x1d "ATOMIC_WRITE";
    UC_SEND_FIRST = 0x20 "UC_SEND_FIRST";
    UC_SEND_MIDDLE = 0x21 "UC_SEND_MIDDLE";
    UC_SEND_LAST = 0x22 "UC_SEND_LAST";
    UC_SEND_LAST_IMM = 0x23 "UC_SEND_LAST_IMM";
    UC_SEND_ONLY = 0x24 "UC_SEND_ONLY";
    UC_SEND_ONLY_IMM = 0x25 "UC_SEND_ONLY_IMM";
    UC_WRITE_FIRST = 0x26 "UC_WRITE_FIRST";
    UC_WRITE_MIDDLE = 0x27 "UC_WRITE_MIDDLE";
    UC_WRITE_LAST = 0x28 "UC_WRITE_LAST";
    UC_WRITE_LAST_IMM = 0x29 "UC_WRITE_LAST_IMM";
    UC_WRITE_ONLY = 0x2a "UC_WRITE_ONLY";
    UC_WRITE_ONLY_IMM = 0x2b "UC_WRITE_ONLY_IMM";
    UD_SEND_ONLY = 0x64 "UD_SEND_ONLY";
    UD_SEND_ONLY_IMM = 0x65 "UD_SEND_ONLY_IMM";
    CNP = 0x81 "CNP";
}

impl Opcode {
    /// `None` if `value` is not defined or of a class that is not supported (RD, XRC).
    pub const fn new(value: u8) -> Option<Self> {
        let operations = match value >> 5 {
            0 => RC_OPERATIONS,
            1 => UC_OPERATIONS,
            3 => UD_OPERATIONS,
            4 => CNP_OPERATIONS,
            _ => 0,
        };
        if operations >> (value & 0x1f) & 1 != 0 {
            Some(Self(value))
        } else {
            None
        }
    }

    /// The byte.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// The class.
    pub const fn class(self) -> Class {
        match self.0 >> 5 {
            0 => Class::Rc,
            1 => Class::Uc,
            3 => Class::Ud,
            _ => Class::Cnp,
        }
    }

    /// The operation within its class: 0 to 31.
    pub const fn operation(self) -> u8 {
        self.0 & 0x1f
    }

    /// The extended headers that follow.
    pub const fn headers(self) -> ExtendedHeaders {
        let mut bits = if self.0 >> 5 == 3 {
            ExtendedHeaders::DETH.bits()
        } else {
            0
        };
        let operation = self.operation();
        // A congestion notification has an operation of 1, which has no header.
        let mut row = 0;
        while row < HEADER_OPERATIONS.len() {
            let (header, operations) = HEADER_OPERATIONS[row];
            bits |= header.bits() * (operations >> operation & 1) as u8;
            row += 1;
        }
        ExtendedHeaders::from_bits_retain(bits)
    }

    /// Whether the packet starts a message.
    pub const fn starts_message(self) -> bool {
        STARTS >> self.operation() & 1 != 0
    }

    /// Whether the packet ends a message.
    pub const fn ends_message(self) -> bool {
        ENDS >> self.operation() & 1 != 0
    }

    /// Whether a responder sends it: acknowledgements and read responses.
    pub const fn is_response(self) -> bool {
        RESPONSES >> self.operation() & 1 != 0
    }

    /// Whether a payload may follow the extended headers (for a congestion notification: its 16
    /// reserved bytes).
    pub const fn has_payload(self) -> bool {
        PAYLOADS >> self.operation() & 1 != 0
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of operations, as one bit each.
const fn set(operations: &[u8]) -> u32 {
    let (mut bits, mut index) = (0, 0);
    while index < operations.len() {
        bits |= 1 << operations[index];
        index += 1;
    }
    bits
}

const RC_OPERATIONS: u32 = 0x001f_ffff | set(&[0x16, 0x17, 0x1c, 0x1d]);
const UC_OPERATIONS: u32 = 0x0000_0fff;
const UD_OPERATIONS: u32 = set(&[0x04, 0x05]);
const CNP_OPERATIONS: u32 = set(&[0x01]);

const HEADER_OPERATIONS: [(ExtendedHeaders, u32); 7] = [
    (ExtendedHeaders::FETH, set(&[0x1c])),
    (
        ExtendedHeaders::RETH,
        set(&[0x06, 0x0a, 0x0b, 0x0c, 0x1c, 0x1d]),
    ),
    (ExtendedHeaders::ATOMIC_ETH, set(&[0x13, 0x14])),
    (ExtendedHeaders::AETH, set(&[0x0d, 0x0f, 0x10, 0x11, 0x12])),
    (ExtendedHeaders::ATOMIC_ACK_ETH, set(&[0x12])),
    (ExtendedHeaders::IMM_DT, set(&[0x03, 0x05, 0x09, 0x0b])),
    (ExtendedHeaders::IETH, set(&[0x16, 0x17])),
];

const RESPONSES: u32 = set(&[0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12]);
const PAYLOADS: u32 = 0x0fff | set(&[0x0d, 0x0e, 0x0f, 0x10, 0x16, 0x17, 0x1d]);
const STARTS: u32 = !set(&[0x01, 0x02, 0x03, 0x07, 0x08, 0x09, 0x0e, 0x0f, 0x16]);
const ENDS: u32 = !set(&[0x00, 0x01, 0x06, 0x07, 0x0d, 0x0e]);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_set_is_what_the_table_says() {
        let defined: Vec<u8> = (0..=255)
            .filter(|value| Opcode::new(*value).is_some())
            .collect();
        let listed: Vec<u8> = Opcode::ALL.iter().map(|opcode| opcode.value()).collect();
        assert_eq!(defined, listed);
        for opcode in Opcode::ALL {
            assert_ne!(opcode.name(), "undefined");
            assert_eq!(Class::of(opcode.value()), Some(opcode.class()));
            let class = opcode.class().name();
            assert!(
                opcode.class() == Class::Rc || opcode.name().starts_with(class),
                "{opcode}"
            );
        }
    }

    #[test]
    fn headers_by_opcode() {
        use ExtendedHeaders as Eh;
        for (opcode, headers, length) in [
            (Opcode::SEND_FIRST, Eh::empty(), 0),
            (Opcode::SEND_LAST_IMM, Eh::IMM_DT, 4),
            (Opcode::SEND_ONLY_IMM, Eh::IMM_DT, 4),
            (Opcode::WRITE_FIRST, Eh::RETH, 16),
            (Opcode::WRITE_MIDDLE, Eh::empty(), 0),
            (Opcode::WRITE_LAST_IMM, Eh::IMM_DT, 4),
            (Opcode::WRITE_ONLY, Eh::RETH, 16),
            (Opcode::WRITE_ONLY_IMM, Eh::RETH | Eh::IMM_DT, 20),
            (Opcode::READ_REQUEST, Eh::RETH, 16),
            (Opcode::READ_RESPONSE_FIRST, Eh::AETH, 4),
            (Opcode::READ_RESPONSE_MIDDLE, Eh::empty(), 0),
            (Opcode::READ_RESPONSE_LAST, Eh::AETH, 4),
            (Opcode::READ_RESPONSE_ONLY, Eh::AETH, 4),
            (Opcode::ACKNOWLEDGE, Eh::AETH, 4),
            (
                Opcode::ATOMIC_ACKNOWLEDGE,
                Eh::AETH | Eh::ATOMIC_ACK_ETH,
                12,
            ),
            (Opcode::COMPARE_SWAP, Eh::ATOMIC_ETH, 28),
            (Opcode::FETCH_ADD, Eh::ATOMIC_ETH, 28),
            (Opcode::SEND_LAST_INVALIDATE, Eh::IETH, 4),
            (Opcode::SEND_ONLY_INVALIDATE, Eh::IETH, 4),
            (Opcode::FLUSH, Eh::FETH | Eh::RETH, 20),
            (Opcode::ATOMIC_WRITE, Eh::RETH, 16),
            (Opcode::UC_WRITE_ONLY_IMM, Eh::RETH | Eh::IMM_DT, 20),
            (Opcode::UC_SEND_MIDDLE, Eh::empty(), 0),
            (Opcode::UD_SEND_ONLY, Eh::DETH, 8),
            (Opcode::UD_SEND_ONLY_IMM, Eh::DETH | Eh::IMM_DT, 12),
            (Opcode::CNP, Eh::empty(), 0),
        ] {
            assert_eq!(opcode.headers(), headers, "{opcode}");
            assert_eq!(opcode.headers().length(), length, "{opcode}");
        }
    }

    #[test]
    fn place_in_the_message() {
        for opcode in Opcode::ALL
            .iter()
            .filter(|opcode| opcode.class() != Class::Cnp)
        {
            let name = opcode.name();
            let part = |word| name.contains(word);
            assert_eq!(
                opcode.starts_message(),
                !part("_MIDDLE") && !part("_LAST"),
                "{name}"
            );
            assert_eq!(
                opcode.ends_message(),
                !part("_MIDDLE") && !part("_FIRST"),
                "{name}"
            );
            assert_eq!(
                opcode.is_response(),
                part("RESPONSE") || part("ACKNOWLEDGE"),
                "{name}"
            );
            let moves_data = part("SEND") || (part("WRITE") || part("RESPONSE"));
            assert_eq!(opcode.has_payload(), moves_data, "{name}");
        }
    }
}
