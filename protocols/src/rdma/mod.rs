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
//! Invariant: a key, its rights and its bounds are checked before memory is named in a
//! [`Delivery`] or a [`Payload`], each time anew.
//! Invariant: a completion is told after the bytes that it is about, and an answer is sent after
//! the request was carried out.
//! Invariant: an atomic is carried out once, however often it arrives.

mod answers;
mod attributes;
mod carry_out;
mod datagram;
mod fetch;
mod forms;
mod packet;
mod queue_pair;
mod rate;
mod regions;
mod request;
mod requester;
mod responder;
mod status;

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
