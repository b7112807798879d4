//! The host's hand: makes the system calls that device code asks for.

use std::io;
use std::sync::Arc;

use warpwire_gpu::Service;

use super::{Queue, Sockets, Tally};

/// Watches the kick words of all queues of a NIC.
#[derive(Debug)]
pub(super) struct Proxy {
    name: String,
    sockets: Arc<Sockets>,
    seen: Vec<Seen>,
    idle: u32,
}

/// What was last seen of one queue.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    receive: u64,
    transmit: u64,
    /// The last call left descriptors behind.
    backlog: bool,
}

impl Proxy {
    pub(super) fn new(name: String, sockets: Arc<Sockets>) -> Self {
        let seen = vec![Seen::default(); sockets.queues.len()];
        Self {
            name,
            sockets,
            seen,
            idle: 0,
        }
    }
}

impl Service for Proxy {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&mut self, budget: u32) -> u32 {
        let mut work = 0;
        for (queue, seen) in self.sockets.queues.iter().zip(&mut self.seen) {
            // pairs with: RxQueue::release and TxQueue::ring, which store the words.
            let receive = self.sockets.word(queue.kick_receive);
            if receive != seen.receive {
                seen.receive = receive;
                Tally::add(&queue.tally.requests);
                Tally::add(&queue.tally.calls);
                // A refusal means that the driver looks at the ring already, or is down.
                let _ = queue.socket.kick_receive();
                work += 1;
            }
            let transmit = self.sockets.word(queue.kick_transmit);
            let asked = transmit != seen.transmit;
            if asked {
                seen.transmit = transmit;
                Tally::add(&queue.tally.requests);
            }
            if asked || seen.backlog {
                work += send(queue, seen, budget.saturating_sub(work).max(1));
            }
        }
        self.idle = if work == 0 { self.idle + 1 } else { 0 };
        if self.idle >= RESCUE_AFTER {
            self.idle = 0;
            return self.rescue();
        }
        work
    }
}

impl Proxy {
    /// The order between "published, then read the flag" of the device and "set the flag, then read
    /// the ring" of the kernel is not airtight: once in a while, look whether both sides wait.
    fn rescue(&mut self) -> u32 {
        let mut work = 0;
        for (queue, seen) in self.sockets.queues.iter().zip(&mut self.seen) {
            if queue.socket.transmit_backlog() != 0 && queue.socket.wants_transmit_kick() {
                Tally::add(&queue.tally.rescues);
                work += send(queue, seen, 1);
            }
        }
        work
    }
}

impl Drop for Proxy {
    /// What was asked for before the end still leaves: it may be the answer that a peer waits for.
    fn drop(&mut self) {
        self.run(u32::MAX);
    }
}

/// Calls until the transmit ring is empty, the kernel is busy, or `budget` descriptors were sent.
fn send(queue: &Queue, seen: &mut Seen, budget: u32) -> u32 {
    let (socket, mut work) = (&queue.socket, 0);
    loop {
        let before = socket.transmit_backlog();
        Tally::add(&queue.tally.calls);
        let result = socket.kick_transmit();
        let after = socket.transmit_backlog();
        let sent = before.saturating_sub(after);
        work += sent.max(1);
        seen.backlog = after != 0 && socket.wants_transmit_kick();
        let again = match &result {
            Ok(()) => true,
            Err(error) => error.kind() == io::ErrorKind::WouldBlock,
        };
        if !again || sent == 0 {
            if seen.backlog {
                Tally::add(&queue.tally.busy);
            }
            return work;
        }
        if !seen.backlog || work >= budget {
            return work;
        }
    }
}

/// Idle rounds before a look whether both sides wait for each other.
const RESCUE_AFTER: u32 = 1024;
