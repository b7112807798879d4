//! Messages of connection management: management datagrams between queue pairs 1. InfiniBand
//! Architecture Specification volume 1, section 12.6; their IP addresses: annex A11.
//!
//! A [`Datagram`] is a [`mad::Repr`] and a [`Message`] of 232 bytes. Every message ends with
//! private data that fills it; what its user does not fill is zero.

use super::mad;
use crate::DropReason;
use core::fmt;

/// Gives a message's `Repr` its `length` and `emit`, and asserts that it fills a datagram.
macro_rules! message_body {
    ($repr:ident, $header:ident) => {
        const _: () = assert!($header::LENGTH == crate::wire::mad::DATA_LENGTH);

        fixed_emit!($repr, $header);
    };
}

pub mod apr;
mod bits;
pub mod drep;
pub mod dreq;
mod identifiers;
pub mod ip;
pub mod lap;
pub mod mra;
pub mod path;
pub mod rej;
pub mod rep;
pub mod req;
pub mod rtu;
pub mod sidr_rep;
pub mod sidr_req;

pub use bits::Bits;
pub use identifiers::{CommId, DATAGRAM_QKEY, PortSpace, ServiceId};

/// The version of the class.
pub const CLASS_VERSION: u8 = 2;

/// Declares the messages, their attributes and names from one table.
macro_rules! messages {
    ($($variant:ident $module:ident $attribute:literal $name:literal $what:literal;)*) => {
        /// A message.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Message {
            $(#[doc = $what] $variant($module::Repr),)*
        }

        impl Message {
            /// What the header of its datagram calls it.
            pub const fn attribute(&self) -> u16 {
                match self { $(Self::$variant(_) => $attribute,)* }
            }

            /// Its name in the specification.
            pub const fn name(&self) -> &'static str {
                match self { $(Self::$variant(_) => $name,)* }
            }

            fn parse(attribute: u16, data: &[u8]) -> Result<Self, DropReason> {
                match attribute {
                    $($attribute => {
                        let (header, _) = $module::Header::split(data)?;
                        Ok(Self::$variant($module::Repr::parse(header)))
                    })*
                    _ => Err(DropReason::MadFormat),
                }
            }

            fn emit(&self, buffer: &mut [u8]) -> Result<usize, super::BufferTooShort> {
                match self { $(Self::$variant(repr) => repr.emit(buffer),)* }
            }
        }

        impl fmt::Display for Message {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(Self::$variant(repr) => write!(f, "{} {repr}", $name),)*
                }
            }
        }
    };
}

messages! {
    Req req 0x10 "REQ" "Asks for a connection.";
    Mra mra 0x11 "MRA" "The answer takes longer.";
    Rej rej 0x12 "REJ" "There will be no connection.";
    Rep rep 0x13 "REP" "Agrees to a connection.";
    Rtu rtu 0x14 "RTU" "The connection stands.";
    Dreq dreq 0x15 "DREQ" "Asks for the end of a connection.";
    Drep drep 0x16 "DREP" "Agrees to the end of a connection.";
    SidrReq sidr_req 0x17 "SIDR_REQ" "Asks for the queue pair of a datagram service.";
    SidrRep sidr_rep 0x18 "SIDR_REP" "Names the queue pair of a datagram service, or none.";
    Lap lap 0x19 "LAP" "Asks for another path.";
    Apr apr 0x1a "APR" "Answers about another path.";
}

/// A datagram of connection management.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram {
    /// The same in messages that belong together.
    pub transaction: u64,
    /// What it says.
    pub message: Message,
}

impl Datagram {
    /// Reads a datagram: the payload of a packet for queue pair 1.
    ///
    /// # Errors
    /// [`DropReason::MadLength`] if there are not just 256 bytes, [`DropReason::MadFormat`] if it
    /// is none of connection management.
    pub fn parse(bytes: &[u8]) -> Result<Self, DropReason> {
        if bytes.len() != mad::LENGTH {
            return Err(DropReason::MadLength);
        }
        let (header, data) = mad::Header::split(bytes)?;
        let header = mad::Repr::parse(header)?;
        let is_ours = header.class == mad::COMMUNICATION_MANAGEMENT
            && header.class_version == CLASS_VERSION
            && header.method == mad::SEND;
        if !is_ours {
            return Err(DropReason::MadFormat);
        }
        Ok(Self {
            transaction: header.transaction,
            message: Message::parse(header.attribute, data)?,
        })
    }

    /// Bytes that `emit` writes.
    pub const fn length(&self) -> usize {
        mad::LENGTH
    }

    /// Writes the datagram to the start of `buffer`; returns the bytes written.
    ///
    /// # Errors
    /// [`BufferTooShort`](super::BufferTooShort) if `buffer` cannot hold it.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, super::BufferTooShort> {
        let have = buffer.len();
        let need = mad::LENGTH;
        let Some((start, data)) = buffer
            .get_mut(..need)
            .and_then(|all| all.split_at_mut_checked(mad::Header::LENGTH))
        else {
            return Err(super::BufferTooShort { need, have });
        };
        let header = mad::Repr {
            class: mad::COMMUNICATION_MANAGEMENT,
            class_version: CLASS_VERSION,
            method: mad::SEND,
            status: 0,
            transaction: self.transaction,
            attribute: self.message.attribute(),
            modifier: 0,
        };
        header.emit(start)?;
        self.message.emit(data)?;
        Ok(need)
    }
}

impl fmt::Display for Datagram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} in {:#x}", self.message, self.transaction)
    }
}

#[cfg(test)]
mod tests;
