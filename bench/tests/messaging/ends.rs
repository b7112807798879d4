//! Two endpoints on soft NICs with a cable between them.

use std::sync::Arc;
use std::time::Duration;

use warpwire::pipelines::messaging::{
    Completed, Endpoint, EndpointConfig, Gather, MemoryRegion, Pair, PairConfig, Path, Remote,
};
use warpwire_gpu::executor::{Backend, Builder, IdlePolicy, Placement, Time};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::Nic;
use warpwire_nic::soft::{Clock, Fabric, FabricConfig, Impairments, SoftNic};
use warpwire_protocols::rdma::{Access, Attributes, Start};
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::Location;

/// Bytes of an end's memory.
pub(crate) const BYTES: u64 = 4 << 20;
/// In each end's memory: what is sent, what is received or fetched, what the peer writes, and words
/// that it signals.
pub(crate) const SOURCE: u64 = 0;
pub(crate) const TARGET: u64 = 1 << 20;
pub(crate) const WRITTEN: u64 = 2 << 20;
pub(crate) const SIGNALS: u64 = 3 << 20;

/// Frames of every MTU in one piece.
pub(crate) const LARGE: &str = "mtu=9000,slot=9088";

/// Patience of tests with what takes no time.
pub(crate) const SOON: Duration = Duration::from_secs(20);

/// Where the engines run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    /// In kernels of their own, of one warp.
    Sliced,
    /// In kernels of their own, of several warps.
    Crew,
    /// In the test's own thread.
    Fused,
    /// In the NIC.
    Nic,
}

impl Mode {
    pub(crate) const ALL: [Self; 4] = [Self::Sliced, Self::Crew, Self::Fused, Self::Nic];

    const fn warps(self) -> u32 {
        match self {
            Self::Crew => 4,
            Self::Sliced | Self::Fused | Self::Nic => 1,
        }
    }
}

/// What is set up.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(crate) mode: Mode,
    pub(crate) backend: Backend,
    pub(crate) time: Time,
    pub(crate) options: &'static str,
    pub(crate) attributes: Attributes,
    pub(crate) link: Impairments,
    pub(crate) config: EndpointConfig,
    pub(crate) seed: u64,
    /// What is done to the ways of both ends.
    pub(crate) route: fn(&mut Path),
}

impl Plan {
    pub(crate) fn new(mode: Mode) -> Self {
        Self {
            mode,
            backend: Backend::Scalar,
            time: Time::Real,
            options: LARGE,
            attributes: Attributes::default(),
            link: Impairments::default(),
            config: EndpointConfig::default(),
            seed: 0,
            route: |_| {},
        }
    }

    /// In time that moves only while somebody waits.
    pub(crate) fn timeless(mode: Mode) -> Self {
        Self {
            time: Time::Virtual { seed: 1 },
            ..Self::new(mode)
        }
    }
}

/// Has a way lead through IPv6.
pub(crate) fn over_ipv6(path: &mut Path) {
    path.ip_version = 6;
    path.flow_label = 0xa_bcde;
    for address in [&mut path.local, &mut path.remote] {
        let [last, ..] = *address;
        *address = [0xfd77_0000, 0, 0x1234, last];
    }
}

/// One end.
pub(crate) struct Side {
    pub(crate) endpoint: Endpoint,
    pub(crate) memory: Arc<Arena>,
    pub(crate) region: MemoryRegion,
    pub(crate) mac: [u8; 6],
    pub(crate) address: u32,
}

impl Side {
    pub(crate) fn gather(&self, at: u64, length: u32) -> Gather {
        self.region.gather(at, length)
    }

    pub(crate) fn remote(&self, at: u64) -> Remote {
        self.region.remote(at)
    }

    pub(crate) fn bytes(&self, at: u64, length: u32) -> Vec<u8> {
        let mut bytes = vec![0; length as usize];
        let address = self.memory.whole().address.offset(at);
        self.memory.read(address, &mut bytes).expect("inside");
        bytes
    }

    pub(crate) fn word(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.bytes(at, 8).try_into().expect("eight"))
    }

    pub(crate) fn fill(&self, at: u64, length: u32, seed: u8) {
        let byte = |i: u32| {
            let i8 = i as u8;
            i8.wrapping_mul(7)
                .wrapping_add(seed)
                .wrapping_add((i >> 8) as u8)
        };
        let bytes: Vec<u8> = (0..length).map(byte).collect();
        let address = self.memory.whole().address.offset(at);
        self.memory.write(address, &bytes).expect("inside");
    }

    pub(crate) fn pair(&self) -> Pair {
        self.endpoint.pair(PairConfig::default()).expect("is free")
    }
}

/// Both ends.
pub(crate) struct Stage {
    pub(crate) executor: Arc<CpuExecutor>,
    pub(crate) fabric: Fabric,
    pub(crate) nics: Vec<SoftNic>,
    pub(crate) sides: [Side; 2],
    pub(crate) attributes: Attributes,
    route: fn(&mut Path),
}

