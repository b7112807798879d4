//! How an endpoint of streams over messages is made.

use std::time::Duration;

use warpwire_protocols::stream::credits::{Inbox, Terms};

use crate::messaging::EndpointConfig;
use crate::streaming::error::Error;

/// How an endpoint of streams over messages is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RdmaConfig {
    /// Streams at a time, those that linger after their end included. Each has a queue pair, two
    /// regions and two rings.
    pub connections: u32,
    /// Bytes of each of the two rings of a stream; a power of two.
    pub ring_bytes: u32,
    /// Messages that tell of data and that a peer may have under way to a stream, at most 63. The
    /// receive queues of the endpoint of messages must have [`RdmaConfig::receives`] slots.
    pub words: u32,
    /// Addresses that can be listened at.
    pub listeners: u32,
    /// Messages that a stream sends before the next one may.
    pub share: u32,
    /// How long two ends may take to agree.
    pub handshake: Duration,
    /// How long a stream that was dropped waits until its peer took what was written.
    pub orphan: Duration,
    /// How long a queue pair stays after the end of its stream, so that the peer's last message is
    /// acknowledged even if it is lost first.
    pub linger: Duration,
}

impl Default for RdmaConfig {
    fn default() -> Self {
        Self {
            connections: 64,
            ring_bytes: 1 << 18,
            words: 32,
            listeners: 8,
            share: 16,
            handshake: Duration::from_secs(5),
            orphan: Duration::from_secs(60),
            linger: Duration::from_secs(1),
        }
    }
}

impl RdmaConfig {
    /// Receives that a stream has posted, if its peer has rings and words like its own; a peer with
    /// others may need up to 64 more than [`RdmaConfig::words`].
    pub const fn receives(&self) -> u32 {
        let inbox = Inbox {
            bytes: self.ring_bytes,
            words: self.words,
        };
        let terms = Terms {
            send_bytes: self.ring_bytes,
            own: inbox,
            peer: inbox,
            write_bytes: 1,
        };
        terms.receives()
    }

    /// An endpoint of messages that has what these streams need. `chance` decides where numbers of
    /// queue pairs begin.
    pub fn endpoint(&self, chance: u32) -> EndpointConfig {
        // Peers may have other rings and words.
        let receives = self.receives().saturating_add(64).next_power_of_two();
        let pairs = self.connections.max(1).next_power_of_two();
        EndpointConfig {
            pairs,
            regions: self.connections.saturating_mul(2).saturating_add(2),
            // A peer may remember numbers of who was here before.
            first_number: 0x01_0000 | chance & 0x00ff_0000,
            log_send: 7,
            log_receive: receives.ilog2(),
            log_stride: 0,
            ..EndpointConfig::default()
        }
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        let settings = [
            ("connections", self.connections, 1, 1 << 13, false),
            ("ring_bytes", self.ring_bytes, 1 << 10, 1 << 30, true),
            ("words", self.words, 1, 63, false),
            ("listeners", self.listeners, 0, 1 << 10, false),
            ("share", self.share, 1, 1 << 16, false),
        ];
        for (field, value, least, most, is_power) in settings {
            if !(least..=most).contains(&value) || is_power && !value.is_power_of_two() {
                return Err(Error::Setting {
                    field,
                    value: u64::from(value),
                    must: match field {
                        "connections" => "1 to 8192",
                        "ring_bytes" => "a power of two, 1024 to 2^30",
                        "words" => "1 to 63",
                        "listeners" => "at most 1024",
                        _ => "1 to 65536",
                    },
                });
            }
        }
        Ok(())
    }
}
