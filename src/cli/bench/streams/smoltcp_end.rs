//! smoltcp over AF_XDP, as a server: the same queues as ours, driven by the host.
//!
//! A frame is copied once on each way, between the queue and smoltcp's buffer. Linux leaves
//! checksums of its TCP segments on a veth to hardware; they are summed here, once, and smoltcp
//! does not sum them again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::SyncSender;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpCidr};
use warpwire_nic::soft::{NicUplink, Uplink as _};
use warpwire_nic::{Nic as _, NicSpec, xdp};

use super::super::error::Error;
use super::super::machine::pin;
use super::super::setting::FAR;
use super::count::Task;
use super::link::FAR_ADDRESS;
use super::{RING_BYTES, What};

/// A socket with buffers of so many bytes.
pub(super) fn socket(buffer_bytes: u32) -> Socket<'static> {
    let buffer = || SocketBuffer::new(vec![0; buffer_bytes as usize]);
    let mut socket = Socket::new(buffer(), buffer());
    socket.set_nagle_enabled(false);
    socket
}

/// Serves on the far processor until it is over.
pub(super) fn serve(
    words: &str,
    what: What,
    ready: &SyncSender<Task>,
    over: &AtomicBool,
) -> Result<(), Error> {
    pin(FAR)?;
    let spec: NicSpec = words.parse()?;
    let nic = xdp::open(&spec)?;
    let mac = nic.mac();
    let mut port = Port {
        uplink: NicUplink::new(Box::new(nic))?,
        frame: [0; FRAME_BYTES],
        next: [0; FRAME_BYTES],
        left: BURST,
    };
    let config = Config::new(EthernetAddress(mac).into());
    let mut interface = Interface::new(config, &mut port, Instant::now());
    interface.update_ip_addrs(|addresses| {
        // There is room for one.
        let _ = addresses.push(IpCidr::new(FAR_ADDRESS.ip().into(), 24));
    });
    let mut sockets = SocketSet::new(Vec::new());
    let handles = [(); SOCKETS].map(|()| sockets.add(socket(RING_BYTES)));
    let mut bytes = vec![0; RING_BYTES as usize];
    serve_all(&mut sockets, &handles, what, &mut bytes);
    // Nobody listens any more where the other side gave up.
    let _ = ready.send(Task::own());
    while !over.load(Ordering::Relaxed) {
        interface.poll(Instant::now(), &mut port, &mut sockets);
        serve_all(&mut sockets, &handles, what, &mut bytes);
        interface.poll_egress(Instant::now(), &mut port, &mut sockets);
        port.round();
    }
    Ok(port.uplink.close()?)
}

fn serve_all(sockets: &mut SocketSet<'_>, handles: &[SocketHandle], what: What, bytes: &mut [u8]) {
    for handle in handles {
        let socket = sockets.get_mut::<Socket>(*handle);
        if !socket.is_open() {
            // A socket that is not open can listen.
            let _ = socket.listen(FAR_ADDRESS.port());
        }
        serve_one(socket, what, bytes);
    }
}

/// Does what can be done now; what a socket refuses it takes later.
fn serve_one(socket: &mut Socket<'_>, what: What, bytes: &mut [u8]) {
    match what {
        What::Send => {
            while let Ok(1..) = socket.send(|room| {
                room.fill(7);
                (room.len(), room.len())
            }) {}
        }
        What::Ask => {
            let room = socket.send_capacity() - socket.send_queue();
            let most = bytes.len().min(room);
            let into = bytes.get_mut(..most).unwrap_or_default();
            if let Ok(count @ 1..) = socket.recv_slice(into) {
                let _ = socket.send_slice(into.get(..count).unwrap_or_default());
            }
        }
        What::Receive | What::Greet => {
            while let Ok(1..) = socket.recv(|came| (came.len(), came.len())) {}
        }
    }
    if socket.state() == State::CloseWait && !socket.can_recv() {
        socket.close();
    }
}

/// The queues as smoltcp sees them.
struct Port {
    uplink: NicUplink,
    frame: [u8; FRAME_BYTES],
    next: [u8; FRAME_BYTES],
    /// Frames that may still pass before the kernel is told of those that were sent.
    left: u32,
}

impl Port {
    fn round(&mut self) {
        self.uplink.round(0);
        self.left = BURST;
    }
}

impl Device for Port {
    type RxToken<'a> = Received<'a>;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Sending<'_>)> {
        self.left = self.left.checked_sub(1)?;
        let length = self.uplink.receive(&mut self.frame, 0)?;
        let received = Received(self.frame.get(..length)?);
        let sending = Sending {
            uplink: &mut self.uplink,
            next: &mut self.next,
        };
        Some((received, sending))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_>> {
        self.left = self.left.checked_sub(1)?;
        Some(Sending {
            uplink: &mut self.uplink,
            next: &mut self.next,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = 1500 + 14;
        capabilities.checksum.tcp = Checksum::Tx;
        capabilities
    }
}

struct Received<'a>(&'a [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

struct Sending<'a> {
    uplink: &'a mut NicUplink,
    next: &'a mut [u8; FRAME_BYTES],
}

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        // smoltcp makes no frame longer than the MTU.
        let (frame, _) = self.next.split_at_mut(length.min(FRAME_BYTES));
        let written = write(frame);
        // TCP repeats what found no room.
        let _ = self.uplink.send(frame);
        written
    }
}

/// Bytes that a frame of the link has at most, and more.
const FRAME_BYTES: usize = 2048;
/// Frames between two calls of the kernel: as many as it sends at once.
const BURST: u32 = 64;
/// Connections at a time, those that end meanwhile included.
const SOCKETS: usize = 8;