impl Stage {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::on(plan, CpuExecutor::builder().backend(plan.backend))
    }

    /// On an executor of such a backend.
    pub(crate) fn on(plan: &Plan, builder: Builder) -> Self {
        let builder = builder.idle(IdlePolicy::POLITE).clock(plan.time);
        let executor = Arc::new(builder.build().expect("builds"));
        let config = FabricConfig {
            seed: plan.seed,
            ..FabricConfig::default()
        };
        let fabric = Fabric::new(config, Clock::Executor(executor.clock()));
        let nics = ["a", "b"].map(|name| {
            let words = format!("soft:{name},{}", plan.options);
            fabric.open(&words.parse().expect("words")).expect("opens")
        });
        let mut nics = Vec::from(nics);
        let ports: Vec<_> = nics.iter().map(SoftNic::port).collect();
        fabric.cable(ports[0], ports[1]);
        ports
            .iter()
            .for_each(|port| fabric.impair(*port, plan.link));
        for service in nics.iter_mut().flat_map(Nic::take_services) {
            executor.add_service(service, Placement::Any).expect("runs");
        }
        let arenas = [(); 2].map(|()| {
            let arena = Arena::new(BYTES as usize, Location::Device);
            Arc::new(arena.expect("maps"))
        });
        let start = |place: usize| {
            let config = EndpointConfig {
                first_number: 0x1000 * (place as u32 + 1),
                warps: plan.mode.warps(),
                ..plan.config
            };
            let (nic, memory) = (&nics[place], std::slice::from_ref(&arenas[place]));
            match plan.mode {
                Mode::Sliced | Mode::Crew => {
                    Endpoint::start(&executor, nic, memory, config, Placement::Any)
                }
                Mode::Fused => Endpoint::start_fused(executor.clock(), nic, memory, config),
                Mode::Nic => Endpoint::start_in_nic(&executor, nic, memory, config, Placement::Any),
            }
            .expect("starts")
        };
        let endpoints = wired([start(0), start(1)], plan, &executor);
        let mut endpoints = endpoints.into_iter().enumerate();
        let sides = [(); 2].map(|()| {
            let (place, endpoint) = endpoints.next().expect("two");
            let memory = Arc::clone(&arenas[place]);
            let whole = memory.whole().address;
            let region = endpoint.register(whole, BYTES, Access::ALL, 0x5a);
            Side {
                region: region.expect("fits"),
                endpoint,
                memory,
                mac: nics[place].mac(),
                address: 0x0a00_0001 + place as u32,
            }
        });
        Self {
            executor,
            fabric,
            nics,
            sides,
            attributes: plan.attributes,
            route: plan.route,
        }
    }

    /// Connects a pair of each end.
    pub(crate) fn connect(&self, pairs: &mut [Pair; 2], source_port: u16) {
        self.connect_by(pairs, source_port, |_, _, _| {});
    }

    /// [`Stage::connect`], where each end may have attributes and a way of its own.
    pub(crate) fn connect_by(
        &self,
        pairs: &mut [Pair; 2],
        source_port: u16,
        change: impl Fn(usize, &mut Attributes, &mut Path),
    ) {
        let psns = [0x00ff_fff0, 0x0000_1234].map(Psn::new);
        let numbers = [pairs[0].number(), pairs[1].number()];
        for (place, pair) in pairs.iter_mut().enumerate() {
            let (own, peer) = (&self.sides[place], &self.sides[1 - place]);
            let mut path = Path {
                local: [own.address, 0, 0, 0],
                remote: [peer.address, 0, 0, 0],
                next_hop: peer.mac,
                mac: own.mac,
                source_port,
                ip_version: 4,
                traffic_class: 2,
                hop_limit: 64,
                ..Path::default()
            };
            let mut attributes = Attributes {
                remote_qp: Qpn::new(numbers[1 - place]),
                ..self.attributes
            };
            (self.route)(&mut path);
            change(place, &mut attributes, &mut path);
            let start = Start {
                send: psns[place],
                receive: psns[1 - place],
            };
            pair.connect(attributes, start, path).expect("connects");
        }
    }

    /// A connection: a pair of each end.
    pub(crate) fn pairs(&self) -> [Pair; 2] {
        self.pairs_by(|_, _, _| {})
    }

    /// [`Stage::pairs`], where each end may have attributes and a way of its own.
    pub(crate) fn pairs_by(&self, change: impl Fn(usize, &mut Attributes, &mut Path)) -> [Pair; 2] {
        let mut pairs = [self.sides[0].pair(), self.sides[1].pair()];
        self.connect_by(&mut pairs, 0xc123, change);
        pairs
    }

    /// Lets engines and links run for so long.
    pub(crate) fn run_for(&self, time: Duration) {
        let clock = self.executor.clock();
        let end_ns = clock.now_ns() + time.as_nanos() as u64;
        while clock.now_ns() < end_ns {
            for side in &self.sides {
                (side.endpoint.idle())();
            }
        }
    }

    pub(crate) fn stop(self) {
        for side in self.sides {
            side.endpoint.stop(Duration::from_secs(5)).expect("stops");
        }
        let executor = Arc::into_inner(self.executor);
        if let Some(executor) = executor {
            executor.shutdown(Duration::from_secs(5)).expect("ends");
        }
    }
}

/// Who waits for one engine lets the other one run as well, and time go on.
fn wired(endpoints: [Endpoint; 2], plan: &Plan, executor: &Arc<CpuExecutor>) -> [Endpoint; 2] {
    let engines = [0, 1].map(|place: usize| endpoints[1 - place].fused().cloned());
    let mut engines = engines.into_iter();
    endpoints.map(|endpoint| {
        let other = engines.next().expect("two");
        let executor = Arc::downgrade(executor);
        let is_virtual = matches!(plan.time, Time::Virtual { .. });
        endpoint.idle_by(Arc::new(move || {
            if other.as_ref().is_some_and(|engine| engine.step()) {
                return;
            }
            match executor.upgrade() {
                Some(executor) if is_virtual => {
                    executor
                        .advance(Duration::from_micros(20))
                        .expect("goes on");
                }
                _ => std::thread::yield_now(),
            }
        }))
    })
}

pub(crate) fn wait(pair: &mut Pair) -> Completed {
    pair.wait(SOON).unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn sent(pair: &mut Pair) {
    match wait(pair) {
        Completed::Sent { .. } => {}
        other => panic!("{other:?}"),
    }
}
