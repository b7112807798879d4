//! `warpwire-bench soft-roce`: every operation that Linux's Soft-RoCE has, at sizes around the
//! packets' bounds, in both directions, with contents compared byte by byte. The other end is
//! `puppet` of `deploy/rxe-peer`.

mod operations;
mod own;
mod puppet;

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use warpwire_protocols::rdma::{Mtu, Service};
use warpwire_protocols::wire::bth::Psn;

use operations::{Case, cases};
use own::Own;
use puppet::Puppet;

/// Every operation against Soft-RoCE; exit 1 on a difference
#[derive(clap::Args)]
pub(super) struct Options {
    /// Addresses of the host where puppet listens: its GID 1 is the IPv4 one, GID 2 the IPv6 one
    #[arg(required = true)]
    peers: Vec<IpAddr>,
    /// TCP port of puppet
    #[arg(long, default_value_t = 7100)]
    port: u16,
    /// The NIC, as in warpwire pingpong
    #[arg(long)]
    nic: Option<String>,
    /// Path MTUs
    #[arg(long, value_delimiter = ',', default_values_t = [256, 1024])]
    mtu: Vec<u32>,
    /// Services: rc, uc, ud
    #[arg(long, value_delimiter = ',', default_value = "rc,uc,ud")]
    service: Vec<String>,
    /// The largest message
    #[arg(long, default_value_t = 1 << 20)]
    largest: u32,
    /// Acknowledgement timeout of both ends, coded
    #[arg(long, default_value_t = 17)]
    timeout: u8,
    /// Frames are lost on the way: an operation may end with the error that says so
    #[arg(long)]
    lossy: bool,
    /// Repeat everything so many times
    #[arg(long, default_value_t = 1)]
    rounds: u32,
}

/// What a pair of queue pairs has in common.
#[derive(Clone, Copy, Debug)]
struct Wire {
    service: Service,
    mtu: Mtu,
    timeout: u8,
}

/// Where messages come from, and where they go; the same at both ends.
const SRC: u64 = 4096;
const DST: u64 = 2 << 20;

/// What was tried.
#[derive(Default)]
struct Tally {
    exact: u32,
    /// Ended with an error that loss explains.
    ended: u32,
    /// Frames that the way harmed, by what happened to them.
    harmed: std::collections::BTreeMap<&'static str, u64>,
    faults: Vec<String>,
}

pub(super) fn main(options: &Options) -> Result<bool, String> {
    let mut tally = Tally::default();
    for peer in &options.peers {
        let mut scene = Scene::set_up(options, *peer)?;
        for mtu in &options.mtu {
            let mtu = Mtu::ALL.into_iter().find(|one| one.bytes() == *mtu);
            let mtu = mtu.ok_or("--mtu: write 256, 512, 1024, 2048 or 4096")?;
            for word in &options.service {
                let started = Instant::now();
                let before = (tally.exact, tally.ended, tally.faults.len());
                scene.play(word, mtu, &mut tally)?;
                let exact = tally.exact - before.0;
                let ended = tally.ended - before.1;
                let wrong = tally.faults.len() - before.2;
                println!(
                    "{peer} {word} {} bytes: {exact} exact, {ended} ended by loss, {wrong} wrong, \
                     {:.1} s",
                    mtu.bytes(),
                    started.elapsed().as_secs_f64()
                );
            }
        }
        let counters = scene.own.device.nic_counters();
        let all = counters.drops.iter().chain(&counters.other);
        for (name, count) in all.filter(|(name, _)| HARMS.contains(name)) {
            *tally.harmed.entry(name).or_default() += count;
        }
    }
    for fault in &tally.faults {
        println!("WRONG {fault}");
    }
    if options.lossy {
        println!("frames on the way: {:?}", tally.harmed);
        if tally.harmed.values().all(|count| *count == 0) {
            return Err("nothing was harmed: is there no loss in --nic?".to_owned());
        }
    }
    let Tally { exact, ended, .. } = tally;
    println!(
        "operations: {exact} exact, {ended} ended by loss, {} wrong",
        tally.faults.len()
    );
    // Errors are for the unlucky: most get through.
    Ok(tally.faults.is_empty() && exact > 0 && ended * 4 <= exact)
}

