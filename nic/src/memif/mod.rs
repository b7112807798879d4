//! memif 2.0: shared-memory rings between two processes, as DPDK and VPP speak them.
//!
//! `memif:SOCKET[,role=client|server][,id=N][,queues=N][,depth=N][,buffer=BYTES][,secret=WORD]`
//! `[,name=WORD][,mac=ADDRESS][,wait_ms=N]`; a socket `@NAME` lies in the abstract name space.
//!
//! As client (the default) rings and buffers lie in our own sealed memory and frames can be passed
//! on without a copy. As server they lie in the client's, which must be sealed against shrinking.
//! Kernels poll the rings outright. The host keeps the control socket, and sends an interrupt only
//! to a peer that asks for it.
//!
//! A connection that ended stays readable and goes still; [`Memif::reconnect`] makes a new one with
//! new memory, so a kernel on the old queues is never disturbed.

mod channel;
mod client;
mod config;
mod link;
mod message;
#[cfg(feature = "oracles")]
pub mod oracle;
mod queues;
mod server;
mod system;
#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use warpwire_gpu::{Arena, Service};
use warpwire_ring::memif::Role;
use warpwire_ring::{DeviceAddress, Format, Location, RxCursor, Trigger, TxCursor};

use crate::caps::{Caps, Features};
use crate::counters::Counters;
use crate::error::Error;
use crate::memif::channel::Deadline;
use crate::memif::config::Config;
use crate::memif::link::{Link, Watchman};
use crate::memif::queues::{BuildError, Queues};
use crate::memif::system::Listener;
use crate::patience::Patience;
use crate::spec::NicSpec;
use crate::trouble::{Severity, Trouble};
use crate::{Nic, QueuePair};

/// Checks the options without touching the machine.
///
/// # Errors
/// [`Error::Spec`].
pub fn check(spec: &NicSpec) -> Result<(), Error> {
    Config::new(spec).map(|_| ())
}

/// A connected memif interface.
pub struct Memif {
    spec: NicSpec,
    config: Config,
    caps: Caps,
    queues: Queues,
    peer: String,
    link: Arc<Link>,
    service_given: bool,
    /// What earlier connections counted.
    before: Counters,
}

impl Memif {
    /// Opens the interface: as client waits for the server, as server for a client.
    ///
    /// # Errors
    /// [`Error::Spec`] for wrong words, [`Error::Deadline`] if nobody came within `wait_ms`,
    /// [`Error::Peer`] if the server refused or broke the protocol, [`Error::System`] and
    /// [`Error::Memory`] with the machine's reason.
    pub fn open(spec: &NicSpec) -> Result<Self, Error> {
        Self::open_within(spec, Patience::default())
    }

    /// [`Memif::open`], for as long as `patience` lasts.
    ///
    /// # Errors
    /// Those of [`Memif::open`], and [`Error::Stopped`].
    pub fn open_within(spec: &NicSpec, patience: Patience<'_>) -> Result<Self, Error> {
        let config = Config::new(spec)?;
        let link = Link::new(&config.nic);
        if config.role == Role::Server {
            let listener = Listener::bind(&config.address).map_err(|source| Error::System {
                nic: config.nic.clone(),
                action: "listening on the socket".to_owned(),
                source,
                cure: "use another path, or end the process that listens there".to_owned(),
            })?;
            link.keep_listener(listener);
        }
        let (queues, peer) = connect(&config, &link, patience)?;
        Ok(Self {
            spec: spec.clone(),
            caps: caps(&config, &queues),
            config,
            queues,
            peer,
            link,
            service_given: false,
            before: Counters::default(),
        })
    }

    /// Whether the peer is there. Looks now, so it also tells where no service runs.
    pub fn is_connected(&self) -> bool {
        self.link.look();
        self.link.cause().is_none()
    }

    /// Why the peer is gone; `None` while it is there.
    pub fn disconnect_cause(&self) -> Option<String> {
        self.link.look();
        self.link.cause()
    }

    /// A 64-bit word for kernels: 0 while the peer is there, then the number of
    /// [`warpwire_ring::Cause::Disconnected`]. Fit for the abort word of a wait.
    pub fn link_word(&self) -> DeviceAddress {
        self.queues.link
    }

