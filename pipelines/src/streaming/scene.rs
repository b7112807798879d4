//! Two endpoints on soft NICs with a cable between them, a thread each, whatever carries their
//! streams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpwire_gpu::executor::{Clock, IdlePolicy, Placement};
use warpwire_gpu::{CpuExecutor, Service};
use warpwire_nic::soft::{
    AdapterConfig, Clock as FabricClock, Fabric, FabricConfig, Impairments, SoftNic,
};
use warpwire_nic::{Caps, Counters, Nic, NicSpec, QueuePair};
use warpwire_protocols::rdma::Mtu;

use super::*;
use crate::messaging::{self, Endpoint, EndpointConfig, Path};

pub(crate) const LIMIT: Duration = Duration::from_secs(20);

/// What carries the streams of a scene.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum By {
    /// TCP, by an engine that whoever waits steps.
    Tcp,
    /// TCP, by two engines over as many pairs of queues.
    Queues,
    /// TCP, by engines in a kernel on an executor, over two pairs of queues.
    Sliced,
    /// TCP, by a crew of two warps that whoever waits steps.
    Pair,
    /// TCP, by crews of four warps in a kernel on an executor, over two pairs of queues.
    Crews,
    /// Messages, by an engine that whoever waits steps.
    Fused,
    /// Messages, by an engine in a kernel on an executor.
    Kernel,
    /// Messages, by the NIC.
    Nic,
}

impl By {
    pub(super) const fn is_tcp(self) -> bool {
        !matches!(self, Self::Fused | Self::Kernel | Self::Nic)
    }
}

/// How TCP is carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ways {
    pub(super) queues: u32,
    /// Warps of each.
    pub(super) warps: u32,
    /// The NIC does not say where segments come to.
    pub(super) is_blind: bool,
    /// The engines are a kernel.
    pub(super) in_kernel: bool,
}

impl Default for Ways {
    fn default() -> Self {
        Self {
            queues: 1,
            warps: 1,
            is_blind: false,
            in_kernel: false,
        }
    }
}

/// A NIC that does not say where segments come to.
struct Blind<'a>(&'a SoftNic);

impl Nic for Blind<'_> {
    fn spec(&self) -> &NicSpec {
        self.0.spec()
    }

    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn mac(&self) -> [u8; 6] {
        self.0.mac()
    }

    fn queues(&self) -> &[QueuePair] {
        self.0.queues()
    }

    fn take_services(&mut self) -> Vec<Box<dyn Service>> {
        Vec::new()
    }

    fn counters(&self) -> Counters {
        self.0.counters()
    }

    fn choices(&self) -> Vec<String> {
        self.0.choices()
    }

    fn close(self: Box<Self>) -> Result<(), warpwire_nic::Error> {
        Ok(())
    }
}

/// What tests change of both carriers' settings.
#[derive(Clone, Debug)]
pub(crate) struct Sizes {
    pub(super) connections: u32,
    pub(super) listeners: u32,
    pub(super) ring_bytes: u32,
    /// How long a place stays after the end of its stream.
    pub(super) linger: Duration,
}

impl Default for Sizes {
    fn default() -> Self {
        Self {
            connections: 32,
            listeners: 8,
            ring_bytes: 1 << 16,
            linger: Duration::from_millis(100),
        }
    }
}

/// Two endpoints; what they run on goes after them.
pub(crate) struct Scene {
    pub(crate) ends: [StreamEndpoint; 2],
    pub(super) by: By,
    /// Executor and NICs, which have to go after the endpoints.
    pub(super) rest: Rest,
}

pub(super) struct Rest {
    _executor: Option<CpuExecutor>,
    _nics: [SoftNic; 2],
    fabric: Fabric,
}

impl Rest {
    /// From now on nothing gets through.
    pub(super) fn cut(&self) {
        let link = Impairments {
            loss_ppm: 1_000_000,
            ..Impairments::default()
        };
        self._nics
            .iter()
            .for_each(|nic| self.fabric.impair(nic.port(), link));
    }
}

