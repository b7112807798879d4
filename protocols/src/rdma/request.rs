//! Requests of the application, as the transport sees them: what to send, and where to put what
//! comes.

use super::attributes::Mtu;
use super::status::Status;

/// What a send request does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Operation {
    /// Sends bytes into the peer's next receive.
    #[default]
    Send,
    /// The same, with 32 bits for the completion.
    SendImmediate,
    /// The same, and takes a key of the peer's away.
    SendInvalidate,
    /// Writes bytes into memory of the peer.
    Write,
    /// The same, and completes the peer's next receive with 32 bits.
    WriteImmediate,
    /// Reads memory of the peer.
    Read,
    /// Replaces 64 bits of the peer's memory if they are what they must be; fetches what was there.
    CompareSwap,
    /// Adds to 64 bits of the peer's memory; fetches what was there.
    FetchAdd,
}

impl Operation {
    /// Whether the peer answers with data: reads and atomics.
    pub const fn is_fetch(self) -> bool {
        matches!(self, Self::Read | Self::CompareSwap | Self::FetchAdd)
    }

    /// Whether it is an atomic.
    pub const fn is_atomic(self) -> bool {
        matches!(self, Self::CompareSwap | Self::FetchAdd)
    }

    /// Whether it writes memory of the peer with bytes of the request.
    pub const fn is_write(self) -> bool {
        matches!(self, Self::Write | Self::WriteImmediate)
    }

    /// Whether it carries the bytes of the request to the peer.
    pub const fn carries_payload(self) -> bool {
        !self.is_fetch()
    }
}

/// A send request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Request {
    /// What it does.
    pub operation: Operation,
    /// It begins only after all reads and atomics before it are done.
    pub fence: bool,
    /// The peer's completion shall raise an event.
    pub solicited: bool,
    /// Bytes of all its pieces; 8 for an atomic.
    pub length: u32,
    /// Address in the peer's memory.
    pub address: u64,
    /// Key of the peer's region.
    pub key: u32,
    /// The immediate, or the key to take away.
    pub immediate: u32,
    /// Of an atomic: what is added, or what replaces.
    pub value: u64,
    /// Of an atomic: what must be there for a replacement.
    pub compare: u64,
    /// Of a datagram: the peer's queue pair.
    pub destination_qp: u32,
    /// Of a datagram: the peer's key.
    pub qkey: u32,
    /// Numbers that the request takes in its queue, beyond the first.
    pub more_slots: u32,
}

impl Request {
    /// Sequence numbers that the request takes.
    pub const fn packets(&self, mtu: Mtu) -> u32 {
        if self.operation.is_atomic() {
            1
        } else {
            mtu.packets(self.length)
        }
    }
}

/// The send requests of a queue pair, by their numbers: each has the number behind the one before
/// and its further slots.
pub trait Requests {
    /// Request `index`, if it was posted. A request does not change until it is completed.
    ///
    /// # Errors
    /// Why it can never be sent: it is not well formed, or names memory that it may not.
    fn request(&self, index: u64) -> Option<Result<Request, Status>>;
}

/// A posted receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct PostedReceive {
    /// Its number, for whoever places the bytes.
    pub index: u64,
    /// Bytes that its pieces hold.
    pub capacity: u32,
    /// Whether all of them may be written by this queue pair.
    pub may_use: bool,
}

/// The receives of a queue pair: its own, or those of a queue that it shares.
pub trait Receives {
    /// Takes the next one, if there is one.
    fn take_receive(&mut self) -> Option<PostedReceive>;

    /// One that was taken and is not complete, as it is now: its memory may have been released
    /// since.
    fn taken_receive(&self, index: u64) -> PostedReceive;
}
