//! Setting up: checks, program, sockets, memory, blocks.

use std::io;

use std::sync::Arc;
use std::time::{Duration, Instant};

use warpwire_gpu::Arena;
use warpwire_gpu::arena::{ArenaError, ArenaRequest, Paging};
use warpwire_ring::xdp::{METADATA_BYTES, PACKET_HEADROOM, RxBody, TxBody, Umem};
use warpwire_ring::{DeviceAddress, Provenance, QueueBlock, Region, RxCursor, TxCursor};

use super::attach::Attached;
use super::bpf::{self, Mode};
use super::machine::{KernelVersion, missing_capabilities};
use super::options::{CopyWish, MAX_QUEUES, Options};

use super::proxy::Proxy;
use super::rules::MacPolicy;
use super::socket::{Frames, Membership, Sizes, Socket, Unbound};
use super::{Queue, Sockets, Tally, XdpNic};
use crate::interfaces::{Interface, interfaces};
use crate::{Error, NicSpec, QueuePair, namespace};

/// Opens the interface that `spec` names (`xdp:IFACE,option=value`).
///
/// # Errors [`Error::Spec`] for wrong words, [`Error::Unavailable`] for what the machine lacks
/// (root, a recent kernel, the interface), [`Error::System`] for what the kernel refused; each with
/// the cure.
pub fn open(spec: &NicSpec) -> Result<XdpNic, Error> {
    let options = Options::of(spec)?;
    let setup = Setup {
        spec,
        options: &options,
        kernel: check_machine(spec)?,
    };
    match &options.namespace {
        None => setup.open(),
        Some(name) => namespace::within(name, || setup.open()).map_err(|source| {
            let cure = format!("make it with `ip netns add {name}`");
            setup.system("enter the network namespace", source, &cure)
        })?,
    }
}

fn check_machine(spec: &NicSpec) -> Result<KernelVersion, Error> {
    let unavailable = |missing: String, cure: &str| Error::Unavailable {
        nic: spec.to_string(),
        missing,
        cure: cure.to_owned(),
    };
    let kernel = KernelVersion::running().unwrap_or(KernelVersion(0, 0));
    if kernel < KernelVersion::NEEDED {
        let KernelVersion(major, minor) = kernel;
        let missing = format!("Linux {major}.{minor} is too old for AF_XDP with several queues");
        return Err(unavailable(missing, "run Linux 5.10 or later"));
    }
    let missing = missing_capabilities();
    if !missing.is_empty() {
        let missing = format!("the process lacks {}", missing.join(", "));
        let cure = "run as root, or `setcap cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep` \
                    the program";
        return Err(unavailable(missing, cure));
    }
    Ok(kernel)
}

pub(super) struct Setup<'a> {
    pub(super) spec: &'a NicSpec,
    pub(super) options: &'a Options,
    pub(super) kernel: KernelVersion,
}

/// How the sockets were bound.
#[derive(Clone, Copy)]
pub(super) struct Bound {
    pub(super) multi_buffer: bool,
    pub(super) metadata: bool,
    pub(super) zero_copy: bool,
    pub(super) budget: Option<u32>,
}

/// Memory of one queue.
struct Pieces {
    receive_cursor: Region,
    transmit_cursor: Region,
    receive_provenance: Region,
    transmit_provenance: Region,
    done: Region,
    free: Region,
    kick_receive: Region,
    kick_transmit: Region,
}

