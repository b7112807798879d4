//! AF_XDP on any Linux interface, over system calls alone: `xdp:IFACE`.
//!
//! An XDP program of our own takes the declared addresses and flows (see [`Rules`]) to one socket a
//! queue; the rest passes to the host's stack. Rings and frame memory go to device code as raw
//! memory. The kernel wants a system call for each batch that is sent, which device code cannot
//! make: it writes a word, and the host's proxy ([`crate::Nic::take_services`]) makes the call.
//!
//! The program is held by a link that the kernel takes away when the process ends, killed or not.
//!
//! Options: `address=A`, `prefix=A/L`, `flow=PROTOCOL[/PORT][@A/L]` (each any number of times),
//! `all`, `exclusive`, `mac=own|any|ADDRESS`, `mode=auto|native|generic`, `copy=auto|always|never`,
//! `queues=all|N`, `depth=SLOTS`, `slot=2048|4096`, `memory=host|pinned`, `netns=NAME`.

mod assembler;
mod attach;
mod bind;
mod bpf;
pub mod live;
mod machine;
mod open;
mod options;
mod program;
mod proxy;
mod queue;
mod report;
pub mod rules;
mod socket;
mod watch;

pub use bpf::Mode;
pub use machine::missing_capabilities;
pub use open::{check, check_rights, look, open, open_all};
pub use rules::{Flow, MacPolicy, Prefix, Rules};

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use warpwire_gpu::{Arena, Service};
use warpwire_ring::{DeviceAddress, RxCursor, TxCursor};

use crate::{Caps, Counters, Error, Nic, NicSpec, QueuePair, Trouble};
use proxy::Proxy;
use socket::{Membership, Socket};
use watch::Watch;

/// An open `xdp` NIC.
#[derive(Debug)]
pub struct XdpNic {
    spec: NicSpec,
    caps: Caps,
    mac: [u8; 6],
    pairs: Vec<QueuePair>,
    choices: Vec<String>,
    proxy: Option<Proxy>,
    /// Dropped first: frames go to the host's stack again before a socket closes.
    link: Option<OwnedFd>,
    sockets: Arc<Sockets>,
    _membership: Option<Membership>,
    watch: Watch,
}

/// What the NIC and its proxy share.
#[derive(Debug)]
struct Sockets {
    queues: Vec<Queue>,
    arena: Arc<Arena>,
}

/// One socket and its words in the arena.
#[derive(Debug)]
struct Queue {
    socket: Socket,
    kick_receive: DeviceAddress,
    kick_transmit: DeviceAddress,
    receive_cursor: DeviceAddress,
    transmit_cursor: DeviceAddress,
    tally: Tally,
}

/// What the proxy counted.
#[derive(Debug, Default)]
struct Tally {
    /// Kick words that changed.
    requests: AtomicU64,
    /// System calls made for them.
    calls: AtomicU64,
    /// Of these, calls that the kernel could not serve for want of memory or ring space.
    busy: AtomicU64,
    /// Calls made because the kernel slept on a backlog that no word asked for.
    rescues: AtomicU64,
}

impl Tally {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Sockets {
    fn word(&self, address: DeviceAddress) -> u64 {
        let word = self.arena.word(address);
        word.map_or(0, |word| word.load(Ordering::Acquire))
    }

    /// A 64-bit field of a cursor.
    fn field(&self, cursor: DeviceAddress, offset: usize) -> u64 {
        self.word(cursor.offset(offset as u64))
    }

    fn total(&self, field: impl Fn(&Queue) -> u64) -> u64 {
        self.queues.iter().map(field).sum()
    }
}

impl XdpNic {
    fn first_socket(&self) -> Option<&Socket> {
        self.sockets.queues.first().map(|queue| &queue.socket)
    }
}

impl Nic for XdpNic {
    fn spec(&self) -> &NicSpec {
        &self.spec
    }

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn mac(&self) -> [u8; 6] {
        self.mac
    }

    fn queues(&self) -> &[QueuePair] {
        &self.pairs
    }

    fn take_services(&mut self) -> Vec<Box<dyn Service>> {
        let proxy = self.proxy.take();
        proxy
            .into_iter()
            .map(|proxy| Box::new(proxy) as Box<dyn Service>)
            .collect()
    }

    /// Frames and bytes are those of the queues' cursors, drops those of the kernel.
    ///
    /// `rx_dropped` counts frames for which there were not enough buffers, or that were larger than
    /// a slot without multi-buffer; `fill_ring_empty`, how often the one buffer of a small frame
    /// was missing.
    fn counters(&self) -> Counters {
        let sockets = &*self.sockets;
        let receive = |offset| sockets.total(|q| sockets.field(q.receive_cursor, offset));
        let transmit = |offset| sockets.total(|q| sockets.field(q.transmit_cursor, offset));
        let tally = |counter: fn(&Tally) -> &AtomicU64| {
            sockets.total(|q| counter(&q.tally).load(Ordering::Relaxed))
        };
        let statistics: Vec<libc::xdp_statistics> = sockets
            .queues
            .iter()
            .filter_map(|queue| queue.socket.statistics().ok())
            .collect();
        let kernel = |field: fn(&libc::xdp_statistics) -> u64| statistics.iter().map(field).sum();
        Counters {
            rx_frames: receive(std::mem::offset_of!(RxCursor, frames)),
            rx_bytes: receive(std::mem::offset_of!(RxCursor, bytes)),
            tx_frames: transmit(std::mem::offset_of!(TxCursor, frames)),
            tx_bytes: transmit(std::mem::offset_of!(TxCursor, bytes)),
            kicks: tally(|tally| &tally.calls),
            drops: vec![
                ("rx_dropped", kernel(|s| s.rx_dropped)),
                ("rx_ring_full", kernel(|s| s.rx_ring_full)),
                (
                    "rx_too_long",
                    receive(std::mem::offset_of!(RxCursor, too_long)),
                ),
                ("tx_invalid_descriptors", kernel(|s| s.tx_invalid_descs)),
            ],
            other: vec![
                ("fill_ring_empty", kernel(|s| s.rx_fill_ring_empty_descs)),
                ("fill_ring_invalid", kernel(|s| s.rx_invalid_descs)),
                ("tx_ring_empty", kernel(|s| s.tx_ring_empty_descs)),
                ("kick_requests", tally(|tally| &tally.requests)),
                ("kicks_busy", tally(|tally| &tally.busy)),
                ("kicks_rescued", tally(|tally| &tally.rescues)),
            ],
        }
    }

    fn choices(&self) -> Vec<String> {
        self.choices.clone()
    }

    fn troubles(&self) -> Vec<Trouble> {
        self.watch.troubles()
    }

    fn close(mut self: Box<Self>) -> Result<(), Error> {
        // The descriptors close without a report from the kernel; the order is all that counts.
        drop(self.link.take());
        Ok(())
    }
}

impl Drop for XdpNic {
    fn drop(&mut self) {
        drop(self.link.take());
    }
}
