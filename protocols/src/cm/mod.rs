//! Connection management: how queue pairs find each other by messages between queue pairs 1.
//! InfiniBand Architecture Specification volume 1, chapter 12; with IP addresses: annex A11.
//!
//! A [`Table`] lies over the caller's memory, one [`Connection`] a slot, and is a value: it is
//! given datagrams, wishes and the time, and says what to send and what happened. Whoever runs it:
//!
//! 1. hands it the payload of every datagram for queue pair 1 ([`Table::on_datagram`]), sends the
//!    answer and tells the event of the [`Reaction`];
//! 2. calls [`Table::on_timer`] at [`Table::timeout_ns`], until it gives no event;
//! 3. sends what [`Table::poll`] gives, until it gives nothing.
//!
//! Who asks: [`Table::connect`], [`Event::Agreed`], the queue pair is made ready to send,
//! [`Table::ready`]. Who is asked: [`Table::listen`], [`Event::Asked`], the queue pair is made
//! ready to receive, [`Table::accept`] or [`Table::reject`], [`Event::Established`]. Both:
//! [`Event::Ended`], just once, after which the handle means nothing any more.
//!
//! Invariant: every state but an established connection's ends by itself: at an answer, or when all
//! repetitions are through, or when the user has taken too long.
//! Invariant: a message changes a connection only if it comes from the address of its peer.
//! Invariant: a datagram is answered by one at most.

mod answer;
mod connection;
mod event;
mod table;
mod terms;

pub use connection::Connection;
pub use event::{Agreed, Asked, AskedDatagram, Cause, Event, Note, Reaction, Resolved, Transmit};
pub use table::{Handle, Misuse, Settings, Table};
pub use terms::{Ask, DatagramAnswer, DatagramAsk, Grant, Terms};