    /// Ends the connection if it still stands and makes a new one, with new queues and memory:
    /// take [`Nic::queues`] again. The service goes on.
    ///
    /// # Errors
    /// As [`Memif::open`]; the interface then stays disconnected and can be tried again.
    pub fn reconnect(&mut self) -> Result<(), Error> {
        self.link.hang_up("reconnecting");
        let before = self.counters();
        let (queues, peer) = connect(&self.config, &self.link, Patience::default())?;
        self.before = before;
        self.caps = caps(&self.config, &queues);
        self.queues = queues;
        self.peer = peer;
        Ok(())
    }
}

impl Nic for Memif {
    fn spec(&self) -> &NicSpec {
        &self.spec
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn mac(&self) -> [u8; 6] {
        self.config.mac
    }

    fn queues(&self) -> &[QueuePair] {
        &self.queues.pairs
    }

    fn take_services(&mut self) -> Vec<Box<dyn Service>> {
        if std::mem::replace(&mut self.service_given, true) {
            return Vec::new();
        }
        vec![Box::new(Watchman(self.link.clone()))]
    }

    /// Frames and bytes are those of the cursors that kernels saved.
    fn counters(&self) -> Counters {
        let counts = self.link.counts();
        let mut total = Counters {
            rx_frames: self.before.rx_frames,
            rx_bytes: self.before.rx_bytes,
            tx_frames: self.before.tx_frames,
            tx_bytes: self.before.tx_bytes,
            kicks: counts.kicks,
            drops: vec![("peer gone", counts.peer_gone)],
            other: Vec::new(),
        };
        let mut faults = earlier(&self.before, "faults");
        let mut too_long = earlier(&self.before, "too long");
        let mut ring_full = earlier(&self.before, "ring full");
        let word = |cursor: DeviceAddress, offset: usize| {
            let word = self.queues.private.word(cursor.offset(offset as u64));
            word.map_or(0, |word| word.load(std::sync::atomic::Ordering::Relaxed))
        };
        for pair in &self.queues.pairs {
            let (rx, tx) = (pair.receive.cursor, pair.transmit.cursor);
            total.rx_frames += word(rx, core::mem::offset_of!(RxCursor, frames));
            total.rx_bytes += word(rx, core::mem::offset_of!(RxCursor, bytes));
            total.tx_frames += word(tx, core::mem::offset_of!(TxCursor, frames));
            total.tx_bytes += word(tx, core::mem::offset_of!(TxCursor, bytes));
            faults += word(rx, core::mem::offset_of!(RxCursor, faults));
            faults += word(tx, core::mem::offset_of!(TxCursor, faults));
            too_long += word(rx, core::mem::offset_of!(RxCursor, too_long));
            ring_full += word(tx, core::mem::offset_of!(TxCursor, no_resource));
        }
        total.other = vec![
            ("faults", faults),
            ("too long", too_long),
            ("ring full", ring_full),
            ("in flight", self.link.untaken()),
            ("disconnects", counts.disconnects),
            ("refused clients", counts.refused),
        ];
        total
    }

    fn choices(&self) -> Vec<String> {
        let (ours, memory) = match self.config.role {
            Role::Client => (
                "client",
                "our own sealed memory, frames pass on without a copy",
            ),
            Role::Server => ("server", "the client's memory, frames are copied"),
        };
        let depth = self.caps.rx_depth;
        vec![
            format!(
                "memif 2.0 as {ours} of \"{}\", interface {}",
                self.peer, self.config.id
            ),
            format!("{} queues of {depth} slots in {memory}", self.caps.queues),
            "kernels poll the rings; the peer is interrupted only if it asks".to_owned(),
        ]
    }

    /// A peer that went away.
    fn troubles(&self) -> Vec<Trouble> {
        let gone = self.link.cause().map(|cause| Trouble {
            severity: Severity::Warning,
            error: Error::Unavailable {
                nic: self.config.nic.clone(),
                missing: format!("the peer is gone ({cause})"),
                cure: "start both again to go on".to_owned(),
            },
        });
        gone.into_iter().collect()
    }

    fn close(self: Box<Self>) -> Result<(), Error> {
        self.link.hang_up("closed");
        Ok(())
    }
}

impl fmt::Debug for Memif {
    /// Without the words it was opened with: they may hold a secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config, peer, .. } = self;
        write!(f, "{} as {:?} with {peer}", config.nic, config.role)
    }
}

