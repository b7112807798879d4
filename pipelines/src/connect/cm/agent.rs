//! The thread of a manager: what comes to queue pair 1, answers, repetitions and clocks.

use std::collections::{HashMap, VecDeque};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use warpwire_protocols::cm::{Asked, Connection, Event, Handle, Settings, Table, Transmit};
use warpwire_protocols::wire::cm::ServiceId;
use warpwire_protocols::wire::cm::rej::Reason;

use super::datagrams::Question;
use super::hops::Hops;
use super::post::Post;
use crate::messaging::{Error, Place};

/// What a user wants done, on the thread.
pub(super) type Task = Box<dyn for<'a> FnOnce(&mut Core<'a>) + Send>;

/// Whoever asked for a connection, and how to hear of it.
pub(super) struct Asking {
    pub(super) handle: Handle,
    pub(super) asked: Box<Asked>,
    pub(super) events: Receiver<Event>,
}

/// The state of the thread.
pub(super) struct Core<'a> {
    pub(super) table: Table<'a>,
    pub(super) users: HashMap<Handle, Sender<Event>>,
    pub(super) listeners: HashMap<u64, Sender<Asking>>,
    /// Who listens for questions about datagram services.
    pub(super) services: HashMap<u64, Sender<Question>>,
    started: Instant,
    post: Post,
    place: Place,
    hops: Hops,
    outbox: VecDeque<Outgoing>,
    /// When the table's clocks want to be looked at.
    timeout_ns: Option<u64>,
}

/// A datagram that waits for its next hop, or for room.
struct Outgoing {
    transmit: Box<Transmit>,
    since: Instant,
}

/// Runs until nobody can want anything any more.
pub(super) fn run(post: Post, place: Place, settings: Settings, tasks: &Receiver<Task>) {
    let mut slots = vec![Connection::FREE; CONNECTIONS];
    let mut services = [None; SERVICES];
    let mut core = Core {
        table: Table::new(settings, &mut slots, &mut services),
        users: HashMap::new(),
        listeners: HashMap::new(),
        services: HashMap::new(),
        started: Instant::now(),
        post,
        place,
        hops: Hops::default(),
        outbox: VecDeque::new(),
        timeout_ns: None,
    };
    loop {
        let mut is_changed = true;
        match tasks.recv_timeout(PAUSE) {
            Ok(task) => task(&mut core),
            Err(RecvTimeoutError::Timeout) => is_changed = false,
            Err(RecvTimeoutError::Disconnected) => break,
        }
        while let Ok(task) = tasks.try_recv() {
            task(&mut core);
        }
        // Users see that the thread is gone.
        if core.turn(is_changed).is_err() {
            return;
        }
    }
    core.part();
}

