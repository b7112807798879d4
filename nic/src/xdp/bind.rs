//! Sockets: one a queue, all over one frame memory.

use std::io;
use std::sync::Arc;

use warpwire_gpu::Arena;
use warpwire_gpu::arena::{ArenaRequest, Paging};
use warpwire_ring::xdp::Umem;

use super::attach::Attached;
use super::bpf::Mode;
use super::machine::KernelVersion;
use super::open::{AGAIN, LIMITS, Setup, retry};
use super::options::CopyWish;
use super::socket::{Frames, Sizes, Socket, Unbound};
use crate::Error;
use crate::interfaces::Interface;

/// The frame memory, and the arena that it and everything else lies in.
pub(super) struct Memory {
    pub(super) arena: Arc<Arena>,
    pub(super) umem: Umem,
}

/// What one NIC uses of the memory.
pub(super) struct Share<'a> {
    pub(super) memory: &'a Memory,
    /// The number of its first chunk.
    pub(super) first_chunk: u64,
    /// The socket that the memory is registered with, unless the NIC is the first.
    pub(super) owner: Option<&'a Socket>,
}

/// How the sockets were bound.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) multi_buffer: bool,
    pub(super) metadata: bool,
    pub(super) zero_copy: bool,
    pub(super) budget: Option<u32>,
}

impl Setup<'_> {
    /// Memory for queues of so many slots each way.
    pub(super) fn memory(&self, queues: &[(u32, u32)]) -> Result<Memory, Error> {
        let chunks: u64 = queues
            .iter()
            .map(|&(count, depth)| chunks_of(count, depth))
            .sum();
        let control = queues.iter().map(|&(count, depth)| {
            // Free list and done bitmap, then eight lines with their padding.
            u64::from(count) * (u64::from(depth) * 9 + 4096)
        });
        let frames = chunks * u64::from(self.options.slot);
        let request = ArenaRequest {
            bytes: (frames + control.sum::<u64>()) as usize,
            location: self.options.location,
            paging: Paging::Transparent,
            ..ArenaRequest::default()
        };
        let arena = Arena::request(request).map_err(|source| self.memory_error(source))?;
        let region = arena
            .allocate(frames, 4096)
            .map_err(|source| self.memory_error(source))?;
        let umem = Umem {
            base: region.address,
            bytes: frames,
            pool: region.address.value(),
            chunk_bytes: self.options.slot,
            reserved: 0,
        };
        Ok(Memory {
            arena: Arc::new(arena),
            umem,
        })
    }

    /// Opens, primes and binds a socket a queue; the first one brings the memory for all.
    pub(super) fn sockets(
        &self,
        interface: &Interface,
        attached: &Attached,
        share: &Share<'_>,
        count: u32,
    ) -> Result<(Vec<Socket>, Bound), Error> {
        let mut sockets: Vec<Socket> = Vec::new();
        for queue in 0..count {
            let owner = share.owner.or(sockets.first());
            let socket = match owner {
                None => self.owner_socket(interface, attached, share)?,
                Some(owner) => {
                    let socket = self.ring_socket(self.fresh()?, share, queue)?;
                    retry(|| socket.bind(interface.index, queue, 0, Some(owner)))
                        .map_err(|source| self.no_bind(queue, source))?;
                    socket
                }
            };
            sockets.push(socket);
        }
        let budget = self.options.depth.min(TRANSMIT_BUDGET);
        let raised = sockets
            .iter()
            .all(|socket| socket.set_transmit_budget(budget).is_ok());
        let zero_copy = sockets
            .iter()
            .all(|one| one.is_zero_copy().unwrap_or(false));
        let bound = Bound {
            multi_buffer: self.multi_buffer(),
            metadata: self.metadata(),
            zero_copy,
            budget: raised.then_some(budget),
        };
        Ok((sockets, bound))
    }

    fn multi_buffer(&self) -> bool {
        self.kernel >= KernelVersion::MULTI_BUFFER
    }

    fn metadata(&self) -> bool {
        self.kernel >= KernelVersion::METADATA
    }

    fn fresh(&self) -> Result<Unbound, Error> {
        Unbound::new().map_err(|source| {
            let cure = "use a kernel with CONFIG_XDP_SOCKETS";
            self.system("open an AF_XDP socket", source, cure)
        })
    }

    /// The socket that brings the memory and decides how all others use it.
    fn owner_socket(
        &self,
        interface: &Interface,
        attached: &Attached,
        share: &Share<'_>,
    ) -> Result<Socket, Error> {
        let umem = &share.memory.umem;
        let frames = Frames {
            base: umem.base,
            bytes: umem.bytes,
            chunk_bytes: umem.chunk_bytes,
        };
        let unbound = self.fresh()?;
        unbound
            .register(&frames, self.metadata())
            .map_err(|source| self.system("register frame memory", source, LIMITS))?;
        let copy = match (self.options.copy, attached.mode) {
            (CopyWish::Copy, _) | (CopyWish::Automatic, Mode::Generic) => libc::XDP_COPY,
            (CopyWish::Automatic, Mode::Native) => 0,
            (CopyWish::Zero, _) => libc::XDP_ZEROCOPY,
        };
        let segments = if self.multi_buffer() {
            libc::XDP_USE_SG
        } else {
            0
        };
        let flags = copy | segments | libc::XDP_USE_NEED_WAKEUP;
        let socket = self.ring_socket(unbound, share, 0)?;
        retry(|| socket.bind(interface.index, 0, flags, None))
            .map_err(|source| self.no_bind(0, source))?;
        Ok(socket)
    }

    /// Makes the rings and gives the queue's first chunks to the kernel.
    fn ring_socket(
        &self,
        unbound: Unbound,
        share: &Share<'_>,
        queue: u32,
    ) -> Result<Socket, Error> {
        let depth = self.options.depth;
        let sizes = Sizes {
            receive: depth,
            transmit: depth,
            fill: depth,
            completion: depth,
        };
        let socket = unbound
            .with_rings(&sizes)
            .map_err(|source| self.system("make rings", source, LIMITS))?;
        socket.prime(self.chunks(share, queue).take(depth as usize));
        Ok(socket)
    }

    /// Chunks of a queue: first those of the receive slots, then those of the transmit slots.
    pub(super) fn chunks(
        &self,
        share: &Share<'_>,
        queue: u32,
    ) -> impl Iterator<Item = u64> + use<> {
        let per_queue = u64::from(self.options.depth) * 2;
        let slot = u64::from(self.options.slot);
        let first = share.first_chunk + u64::from(queue) * per_queue;
        (first..first + per_queue).map(move |chunk| chunk * slot)
    }

    fn no_bind(&self, queue: u32, source: io::Error) -> Error {
        let cure = match source.raw_os_error() {
            Some(libc::EBUSY) => "stop the other user of the queue",
            Some(libc::EOPNOTSUPP) => "write copy=auto",
            _ => AGAIN,
        };
        self.system(&format!("bind to queue {queue}"), source, cure)
    }
}

/// Chunks that so many queues of so many slots take: each slot of both directions owns one.
pub(super) fn chunks_of(queues: u32, depth: u32) -> u64 {
    u64::from(queues) * u64::from(depth) * 2
}

/// Frames that one system call may send.
const TRANSMIT_BUDGET: u32 = 256;
