//! memif 2.0: rings and buffers in memory that two processes share.
//!
//! The *client* owns the memory: rings and buffers lie in its regions. Two kinds of ring link the
//! sides:
//!
//! ```text
//!                    client → server                      server → client
//!  head moved by     client: frames sent                  client: empty buffers offered
//!  tail moved by     server: frames taken                 server: frames sent
//! ```
//!
//! So each half of each ring is a type of its own: [`ClientTx`] and [`ServerRx`] meet on the first
//! kind, [`ServerTx`] and [`ClientRx`] on the second. Both indices are 16 bits wide, run free, and
//! lie beside other words, so they are loaded and stored as 16 bits and never wider.
//!
//! Trust: the client knows its own buffers from a private table and reads only flags and length
//! that the server wrote. The server takes nothing on trust: a descriptor's region, offset and
//! length are checked against the table of mapped regions on each use.

mod client;
mod layout;
mod plan;
mod ring;
mod server;
#[cfg(test)]
mod tests;

pub use client::{ClientRx, ClientTx};
pub use layout::{
    CLIENT_LAYOUT, COOKIE, ClientBody, Descriptor, DescriptorFlags, MAX_DEPTH, RingFlags,
    RingHeader, SERVER_LAYOUT, ServerBody, ring_bytes,
};
pub use plan::{FIRST, RegionPlan, RingKind, server_rx_cursor, server_tx_cursor};
pub use server::{ServerRx, ServerTx};

use crate::block::{Format, QueueBlock};

/// Which side of the connection a queue belongs to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u32)]
pub enum Role {
    /// Owns rings and buffers.
    Client = 1,
    /// Works on the client's rings and buffers.
    Server = 2,
}

impl Role {
    /// The role that a memif queue's block was made for; `None` for another format or an unknown
    /// layout.
    pub fn of(block: &QueueBlock) -> Option<Self> {
        let memif = block.format == Format::Memif as u32;
        match block.layout {
            CLIENT_LAYOUT if memif => Some(Self::Client),
            SERVER_LAYOUT if memif => Some(Self::Server),
            _ => None,
        }
    }
}
