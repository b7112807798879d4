//! Two namespaces with a veth pair between them, for tests that have Linux as their peer.

use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard};

/// One pair at a time: each test wants the whole machine.
static TURN: Mutex<()> = Mutex::new(());

/// The namespaces; `v0` is the near end, which is Linux's, and `v1` the far one.
pub(crate) struct Veth {
    pub(crate) near: String,
    pub(crate) far: String,
    /// Which networks: 10.n.0.0/24 and fdn::/64.
    network: u8,
    _turn: MutexGuard<'static, ()>,
}

impl Veth {
    /// `None`, which is told, where there can be none.
    pub(crate) fn new(base: &str, network: u8) -> Option<Self> {
        if !warpwire_skip::is_root() {
            warpwire_skip::installable("network namespaces need root");
            return None;
        }
        for program in ["ip", "ping", "sysctl"] {
            if !warpwire_skip::has_program(program) {
                warpwire_skip::installable(format!("`{program}` is not there"));
                return None;
            }
        }
        let veth = Self {
            near: format!("{base}n"),
            far: format!("{base}f"),
            network,
            _turn: TURN.lock().unwrap_or_else(|broken| broken.into_inner()),
        };
        run(&format!("ip netns add {}", veth.near));
        run(&format!("ip netns add {}", veth.far));
        veth.link();
        Some(veth)
    }

    /// Lays the pair, with addresses of Linux's at the near end.
    pub(crate) fn link(&self) {
        let Self {
            near, far, network, ..
        } = self;
        run(&format!(
            "ip link add v0 netns {near} type veth peer name v1 netns {far}"
        ));
        // Addresses of IPv6 are there at once, without being looked for first.
        run(&format!(
            "ip netns exec {near} sysctl -qw net.ipv6.conf.v0.accept_dad=0"
        ));
        run(&format!("ip -n {near} addr add 10.{network}.0.1/24 dev v0"));
        run(&format!(
            "ip -n {near} addr add fd{network}::1/64 dev v0 nodad"
        ));
        for (space, link) in [(near, "v0"), (far, "v1")] {
            run(&format!("ip -n {space} link set lo up"));
            run(&format!("ip -n {space} link set {link} up"));
        }
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            attempt(&format!("ip netns del {space}"));
        }
    }
}

/// Runs a program, which must go well.
pub(crate) fn run(words: &str) {
    let output = attempt(words);
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {wrong}");
}

/// Runs a program.
pub(crate) fn attempt(words: &str) -> Output {
    let mut parts = words.split_whitespace();
    let program = parts.next().expect("a program");
    Command::new(program).args(parts).output().expect(words)
}