impl Setup<'_> {
    fn open(&self) -> Result<XdpNic, Error> {
        let interface = self.interface()?;
        let count = self.queue_count(&interface)?;
        let membership = self.membership(&interface)?;
        let attached = self.attach(&interface, count)?;
        let (arena, umem) = self.memory(count)?;
        let (sockets, bound) = self.sockets(&interface, &attached, &umem, count)?;
        self.check_frame_size(&interface, &bound)?;
        let mut pairs = Vec::new();
        let mut queues = Vec::new();
        for (index, socket) in (0..).zip(sockets) {
            let (pair, queue) = self.queue(index, socket, &arena, &umem, &bound)?;
            bpf::set_socket(&attached.map, index, queue.socket.descriptor()).map_err(|source| {
                self.system("put a socket into the program's map", source, AGAIN)
            })?;
            pairs.push(pair);
            queues.push(queue);
        }
        let sockets = Arc::new(Sockets {
            queues,
            arena: Arc::clone(&arena),
        });
        Ok(XdpNic {
            spec: self.spec.clone(),
            caps: self.caps(&interface, &bound, count),
            mac: match self.options.rules.mac {
                MacPolicy::Address(mac) => mac,
                MacPolicy::Own | MacPolicy::Any => interface.mac,
            },
            pairs,
            choices: self.choices(&interface, &attached, &bound, count, &arena),
            proxy: Some(Proxy::new(
                format!("{} kicks", self.spec),
                Arc::clone(&sockets),
            )),
            link: Some(attached.link),
            sockets,
            _membership: membership,
        })
    }

    fn interface(&self) -> Result<Interface, Error> {
        let all = interfaces()
            .map_err(|source| self.system("list the interfaces", source, "try again"))?;
        let wanted = &self.spec.address;
        let Some(interface) = all.iter().find(|interface| interface.name == *wanted) else {
            let names: Vec<&str> = all.iter().map(|one| one.name.as_str()).collect();
            let cure = format!("choose one of {}", names.join(", "));
            return Err(self.unavailable(format!("there is no interface {wanted}"), cure));
        };
        let interface = Interface {
            default_route: interface.default_route && !self.options.exclusive,
            // Whether it can be replaced is for the kernel to say: its owner may just be leaving.
            program: None,
            ..interface.clone()
        };
        match interface.obstacles().first() {
            None => Ok(interface),
            Some(obstacle) => {
                let (problem, cure) = obstacle.split_once("; ").unwrap_or((obstacle, AGAIN));
                Err(self.unavailable(format!("{wanted} {problem}"), cure.to_owned()))
            }
        }
    }

    fn queue_count(&self, interface: &Interface) -> Result<u32, Error> {
        let there = interface.receive_queues.max(1);
        match self.options.queues {
            Some(count) if count > there => {
                let problem = format!("{count}, and {} has {there}", interface.name);
                let cure = format!("write queues=all or `ethtool -L {}`", interface.name);
                Err(self.spec.wrong("queues", problem, cure))
            }
            Some(count) => Ok(count),
            None => Ok(there.min(MAX_QUEUES)),
        }
    }

    fn membership(&self, interface: &Interface) -> Result<Option<Membership>, Error> {
        let address = match self.options.rules.mac {
            MacPolicy::Own => return Ok(None),
            MacPolicy::Any => None,
            MacPolicy::Address(mac) => Some(mac),
        };
        Membership::join(interface.index, address)
            .map(Some)
            .map_err(|source| self.system("open the address filter", source, "write mac=own"))
    }

    fn memory(&self, count: u32) -> Result<(Arc<Arena>, Umem), Error> {
        let depth = u64::from(self.options.depth);
        let slot = u64::from(self.options.slot);
        let frames = u64::from(count) * depth * 2 * slot;
        let control = u64::from(count) * (depth * 9 + 4096);
        let request = ArenaRequest {
            bytes: (frames + control) as usize,
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
        Ok((Arc::new(arena), umem))
    }

    /// Opens, primes and binds a socket a queue; the first one brings the memory for all.
    fn sockets(
        &self,
        interface: &Interface,
        attached: &Attached,
        umem: &Umem,
        count: u32,
    ) -> Result<(Vec<Socket>, Bound), Error> {
        let (first, mut bound) = self.first_socket(interface, attached, umem)?;
        let mut sockets = vec![first];
        for queue in 1..count {
            let socket = self.ring_socket(Unbound::new().map_err(|e| self.no_socket(e))?, queue)?;
            if let Some(owner) = sockets.first() {
                retry(|| socket.bind(interface.index, queue, 0, Some(owner)))
                    .map_err(|source| self.no_bind(queue, source))?;
            }
            sockets.push(socket);
        }
        let budget = self.options.depth.min(TRANSMIT_BUDGET);
        let raised = sockets
            .iter()
            .all(|socket| socket.set_transmit_budget(budget).is_ok());
        bound.budget = raised.then_some(budget);
        Ok((sockets, bound))
    }

    fn first_socket(
        &self,
        interface: &Interface,
        attached: &Attached,
        umem: &Umem,
    ) -> Result<(Socket, Bound), Error> {
        let frames = Frames {
            base: umem.base,
            bytes: umem.bytes,
            chunk_bytes: umem.chunk_bytes,
        };
        let unbound = Unbound::new().map_err(|source| self.no_socket(source))?;
        let metadata = self.kernel >= KernelVersion::METADATA;
        unbound
            .register(&frames, metadata)
            .map_err(|source| self.system("register frame memory", source, LIMITS))?;
        let copy = match (self.options.copy, attached.mode) {
            (CopyWish::Copy, _) | (CopyWish::Automatic, Mode::Generic) => libc::XDP_COPY,
            (CopyWish::Automatic, Mode::Native) => 0,
            (CopyWish::Zero, _) => libc::XDP_ZEROCOPY,
        };
        let multi_buffer = self.kernel >= KernelVersion::MULTI_BUFFER;
        let segments = if multi_buffer { libc::XDP_USE_SG } else { 0 };
        let flags = copy | segments | libc::XDP_USE_NEED_WAKEUP;
        let socket = self.ring_socket(unbound, 0)?;
        retry(|| socket.bind(interface.index, 0, flags, None))
            .map_err(|source| self.no_bind(0, source))?;
        let zero_copy = socket.is_zero_copy().unwrap_or(false);
        let bound = Bound {
            multi_buffer,
            metadata,
            zero_copy,
            budget: None,
        };
        Ok((socket, bound))
    }

    /// Makes the rings and gives the queue's first chunks to the kernel.
    fn ring_socket(&self, unbound: Unbound, queue: u32) -> Result<Socket, Error> {
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
        socket.prime(self.chunks(queue).take(depth as usize));
        Ok(socket)
    }

    /// Chunks of a queue: first those of the receive slots, then those of the transmit slots.
    fn chunks(&self, queue: u32) -> impl Iterator<Item = u64> + use<> {
        let per_queue = u64::from(self.options.depth) * 2;
        let slot = u64::from(self.options.slot);
        let first = u64::from(queue) * per_queue;
        (first..first + per_queue).map(move |chunk| chunk * slot)
    }

    fn queue(
        &self,
        index: u32,
        socket: Socket,
        arena: &Arc<Arena>,
        umem: &Umem,
        bound: &Bound,
    ) -> Result<(QueuePair, Queue), Error> {
        let pieces = self
            .pieces(arena)
            .map_err(|source| self.memory_error(source))?;
        let depth = self.options.depth as usize;
        for (slot, chunk) in self.chunks(index).skip(depth).enumerate() {
            let address = pieces.free.address.offset(slot as u64 * 8);
            arena
                .write(address, &chunk.to_ne_bytes())
                .map_err(|source| self.memory_error(source))?;
        }
        let receive = RxBody {
            umem: *umem,
            receive: socket.receive,
            fill: socket.fill,
            kick: pieces.kick_receive.address,
            primed: u64::from(self.options.depth),
        };
        let transmit = TxBody {
            umem: *umem,
            transmit: socket.transmit,
            completion: socket.completion,
            free: pieces.free.address,
            kick: pieces.kick_transmit.address,
            headroom: TRANSMIT_HEADROOM,
            metadata_bytes: if bound.metadata { METADATA_BYTES } else { 0 },
            max_parts: if bound.multi_buffer { MAX_PARTS } else { 1 },
            reserved: 0,
        };
        let location = arena.location() as u32;
        let pair = QueuePair {
            index,
            receive: QueueBlock {
                cursor: pieces.receive_cursor.address,
                provenance: pieces.receive_provenance.address,
                done: pieces.done.address,
                location,
                ..receive.block()
            },
            transmit: QueueBlock {
                cursor: pieces.transmit_cursor.address,
                provenance: pieces.transmit_provenance.address,
                done: DeviceAddress::NULL,
                location,
                ..transmit.block()
            },
            memory: vec![Arc::clone(arena)],
        };
        let queue = Queue {
            socket,
            kick_receive: pieces.kick_receive.address,
            kick_transmit: pieces.kick_transmit.address,
            receive_cursor: pieces.receive_cursor.address,
            transmit_cursor: pieces.transmit_cursor.address,
            tally: Tally::default(),
        };
        Ok((pair, queue))
    }

    fn pieces(&self, arena: &Arena) -> Result<Pieces, ArenaError> {
        let depth = u64::from(self.options.depth);
        let line = |bytes: usize| arena.allocate(bytes as u64, 128);
        Ok(Pieces {
            receive_cursor: line(size_of::<RxCursor>())?,
            transmit_cursor: line(size_of::<TxCursor>())?,
            receive_provenance: line(size_of::<Provenance>())?,
            transmit_provenance: line(size_of::<Provenance>())?,
            done: arena.allocate(depth / 8, 128)?,
            free: arena.allocate(depth * 8, 128)?,
            kick_receive: line(128)?,
            kick_transmit: line(128)?,
        })
    }

    /// Without multi-buffer, a frame must fit one chunk.
    fn check_frame_size(&self, interface: &Interface, bound: &Bound) -> Result<(), Error> {
        let (frame, piece) = (frame_bytes(interface), self.piece_bytes());
        if bound.multi_buffer || frame <= piece {
            return Ok(());
        }
        let problem = format!(
            "{} bytes hold frames of {piece} bytes, and the MTU of {} makes them {frame}",
            self.options.slot, interface.name
        );
        let mtu = piece - ETHERNET_AND_TAGS;
        let cure = format!(
            "write slot=4096, run `ip link set {} mtu {mtu}`, or use Linux 6.6 or later",
            interface.name
        );
        Err(self.spec.wrong("slot", problem, cure))
    }

    pub(super) fn piece_bytes(&self) -> u32 {
        self.options.slot - PACKET_HEADROOM
    }

    pub(super) fn unavailable(&self, missing: String, cure: String) -> Error {
        Error::Unavailable {
            nic: self.spec.to_string(),
            missing,
            cure,
        }
    }

    pub(super) fn system(&self, action: &str, source: io::Error, cure: &str) -> Error {
        Error::System {
            nic: self.spec.to_string(),
            action: action.to_owned(),
            source,
            cure: cure.to_owned(),
        }
    }

    fn memory_error(&self, source: ArenaError) -> Error {
        Error::Memory {
            nic: self.spec.to_string(),
            source,
        }
    }

    fn no_socket(&self, source: io::Error) -> Error {
        self.system(
            "open an AF_XDP socket",
            source,
            "use a kernel with CONFIG_XDP_SOCKETS",
        )
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

/// Bytes of the largest frame, with two VLAN tags.
pub(super) fn frame_bytes(interface: &Interface) -> u32 {
    interface.mtu.saturating_add(ETHERNET_AND_TAGS)
}

/// Tries until it succeeds, fails otherwise than by being busy, or a second is over: the kernel
/// frees a queue some time after the last descriptor closed.
pub(super) fn retry<T>(mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let until = Instant::now() + BUSY_LIMIT;
    loop {
        let result = attempt();
        let busy = matches!(&result, Err(e) if e.raw_os_error() == Some(libc::EBUSY));
        if !busy || Instant::now() >= until {
            return result;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

const BUSY_LIMIT: Duration = Duration::from_millis(1200);
const ETHERNET_AND_TAGS: u32 = 14 + 8;
/// A cache line before each packet that is sent; holds the request.
const TRANSMIT_HEADROOM: u32 = 64;
/// Pieces that the kernel sends as one frame: its `MAX_SKB_FRAGS`.
pub(super) const MAX_PARTS: u32 = 17;
/// Frames that one system call may send.
const TRANSMIT_BUDGET: u32 = 256;
const AGAIN: &str = "try again";
pub(super) const LIMITS: &str = "raise `ulimit -l`, or add CAP_IPC_LOCK";
