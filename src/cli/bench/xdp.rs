//! AF_XDP on a veth pair: our queues and testpmd's net_af_xdp on the same far end; at the near end
//! the kernel's own frames, or Linux as the sink.

use std::fs;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::Placement;
use warpwire_nic::xdp::XdpNic;
use warpwire_nic::xdp::live::{LiveFrames, Way};
use warpwire_nic::{Nic, NicSpec, interfaces, namespace, xdp};
use warpwire_pipelines::runtime::{Generation, Measurement, Plain};
use warpwire_ptx::process::{self, Show};

use super::error::Error;
use super::machine;
use super::row::{Sample, Side};
use super::setting::{FAR, JOIN, NEAR, Setting, sample, traffic};
use super::testpmd::{Plan, Testpmd};

/// Who receives what the kernel generates.
pub(super) fn receive(setting: &Setting, side: Side) -> Result<Sample, Error> {
    let veth = setting.veth()?;
    let (value, sent, received) = match side {
        Side::Ours => {
            let (nic, executor) = ours(setting, veth)?;
            let count = measure(&executor, Plain::ReceiveCount, &nic)?;
            let (value, sent) = veth.generating(setting, ALL, || {
                setting.rate(&[], || count.counters().received)
            })?;
            setting.settle(|| count.counters().received)?;
            let counters = count.finish(JOIN)?;
            end(nic, executor)?;
            well_formed(counters.malformed)?;
            (value, sent, counters.received)
        }
        Side::Peer => {
            let mut sink = peer(setting, veth, "rxonly")?;
            let (value, sent) = veth.generating(setting, ALL, || Ok(sink.rate(&[])?.received))?;
            sink.settle()?;
            let totals = sink.stop()?;
            sink.finish()?;
            (value, sent, totals.received)
        }
    };
    sample(
        setting,
        "the far end",
        value,
        sent,
        sent.saturating_sub(received),
    )
}

/// Who sends to Linux, which takes frames for others and drops them.
pub(super) fn transmit(setting: &Setting, side: Side) -> Result<Sample, Error> {
    let veth = setting.veth()?;
    let before = veth.received()?;
    let (value, sent) = match side {
        Side::Ours => {
            let (nic, executor) = ours(setting, veth)?;
            let entry = traffic(FAR_MAC, NOBODY);
            let generator = Generation::start(&executor, &entry, &nic, Placement::Thread(0))?;
            let value = veth.rate(setting, &[])?;
            let sent = generator.finish(JOIN)?;
            setting.settle(|| veth.received().unwrap_or(0))?;
            end(nic, executor)?;
            (value, sent)
        }
        Side::Peer => {
            let mut source = peer(setting, veth, "txonly")?;
            let value = veth.rate(setting, &[source.id()])?;
            let sent = source.stop()?.sent;
            setting.settle(|| veth.received().unwrap_or(0))?;
            source.finish()?;
            (value, sent)
        }
    };
    let received = veth.received()? - before;
    sample(setting, "Linux", value, sent, sent.saturating_sub(received))
}

/// Who sends back what the kernel generates, addresses swapped.
pub(super) fn swap(setting: &Setting, side: Side) -> Result<Sample, Error> {
    let veth = setting.veth()?;
    let before = veth.received()?;
    let (value, sent) = match side {
        Side::Ours => {
            let (nic, executor) = ours(setting, veth)?;
            let swap = measure(&executor, Plain::MacSwap, &nic)?;
            let figure = veth.generating(setting, SWAP_OF_1024, || veth.rate(setting, &[]))?;
            setting.settle(|| veth.received().unwrap_or(0))?;
            let counters = swap.finish(JOIN)?;
            end(nic, executor)?;
            well_formed(counters.malformed)?;
            figure
        }
        Side::Peer => {
            let mut there = peer(setting, veth, "macswap")?;
            let id = there.id();
            let figure = veth.generating(setting, SWAP_OF_1024, || veth.rate(setting, &[id]))?;
            setting.settle(|| veth.received().unwrap_or(0))?;
            there.stop()?;
            there.finish()?;
            figure
        }
    };
    let received = veth.received()? - before;
    sample(setting, "Linux", value, sent, sent.saturating_sub(received))
}

