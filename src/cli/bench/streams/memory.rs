//! Both ends in memory on one thread: two engines of ours over memif, and smoltcp's loopback.

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{ChecksumCapabilities, Device, DeviceCapabilities, Loopback, Medium};
use smoltcp::socket::tcp::Socket;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, IpAddress, IpCidr};
use warpwire_pipelines::streaming::{Listener, Stream, StreamDevice};

use super::super::engine::on_one_processor;
use super::super::error::Error;
use super::super::row::Sample;
use super::super::setting::Setting;
use super::count::{self, Task};
use super::link::FAR_ADDRESS;
use super::ours::{self, buffer_bytes, is_worth_writing, take_all};
use super::smoltcp_end::socket;

/// Two engines and a connection from the first to the second. The application copies no bytes:
/// it says that they are written, or read.
pub(super) fn ours(setting: &Setting, mtu: u16) -> Result<Sample, Error> {
    on_one_processor(|| {
        let mut ends = Ends::open(setting, mtu)?;
        let _first = setting.first(&[])?;
        let came = count::count(setting, &[Task::own()], || {
            let mut came = 0;
            for _ in 0..ROUNDS {
                came += ends.round()?;
            }
            Ok(came)
        })?;
        Ok(count::goodput(came))
    })
}

struct Ends {
    // In the order in which they must go.
    from: Stream,
    to: Stream,
    _listener: Listener,
    near: StreamDevice,
    far: StreamDevice,
}

impl Ends {
    fn open(setting: &Setting, mtu: u16) -> Result<Self, Error> {
        let socket = setting.socket();
        // Few enough buffers that they stay in the cache beside the rings.
        let nic = |role: &str| {
            let buffer = buffer_bytes(mtu);
            let socket = socket.display();
            format!("memif:{socket},role={role},buffer={buffer},depth=64")
        };
        let (ready, begun) = sync_channel(1);
        thread::scope(|scope| {
            let serving = scope.spawn(move || {
                // The names are the command's: `far` is 10.94.0.2.
                let far = StreamDevice::open(&nic("server"), &ours::config(2, mtu), PATIENCE)?;
                let listener = far.endpoint().listen(FAR_ADDRESS, PATIENCE)?;
                // The other side may have failed.
                let _ = ready.send(());
                let to = listener.accept(PATIENCE)?;
                Ok::<_, Error>((far, listener, to))
            });
            let calling = || {
                let nic = nic("client");
                let near = StreamDevice::open(&nic, &ours::config(1, mtu), PATIENCE)?;
                // Where the server fails, its own error says why.
                let _ = begun.recv_timeout(PATIENCE);
                let from = near.endpoint().connect(FAR_ADDRESS, PATIENCE)?;
                while !serving.is_finished() {
                    near.endpoint().step();
                }
                Ok::<_, Error>((near, from))
            };
            let called = calling();
            let served = serving.join();
            let served = served.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let (far, _listener, to) = served?;
            let (near, from) = called?;
            Ok(Self {
                from,
                to,
                _listener,
                near,
                far,
            })
        })
    }

    /// Bytes that the second end took.
    fn round(&mut self) -> Result<u64, Error> {
        if is_worth_writing(&self.from)? {
            let room = self.from.room()?.iter().map(|piece| piece.len()).sum();
            self.from.commit(room)?;
        }
        self.near.endpoint().step();
        self.far.endpoint().step();
        take_all(&mut self.to)
    }
}

/// smoltcp as in its own loopback benchmark: one interface whose frames come back, two sockets.
pub(super) fn smoltcp(setting: &Setting, mtu: u16, is_summed: bool) -> Result<Sample, Error> {
    on_one_processor(|| {
        let mut wire = Wire {
            loopback: Loopback::new(Medium::Ethernet),
            mtu,
            is_summed,
        };
        let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into());
        let mut interface = Interface::new(config, &mut wire, Instant::now());
        let own = IpAddress::v4(127, 0, 0, 1);
        interface.update_ip_addrs(|addresses| {
            // There is room for one.
            let _ = addresses.push(IpCidr::new(own, 8));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let (from, to) = (sockets.add(socket()), sockets.add(socket()));
        let listening = sockets.get_mut::<Socket>(to).listen(PORT);
        listening.map_err(|_| NO_CONNECTION)?;
        let connecting = sockets.get_mut::<Socket>(from);
        let connecting = connecting.connect(interface.context(), (own, PORT), OTHER_PORT);
        connecting.map_err(|_| NO_CONNECTION)?;
        let _first = setting.first(&[])?;
        let came = count::count(setting, &[Task::own()], || {
            let mut came = 0;
            for _ in 0..ROUNDS {
                interface.poll(Instant::now(), &mut wire, &mut sockets);
                let receiving = sockets.get_mut::<Socket>(to);
                while let Ok(count @ 1..) = receiving.recv(|bytes| (bytes.len(), bytes.len())) {
                    came += count as u64;
                }
                let sending = sockets.get_mut::<Socket>(from);
                while let Ok(1..) = sending.send(|room| (room.len(), room.len())) {}
            }
            Ok(came)
        })?;
        Ok(count::goodput(came))
    })
}

/// smoltcp's loopback with an MTU, and with checksums if it shall have them.
struct Wire {
    loopback: Loopback,
    mtu: u16,
    is_summed: bool,
}

impl Device for Wire {
    type RxToken<'a> = <Loopback as Device>::RxToken<'a>;
    type TxToken<'a> = <Loopback as Device>::TxToken<'a>;

    fn receive(&mut self, now: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        self.loopback.receive(now)
    }

    fn transmit(&mut self, now: Instant) -> Option<Self::TxToken<'_>> {
        self.loopback.transmit(now)
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = self.loopback.capabilities();
        capabilities.max_transmission_unit = usize::from(self.mtu) + ETHERNET_BYTES;
        if self.is_summed {
            capabilities.checksum = ChecksumCapabilities::default();
        }
        capabilities
    }
}

/// Bytes of an Ethernet header.
const ETHERNET_BYTES: usize = 14;
const PORT: u16 = 7000;
const OTHER_PORT: u16 = 65000;
const NO_CONNECTION: Error = Error::Missing {
    what: "a connection of smoltcp",
    cure: "this is a defect of the bench",
};
/// Rounds between two looks at the clock.
const ROUNDS: u32 = 16;
const PATIENCE: Duration = Duration::from_secs(60);
