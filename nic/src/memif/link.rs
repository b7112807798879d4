//! The host's part while kernels run: interrupts for a peer that asks for them, and the peer's
//! death.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use warpwire_gpu::{Arena, Service};
use warpwire_ring::{Cause, DeviceAddress};

use crate::memif::channel::Channel;
use crate::memif::message::Message;
use crate::memif::queues::{Queues, Watch};
use crate::memif::system::Listener;

/// A connection as the host watches it; shared by the NIC and its service.
#[derive(Debug)]
pub(super) struct Link {
    state: Mutex<State>,
    nic: String,
}

/// What was counted about connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct LinkCounts {
    /// Interrupts that were sent: one system call each.
    pub(super) kicks: u64,
    /// Connections that ended from the other side.
    pub(super) disconnects: u64,
    /// Clients that were sent away because one is connected.
    pub(super) refused: u64,
    /// Frames that a peer which went away had not taken.
    pub(super) peer_gone: u64,
}

#[derive(Debug, Default)]
struct State {
    channel: Option<Channel>,
    listener: Option<Listener>,
    doors: Vec<Door>,
    /// The word that says whether the peer is there, and the memory that it lies in.
    link: Option<(Arc<Arena>, DeviceAddress)>,
    counts: LinkCounts,
    looked: Option<Instant>,
    /// Why the peer is gone.
    cause: Option<String>,
}

/// A transmit ring, the peer's interrupt for it, and what was already told.
#[derive(Debug)]
struct Door {
    watch: Watch,
    interrupt: File,
    kick: u64,
    told: u16,
}

impl Door {
    fn knock(&mut self) -> u64 {
        self.told = self.watch.published();
        // A full counter means that the peer is still to wake: nothing is lost.
        let _ = self.interrupt.write_all(&1_u64.to_ne_bytes());
        1
    }
}

impl Link {
    pub(super) fn new(nic: &str) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            nic: nic.to_owned(),
        })
    }

    /// Takes a fresh connection over.
    pub(super) fn connected(&self, channel: Channel, queues: &Queues, interrupts: Vec<File>) {
        let mut state = self.state();
        state.doors = queues
            .watches
            .iter()
            .zip(interrupts)
            .map(|(watch, interrupt)| Door {
                watch: *watch,
                interrupt,
                kick: watch.kick(),
                told: watch.published(),
            })
            .collect();
        state.link = Some((queues.private.clone(), queues.link));
        state.channel = Some(channel);
        state.cause = None;
    }

    /// Keeps a server's listener, to send other clients away and to be used again.
    pub(super) fn keep_listener(&self, listener: Listener) {
        self.state().listener = Some(listener);
    }

    pub(super) fn take_listener(&self) -> Option<Listener> {
        self.state().listener.take()
    }

    /// Looks for a word from the peer, whatever the time since the last look.
    pub(super) fn look(&self) {
        self.state().look();
    }

    pub(super) fn counts(&self) -> LinkCounts {
        self.state().counts
    }

    /// Frames that are published and not taken yet.
    pub(super) fn untaken(&self) -> u64 {
        let state = self.state();
        match state.channel {
            Some(_) => state.doors.iter().map(|door| door.watch.untaken()).sum(),
            None => 0,
        }
    }

    /// Why the peer is gone; `None` while it is there.
    pub(super) fn cause(&self) -> Option<String> {
        let state = self.state();
        match (&state.channel, &state.cause) {
            (Some(_), _) => None,
            (None, Some(cause)) => Some(cause.clone()),
            (None, None) => Some("closed by us".to_owned()),
        }
    }

    /// Says good-bye. The memory stays until whoever uses it lets go.
    pub(super) fn hang_up(&self, reason: &str) {
        let mut state = self.state();
        if let Some(channel) = state.channel.take() {
            channel.disconnect(reason);
            state.mark_gone();
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Interrupts whoever asked for it. Returns how many.
    fn knock(&mut self) -> u64 {
        let mut knocks = 0;
        for door in &mut self.doors {
            let kick = door.watch.kick();
            if kick != door.kick {
                door.kick = kick;
                knocks += door.knock();
            }
        }
        self.counts.kicks += knocks;
        knocks
    }

    fn look(&mut self) -> u64 {
        self.looked = Some(Instant::now());
        let Some(channel) = &self.channel else {
            return 0;
        };
        let ended = match channel.poll("news") {
            Ok(None) => None,
            Ok(Some((Message::Disconnect { code, reason }, _))) => {
                Some(channel.dismissed(code, &reason, "news"))
            }
            Ok(Some((message, _))) => Some(channel.unexpected(&message, "nothing")),
            Err(error) => Some(error),
        };
        if let Some(error) = ended {
            self.cause = Some(error.to_string());
            self.counts.disconnects += 1;
            self.channel = None;
            self.mark_gone();
            return 1;
        }
        self.send_others_away();
        self.knock_if_missed()
    }

    /// A peer that unmasked its interrupts just after the kernel looked.
    fn knock_if_missed(&mut self) -> u64 {
        let mut knocks = 0;
        for door in &mut self.doors {
            if door.told != door.watch.published() && !door.watch.masked() {
                knocks += door.knock();
            }
        }
        self.counts.kicks += knocks;
        knocks
    }

    fn send_others_away(&mut self) {
        let accepted = self.listener.as_ref().map(Listener::accept);
        if let Some(Ok(Some(socket))) = accepted {
            Channel::new(socket, "").disconnect("the interface has a client already");
            self.counts.refused += 1;
        }
    }

    fn mark_gone(&mut self) {
        let untaken = self.doors.iter().map(|door| door.watch.untaken());
        self.counts.peer_gone += untaken.sum::<u64>();
        self.doors.clear();
        if let Some((arena, address)) = self.link.take()
            && let Ok(word) = arena.word(address)
        {
            // pairs with: the acquire of whoever waits on the link
            word.store(Cause::Disconnected as u64, Ordering::Release);
        }
    }
}

/// The NIC's service: cheap while nothing happens, a system call or two a millisecond.
#[derive(Debug)]
pub(super) struct Watchman(pub(super) Arc<Link>);

impl Service for Watchman {
    fn name(&self) -> &str {
        &self.0.nic
    }

    fn run(&mut self, _budget: u32) -> u32 {
        let mut state = self.0.state();
        let mut done = state.knock();
        let due = state
            .looked
            .is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
        if due {
            done += state.look();
        }
        done as u32
    }
}

const LOOK_EVERY: Duration = Duration::from_millis(1);