/// Our queues on the far end, with the host's service on the thread of the kernel.
fn ours(setting: &Setting, veth: &Veth) -> Result<(XdpNic, CpuExecutor), Error> {
    let words = format!("xdp:{FAR_LINK},netns={},all,mac=any", veth.far);
    let spec: NicSpec = words.parse()?;
    let mut nic = xdp::open(&spec)?;
    let executor = setting.executor(&[FAR])?;
    for service in nic.take_services() {
        executor.add_service(service, Placement::Thread(0))?;
    }
    Ok((nic, executor))
}

fn measure(executor: &CpuExecutor, kernel: Plain, nic: &XdpNic) -> Result<Measurement, Error> {
    Ok(Measurement::start(
        executor,
        kernel,
        nic,
        0,
        Placement::Thread(0),
    )?)
}

fn end(nic: XdpNic, executor: CpuExecutor) -> Result<(), Error> {
    executor.shutdown(JOIN)?;
    Box::new(nic).close()?;
    Ok(())
}

fn peer<'s>(setting: &'s Setting, veth: &Veth, mode: &str) -> Result<Testpmd<'s>, Error> {
    let device = format!("net_af_xdp0,iface={FAR_LINK},busy_budget=0");
    let plan = Plan {
        namespace: Some(&veth.far),
        device: &device,
        core: FAR,
        mode,
    };
    Testpmd::start(setting, plan)
}

fn well_formed(malformed: u64) -> Result<(), Error> {
    match malformed {
        0 => Ok(()),
        count => Err(Error::Malformed {
            what: "AF_XDP",
            count,
        }),
    }
}

/// Two namespaces and a veth pair between them; dropping it removes them.
pub(super) struct Veth {
    near: String,
    far: String,
    near_index: u32,
}

impl Veth {
    pub(super) fn new() -> Result<Self, Error> {
        sweep();
        let base = format!("{PREFIX}{}", std::process::id());
        let mut veth = Self {
            near: format!("{base}-near"),
            far: format!("{base}-far"),
            near_index: 0,
        };
        for space in [&veth.near, &veth.far] {
            ip(&format!("netns add {space}"))?;
        }
        let one = "numtxqueues 1 numrxqueues 1";
        ip(&format!(
            "link add {NEAR_LINK} netns {} address 02:00:00:00:00:01 {one} type veth \
             peer name {FAR_LINK} netns {} address 02:00:00:00:00:02 {one}",
            veth.near, veth.far
        ))?;
        for (space, link) in [(&veth.near, NEAR_LINK), (&veth.far, FAR_LINK)] {
            let off = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
            ip(&format!("netns exec {space} sysctl -qw {off}"))?;
            ip(&format!("-n {space} link set {link} up"))?;
        }
        let all = veth.inside(interfaces::interfaces)?;
        let all = all.map_err(|source| refused("listing interfaces", source))?;
        let near = all.iter().find(|interface| interface.name == NEAR_LINK);
        veth.near_index = near.map_or(0, |interface| interface.index);
        Ok(veth)
    }