impl Scene {
    /// Over TCP, with its settings changed.
    pub(super) fn new(link: Impairments, change: impl Fn(&mut StreamConfig)) -> Self {
        Self::over(Ways::default(), link, change)
    }

    /// Over TCP that is carried in some way.
    pub(super) fn over(ways: Ways, link: Impairments, change: impl Fn(&mut StreamConfig)) -> Self {
        let executor = ways.in_kernel.then(executor);
        let clock = executor
            .as_ref()
            .map_or_else(Clock::machine, CpuExecutor::clock);
        let rest = Rest::new(&clock, link, executor, ways.queues);
        let mut service = rest.service();
        let ends = [0, 1].map(|number| {
            let own = [
                format!("10.9.0.{}/24", number + 1),
                format!("fd09::{}/64", number + 1),
            ];
            let own = own.map(|own| own.parse().expect("is one"));
            let mut config = StreamConfig {
                ring_bytes: 1 << 16,
                connections: 64,
                open: 32,
                warps: ways.warps,
                ..StreamConfig::new(own.to_vec())
            };
            change(&mut config);
            let services = service.take().into_iter().collect();
            let nic = &rest._nics[number];
            let blind = Blind(nic);
            let nic: &dyn Nic = if ways.is_blind { &blind } else { nic };
            let end = match &rest._executor {
                Some(executor) => StreamEndpoint::start(executor, nic, &config, Placement::Any),
                None => StreamEndpoint::start_fused(clock.clone(), nic, services, &config),
            };
            end.expect("starts")
        });
        let by = By::Tcp;
        Self { ends, by, rest }
    }

    /// Over any carrier.
    pub(crate) fn of(by: By, link: Impairments, sizes: &Sizes) -> Self {
        if by.is_tcp() {
            let ways = Ways {
                queues: match by {
                    By::Tcp | By::Pair => 1,
                    _ => 2,
                },
                warps: match by {
                    By::Pair => 2,
                    By::Crews => 4,
                    _ => 1,
                },
                in_kernel: matches!(by, By::Sliced | By::Crews),
                ..Ways::default()
            };
            return Self::over(ways, link, |config| {
                config.connections = sizes.connections;
                config.open = sizes.connections;
                config.listeners = sizes.listeners;
                config.ring_bytes = sizes.ring_bytes;
                config.tcp.time_wait_ns = sizes.linger.as_nanos() as u64;
            });
        }
        let (clock, executor) = match by {
            By::Fused => (Clock::machine(), None),
            _ => {
                let executor = executor();
                (executor.clock(), Some(executor))
            }
        };
        let rest = Rest::new(&clock, link, executor, 1);
        let mut service = rest.service();
        let config = RdmaConfig {
            connections: sizes.connections,
            ring_bytes: sizes.ring_bytes,
            listeners: sizes.listeners,
            linger: sizes.linger,
            ..RdmaConfig::default()
        };
        let ends = [0, 1].map(|number: usize| {
            let memory = RingMemory::new(&config).expect("is had");
            let endpoint = endpoint(by, &rest, number, &clock, &memory, &config);
            let macs = [0, 1].map(|which| rest._nics[which ^ number].mac());
            let ground = Box::new(Table {
                endpoint,
                number: number as u32,
                macs,
            });
            let services = service.take().into_iter().collect();
            let end = StreamEndpoint::start_over_messages(ground, &memory, services, &config);
            end.expect("starts")
        });
        Self { ends, by, rest }
    }

    /// The second end listens, at any address.
    pub(crate) fn listen(&self) -> Listener {
        let at = match self.by {
            By::Tcp => "10.9.0.2:7",
            _ => "127.0.0.1:0",
        };
        let listener = self.ends[1].listen(super::scene::at(at), LIMIT);
        listener.expect("listens")
    }

    /// Where the second end could listen and does not.
    pub(super) fn deaf(&self) -> SocketAddr {
        let listener = self.listen();
        listener.address()
    }

