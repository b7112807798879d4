//! Two network namespaces and a veth pair between them, made and removed by a test.

use std::net::UdpSocket;
use std::process::{Command, Output};
use std::sync::Mutex;

use warpwire_nic::namespace;

/// The near end belongs to Linux, the far end to the NIC under test.
pub(crate) struct Topology {
    pub(crate) near: String,
    pub(crate) far: String,
}

/// What differs between tests.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) queues: u32,
    pub(crate) mtu: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            queues: 1,
            mtu: 1500,
        }
    }
}

pub(crate) const NEAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const FAR_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(crate) const NEAR: &str = "10.78.0.1";
/// The far host's own address, never the NIC's.
pub(crate) const FAR_HOST: &str = "10.78.0.2";
/// What the NIC declares.
pub(crate) const OURS: &str = "10.78.0.3";

pub(crate) const THIRD: &str = "10.78.0.4";

/// One topology at a time: tests of one binary share two cores.
static TURN: Mutex<()> = Mutex::new(());

/// Takes a turn, or says why the test cannot run.
pub(crate) fn turn() -> Option<std::sync::MutexGuard<'static, ()>> {
    if !warpwire_skip::is_root() {
        warpwire_skip::installable("network namespaces need root");
        return None;
    }
    for program in ["ip", "ethtool", "ping", "sysctl"] {
        if !warpwire_skip::has_program(program) {
            warpwire_skip::installable(format!("`{program}` is not there"));
            return None;
        }
    }
    Some(TURN.lock().unwrap_or_else(|broken| broken.into_inner()))
}

/// Runs a command, and panics with what it wrote if it fails.
pub(crate) fn run(words: &str) -> String {
    let output = attempt(words);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {said}{wrong}");
    said
}

pub(crate) fn attempt(words: &str) -> Output {
    let mut parts = words.split_whitespace();
    let program = parts.next().expect("a program");
    Command::new(program).args(parts).output().expect(words)
}

impl Topology {
    pub(crate) fn new(name: &str, shape: Shape) -> Self {
        let base = format!("wwx{}{name}", std::process::id());
        let topology = Self {
            near: format!("{base}n"),
            far: format!("{base}f"),
        };
        let (near, far) = (&topology.near, &topology.far);
        run(&format!("ip netns add {near}"));
        run(&format!("ip netns add {far}"));
        let Shape { queues, mtu } = shape;
        let size = format!("mtu {mtu} numtxqueues {queues} numrxqueues {queues}");
        run(&format!(
            "ip link add v0 netns {near} address 02:00:00:00:00:01 {size} type veth \
             peer name v1 netns {far} address 02:00:00:00:00:02 {size}"
        ));
        for (space, link, address) in [(near, "v0", NEAR), (far, "v1", FAR_HOST)] {
            let own = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
            run(&format!("ip netns exec {space} sysctl -qw {own}"));
            run(&format!("ip -n {space} addr add {address}/24 dev {link}"));
            run(&format!("ip -n {space} link set lo up"));
            run(&format!("ip -n {space} link set {link} up"));
        }
        run(&format!(
            "ip -n {near} neigh add {OURS} lladdr 02:00:00:00:00:02 dev v0"
        ));
        topology
    }

    /// A second host, behind `w1` of the far namespace; its name.
    pub(crate) fn add_third(&self, mtu: u32) -> Third {
        let third = Third(self.far.replace('f', "t"));
        let (space, far) = (&third.0, &self.far);
        run(&format!("ip netns add {space}"));
        let size = format!("mtu {mtu} numtxqueues 1 numrxqueues 1");
        run(&format!(
            "ip link add w0 netns {space} address 02:00:00:00:00:04 {size} type veth \
             peer name w1 netns {far} {size}"
        ));
        let own = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
        run(&format!("ip netns exec {space} sysctl -qw {own}"));
        run(&format!("ip -n {space} addr add {THIRD}/24 dev w0"));
        run(&format!("ip -n {space} link set w0 up"));
        run(&format!("ip -n {far} link set w1 up"));
        third
    }

    /// A UDP socket of the near host.
    pub(crate) fn near_socket(&self, port: u16) -> UdpSocket {
        let socket = namespace::within(&self.near, || UdpSocket::bind((NEAR, port)));
        socket.expect("namespace").expect("binds")
    }

    /// Words for a NIC on the far end.
    pub(crate) fn spec(&self, options: &str) -> String {
        format!("xdp:v1,netns={},{options}", self.far)
    }
}

/// A namespace of its own.
pub(crate) struct Third(pub(crate) String);

impl Drop for Third {
    fn drop(&mut self) {
        attempt(&format!("ip netns del {}", self.0));
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            attempt(&format!("ip netns del {space}"));
        }
    }
}
