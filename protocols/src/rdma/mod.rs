//! The transport of RoCEv2: reliable and unreliable connections, and datagrams. InfiniBand
//! Architecture Specification volume 1, chapter 9; annex A17.
//!
//! A [`QueuePair`] is a value. It is given packets, requests and the time, and says what to send,
//! where bytes go, and what is complete; it never touches payload, clocks or randomness, and keeps
//! nothing but itself. Whoever runs it does these things in this order:
//!
//! 1. checks a packet's invariant CRC, partition and addresses, and reads it ([`Incoming::new`]);
//! 2. hands it to [`QueuePair::on_packet`], and places its bytes where the [`Delivery`] says;
//! 3. tells completions: the receive of the delivery, and all send requests before
//!    [`QueuePair::completed`];
//! 4. sends what [`QueuePair::poll`] gives, until it gives nothing;
//! 5. calls [`QueuePair::on_timer`] at [`QueuePair::timeout_ns`].
//!
//! # Selective repetition
//!
//! Two ends that agree on it ([`Attributes::selective`]) repeat only what was lost, as in
//! "Revisiting Network Support for RDMA" (Mittal et al., SIGCOMM 2018). All packets keep the forms
//! of the specification:
//!
//! - A write of several packets leaves as writes of one packet each, so that each can be placed
//!   where it belongs when it comes. The last one of a write with immediate has address and length
//!   of the whole message, of which its payload is the end.
//! - A write of more than 8 bytes without immediate is placed when it comes, once, if no more than
//!   [`SELECTIVE_WINDOW`] packets are under way. Everything else comes in its turn or is taken to
//!   be lost: sends, immediates, reads, atomics, and writes of 8 bytes or fewer, which are signals.
//!   What such a packet does is therefore seen after everything that was sent before it. Two longer
//!   writes to the same bytes have no order unless the first is complete when the second is posted.
//! - A packet after a gap is answered by the negative acknowledgement of a sequence error. Its
//!   sequence number is the missing one; its message sequence number tells what came, 16 packets at
//!   a time.
//! - The requester repeats what is missing before the last packet that came, once; again when a
//!   packet overtakes a repetition; and after some times the way to the peer and back it probes
//!   with the oldest packet, long before the timer of the specification runs out.
//!
//! Invariant: a key, its rights and its bounds are checked before memory is named in a
//! [`Delivery`] or a [`Payload`], each time anew.
//! Invariant: a completion is told after the bytes that it is about, and an answer is sent after
//! the request was carried out.
//! Invariant: an atomic is carried out once, however often it arrives.

mod answers;
mod arrived;
mod attributes;
mod carry_out;
mod datagram;
mod early;
mod fetch;
mod follow;
mod forms;
mod packet;
mod queue_pair;
mod rate;
mod regions;
mod request;
mod requester;
mod responder;
mod status;

pub use arrived::SELECTIVE_WINDOW;
pub use attributes::{
    Access, Attributes, MAX_MESSAGE, Mtu, Service, Start, State, longest_message,
};
pub use datagram::ROUTE_HEADER_BYTES;
pub use fetch::Fetch;
pub use packet::{EXTENDED_WORDS, Extended, HEADER_WORDS, Incoming, Outgoing, Payload};
pub use queue_pair::{Delivery, IllegalMove, QueuePair, Surroundings};
pub use rate::{Notifier, Rate, Tuning};
pub use regions::{Denial, Region, Regions, Wanted};
pub use request::{Operation, PostedReceive, Receives, Request, Requests};
pub use requester::{Fetched, Requester, Response};
pub use responder::{Fetches, Landing, Received, Responder, Taken};
pub use status::{Note, Status};
