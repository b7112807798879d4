//! AF_XDP sockets: frame memory, four mapped rings, kicks and statistics.
#![expect(
    unsafe_code,
    reason = "system calls, and mappings that are unmapped once"
)]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::Arc;

use warpwire_gpu::Arena;
use warpwire_ring::DeviceAddress;
use warpwire_ring::memory::{load_acquire_u32, load_u32, store_release_u32, store_u64};
use warpwire_ring::xdp::{FLAG_NEED_WAKEUP, METADATA_BYTES, Ring};

/// The frame memory as the kernel is told of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Frames {
    pub(super) base: DeviceAddress,
    pub(super) bytes: u64,
    pub(super) chunk_bytes: u32,
}

/// One mapped ring.
#[derive(Debug)]
struct Mapping {
    base: NonNull<u8>,
    bytes: usize,
}

// SAFETY: plain shared memory, only handed on as addresses.
unsafe impl Send for Mapping {}
// SAFETY: as for Send.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: our own mapping, unmapped once.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.bytes);
        }
    }
}

/// A socket with its rings. Whoever holds a ring's mapping keeps the queue busy, though the socket
/// be closed.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) mappings: [Arc<Arena>; 4],
    pub(super) receive: Ring,
    pub(super) transmit: Ring,
    pub(super) fill: Ring,
    pub(super) completion: Ring,
    descriptor: OwnedFd,
}

/// Sizes of a socket's rings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Sizes {
    pub(super) receive: u32,
    pub(super) transmit: u32,
    pub(super) fill: u32,
    pub(super) completion: u32,
}

/// A socket without rings yet.
pub(super) struct Unbound(OwnedFd);