/// Both ends.
struct Scene<'a> {
    options: &'a Options,
    own: Own,
    puppet: Puppet,
    gid_index: u32,
    peer: IpAddr,
    /// Different in every case.
    seed: u32,
}

impl<'a> Scene<'a> {
    fn set_up(options: &'a Options, peer: IpAddr) -> Result<Self, String> {
        let own = Own::open(peer, options.nic.as_deref())?;
        let puppet = Puppet::call(SocketAddr::new(peer, options.port))?;
        let mut scene = Self {
            options,
            own,
            puppet,
            gid_index: if peer.is_ipv4() { 1 } else { 2 },
            peer,
            seed: 0,
        };
        // Whatever was there before.
        scene.puppet.tell("fill 0 16 0")?;
        Ok(scene)
    }

    fn play(&mut self, word: &str, mtu: Mtu, tally: &mut Tally) -> Result<(), String> {
        let service = match word {
            "rc" => Service::Rc,
            "uc" => Service::Uc,
            "ud" => Service::Ud,
            other => return Err(format!("--service {other}: write rc, uc or ud")),
        };
        let wire = Wire {
            service,
            mtu,
            timeout: self.options.timeout,
        };
        let mut its = self.join(word, &wire)?;
        for _ in 0..self.options.rounds {
            for case in cases(service, mtu, self.options.largest) {
                let outcome = self.attempt(&case, &its, service);
                let Err(problem) = outcome else {
                    tally.exact += 1;
                    continue;
                };
                let is_loss = self.options.lossy && is_of_loss(&problem, service);
                match is_loss {
                    true => tally.ended += 1,
                    false => {
                        let (peer, bytes) = (self.peer, mtu.bytes());
                        tally
                            .faults
                            .push(format!("{peer} {word} {bytes}: {case:?}: {problem}"));
                        if tally.faults.len() >= MOST_FAULTS {
                            return Ok(());
                        }
                    }
                }
                its = self.join(word, &wire)?;
            }
        }
        Ok(())
    }

    /// A case; unreliable services may lose something on a slow machine and try again.
    fn attempt(&mut self, case: &Case, its: &puppet::Its, service: Service) -> Result<(), String> {
        let tries = if service == Service::Rc { 1 } else { TRIES };
        let mut outcome = Ok(());
        for _ in 0..tries {
            self.seed += 1;
            outcome = case.play(&mut self.own, &mut self.puppet, its, self.seed);
            match &outcome {
                Err(problem) if is_of_loss(problem, service) => {}
                _ => break,
            }
        }
        outcome
    }

    /// New queue pairs at both ends.
    fn join(&mut self, word: &str, wire: &Wire) -> Result<puppet::Its, String> {
        let timeout = wire.timeout;
        let its = self
            .puppet
            .open(word, wire.mtu.bytes(), self.gid_index, timeout)?;
        self.seed += 1;
        let psn = Psn::new(0x00ff_ff00 + self.seed * 0x0001_0001);
        self.own.join(wire, &its, psn)?;
        let number = self.own.number();
        let gid = u128::from_be_bytes(self.own.device.gid());
        let psn = psn.value();
        self.puppet
            .tell(&format!("join {number:x} {psn:x} {gid:032x}"))?;
        Ok(its)
    }
}

/// Whether loss explains a problem: repetitions that are through, or a message that never came.
fn is_of_loss(problem: &str, service: Service) -> bool {
    let signs: &[&str] = match service {
        Service::Rc => &[
            "retry counter exceeded",
            "retries exceeded",
            "retry exceeded",
        ],
        Service::Uc | Service::Ud => &["no message", "nothing completed", "byte"],
    };
    signs
        .iter()
        .any(|sign| problem.to_lowercase().contains(sign))
}

/// What happens to frames on a lossy way, as the NIC counts it.
const HARMS: [&str; 4] = [
    "lost on the link",
    "duplicated on the link",
    "reordered on the link",
    "corrupted on the link",
];
/// More says nothing new.
const MOST_FAULTS: usize = 10;
/// How often a message of an unreliable service is sent that does not arrive.
const TRIES: u32 = 3;
