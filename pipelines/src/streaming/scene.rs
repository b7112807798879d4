//! Two endpoints on soft NICs with a cable between them, a thread each, whatever carries their
//! streams.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpwire_gpu::executor::{Clock, IdlePolicy, Placement};
use warpwire_gpu::{CpuExecutor, Service};
use warpwire_nic::Nic as _;
use warpwire_nic::soft::{
    AdapterConfig, Clock as FabricClock, Fabric, FabricConfig, Impairments, SoftNic,
};
use warpwire_protocols::rdma::Mtu;

use super::*;
use crate::messaging::{self, Endpoint, EndpointConfig, Path};

pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// What carries the streams of a scene.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum By {
    /// TCP, by an engine that whoever waits steps.
    Tcp,
    /// Messages, by an engine that whoever waits steps.
    Fused,
    /// Messages, by an engine in a kernel on an executor.
    Kernel,
    /// Messages, by the NIC.
    Nic,
}

/// What tests change of both carriers' settings.
#[derive(Clone, Debug)]
pub(super) struct Sizes {
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
pub(super) struct Scene {
    pub(super) ends: [StreamEndpoint; 2],
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
        let clock = Clock::machine();
        let rest = Rest::new(&clock, link, None);
        let mut service: Option<Box<dyn Service>> = Some(Box::new(rest.fabric.service()));
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
                ..StreamConfig::new(own.to_vec())
            };
            change(&mut config);
            let services = service.take().into_iter().collect();
            let nic = &rest._nics[number];
            let end = StreamEndpoint::start_fused(clock.clone(), nic, services, &config);
            end.expect("starts")
        });
        let by = By::Tcp;
        Self { ends, by, rest }
    }

    /// Over any carrier.
    pub(super) fn of(by: By, link: Impairments, sizes: &Sizes) -> Self {
        if by == By::Tcp {
            return Self::new(link, |config| {
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
                let executor = CpuExecutor::builder().idle(IdlePolicy::POLITE).build();
                let executor = executor.expect("builds");
                (executor.clock(), Some(executor))
            }
        };
        let rest = Rest::new(&clock, link, executor);
        let mut service: Option<Box<dyn Service>> = match &rest._executor {
            None => Some(Box::new(rest.fabric.service())),
            Some(executor) => {
                let fabric = Box::new(rest.fabric.service());
                executor.add_service(fabric, Placement::Any).expect("runs");
                None
            }
        };
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
    pub(super) fn listen(&self) -> Listener {
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
    pub(super) fn run(
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
    fn new(clock: &Clock, link: Impairments, executor: Option<CpuExecutor>) -> Self {
        let fabric = Fabric::new(
            FabricConfig::default(),
            FabricClock::Executor(clock.clone()),
        );
        let nics = [0, 1].map(|_| {
            let spec = "soft".parse().expect("is right");
            let nic = fabric.plug(spec, AdapterConfig::default(), link);
            nic.expect("opens")
        });
        fabric.cable(nics[0].port(), nics[1].port());
        Self {
            _executor: executor,
            _nics: nics,
            fabric,
        }
    }
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