impl Unbound {
    pub(super) fn new() -> io::Result<Self> {
        // SAFETY: plain integers.
        let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        Ok(Self(unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    /// Gives the memory to the kernel; with `metadata`, room for requests before each packet.
    pub(super) fn register(&self, frames: &Frames, metadata: bool) -> io::Result<()> {
        // SAFETY: integers without invariants.
        let mut request: libc::xdp_umem_reg = unsafe { std::mem::zeroed() };
        request.addr = frames.base.value();
        request.len = frames.bytes;
        request.chunk_size = frames.chunk_bytes;
        if metadata {
            request.flags = libc::XDP_UMEM_TX_METADATA_LEN;
            request.tx_metadata_len = METADATA_BYTES;
        }
        set_option(self.0.as_raw_fd(), libc::XDP_UMEM_REG, &request)
    }

    /// Makes and maps the rings.
    pub(super) fn with_rings(self, sizes: &Sizes) -> io::Result<Socket> {
        let fd = self.0.as_raw_fd();
        set_option(fd, libc::XDP_UMEM_FILL_RING, &sizes.fill)?;
        set_option(fd, libc::XDP_UMEM_COMPLETION_RING, &sizes.completion)?;
        set_option(fd, libc::XDP_RX_RING, &sizes.receive)?;
        set_option(fd, libc::XDP_TX_RING, &sizes.transmit)?;
        // SAFETY: integers without invariants.
        let offsets: libc::xdp_mmap_offsets = unsafe { std::mem::zeroed() };
        let offsets = option(fd, libc::XDP_MMAP_OFFSETS, offsets)?;
        let pages = [
            libc::XDP_PGOFF_RX_RING,
            libc::XDP_PGOFF_TX_RING,
            libc::XDP_UMEM_PGOFF_FILL_RING as libc::off_t,
            libc::XDP_UMEM_PGOFF_COMPLETION_RING as libc::off_t,
        ];
        let [rx, tx, fr, cr] = pages;
        let (receive, a) = map_ring(fd, &offsets.rx, (sizes.receive, 16), rx)?;
        let (transmit, b) = map_ring(fd, &offsets.tx, (sizes.transmit, 16), tx)?;
        let (fill, c) = map_ring(fd, &offsets.fr, (sizes.fill, 8), fr)?;
        let (completion, d) = map_ring(fd, &offsets.cr, (sizes.completion, 8), cr)?;
        Ok(Socket {
            mappings: [a, b, c, d],
            receive,
            transmit,
            fill,
            completion,
            descriptor: self.0,
        })
    }
}

impl Socket {
    pub(super) fn descriptor(&self) -> &OwnedFd {
        &self.descriptor
    }

    /// Binds to a queue of an interface. With `shared`, uses the memory of that socket and `flags`
    /// must be 0.
    pub(super) fn bind(
        &self,
        interface: u32,
        queue: u32,
        flags: u16,
        shared: Option<&Socket>,
    ) -> io::Result<()> {
        // SAFETY: integers without invariants.
        let mut address: libc::sockaddr_xdp = unsafe { std::mem::zeroed() };
        address.sxdp_family = libc::AF_XDP as u16;
        address.sxdp_ifindex = interface;
        address.sxdp_queue_id = queue;
        address.sxdp_flags = flags;
        if let Some(owner) = shared {
            address.sxdp_flags = libc::XDP_SHARED_UMEM;
            address.sxdp_shared_umem_fd = owner.descriptor.as_raw_fd() as u32;
        }
        let pointer: *const libc::sockaddr_xdp = &address;
        let length = size_of_val(&address) as libc::socklen_t;
        // SAFETY: the address is live and as long as said.
        let bound = unsafe { libc::bind(self.descriptor.as_raw_fd(), pointer.cast(), length) };
        if bound < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(())
    }

    /// Lets one system call send up to `frames` frames.
    pub(super) fn set_transmit_budget(&self, frames: u32) -> io::Result<()> {
        set_option(self.descriptor.as_raw_fd(), XDP_MAX_TX_SKB_BUDGET, &frames)
    }

    /// Whether the driver reads and writes the frame memory itself.
    pub(super) fn is_zero_copy(&self) -> io::Result<bool> {
        let flags = option(self.descriptor.as_raw_fd(), libc::XDP_OPTIONS, 0_u32)?;
        Ok(flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// What the kernel counted.
    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        // SAFETY: integers without invariants.
        let zero: libc::xdp_statistics = unsafe { std::mem::zeroed() };
        option(self.descriptor.as_raw_fd(), libc::XDP_STATISTICS, zero)
    }

    /// Descriptors that were published and that the kernel has not taken.
    pub(super) fn transmit_backlog(&self) -> u32 {
        // SAFETY: an index word of our own mapping.
        let consumed = unsafe { load_acquire_u32(self.transmit.consumer) };
        // SAFETY: an index word of our own mapping.
        let produced = unsafe { load_acquire_u32(self.transmit.producer) };
        produced.wrapping_sub(consumed)
    }

    /// Whether the kernel sleeps until the next call.
    pub(super) fn wants_transmit_kick(&self) -> bool {
        // SAFETY: the flags word of our own mapping.
        let flags = unsafe { load_u32(self.transmit.flags) };
        flags & FLAG_NEED_WAKEUP != 0
    }

    /// Fills the first entries of the fill ring and shows them to the kernel.
    pub(super) fn prime(&self, chunks: impl Iterator<Item = u64>) {
        let mut count = 0;
        for (place, chunk) in chunks.take(self.fill.size as usize).enumerate() {
            // SAFETY: an entry of our own mapping, within the ring's size.
            unsafe { store_u64(self.fill.entries.offset(place as u64 * 8), chunk) }
            count += 1;
        }
        // SAFETY: our index of the fill ring.
        // pairs with: the kernel's acquire of the producer before it reads entries.
        unsafe { store_release_u32(self.fill.producer, count) }
    }

    /// Makes the kernel look at the transmit ring. Never blocks.
    pub(super) fn kick_transmit(&self) -> io::Result<()> {
        let (fd, none) = (self.descriptor.as_raw_fd(), std::ptr::null());
        // SAFETY: an empty message without an address.
        let sent = unsafe { libc::sendto(fd, none, 0, libc::MSG_DONTWAIT, none.cast(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Makes the driver look at the fill ring. Never blocks.
    pub(super) fn kick_receive(&self) -> io::Result<()> {
        let none: *mut libc::c_void = std::ptr::null_mut();
        let (fd, address) = (self.descriptor.as_raw_fd(), none.cast::<libc::sockaddr>());
        let length = std::ptr::null_mut();
        // SAFETY: no buffer and no address.
        let got = unsafe { libc::recvfrom(fd, none, 0, libc::MSG_DONTWAIT, address, length) };
        if got < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }
}

/// Socket option of Linux 6.17 and later; not in libc yet.
const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

fn set_option<T>(fd: RawFd, name: libc::c_int, value: &T) -> io::Result<()> {
    let pointer: *const T = value;
    let length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the value is live and as long as said.
    let set = unsafe { libc::setsockopt(fd, libc::SOL_XDP, name, pointer.cast(), length) };
    if set < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}

fn option<T>(fd: RawFd, name: libc::c_int, zero: T) -> io::Result<T> {
    let mut value = zero;
    let mut length = size_of::<T>() as libc::socklen_t;
    let pointer: *mut T = &mut value;
    // SAFETY: the value is live and as long as said; any bytes are one.
    let got = unsafe { libc::getsockopt(fd, libc::SOL_XDP, name, pointer.cast(), &mut length) };
    if got < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(value)
    }
}

const PAGE: usize = 4096;

/// Maps one ring of `shape` (entries, bytes of an entry).
fn map_ring(
    fd: RawFd,
    offsets: &libc::xdp_ring_offset,
    shape: (u32, u64),
    page: libc::off_t,
) -> io::Result<(Ring, Arc<Arena>)> {
    let (size, entry) = shape;
    let bytes = (offsets.desc + u64::from(size) * entry) as usize;
    let bytes = bytes.next_multiple_of(PAGE);
    // SAFETY: a new mapping at a place of the kernel's choice; nothing existing is replaced.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_POPULATE,
            fd,
            page,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let base = NonNull::new(base.cast::<u8>()).ok_or(io::ErrorKind::AddrNotAvailable)?;
    let start = DeviceAddress::new(base.as_ptr() as u64);
    let ring = Ring {
        producer: start.offset(offsets.producer),
        consumer: start.offset(offsets.consumer),
        flags: start.offset(offsets.flags),
        entries: start.offset(offsets.desc),
        size,
        reserved: 0,
    };
    let mapping = Box::new(Mapping { base, bytes });
    // SAFETY: just mapped, until the owner unmaps it; the kernel shares it by atomics.
    let arena = unsafe { Arena::foreign(base, bytes, mapping) };
    Ok((ring, Arc::new(arena)))
}

/// `struct packet_mreq`.
#[repr(C)]
struct MembershipRequest {
    interface: libc::c_int,
    kind: u16,
    address_bytes: u16,
    address: [u8; 8],
}

/// Receives all frames of an interface, or those to one more address, for as long as it is open.
#[derive(Debug)]
pub(super) struct Membership {
    _descriptor: OwnedFd,
}

impl Membership {
    /// Every frame, whatever its address, or frames to `address` as well.
    pub(super) fn join(interface: u32, address: Option<[u8; 6]>) -> io::Result<Self> {
        // Protocol 0: the socket itself receives nothing.
        // SAFETY: plain integers.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(fd) };
        let (kind, octets) = match address {
            None => (libc::PACKET_MR_PROMISC, [0; 6]),
            Some(octets) => (libc::PACKET_MR_UNICAST, octets),
        };
        let [a, b, c, d, e, f] = octets;
        let request = MembershipRequest {
            interface: interface as libc::c_int,
            kind: kind as u16,
            address_bytes: 6,
            address: [a, b, c, d, e, f, 0, 0],
        };
        let pointer: *const MembershipRequest = &request;
        let length = size_of_val(&request) as libc::socklen_t;
        let option = libc::PACKET_ADD_MEMBERSHIP;
        // SAFETY: the request is live and as long as said.
        let set = unsafe { libc::setsockopt(fd, libc::SOL_PACKET, option, pointer.cast(), length) };
        if set < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self {
            _descriptor: descriptor,
        })
    }
}