    fn inside<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
        let entered = namespace::within(&self.near, work);
        entered.map_err(|source| refused("entering a network namespace", source))
    }

    /// Frames that Linux at the near end has received.
    fn received(&self) -> Result<u64, Error> {
        let text = self.inside(|| fs::read_to_string("/proc/thread-self/net/dev"))?;
        let text = text.map_err(|source| refused("reading the counters of interfaces", source))?;
        let mut lines = text.lines();
        let found = lines.find_map(|line| line.trim().strip_prefix(NEAR_LINK));
        let frames = found.and_then(|line| line.split_whitespace().nth(2)?.parse().ok());
        let missing = || std::io::ErrorKind::NotFound.into();
        frames.ok_or_else(|| refused("finding an interface that was made", missing()))
    }

    /// Million frames a second that Linux at the near end receives.
    fn rate(&self, setting: &Setting, peers: &[u32]) -> Result<f64, Error> {
        let before = self.received()?;
        setting.rate(peers, || self.received().unwrap_or(before))
    }

    /// Lets the kernel make frames at the near end while `work` runs, and send `of_1024` of 1024
    /// that it makes: about how many it sent.
    fn generating<T>(
        &self,
        setting: &Setting,
        of_1024: u32,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<(T, u64), Error> {
        let (over, ready) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            let generator = scope.spawn(|| {
                let result = self.inside(|| self.generate(of_1024, &over, &ready));
                // Nobody shall wait for a generator that has failed.
                ready.store(true, Ordering::Relaxed);
                result?
            });
            let mut begun = Ok(());
            while begun.is_ok() && !ready.load(Ordering::Relaxed) {
                begun = setting.pause(Duration::from_millis(1));
            }
            let result = begun.and_then(|()| work());
            over.store(true, Ordering::Relaxed);
            let sent = generator.join();
            let sent = sent.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            // Without a generator the work has failed too, for want of frames.
            let sent = sent?;
            Ok((result?, sent))
        })
    }

    fn generate(&self, of_1024: u32, over: &AtomicBool, ready: &AtomicBool) -> Result<u64, Error> {
        machine::pin(NEAR)?;
        let interface = self.near_index;
        let way = match of_1024 {
            ALL => Way::Out(interface),
            of_1024 => Way::Thinned { interface, of_1024 },
        };
        let frame = traffic(GENERATOR, FAR_MAC).frames;
        let frame = frame.first().map(|entry| entry.frame.bytes.as_slice());
        let live = LiveFrames::new(way, frame.unwrap_or(&[]))?;
        let mut sent = 0;
        ready.store(true, Ordering::Relaxed);
        while !over.load(Ordering::Relaxed) {
            let piece = live.send(PIECE);
            piece.map_err(|source| refused("making frames in the kernel", source))?;
            sent += u64::from(PIECE) * u64::from(of_1024) / u64::from(ALL);
        }
        Ok(sent)
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            remove(space);
        }
    }
}

/// Removes what earlier runs left behind when they were killed.
pub(super) fn sweep() {
    let list = ip("netns list").unwrap_or_default();
    let names = list.lines().filter_map(|line| line.split(' ').next());
    for name in names {
        let maker = name.strip_prefix(PREFIX);
        let maker = maker.and_then(|rest| rest.split('-').next());
        if maker.is_some_and(|id| !std::path::Path::new("/proc").join(id).exists()) {
            remove(name);
        }
    }
}

/// Kills what runs inside, and removes it. Nobody is there to be told of a failure.
pub(super) fn remove(name: &str) {
    let inside = ip(&format!("netns pids {name}")).unwrap_or_default();
    let ids: Vec<u32> = inside
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect();
    process::signal("-KILL", &ids);
    let _ = ip(&format!("netns delete {name}"));
}

pub(super) fn ip(words: &str) -> Result<String, Error> {
    let mut command = Command::new("ip");
    command.args(words.split_whitespace());
    Ok(process::run_well(&mut command, SHORT, Show::Nothing)?.stdout)
}

pub(super) fn refused(action: &str, source: std::io::Error) -> Error {
    Error::System {
        action: action.to_owned(),
        source,
        cure: "run it as root on Linux 5.18 or later",
    }
}

/// How names of our namespaces begin; the id of who made them follows.
pub(super) const PREFIX: &str = "wwbench-";
const NEAR_LINK: &str = "v0";
const FAR_LINK: &str = "v1";
const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
/// Where nobody is: Linux takes these frames and drops them.
const NOBODY: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
const GENERATOR: [u8; 6] = [2, 0, 0, 0, 0, 0x77];
/// All frames that the kernel can make.
const ALL: u32 = 1024;
/// The part of them that a swapper is offered: all would leave it no time to send, ours or not.
const SWAP_OF_1024: u32 = 512;
/// Frames of one request to the kernel, which sets up and takes down buffers for each.
const PIECE: u32 = 1 << 20;
const SHORT: Duration = Duration::from_secs(20);
