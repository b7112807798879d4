//! Network namespaces with cables between them, made for a run and removed after it.
//!
//! Their names carry the id of the process that made them: what a killed run left behind is found
//! and removed by the next one, with the processes in it.

use crate::Error;
use crate::process::{self, Outcome, Running, Show};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A namespace; it goes when this goes, and everything that runs in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Makes an empty one, without IPv6 autoconfiguration, so that no frame moves unasked.
    ///
    /// # Errors
    /// When `ip` fails.
    pub fn create(label: &str) -> Result<Self, Error> {
        let name = format!("{PREFIX}{}-{label}", std::process::id());
        ip(&format!("netns add {name}"))?;
        let space = Self { name };
        let quiet = "net.ipv6.conf.all.router_solicitations=0 \
                     net.ipv6.conf.default.router_solicitations=0 \
                     net.ipv6.conf.default.accept_dad=0 net.ipv6.conf.all.accept_dad=0";
        space.run(&format!("sysctl -qw {quiet}"), SHORT)?;
        space.run("ip link set dev lo up", SHORT)?;
        Ok(space)
    }

    /// A cable: interface `own` here, interface `others` in `other`, with one queue each.
    ///
    /// # Errors
    /// When `ip` fails.
    pub fn cable(&self, own: &End<'_>, other: &Self, others: &End<'_>) -> Result<(), Error> {
        let queues = "numtxqueues 1 numrxqueues 1";
        let end = |space: &Self, end: &End<'_>| {
            format!(
                "{} netns {} address {} {queues}",
                end.name, space.name, end.mac
            )
        };
        ip(&format!(
            "link add name {} type veth peer name {}",
            end(self, own),
            end(other, others)
        ))?;
        for (space, end) in [(self, own), (other, others)] {
            for address in end.addresses {
                let nodad = if address.contains(':') { "nodad" } else { "" };
                let words = format!("ip address add {address} dev {} {nodad}", end.name);
                space.run(&words, SHORT)?;
            }
            space.run(&format!("ip link set dev {} up", end.name), SHORT)?;
        }
        Ok(())
    }

    /// Its name, as `ip netns` knows it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A command that runs inside.
    #[must_use]
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.name]).arg(program);
        command
    }

    /// Runs words inside; they must succeed.
    ///
    /// # Errors
    /// When they do not.
    pub fn run(&self, words: &str, limit: Duration) -> Result<Outcome, Error> {
        process::run_well(&mut self.of_words(words), limit, Show::Nothing)
    }

    /// Runs words inside; how they end is the outcome.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn attempt(&self, words: &str, limit: Duration) -> Result<Outcome, Error> {
        process::run(&mut self.of_words(words), limit, Show::Nothing)
    }

    /// Starts words inside, in the background.
    ///
    /// # Errors
    /// When they cannot be started.
    pub fn start(&self, words: &str) -> Result<Running, Error> {
        Running::start(&mut self.of_words(words), Show::Nothing)
    }

    /// A counter of the namespace's own stack, such as `IpFragCreates`.
    ///
    /// # Errors
    /// When `nstat` does not know it.
    pub fn counter(&self, name: &str) -> Result<u64, Error> {
        let outcome = self.run(&format!("nstat -asz {name}"), SHORT)?;
        let line = outcome.stdout.lines().find(|line| line.starts_with(name));
        let value = line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok());
        value
            .ok_or_else(|| Error::Environment(format!("nstat tells no {name}: {}", outcome.stdout)))
    }

    fn of_words(&self, words: &str) -> Command {
        let mut words = words.split_whitespace();
        let mut command = self.command(words.next().unwrap_or("true"));
        command.args(words);
        command
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        process::undisturbed(|| remove(&self.name));
    }
}

/// One end of a cable.
#[derive(Clone, Copy, Debug)]
pub struct End<'a> {
    /// The interface.
    pub name: &'a str,
    /// Its Ethernet address.
    pub mac: &'a str,
    /// Its IP addresses with their prefix lengths.
    pub addresses: &'a [&'a str],
}

/// Removes what earlier runs left behind when they were killed.
///
/// # Errors
/// When `ip` fails.
pub fn sweep() -> Result<(), Error> {
    for name in ip("netns list")?
        .lines()
        .filter_map(|line| line.split(' ').next())
    {
        let maker = name
            .strip_prefix(PREFIX)
            .and_then(|rest| rest.split('-').next());
        let is_left = maker.is_some_and(|id| !Path::new("/proc").join(id).exists());
        if is_left {
            println!("removing {name}, left behind by a run that was killed");
            remove(name);
        }
    }
    Ok(())
}

/// Kills what runs inside, and removes it. Nobody is there to be told of a failure.
fn remove(name: &str) {
    let inside = ip(&format!("netns pids {name}")).unwrap_or_default();
    let ids: Vec<u32> = inside
        .lines()
        .filter_map(|line| line.trim().parse().ok())
        .collect();
    process::signal("-KILL", &ids);
    let _ = ip(&format!("netns delete {name}"));
}

fn ip(words: &str) -> Result<String, Error> {
    let mut command = Command::new("ip");
    command.args(words.split_whitespace());
    process::run_well(&mut command, SHORT, Show::Nothing).map(|outcome| outcome.stdout)
}

const PREFIX: &str = "wwjudge-";
const SHORT: Duration = Duration::from_secs(30);
