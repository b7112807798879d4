//! Small programs that show one thing each; here is what they share: endpoints on soft NICs.
//!
//! Invariant: an example runs without root, GPU or NIC, ends by itself, checks what it did and says
//! what that was.

use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use warpwire::pipelines::messaging::{
    DeviceConfig, Endpoint, EndpointConfig, Error, MemoryRegion, Pair, PairConfig, Path,
};
use warpwire_gpu::executor::{IdlePolicy, Placement};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_nic::Nic;
use warpwire_nic::soft::{Clock, Fabric, FabricConfig, SoftNic};
use warpwire_protocols::rdma::{Access, Attributes, Start};
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_ring::{DeviceAddress, Location};

/// What an example comes to.
pub type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

/// One of two ends: without words the server, with a host, and a port if it is not `port`, a client
/// of it.
pub fn two_ends(
    name: &str,
    port: u16,
    serve: impl FnOnce(u16) -> Outcome<()>,
    ask: impl FnOnce(&str, u16) -> Outcome<()>,
) -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let port = words.get(1).map_or(Ok(port), |word| word.parse());
    let outcome = match (words.first(), port) {
        (_, Err(error)) => Err(error.into()),
        (None, Ok(port)) => serve(port),
        (Some(host), Ok(port)) => ask(host, port),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A device with queue pair 1, by which peers find each other, one queue pair more, and memory.
pub fn found_by_peers(bytes: usize, patience: Duration) -> DeviceConfig {
    DeviceConfig {
        nic: None,
        bytes,
        memory: Vec::new(),
        endpoint: EndpointConfig {
            pairs: 2,
            management: true,
            ..EndpointConfig::default()
        },
        patience,
        // A number that nobody can guess.
        chance: RandomState::new().hash_one(0),
        fused: false,
        capture: None,
    }
}

/// Endpoints on a switch, each on a soft NIC of its own.
pub struct Network {
    /// The endpoints.
    pub nodes: Vec<Node>,
    // After the endpoints that run on it.
    executor: CpuExecutor,
}

/// One endpoint with memory that the others may use.
pub struct Node {
    /// The engine.
    pub endpoint: Endpoint,
    /// All of the memory, registered.
    pub region: MemoryRegion,
    memory: Arc<Arena>,
    nic: SoftNic,
    address: u32,
}

impl Network {
    /// `count` endpoints with `bytes` of memory each.
    ///
    /// # Errors
    /// What the system refuses.
    pub fn new(count: u32, bytes: usize) -> Result<Self, Error> {
        let executor = CpuExecutor::builder().idle(IdlePolicy::POLITE).build()?;
        let clock = Clock::Executor(executor.clock());
        let fabric = Fabric::new(FabricConfig::default(), clock);
        let mut nics = Vec::new();
        for number in 0..count {
            let mut nic = fabric.open(&format!("soft:node{number}").parse()?)?;
            fabric.pin(nic.mac(), nic.port());
            for service in nic.take_services() {
                executor.add_service(service, Placement::Any)?;
            }
            nics.push(nic);
        }
        let mut nodes = Vec::new();
        for (nic, number) in nics.into_iter().zip(0..) {
            let memory = Arc::new(Arena::new(bytes, Location::Device)?);
            let config = EndpointConfig {
                first_number: 0x1000 * (number + 1),
                ..EndpointConfig::default()
            };
            let arenas = [Arc::clone(&memory)];
            let endpoint = Endpoint::start(&executor, &nic, &arenas, config, Placement::Any)?;
            let whole = memory.whole();
            // A number that nobody can guess.
            let chance = RandomState::new().hash_one(number);
            let region = endpoint.register(whole.address, whole.length, Access::ALL, chance)?;
            nodes.push(Node {
                endpoint,
                region,
                memory,
                nic,
                address: 0x0a00_0001 + number,
            });
        }
        Ok(Self { nodes, executor })
    }

    /// Connects two endpoints: a queue pair of each. Programs on two machines agree on all of this
    /// over TCP, see `warpwire::pipelines::connect`.
    ///
    /// # Errors
    /// [`Error::Pairs`], [`Error::Deadline`].
    ///
    /// # Panics
    /// If there are not so many endpoints.
    pub fn connect(&self, one: usize, other: usize) -> Result<[Pair; 2], Error> {
        let nodes = [&self.nodes[one], &self.nodes[other]];
        let mut pairs = [
            nodes[0].endpoint.pair(PairConfig::default())?,
            nodes[1].endpoint.pair(PairConfig::default())?,
        ];
        let numbers = [pairs[0].number(), pairs[1].number()];
        let psns = [0x00ab_cdef, 0x0012_3456].map(Psn::new);
        for (place, pair) in pairs.iter_mut().enumerate() {
            let (own, peer) = (nodes[place], nodes[1 - place]);
            let path = Path {
                local: [own.address, 0, 0, 0],
                remote: [peer.address, 0, 0, 0],
                next_hop: peer.nic.mac(),
                mac: own.nic.mac(),
                source_port: 0xc000 | (numbers[0] ^ numbers[1]) as u16 & 0x3fff,
                ip_version: 4,
                hop_limit: 64,
                ..Path::default()
            };
            let attributes = Attributes {
                remote_qp: Qpn::new(numbers[1 - place]),
                ..Attributes::default()
            };
            let start = Start {
                send: psns[place],
                receive: psns[1 - place],
            };
            pair.connect(attributes, start, path)?;
        }
        Ok(pairs)
    }

    /// The executor that the engines run on, for kernels beside them.
    pub const fn executor(&self) -> &CpuExecutor {
        &self.executor
    }

    /// Stops everything. Returns how many packets were sent.
    ///
    /// # Errors
    /// [`Error::Ended`] if an engine ended by itself.
    pub fn stop(self) -> Result<u64, Error> {
        let mut packets = 0;
        for node in self.nodes {
            packets += node.endpoint.stop(PATIENCE)?.sent;
        }
        self.executor.shutdown(PATIENCE)?;
        Ok(packets)
    }
}

impl Node {
    /// Writes into the memory, from byte `at` on.
    ///
    /// # Errors
    /// [`Error::Memory`] outside of it.
    pub fn write(&self, at: u64, bytes: &[u8]) -> Result<(), Error> {
        Ok(self.memory.write(self.at(at), bytes)?)
    }

    /// Reads from the memory.
    ///
    /// # Errors
    /// [`Error::Memory`] outside of it.
    pub fn read(&self, at: u64, into: &mut [u8]) -> Result<(), Error> {
        Ok(self.memory.read(self.at(at), into)?)
    }

    /// Writes numbers into the memory, from byte `at` on.
    ///
    /// # Errors
    /// [`Error::Memory`] outside of it.
    pub fn write_floats(&self, at: u64, values: &[f32]) -> Result<(), Error> {
        let bytes: Vec<u8> = values
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        self.write(at, &bytes)
    }

    /// Reads `count` numbers from the memory.
    ///
    /// # Errors
    /// [`Error::Memory`] outside of it.
    pub fn read_floats(&self, at: u64, count: usize) -> Result<Vec<f32>, Error> {
        let mut bytes = vec![0; count * 4];
        self.read(at, &mut bytes)?;
        let (fours, _) = bytes.as_chunks::<4>();
        Ok(fours.iter().map(|four| f32::from_le_bytes(*four)).collect())
    }

    /// Where byte `at` of the memory lies.
    pub fn at(&self, at: u64) -> DeviceAddress {
        self.memory.whole().address.offset(at)
    }
}

/// How long anything here may take.
pub const PATIENCE: Duration = Duration::from_secs(10);
