//! A conversation by messages of a queue pair: what perftest says with `-R`.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

use super::Connection;
use crate::connect::{Channel, Error};
use crate::messaging::{Completed, Device, Pair, Work};

/// A queue pair whose messages are words of a [`Channel`]. The steps together have a span of time;
/// [`Channel::extend`] begins the next span.
pub struct Messages<'a> {
    device: &'a Device,
    pair: Pair,
    /// Where its memory begins, in the device's.
    at: u64,
    /// The number of the first receive.
    first: u64,
    connection: Option<Connection>,
    peer: String,
    limit: Duration,
    deadline: Instant,
    arrived: VecDeque<Vec<u8>>,
    is_sending: bool,
}

impl<'a> Messages<'a> {
    /// Bytes of a device's memory that it needs.
    pub const BYTES: u64 = SLOT * (RECEIVES + 1);

    /// Posts receives on a queue pair in its first state, with memory from byte `at` of the
    /// device's on. Then the queue pair is to be connected.
    ///
    /// # Errors
    /// [`Error::Messaging`].
    pub fn new(device: &'a Device, pair: Pair, at: u64, limit: Duration) -> Result<Self, Error> {
        let mut messages = Self {
            device,
            pair,
            at,
            first: 0,
            connection: None,
            peer: String::new(),
            limit,
            deadline: Instant::now() + limit,
            arrived: VecDeque::new(),
            is_sending: false,
        };
        for slot in 0..RECEIVES {
            let index = messages.post(slot)?;
            messages.first = index - slot;
        }
        Ok(messages)
    }

    /// The queue pair, to be connected.
    pub fn pair(&mut self) -> &mut Pair {
        &mut self.pair
    }

    /// It is connected.
    pub fn connected(&mut self, connection: Connection) {
        connection.peer().clone_into(&mut self.peer);
        self.connection = Some(connection);
    }

    /// The connection, to be ended; nothing can be said any more.
    pub fn into_connection(self) -> Option<Connection> {
        self.connection
    }

    fn piece(&self, slot: u64, length: u32) -> Gather {
        self.device.region().gather(self.at + slot * SLOT, length)
    }

    fn post(&mut self, slot: u64) -> Result<u64, Error> {
        let piece = self.piece(slot, SLOT as u32);
        Ok(self.pair.receive(&[piece])?)
    }

    /// Takes completions until `is_enough` says so.
    fn until(
        &mut self,
        step: &'static str,
        is_enough: impl Fn(&Self) -> bool,
    ) -> Result<(), Error> {
        while !is_enough(self) {
            match self.pair.poll() {
                Some(Completed::Sent { .. }) => self.is_sending = false,
                Some(Completed::Received(message)) => {
                    let slot = message.index.wrapping_sub(self.first) % RECEIVES;
                    let mut bytes = vec![0; message.length.min(SLOT as u32) as usize];
                    self.device.read(self.at + slot * SLOT, &mut bytes)?;
                    self.arrived.push_back(bytes);
                    self.post(slot)?;
                }
                Some(
                    Completed::SendFailed { cause, .. } | Completed::ReceiveFailed { cause, .. },
                ) => {
                    return Err(Error::Broken {
                        peer: self.peer.clone(),
                        step,
                        source: std::io::Error::other(cause.to_string()),
                    });
                }
                None => self.rest(step)?,
            }
        }
        Ok(())
    }

    /// Nothing has come: gives way, unless it is too late or the peer has left.
    fn rest(&mut self, step: &'static str) -> Result<(), Error> {
        if let Some(connection) = &mut self.connection
            && let Some(cause) = connection.ended()
        {
            return Err(connection.over(cause));
        }
        if Instant::now() >= self.deadline {
            return Err(Error::Late {
                peer: self.peer.clone(),
                step,
                waited: self.limit,
            });
        }
        std::thread::sleep(PAUSE);
        Ok(())
    }
}

impl Channel for Messages<'_> {
    fn peer(&self) -> &str {
        &self.peer
    }

    fn extend(&mut self, limit: Duration) {
        self.limit = limit;
        self.deadline = Instant::now() + limit;
    }

    fn send(&mut self, step: &'static str, bytes: &[u8]) -> Result<(), Error> {
        self.until(step, |messages| !messages.is_sending)?;
        let own = RECEIVES;
        self.device.write(self.at + own * SLOT, bytes)?;
        let piece = [self.piece(own, bytes.len() as u32)];
        let work = Work {
            order: Order::new(Opcode::SEND),
            payload: Payload::Pieces(&piece),
        };
        self.pair.post(&[work])?;
        self.is_sending = true;
        self.until(step, |messages| !messages.is_sending)
    }

    /// A message is taken whole.
    fn receive(&mut self, step: &'static str, room: &mut [u8]) -> Result<(), Error> {
        self.until(step, |messages| !messages.arrived.is_empty())?;
        let bytes = self.arrived.pop_front().unwrap_or_default();
        if bytes.len() != room.len() {
            let (have, want) = (bytes.len(), room.len());
            return Err(self.wrong(step, format!("{have} bytes, not {want}")));
        }
        room.copy_from_slice(&bytes);
        Ok(())
    }
}

/// Bytes of a message at most.
const SLOT: u64 = 256;
/// Receives that are posted.
const RECEIVES: u64 = 8;
/// How often completions are looked for.
const PAUSE: Duration = Duration::from_micros(50);