    /// The endpoints, and what has to go after them.
    #[cfg(feature = "tokio")]
    pub(super) fn parts(self) -> ([StreamEndpoint; 2], Rest) {
        (self.ends, self.rest)
    }

    /// Runs a server beside a client; both endpoints are stepped until both are over.
    pub(crate) fn run(
        &self,
        client: impl FnOnce(&StreamEndpoint),
        server: impl FnOnce(&StreamEndpoint) + Send,
    ) {
        let (served, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let step = |end: &StreamEndpoint, until: &AtomicBool| {
            while !until.load(Ordering::Relaxed) {
                if !end.step() {
                    std::thread::yield_now();
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let ended = Ended(&served);
                server(&self.ends[1]);
                drop(ended);
                step(&self.ends[1], &over);
            });
            let _over = Ended(&over);
            client(&self.ends[0]);
            step(&self.ends[0], &served);
        });
    }
}

impl Rest {
    fn new(clock: &Clock, link: Impairments, executor: Option<CpuExecutor>, queues: u32) -> Self {
        let fabric = Fabric::new(
            FabricConfig::default(),
            FabricClock::Executor(clock.clone()),
        );
        let nics = [0, 1].map(|_| {
            let spec = "soft".parse().expect("is right");
            let config = AdapterConfig {
                queues,
                ..AdapterConfig::default()
            };
            let nic = fabric.plug(spec, config, link);
            nic.expect("opens")
        });
        fabric.cable(nics[0].port(), nics[1].port());
        Self {
            _executor: executor,
            _nics: nics,
            fabric,
        }
    }

    /// The fabric's service, if no executor takes it.
    fn service(&self) -> Option<Box<dyn Service>> {
        let fabric = Box::new(self.fabric.service());
        match &self._executor {
            None => Some(fabric),
            Some(executor) => {
                executor.add_service(fabric, Placement::Any).expect("runs");
                None
            }
        }
    }
}

fn executor() -> CpuExecutor {
    let executor = CpuExecutor::builder().idle(IdlePolicy::POLITE).build();
    executor.expect("builds")
}

/// Two ends that know each other's Ethernet addresses.
struct Table {
    endpoint: Endpoint,
    number: u32,
    macs: [[u8; 6]; 2],
}

impl Ground for Table {
    fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    fn gid(&self) -> [u8; 16] {
        messaging::gid([10, 9, 0, self.number as u8 + 1].into())
    }

    fn mtu(&self) -> Mtu {
        Mtu::M1024
    }

    fn path(&self, _to: &[u8; 16], own: u32, peer: u32) -> Result<Path, messaging::Error> {
        let address = |number: u32| [0x0a09_0001 + number, 0, 0, 0];
        Ok(Path {
            local: address(self.number),
            remote: address(self.number ^ 1),
            mac: self.macs[0],
            next_hop: self.macs[1],
            source_port: 0xc000 | (own ^ peer) as u16,
            ip_version: 4,
            hop_limit: 64,
            ..Path::default()
        })
    }
}

fn endpoint(
    by: By,
    rest: &Rest,
    number: usize,
    clock: &Clock,
    memory: &RingMemory,
    sizes: &RdmaConfig,
) -> Endpoint {
    let config = EndpointConfig {
        log_send: 6,
        ..sizes.endpoint(number as u32)
    };
    let nic = &rest._nics[number];
    let memory = [Arc::clone(memory.arena())];
    let any = Placement::Any;
    let started = match (by, &rest._executor) {
        (By::Kernel, Some(executor)) => Endpoint::start(executor, nic, &memory, config, any),
        (By::Nic, Some(executor)) => Endpoint::start_in_nic(executor, nic, &memory, config, any),
        _ => Endpoint::start_fused(clock.clone(), nic, &memory, config),
    };
    started.expect("starts")
}

/// Says so when a side is over, however that came.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

pub(super) fn at(address: &str) -> SocketAddr {
    address.parse().expect("is one")
}