impl Drop for Memif {
    fn drop(&mut self) {
        self.link.hang_up("closed");
        drop(self.link.take_listener());
    }
}

/// Makes a connection with new memory and has `link` watch it. Returns the queues and the peer's
/// name.
fn connect(
    config: &Config,
    link: &Link,
    patience: Patience<'_>,
) -> Result<(Queues, String), Error> {
    let deadline = Deadline::after(config.limit, patience);
    match config.role {
        Role::Client => connect_client(config, link, deadline),
        Role::Server => {
            let Some(listener) = link.take_listener() else {
                return Err(Error::Unavailable {
                    nic: config.nic.clone(),
                    missing: "the socket's listener is gone".to_owned(),
                    cure: "open the interface again".to_owned(),
                });
            };
            let result = connect_server(config, link, &listener, deadline);
            link.keep_listener(listener);
            result
        }
    }
}

fn connect_client(
    config: &Config,
    link: &Link,
    deadline: Deadline<'_>,
) -> Result<(Queues, String), Error> {
    let plan = config.plan();
    let region = Arena::shared(plan.bytes() as usize, Location::PageableHost)
        .map_err(|error| unbuilt(config, error.into()))?;
    let region = Arc::new(region);
    let queues = Queues::client(&plan, &region).map_err(|error| unbuilt(config, error))?;
    let Some(file) = region.file() else {
        return Err(Error::Unavailable {
            nic: config.nic.clone(),
            missing: "the region has no memory file".to_owned(),
            cure: "this is a fault of ours: please report it".to_owned(),
        });
    };
    let joined = client::join(config, &plan, file, deadline)?;
    queues
        .offer()
        .map_err(|cause| unbuilt(config, BuildError::Ring(cause)))?;
    link.connected(joined.channel, &queues, joined.to_server);
    Ok((queues, joined.peer))
}

fn connect_server(
    config: &Config,
    link: &Link,
    listener: &Listener,
    deadline: Deadline<'_>,
) -> Result<(Queues, String), Error> {
    let admitted = server::admit_one(listener, config, deadline)?;
    let (up, down) = (&admitted.to_server, &admitted.to_client);
    let queues = Queues::server(&admitted.regions, up, down, config.slot_bytes)
        .map_err(|error| unbuilt(config, error))?;
    let interrupts = admitted.to_client.into_iter().map(|ring| ring.interrupt);
    link.connected(admitted.channel, &queues, interrupts.collect());
    Ok((queues, admitted.peer))
}

fn unbuilt(config: &Config, error: BuildError) -> Error {
    let nic = config.nic.clone();
    match error {
        BuildError::Memory(source) => Error::Memory { nic, source },
        BuildError::Ring(cause) => Error::Peer {
            nic,
            problem: format!("its rings cannot be used: {cause}"),
        },
    }
}

fn caps(config: &Config, queues: &Queues) -> Caps {
    let depth = |block: fn(&QueuePair) -> u32| queues.pairs.iter().map(block).min().unwrap_or(0);
    let mut features = Features::RX_SEGMENTS | Features::TX_SEGMENTS;
    if config.role == Role::Client {
        features |= Features::ZERO_COPY_FORWARD;
    }
    let (rx_depth, tx_depth) = (
        depth(|pair| pair.receive.depth),
        depth(|pair| pair.transmit.depth),
    );
    let slots = rx_depth.min(tx_depth).min(MAX_FRAME_SLOTS);
    Caps {
        format: Format::Memif,
        queues: queues.pairs.len() as u32,
        rx_depth,
        tx_depth,
        slot_bytes: config.slot_bytes,
        max_frame_bytes: config.slot_bytes.saturating_mul(slots).min(MAX_FRAME_BYTES),
        trigger: Trigger::PolledIndex,
        features,
    }
}

fn earlier(counters: &Counters, name: &str) -> u64 {
    let found = counters.other.iter().find(|(known, _)| *known == name);
    found.map_or(0, |(_, count)| *count)
}

/// Slots of one frame: as many as a batch may span.
const MAX_FRAME_SLOTS: u32 = 64;

/// No IP packet with its Ethernet header is longer.
const MAX_FRAME_BYTES: u32 = 65_535 + 18;
