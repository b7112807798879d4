//! Two guests and a host on one bridge.
//!
//! ```text
//!   namespace `host`                     namespace `rack`
//!   +-----------------------+           +--------------------------------------+
//!   | ww0 10.77.0.1 fd77::1 |---cable---| port -- bridge -- left -- right      |
//!   +-----------------------+           +----------------------|--------|------+
//!                                               10.77.0.2 fd77::2   10.77.0.3 fd77::3
//! ```

use super::peer::{Address, Guest, Image, Job};
use super::scripts::{Case, Ending, Half, LIMIT, Place};
use crate::interop::namespaces::{self, End, Namespace};
use crate::process::{self, Outcome, Running, Show};
use crate::{Error, repository, threads};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The machines, and what they stand on. Everything goes when this goes: first the guests, then
/// the namespaces with whatever still runs in them, last the folder.
#[derive(Debug)]
pub struct Rack {
    left: Guest,
    right: Guest,
    host: Namespace,
    /// Where programs are found at the host: our command's folder first.
    path: OsString,
    // Held for its end: the guests' machines run in it.
    _rack: Namespace,
    _folder: Folder,
}

impl Rack {
    /// Removes what killed runs left behind, makes the network, and boots both guests at once.
    ///
    /// # Errors
    /// When a namespace cannot be made or a guest does not boot.
    pub fn set_up(root: &Path, program: &Path) -> Result<Self, Error> {
        namespaces::sweep()?;
        let folder = Folder::create(&repository::target(root).join("interop-roce"))?;
        let rack = Namespace::create("rack")?;
        let host = Namespace::create("host")?;
        rack.run("ip link add bridge type bridge stp_state 0", SHORT)?;
        let port = End {
            name: "port",
            mac: "02:77:00:00:00:fe",
            addresses: &[],
        };
        let own = End {
            name: HOST,
            mac: "02:77:00:00:00:01",
            addresses: &["10.77.0.1/24", "fd77::1/64"],
        };
        rack.cable(&port, &host, &own)?;
        rack.run(
            &format!("ip link set dev port mtu {JUMBO} master bridge"),
            SHORT,
        )?;
        // Checksums that a cable leaves to nobody are wrong for who reads frames from it.
        host.run(&format!("ethtool -K {HOST} tx off"), SHORT)?;
        let boot = |address| Guest::boot(Image::of(root), &rack, "bridge", address, &folder.0);
        let (left, right) = threads::both(|| boot(&LEFT), || boot(&RIGHT));
        let left = left?;
        // It can be raised for a while, which a link of 1500 bytes cannot.
        left.run("ip link set dev eth0 mtu 1500", SHORT)?;
        Ok(Self {
            left,
            right: right?,
            host,
            path: path(program)?,
            _rack: rack,
            _folder: folder,
        })
    }

    /// The guests, and how long each took to boot.
    pub fn boots(&self) -> impl Iterator<Item = (&'static str, Duration)> {
        [&self.left, &self.right]
            .map(|guest| (guest.name(), guest.booted_in()))
            .into_iter()
    }

    /// Plays a case: the server until it is ready, then the client, then the server's end.
    ///
    /// # Errors
    /// When a half does not start, does not end in time, ends badly, or does not say what it must.
    /// The text has the output of both.
    pub fn play(&self, case: &Case) -> Result<(), Error> {
        let client = &case.client;
        let Some(server) = &case.server else {
            return client.judge(&self.shell(client.place, client.words, LIMIT)?);
        };
        let running = self.start(server, LIMIT)?;
        self.wait_for(server.place, server.probe)?;
        let asked = self.shell(client.place, client.words, LIMIT);
        let asked = asked.and_then(|outcome| client.judge(&outcome));
        // A server that nobody talked to waits for ever.
        let served = match server.ending == Ending::Told || asked.is_err() {
            true => running.end(),
            false => running.finish(LIMIT),
        };
        let served = served.and_then(|outcome| server.judge(&outcome));
        match (asked, served) {
            (Ok(()), served) => served,
            (asked, Ok(())) => asked,
            (Err(asked), Err(served)) => Err(Error::Environment(format!(
                "client: {asked}\nserver: {served}"
            ))),
        }
    }

