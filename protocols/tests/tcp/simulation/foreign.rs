//! smoltcp as an end.

use std::collections::VecDeque;

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use warpwire_protocols::checksum::Sum;

use super::ours::{ADDRESSES, PORTS};
use super::{Packet, Side};

/// One end.
pub(crate) struct Foreign {
    wire: Wire,
    interface: Interface,
    sockets: SocketSet<'static>,
    handle: SocketHandle,
    /// It was connected once.
    was_open: bool,
}

/// How it is set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) receive_bytes: usize,
    pub(crate) send_bytes: usize,
    pub(crate) mtu: usize,
    pub(crate) reno: bool,
    pub(crate) timestamps: bool,
    pub(crate) nagle: bool,
    pub(crate) delays_ack: bool,
}

/// Packets to and from the interface.
struct Wire {
    arrived: VecDeque<Vec<u8>>,
    left: VecDeque<Vec<u8>>,
    mtu: usize,
}

struct Arrived(Vec<u8>);
struct Leaving<'a>(&'a mut VecDeque<Vec<u8>>);

impl Device for Wire {
    type RxToken<'a> = Arrived;
    type TxToken<'a> = Leaving<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Arrived, Leaving<'_>)> {
        let bytes = self.arrived.pop_front()?;
        Some((Arrived(bytes), Leaving(&mut self.left)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Leaving<'_>> {
        Some(Leaving(&mut self.left))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.max_transmission_unit = self.mtu;
        capabilities.medium = Medium::Ip;
        capabilities
    }
}

impl RxToken for Arrived {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, take: F) -> R {
        take(&self.0)
    }
}

impl TxToken for Leaving<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, fill: F) -> R {
        let mut bytes = vec![0; length];
        let result = fill(&mut bytes);
        self.0.push_back(bytes);
        result
    }
}

impl Foreign {
    /// An end; the first of the two opens, the other listens.
    pub(crate) fn new(at: usize, setting: Setting, seed: u64, now_ns: u64) -> Self {
        let mut wire = Wire {
            arrived: VecDeque::new(),
            left: VecDeque::new(),
            mtu: setting.mtu,
        };
        let mut config = Config::new(HardwareAddress::Ip);
        config.random_seed = seed;
        let now = instant(now_ns);
        let mut interface = Interface::new(config, &mut wire, now);
        interface.update_ip_addrs(|addresses| {
            let address = IpCidr::new(IpAddress::Ipv4(ADDRESSES[at]), 24);
            addresses.push(address).expect("has room");
        });
        let buffer = |bytes: usize| SocketBuffer::new(vec![0; bytes]);
        let (receive, send) = (buffer(setting.receive_bytes), buffer(setting.send_bytes));
        let mut socket = Socket::new(receive, send);
        socket.set_nagle_enabled(setting.nagle);
        if !setting.delays_ack {
            socket.set_ack_delay(None);
        }
        if setting.reno {
            socket.set_congestion_control(CongestionControl::Reno);
        }
        if setting.timestamps {
            socket.set_tsval_generator(Some(|| 7));
        }
        match at {
            0 => {
                let to = (IpAddress::Ipv4(ADDRESSES[1]), PORTS[1]);
                let context = interface.context();
                socket.connect(context, to, PORTS[0]).expect("can connect");
            }
            _ => socket.listen(PORTS[at]).expect("can listen"),
        }
        let mut sockets = SocketSet::new(Vec::new());
        let handle = sockets.add(socket);
        Self {
            wire,
            interface,
            sockets,
            handle,
            was_open: false,
        }
    }

    fn socket(&self) -> &Socket<'static> {
        self.sockets.get(self.handle)
    }
}

impl Side for Foreign {
    fn poll(&mut self, now_ns: u64) -> Option<Packet> {
        if self.wire.left.is_empty() {
            self.interface
                .poll(instant(now_ns), &mut self.wire, &mut self.sockets);
        }
        let state = self.socket().state();
        self.was_open |= !matches!(state, State::Closed | State::Listen | State::SynSent);
        let mut bytes = self.wire.left.pop_front()?;
        assert_eq!((bytes[0], bytes[9]), (0x45, 6), "TCP over plain IPv4");
        Some(Packet {
            bytes: bytes.split_off(20),
            is_capable: false,
            is_marked: false,
        })
    }

    fn take(&mut self, now_ns: u64, packet: &Packet) {
        let [there, here] = match self.socket().local_endpoint() {
            Some(end) if end.port == PORTS[0] => [ADDRESSES[1], ADDRESSES[0]],
            _ => [ADDRESSES[0], ADDRESSES[1]],
        };
        let length = (packet.bytes.len() + 20) as u16;
        let mut bytes = vec![0x45, 0];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
        bytes.extend(there.octets());
        bytes.extend(here.octets());
        let sum = Sum::of(&bytes).field().get().to_be_bytes();
        bytes[10..12].copy_from_slice(&sum);
        bytes.extend(&packet.bytes);
        self.wire.arrived.push_back(bytes);
        self.interface
            .poll(instant(now_ns), &mut self.wire, &mut self.sockets);
    }

    fn timeout_ns(&mut self, now_ns: u64) -> Option<u64> {
        let at = self.interface.poll_at(instant(now_ns), &self.sockets)?;
        Some(at.total_micros() as u64 * 1000)
    }

    fn on_timer(&mut self, _now_ns: u64) {}

    fn has_begun(&self) -> bool {
        self.socket().may_send() || self.was_open && self.socket().may_recv()
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        let socket: &mut Socket<'_> = self.sockets.get_mut(self.handle);
        match socket.can_send() {
            true => socket.send_slice(bytes).expect("can send"),
            false => 0,
        }
    }

    fn read(&mut self, most: usize) -> Vec<u8> {
        let socket: &mut Socket<'_> = self.sockets.get_mut(self.handle);
        if !socket.can_recv() {
            return Vec::new();
        }
        let mut bytes = vec![0; most.min(socket.recv_queue())];
        let count = socket.recv_slice(&mut bytes).expect("can receive");
        bytes.truncate(count);
        bytes
    }

    fn close(&mut self) {
        let socket: &mut Socket<'_> = self.sockets.get_mut(self.handle);
        socket.close();
    }

    fn abort(&mut self) {
        let socket: &mut Socket<'_> = self.sockets.get_mut(self.handle);
        socket.abort();
    }

    /// It does not listen to the network.
    fn too_big(&mut self, _sequence: u32, _mtu: u16) {}

    fn is_at_end(&self) -> bool {
        self.was_open && !self.socket().may_recv()
    }

    fn is_over(&self) -> Option<Result<(), String>> {
        let is_over = self.was_open
            && matches!(self.socket().state(), State::Closed | State::TimeWait)
            && self.socket().recv_queue() == 0
            && self.wire.left.is_empty();
        is_over.then_some(Ok(()))
    }

    fn tell(&self) -> String {
        let socket = self.socket();
        format!(
            "smoltcp in {:?}, {} to send, {} to read",
            socket.state(),
            socket.send_queue(),
            socket.recv_queue()
        )
    }
}

fn instant(now_ns: u64) -> Instant {
    Instant::from_micros((now_ns / 1000) as i64)
}
