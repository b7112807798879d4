//! Setting up: checks, program, sockets, memory, blocks.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use warpwire_gpu::arena::ArenaError;
use warpwire_ring::xdp::PACKET_HEADROOM;

use super::attach::Attached;
use super::bind::{Bound, Share, chunks_of};
use super::machine::{KernelVersion, missing_capabilities};
use super::options::{MAX_QUEUES, Options};
use super::proxy::Proxy;
use super::rules::MacPolicy;
use super::socket::Membership;
use super::watch::Watch;
use super::{Sockets, XdpNic, bpf};
use crate::interfaces::{Interface, interfaces};
use crate::{Error, NicSpec, namespace};

/// Opens the interface that `spec` names (`xdp:IFACE,option=value`).
///
/// # Errors
///
/// [`Error::Spec`] for wrong words, [`Error::Unavailable`] for what the machine lacks (root, a
/// recent kernel, the interface), [`Error::System`] for what the kernel refused; each with the
/// cure.
pub fn open(spec: &NicSpec) -> Result<XdpNic, Error> {
    let mut nics = open_all(std::slice::from_ref(spec))?;
    nics.pop().ok_or_else(|| {
        let cure = "report this".to_owned();
        spec.wrong("address", "no NIC came of it".to_owned(), cure)
    })
}

/// Checks the options without touching the machine.
///
/// # Errors
///
/// [`Error::Spec`].
pub fn check(spec: &NicSpec) -> Result<(), Error> {
    Options::of(spec).map(|_| ())
}

/// Opens several interfaces over one frame memory: a frame that arrives at one goes out at another
/// without a copy. In the order of `specs`.
///
/// # Errors
///
/// Those of [`open`]; [`Error::Spec`] if `slot` or `memory` differ.
pub fn open_all(specs: &[NicSpec]) -> Result<Vec<XdpNic>, Error> {
    let options = specs.iter().map(Options::of);
    let options: Vec<Options> = options.collect::<Result<_, _>>()?;
    let mut setups = Vec::new();
    for (spec, options) in specs.iter().zip(&options) {
        let kernel = check_machine(&spec.to_string())?;
        setups.push(Setup {
            spec,
            options,
            kernel,
        });
    }
    let Some(first) = setups.first() else {
        return Ok(Vec::new());
    };
    for setup in &setups {
        setup.check_memory(first.options)?;
    }
    let prepared = setups.iter().map(|setup| setup.inside(|| setup.prepare()));
    let prepared: Vec<Prepared> = prepared.collect::<Result<_, _>>()?;
    let sizes = setups.iter().zip(&prepared);
    let sizes = sizes.map(|(setup, prepared)| (prepared.queues, setup.options.depth));
    let memory = first.memory(&sizes.collect::<Vec<_>>())?;
    let mut nics: Vec<XdpNic> = Vec::new();
    let mut first_chunk = 0;
    for (setup, prepared) in setups.iter().zip(prepared) {
        let share = Share {
            memory: &memory,
            first_chunk,
            owner: nics.first().and_then(XdpNic::first_socket),
        };
        first_chunk += chunks_of(prepared.queues, setup.options.depth);
        let nic = setup.inside(|| setup.finish(prepared, &share))?;
        nics.push(nic);
    }
    Ok(nics)
}

/// Checks that the process may use AF_XDP on this machine, on behalf of a NIC that is called `nic`.
///
/// # Errors
/// [`Error::Unavailable`].
pub fn check_rights(nic: &str) -> Result<(), Error> {
    check_machine(nic).map(drop)
}

/// Checks all that can be checked without opening anything: rights, words, and that the interface
/// is there and up.
///
/// # Errors
/// Those of [`open`].
pub fn look(spec: &NicSpec) -> Result<(), Error> {
    let options = Options::of(spec)?;
    let setup = Setup {
        spec,
        options: &options,
        kernel: check_machine(&spec.to_string())?,
    };
    setup.inside(|| setup.interface().map(drop))
}

fn check_machine(nic: &str) -> Result<KernelVersion, Error> {
    let unavailable = |missing: String, cure: &str| Error::Unavailable {
        nic: nic.to_owned(),
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

/// An interface with the program on it, before memory and sockets.
struct Prepared {
    interface: Interface,
    queues: u32,
    membership: Option<Membership>,
    attached: Attached,
}

impl Setup<'_> {
    /// Runs `work` in the network namespace that was asked for.
    fn inside<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        let Some(name) = &self.options.namespace else {
            return work();
        };
        namespace::within(name, work).map_err(|source| {
            let cure = format!("make it with `ip netns add {name}`");
            self.system("enter the network namespace", source, &cure)
        })?
    }

    /// One memory has one shape.
    fn check_memory(&self, first: &Options) -> Result<(), Error> {
        let other = (first.slot, first.location);
        if other == (self.options.slot, self.options.location) {
            return Ok(());
        }
        let problem = "NICs that share their memory need the same slot and memory".to_owned();
        let cure = format!("write slot={}", first.slot);
        Err(self.spec.wrong("slot, memory", problem, cure))
    }

    fn prepare(&self) -> Result<Prepared, Error> {
        let interface = self.interface()?;
        let queues = self.queue_count(&interface)?;
        let membership = self.membership(&interface)?;
        let attached = self.attach(&interface, queues)?;
        Ok(Prepared {
            interface,
            queues,
            membership,
            attached,
        })
    }

    fn finish(&self, prepared: Prepared, share: &Share<'_>) -> Result<XdpNic, Error> {
        let Prepared {
            interface,
            queues: count,
            membership,
            attached,
        } = prepared;
        let (sockets, bound) = self.sockets(&interface, &attached, share, count)?;
        self.check_frame_size(&interface, &bound)?;
        let mut pairs = Vec::new();
        let mut queues = Vec::new();
        for (index, socket) in (0..).zip(sockets) {
            let (pair, queue) = self.queue(index, socket, share, &bound)?;
            bpf::set_socket(&attached.map, index, queue.socket.descriptor()).map_err(|source| {
                self.system("put a socket into the program's map", source, AGAIN)
            })?;
            pairs.push(pair);
            queues.push(queue);
        }
        let sockets = Arc::new(Sockets {
            queues,
            arena: Arc::clone(&share.memory.arena),
        });
        let watch = Watch::new(self.spec.to_string(), &interface, count)
            .map_err(|source| self.system("watch the interface", source, AGAIN))?;
        let proxy = Proxy::new(format!("{} kicks", self.spec), Arc::clone(&sockets));
        Ok(XdpNic {
            spec: self.spec.clone(),
            caps: self.caps(&interface, &bound, count),
            mac: match self.options.rules.mac {
                MacPolicy::Address(mac) => mac,
                MacPolicy::Own | MacPolicy::Any => interface.mac,
            },
            pairs,
            choices: self.choices(&interface, &attached, &bound, count, share),
            proxy: Some(proxy),
            link: Some(attached.link),
            sockets,
            _membership: membership,
            watch,
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

    pub(super) fn memory_error(&self, source: ArenaError) -> Error {
        Error::Memory {
            nic: self.spec.to_string(),
            source,
        }
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
pub(super) const AGAIN: &str = "try again";
pub(super) const LIMITS: &str = "raise `ulimit -l`, or add CAP_IPC_LOCK";
