//! Two network namespaces and a veth pair between them, and who is at its ends.

use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use warpwire_nic::namespace;

use super::super::error::Error;
use super::super::machine::pin;
use super::super::row::Sample;
use super::super::setting::{FAR, NEAR, Setting};
use super::super::xdp::{PREFIX, ip, refused, remove, sweep};
use super::count::Task;
use super::ours::Server;
use super::{What, linux, smoltcp_end};

/// Who is at the far end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Far {
    /// `warpwire serve` over AF_XDP.
    Warpwire,
    /// smoltcp over AF_XDP.
    Smoltcp,
    Linux(Offloads),
}

/// Whether Linux hands super-frames over: TSO, GSO, GRO.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Offloads {
    On,
    Off,
}

/// Measures once, on a link of its own that goes afterwards.
pub(super) fn measure(setting: &Setting, far: Far, what: What) -> Result<Sample, Error> {
    note_linux(setting);
    let link = Link::new(far)?;
    if far == Far::Warpwire {
        let nic = format!("xdp:{FAR_LINK},netns={}", link.far);
        let mut server = Server::start(setting, what, &nic, MTU)?;
        server.serves(setting)?;
        let (task, id) = (server.task(), server.id());
        let sample = link.near(|| near(setting, what, &task, &[id]))?;
        server.end(setting)?;
        return Ok(sample);
    }
    let (ready, begun) = sync_channel(1);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let (link, over) = (&link, &over);
        let serving = scope.spawn(move || match far {
            Far::Smoltcp => smoltcp_end::serve(&nic_words(link), what, &ready, over),
            _ => {
                let served = namespace::within(&link.far, || {
                    pin(FAR)?;
                    linux::serve(FAR_ADDRESS, what, &ready, over)
                });
                served.map_err(|source| refused("entering a network namespace", source))?
            }
        });
        // Where it ends early, its own error says why.
        let sample = begun.recv_timeout(PATIENCE).ok().map(|task| {
            let task = &task;
            link.near(|| near(setting, what, task, &[]))
        });
        over.store(true, Ordering::Relaxed);
        if matches!(far, Far::Linux(_)) {
            link.wake();
        }
        let served = serving.join();
        served.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        sample.unwrap_or(Err(Error::Silent {
            what: "the far end",
            seconds: PATIENCE.as_secs_f64(),
        }))
    })
}

/// The near end: Linux.
fn near(setting: &Setting, what: What, far: &Task, peers: &[u32]) -> Result<Sample, Error> {
    pin(NEAR)?;
    let _first = setting.first(peers)?;
    linux::call(setting, FAR_ADDRESS, what, &[Task::own(), far.clone()])
}

/// The kernel, and what decides how much its TCP sends at a time.
fn note_linux(setting: &Setting) {
    let read = |name| fs::read_to_string(format!("/proc/sys/{name}")).unwrap_or_default();
    let (release, control) = (
        read("kernel/osrelease"),
        read("net/ipv4/tcp_congestion_control"),
    );
    setting.note_version(format!("Linux {} ({})", release.trim(), control.trim()));
}

/// All that comes to the far end.
fn nic_words(link: &Link) -> String {
    format!("xdp:{FAR_LINK},netns={},all", link.far)
}

/// Two namespaces and a veth pair between them; dropping it removes them.
struct Link {
    near: String,
    far: String,
}

impl Link {
    fn new(far_end: Far) -> Result<Self, Error> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        sweep();
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let base = format!("{PREFIX}{}-s{number}", std::process::id());
        let link = Self {
            near: format!("{base}-near"),
            far: format!("{base}-far"),
        };
        let Self { near, far } = &link;
        ip(&format!("netns add {near}"))?;
        ip(&format!("netns add {far}"))?;
        let one = "numtxqueues 1 numrxqueues 1";
        ip(&format!(
            "link add {NEAR_LINK} netns {near} {one} type veth peer name {FAR_LINK} netns {far} \
             address {FAR_MAC} {one}"
        ))?;
        let off = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
        for space in [near, far] {
            ip(&format!("netns exec {space} sysctl -qw {off}"))?;
            ip(&format!("-n {space} link set lo up"))?;
        }
        // Ports for a second of connections, and again those of connections that linger.
        link.near(|| {
            let set = |name, value| fs::write(format!("/proc/sys/net/ipv4/{name}"), value);
            let ports = set("ip_local_port_range", "1024 65535");
            let both = ports.and_then(|()| set("tcp_tw_reuse", "1"));
            both.map_err(|source| refused("giving connections more ports", source))
        })?;
        ip(&format!("-n {near} addr add 10.94.0.1/24 dev {NEAR_LINK}"))?;
        if let Far::Linux(offloads) = far_end {
            ip(&format!("-n {far} addr add {OWN_FAR} dev {FAR_LINK}"))?;
            for (space, name) in [(near, NEAR_LINK), (far, FAR_LINK)] {
                let on = match offloads {
                    Offloads::On => "on",
                    Offloads::Off => "off",
                };
                let words = format!("tso {on} gso {on} gro {on}");
                ip(&format!("netns exec {space} ethtool -K {name} {words}"))?;
            }
        }
        ip(&format!("-n {near} link set {NEAR_LINK} up"))?;
        ip(&format!("-n {far} link set {FAR_LINK} up"))?;
        Ok(link)
    }

    fn near<T: Send>(&self, work: impl FnOnce() -> Result<T, Error> + Send) -> Result<T, Error> {
        let entered = namespace::within(&self.near, work);
        entered.map_err(|source| refused("entering a network namespace", source))?
    }

    /// Lets a Linux at the far end that waits for a connection look around.
    fn wake(&self) {
        // One that is gone already needs no waking.
        let _ = namespace::within(&self.far, || {
            std::net::TcpStream::connect_timeout(&FAR_ADDRESS, PATIENCE)
        });
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        remove(&self.near);
        remove(&self.far);
    }
}

const NEAR_LINK: &str = "v0";
const FAR_LINK: &str = "v1";
const FAR_MAC: &str = "02:00:00:00:00:02";
const OWN_FAR: &str = "10.94.0.2/24";
/// Where it is served.
pub(super) const FAR_ADDRESS: SocketAddr =
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 94, 0, 2)), 7000);
/// That of a veth pair.
const MTU: u16 = 1500;
const PATIENCE: Duration = Duration::from_secs(60);
