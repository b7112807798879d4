//! Both ends in memory on one thread: two engines of ours over memif, and smoltcp's loopback.

use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{
    ChecksumCapabilities, Device, DeviceCapabilities, FaultInjector, Loopback, Medium, PcapMode,
    PcapWriter, Tracer,
};
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

/// What a side's frames and buffers are like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    /// Bytes of an IP packet at most.
    pub(super) mtu: u16,
    /// Of each ring of a connection of ours, of each buffer of a socket of smoltcp's.
    pub(super) buffer_bytes: u32,
    /// Whether smoltcp sums what it sends and gets; we always do.
    pub(super) is_summed: bool,
}

/// Those of smoltcp's loopback benchmark. Its fault injector passes frames of 1,536 bytes at most.
pub(super) const PUBLISHED: Terms = Terms {
    mtu: 1522,
    buffer_bytes: 1 << 16,
    is_summed: false,
};

/// Two engines and a connection from the first to the second. The application copies no bytes:
/// it says that they are written, or read.
pub(super) fn ours(setting: &Setting, terms: Terms) -> Result<Sample, Error> {
    on_one_processor(|| {
        let mut ends = Ends::open(setting, terms)?;
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
    ring_bytes: u32,
}

impl Ends {
    fn open(setting: &Setting, terms: Terms) -> Result<Self, Error> {
        let Terms {
            mtu,
            buffer_bytes: ring_bytes,
            ..
        } = terms;
        let own = |number| ours::config(number, mtu, ring_bytes);
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
                let far = StreamDevice::open(&nic("server"), &own(2), PATIENCE)?;
                let listener = far.endpoint().listen(FAR_ADDRESS, PATIENCE)?;
                // The other side may have failed.
                let _ = ready.send(());
                let to = listener.accept(PATIENCE)?;
                Ok::<_, Error>((far, listener, to))
            });
            let calling = || {
                let nic = nic("client");
                let near = StreamDevice::open(&nic, &own(1), PATIENCE)?;
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
                ring_bytes,
            })
        })
    }

    /// Bytes that the second end took.
    fn round(&mut self) -> Result<u64, Error> {
        if is_worth_writing(&self.from, self.ring_bytes)? {
            let room = self.from.room()?.iter().map(|piece| piece.len()).sum();
            self.from.commit(room)?;
        }
        self.near.endpoint().step();
        self.far.endpoint().step();
        take_all(&mut self.to)
    }
}

/// smoltcp on these terms, with nothing between its interface and its loopback.
pub(super) fn smoltcp(setting: &Setting, terms: Terms) -> Result<Sample, Error> {
    let wire = Wire {
        loopback: Loopback::new(Medium::Ethernet),
        terms,
    };
    round_trip(setting, wire, [(); 2].map(|()| socket(terms.buffer_bytes)))
}

/// smoltcp's own loopback benchmark. The devices that it puts between the interface and the
/// loopback take part, though nothing is captured, traced or injected: what bounds the MTU is the
/// last of them.
pub(super) fn smoltcp_as_published(setting: &Setting) -> Result<Sample, Error> {
    let loopback = Loopback::new(Medium::Ethernet);
    let writer = PcapWriter::new(loopback, std::io::sink(), PcapMode::TxOnly);
    let wire = FaultInjector::new(Tracer::new(writer, |_, _| ()), SEED);
    let most = wire.capabilities().max_transmission_unit;
    if most != usize::from(PUBLISHED.mtu) + ETHERNET_BYTES {
        return Err(Error::Missing {
            what: "the MTU of smoltcp's benchmark",
            cure: "this is a defect of the bench",
        });
    }
    // Its sockets keep to Nagle.
    let sockets = [(); 2].map(|()| {
        let mut socket = socket(PUBLISHED.buffer_bytes);
        socket.set_nagle_enabled(true);
        socket
    });
    round_trip(setting, wire, sockets)
}

/// One interface whose frames come back, two sockets.
fn round_trip<D: Device + Send>(
    setting: &Setting,
    mut wire: D,
    [from, to]: [Socket<'static>; 2],
) -> Result<Sample, Error> {
    on_one_processor(move || {
        let config = Config::new(EthernetAddress([2, 0, 0, 0, 0, 1]).into());
        let mut interface = Interface::new(config, &mut wire, Instant::now());
        let own = IpAddress::v4(127, 0, 0, 1);
        interface.update_ip_addrs(|addresses| {
            // There is room for one.
            let _ = addresses.push(IpCidr::new(own, 8));
        });
        let mut sockets = SocketSet::new(Vec::new());
        let (from, to) = (sockets.add(from), sockets.add(to));
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
    terms: Terms,
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
        capabilities.max_transmission_unit = usize::from(self.terms.mtu) + ETHERNET_BYTES;
        if self.terms.is_summed {
            capabilities.checksum = ChecksumCapabilities::default();
        }
        capabilities
    }
}

/// What the fault injector, which is at rest, draws from.
const SEED: u32 = 1;
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