    /// Lines of the guests' consoles that tell of a fault of their kernels.
    pub fn complaints(&self) -> String {
        let mut text = String::new();
        for guest in [&self.left, &self.right] {
            let console = guest.console();
            for line in console
                .lines()
                .filter(|line| SIGNS.iter().any(|sign| line.contains(sign)))
            {
                text.push_str(&format!("{}: {line}\n", guest.name()));
            }
        }
        text
    }

    fn guest(&self, place: Place) -> Option<&Guest> {
        match place {
            Place::Left => Some(&self.left),
            Place::Right => Some(&self.right),
            Place::Host => None,
        }
    }

    /// Runs a shell's words at a place; how they end is the outcome.
    fn shell(&self, place: Place, words: &str, limit: Duration) -> Result<Outcome, Error> {
        match self.guest(place) {
            Some(guest) => guest.run(words, limit),
            None => process::run(&mut self.at_host(words), limit, Show::Nothing),
        }
    }

    fn start(&self, half: &Half, limit: Duration) -> Result<Server<'_>, Error> {
        match self.guest(half.place) {
            Some(guest) => guest.start(half.words, limit).map(Server::Guest),
            None => {
                let words = format!("exec {}", half.words);
                Running::start(&mut self.at_host(&words), Show::Nothing).map(Server::Host)
            }
        }
    }

    fn at_host(&self, words: &str) -> Command {
        let mut command = self.host.command("sh");
        command.env("PATH", &self.path).args(["-c", words]);
        command
    }

    /// Waits until the system of a place says that a server listens.
    fn wait_for(&self, place: Place, probe: &str) -> Result<(), Error> {
        let tries = LISTENS.as_secs() * 10;
        let script = format!(
            "i=0; until {probe}; do i=$((i+1)); [ $i -lt {tries} ] || exit 1; sleep 0.1; done"
        );
        let outcome = self.shell(place, &script, LISTENS * 2)?;
        if outcome.is_success() {
            return Ok(());
        }
        Err(Error::Environment(format!(
            "nobody listens after {} s: `{probe}` says no; {}{}",
            LISTENS.as_secs(),
            outcome.stdout,
            outcome.stderr
        )))
    }
}

/// The folders of programs, that of one program first.
fn path(program: &Path) -> Result<OsString, Error> {
    let own = program.parent().map(Path::to_path_buf);
    let others = std::env::var_os("PATH").unwrap_or_default();
    let folders = own.into_iter().chain(std::env::split_paths(&others));
    std::env::join_paths(folders).map_err(|error| Error::Environment(format!("PATH: {error}")))
}

/// A server under way.
#[derive(Debug)]
enum Server<'a> {
    Guest(Job<'a>),
    Host(Running),
}

impl Server<'_> {
    /// Waits until it ends by itself.
    fn finish(self, limit: Duration) -> Result<Outcome, Error> {
        match self {
            Self::Guest(job) => job.finish(limit),
            Self::Host(running) => running.wait(limit),
        }
    }

    /// Tells it to end.
    fn end(self) -> Result<Outcome, Error> {
        match self {
            Self::Guest(job) => job.end(),
            Self::Host(running) => running.interrupt(SHORT),
        }
    }
}

/// A folder that goes when this goes.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    /// Makes a folder of this process below `parent`, and removes those of processes that are gone.
    fn create(parent: &Path) -> Result<Self, Error> {
        for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
            if !Path::new("/proc").join(entry.file_name()).exists() {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
        let folder = parent.join(std::process::id().to_string());
        std::fs::create_dir_all(&folder).map_err(|source| Error::file(&folder, source))?;
        Ok(Self(folder))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A link's MTU that has room for packets of 4096 bytes.
const JUMBO: u32 = 4200;

/// The interface of the host on the cable.
const HOST: &str = "ww0";

const LEFT: Address = Address {
    name: "left",
    mac: "52:54:00:77:00:02",
    ipv4: "10.77.0.2/24",
    ipv6: "fd77::2/64",
    mtu: JUMBO,
};

const RIGHT: Address = Address {
    name: "right",
    mac: "52:54:00:77:00:03",
    ipv4: "10.77.0.3/24",
    ipv6: "fd77::3/64",
    mtu: 1500,
};

/// Words in a console that tell of a kernel's fault.
const SIGNS: [&str; 5] = ["BUG:", "WARNING:", "Oops", "Call Trace", "rdma_rxe: "];

const SHORT: Duration = Duration::from_secs(30);
const LISTENS: Duration = Duration::from_secs(20);