impl Core<'_> {
    pub(super) fn now_ns(&self) -> u64 {
        self.started.elapsed().as_nanos() as u64
    }

    /// Looks at the queue and the clocks once.
    fn turn(&mut self, is_changed: bool) -> Result<(), Error> {
        let mut is_changed = is_changed;
        for _ in 0..BATCH {
            let Some(letter) = self.post.receive()? else {
                break;
            };
            is_changed = true;
            let now_ns = self.now_ns();
            let reaction = self
                .table
                .on_datagram(now_ns, letter.there, letter.here, &letter.bytes);
            if let Some(answer) = reaction.answer {
                self.put(answer);
            }
            if let Some((handle, event)) = reaction.event {
                self.tell(handle, event);
            }
        }
        let now_ns = self.now_ns();
        if self.timeout_ns.is_some_and(|at_ns| at_ns <= now_ns) {
            is_changed = true;
            while let Some((handle, event)) = self.table.on_timer(now_ns) {
                self.tell(handle, event);
            }
        }
        if is_changed {
            while self.outbox.len() < OUTBOX
                && let Some(transmit) = self.table.poll()
            {
                self.put(transmit);
            }
            self.timeout_ns = self.table.timeout_ns();
        }
        self.send()
    }

    /// Says what is left to be said.
    fn part(&mut self) {
        let until = Instant::now() + FAREWELL;
        while self.turn(true).is_ok() && Instant::now() < until {
            if self.outbox.is_empty() && self.post.is_idle() {
                break;
            }
            thread::sleep(PAUSE);
        }
        // What was sent is written; whoever carries it to the wire may need a moment more.
        thread::sleep(LAST);
    }

    /// Takes a datagram; peers repeat what is lost for want of room.
    fn put(&mut self, transmit: Transmit) {
        if self.outbox.len() < OUTBOX {
            self.outbox.push_back(Outgoing {
                transmit: Box::new(transmit),
                since: Instant::now(),
            });
        }
    }

    /// Sends what can be sent now.
    fn send(&mut self) -> Result<(), Error> {
        for _ in 0..self.outbox.len() {
            let Some(outgoing) = self.outbox.pop_front() else {
                break;
            };
            match self.hops.find(&self.place, outgoing.transmit.there) {
                Ok(Some(next_hop)) => {
                    if !self.post.send(&outgoing.transmit, next_hop)? {
                        self.outbox.push_front(outgoing);
                        break;
                    }
                }
                Ok(None) if outgoing.since.elapsed() < STALE => self.outbox.push_back(outgoing),
                // Nobody answers there, or there is no way: the clocks tell the user.
                Ok(None) | Err(_) => {}
            }
        }
        Ok(())
    }

    /// Tells a user, or whoever listens.
    fn tell(&mut self, handle: Handle, event: Event) {
        match event {
            Event::Asked(asked) => self.ring(handle, asked),
            Event::AskedDatagram(asked) => self.ring_datagram(handle, asked),
            event => {
                let is_last = matches!(event, Event::Ended(_) | Event::Resolved(_));
                let is_heard = self
                    .users
                    .get(&handle)
                    .is_some_and(|user| user.send(event).is_ok());
                if is_last || !is_heard {
                    self.users.remove(&handle);
                }
                if !is_last && !is_heard {
                    self.abandon(handle);
                }
            }
        }
    }

    /// Ends a connection in whose user is gone, wherever it stands.
    pub(super) fn abandon(&mut self, handle: Handle) {
        self.users.remove(&handle);
        let now_ns = self.now_ns();
        if self.table.disconnect(now_ns, handle, &[]).is_err() {
            let reason = Reason::CONSUMER;
            // What was only asked for ends by its clock, or comes here again when it is agreed to.
            let _ = self.table.reject(now_ns, handle, reason, &[]);
        }
    }

    /// Hands a request to the listener.
    fn ring(&mut self, handle: Handle, asked: Asked) {
        let (user, events) = std::sync::mpsc::channel();
        let ServiceId(service) = asked.service;
        let asking = Asking {
            handle,
            asked: Box::new(asked),
            events,
        };
        let listener = self.listeners.get(&service);
        if listener.is_some_and(|listener| listener.send(asking).is_ok()) {
            self.users.insert(handle, user);
            return;
        }
        let now_ns = self.now_ns();
        // Its place is free again either way.
        let _ = self
            .table
            .reject(now_ns, handle, Reason::INVALID_SERVICE_ID, &[]);
    }
}

/// Connections of a device, those that are over and linger included.
const CONNECTIONS: usize = 2048;
/// Services that are listened for at a time.
const SERVICES: usize = 64;
/// Datagrams that wait for a next hop, or for room.
const OUTBOX: usize = 64;
/// Datagrams that are taken before the clocks are looked at.
const BATCH: usize = 64;
/// How often the queue is looked at.
const PAUSE: Duration = Duration::from_millis(1);
/// How long a datagram waits for a next hop.
const STALE: Duration = Duration::from_secs(2);
/// How long a NIC's own service may take with what was sent last.
const LAST: Duration = Duration::from_millis(5);
/// How long the last datagrams may take.
const FAREWELL: Duration = Duration::from_millis(300);
