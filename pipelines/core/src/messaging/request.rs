//! Requests: what a lane asks for, and how it stands in the send queue.

use warpwire_ring::Cause;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload, SendQueue};

/// Registered memory of the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Remote {
    /// First byte.
    pub address: u64,
    /// The peer's key.
    pub key: u32,
    /// Written as zero.
    pub reserved: u32,
}

impl Remote {
    /// Memory of the peer.
    pub const fn new(address: u64, key: u32) -> Self {
        Self {
            address,
            key,
            reserved: 0,
        }
    }

    /// The same region, `bytes` further on.
    #[inline(always)]
    #[must_use]
    pub const fn offset(self, bytes: u64) -> Self {
        Self {
            address: self.address.wrapping_add(bytes),
            ..self
        }
    }
}

/// What a signal does to its word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Update {
    /// Sets it.
    Set(u64),
    /// Adds to it, modulo 2^64.
    Add(u64),
}

/// A signal. See the module's text for what it says about puts before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// The word, aligned to 8 bytes.
    pub at: Remote,
    /// What becomes of it.
    pub update: Update,
}

impl Signal {
    /// The order that stands in the queue.
    #[inline(always)]
    const fn order(&self) -> Order {
        let (opcode, value) = match self.update {
            Update::Set(_) => (Opcode::WRITE, 0),
            Update::Add(value) => (Opcode::FETCH_ADD, value),
        };
        let mut order = to(opcode, self.at);
        order.value = value;
        order
    }
}

/// What a lane asks for.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The operation. Its `signal` says that a completion tells of it in any case; without it, it
    /// is complete as soon as one behind it is.
    pub order: Order,
    /// Its bytes.
    pub payload: Payload<'a>,
    /// What follows on the same queue pair, as one request with it.
    pub signal: Option<Signal>,
    /// A completion tells of it as its order says, and not besides when that is due to free slots:
    /// for who counts completions.
    pub is_exact: bool,
}

impl<'a> Request<'a> {
    /// An order with its bytes. Who posts such requests asks for completions himself.
    #[inline(always)]
    pub const fn new(order: Order, payload: Payload<'a>) -> Self {
        Self {
            order,
            payload,
            signal: None,
            is_exact: true,
        }
    }

    /// An order of a verb.
    #[inline(always)]
    const fn of(order: Order, payload: Payload<'a>) -> Self {
        Self {
            order,
            payload,
            signal: None,
            is_exact: false,
        }
    }

    /// Writes bytes into memory of the peer.
    #[inline(always)]
    pub const fn put(payload: Payload<'a>, remote: Remote) -> Self {
        Self::of(to(Opcode::WRITE, remote), payload)
    }

    /// Reads memory of the peer into pieces of one's own.
    #[inline(always)]
    pub const fn get(remote: Remote, pieces: &'a [Gather]) -> Self {
        Self::of(to(Opcode::READ, remote), Payload::Pieces(pieces))
    }

    /// Sends bytes into the peer's next receive, with 32 bits for its completion.
    #[inline(always)]
    pub const fn send(payload: Payload<'a>, immediate: Option<u32>) -> Self {
        let (opcode, word) = match immediate {
            Some(word) => (Opcode::SEND_IMM, word),
            None => (Opcode::SEND, 0),
        };
        let mut order = Order::new(opcode);
        order.signal = false;
        order.immediate = word;
        Self::of(order, payload)
    }

    /// Adds to an aligned word of the peer's; what was there goes into eight bytes of one's own.
    #[inline(always)]
    pub const fn fetch_add(remote: Remote, value: u64, found: &'a [Gather]) -> Self {
        let mut order = to(Opcode::FETCH_ADD, remote);
        order.value = value;
        Self::of(order, Payload::Pieces(found))
    }

    /// Replaces an aligned word of the peer's by `value` if it is `compare`; what was there goes
    /// into eight bytes of one's own.
    #[inline(always)]
    pub const fn compare_swap(
        remote: Remote,
        compare: u64,
        value: u64,
        found: &'a [Gather],
    ) -> Self {
        let mut order = to(Opcode::COMPARE_SWAP, remote);
        order.compare = compare;
        order.value = value;
        Self::of(order, Payload::Pieces(found))
    }

    /// Then signals.
    #[inline(always)]
    #[must_use]
    pub const fn then(self, signal: Signal) -> Self {
        Self {
            signal: Some(signal),
            ..self
        }
    }

    /// A completion tells of it in any case.
    #[inline(always)]
    #[must_use]
    pub const fn tracked(mut self) -> Self {
        self.order.signal = true;
        self
    }

    /// Slots that it takes.
    ///
    /// # Errors
    /// [`Cause::LocalLength`] if it has more pieces or inline bytes than a request can.
    #[inline(always)]
    pub(super) fn slots(&self) -> Result<u32, Cause> {
        let slots = SendQueue::slots(&self.order, &self.payload)?;
        Ok(slots
            + if self.signal.is_some() {
                SIGNAL_SLOTS
            } else {
                0
            })
    }

    /// Writes it into the slots from `at` on, which are free. `fenced` and `tracked` are what the
    /// queue asks for besides.
    #[inline(always)]
    pub(super) fn write(
        &self,
        queue: &SendQueue,
        at: u64,
        fenced: bool,
        tracked: bool,
        scratch: &[Gather],
    ) -> Result<(), Cause> {
        let mut order = self.order;
        order.fence |= fenced;
        order.signal = tracked && self.signal.is_none();
        queue.write_at(at, &order, self.payload)?;
        let Some(signal) = self.signal else {
            return Ok(());
        };
        let slots = SendQueue::slots(&self.order, &self.payload)?;
        let at = at.wrapping_add(u64::from(slots));
        let mut order = signal.order();
        order.signal = tracked;
        match signal.update {
            // In the byte order of who waits for it, which is that of all machines that this runs
            // on.
            Update::Set(value) => queue.write_at(at, &order, Payload::Inline(&value.to_le_bytes())),
            Update::Add(_) => queue.write_at(at, &order, Payload::Pieces(scratch)),
        }
    }
}

/// An order without flags that names memory of the peer.
#[inline(always)]
const fn to(opcode: Opcode, remote: Remote) -> Order {
    let mut order = Order::new(opcode);
    order.signal = false;
    order.address = remote.address;
    order.key = remote.key;
    order
}

/// Slots of a signal: control, address, and operands or eight bytes inline, and a piece.
pub(super) const SIGNAL_SLOTS: u32 = 1;
