//! The peers: their image, and guests that run from it. All of it through `deploy/rxe-peer`.

use crate::interop::namespaces::Namespace;
use crate::process::{self, End, Outcome, Show};
use crate::{Error, repository};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The kernel and the programs that guests boot from.
#[derive(Debug)]
pub struct Image {
    script: PathBuf,
    cache: PathBuf,
}

impl Image {
    /// The image of a checkout; it may not be built yet.
    #[must_use]
    pub fn of(root: &Path) -> Self {
        Self {
            script: root.join("deploy/rxe-peer/rxe-peer"),
            cache: repository::target(root).join("rxe-peer"),
        }
    }

    /// Whether it is built, by the recipe as it is now.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        let outcome = process::run(&mut self.command("check"), SHORT, Show::Nothing);
        outcome.is_ok_and(|outcome| outcome.is_success())
    }

    /// Builds it, unless it is fresh; 120 MB are downloaded.
    ///
    /// # Errors
    /// When packages cannot be downloaded, or do not hold what they should.
    pub fn build(&self) -> Result<(), Error> {
        process::run_well(&mut self.command("build"), BUILD, Show::Errors).map(drop)
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(&self.script);
        command.env("RXE_PEER_CACHE", &self.cache).arg(verb);
        command
    }
}

/// How a guest stands on the network.
#[derive(Clone, Copy, Debug)]
pub struct Address {
    /// The guest's name, and that of its tap.
    pub name: &'static str,
    /// Ethernet address.
    pub mac: &'static str,
    /// IPv4 address with its prefix length.
    pub ipv4: &'static str,
    /// IPv6 address with its prefix length.
    pub ipv6: &'static str,
    /// The link's MTU.
    pub mtu: u32,
}

/// A guest that runs. It goes when this goes.
#[derive(Debug)]
pub struct Guest {
    image: Image,
    folder: PathBuf,
    name: &'static str,
    booted_in: Duration,
}

impl Guest {
    /// Boots a guest in `space`, on a tap that it makes and puts on `bridge`, which it makes if it
    /// is not there. Returns when the guest's Soft-RoCE port is active and its agent listens. Its
    /// state lies below `folder`.
    ///
    /// # Errors
    /// When it does not come up within a minute; the text has the end of its console.
    pub fn boot(
        image: Image,
        space: &Namespace,
        bridge: &str,
        address: &Address,
        folder: &Path,
    ) -> Result<Self, Error> {
        let start = Instant::now();
        let mut guest = Self {
            image,
            folder: folder.to_path_buf(),
            name: address.name,
            booted_in: Duration::ZERO,
        };
        let mut command = guest.command("start");
        command.args(["--netns", space.name(), "--create", "--bridge", bridge]);
        command.args(["--tap", address.name, "--mac", address.mac]);
        command.args(["--ip", address.ipv4, "--ip6", address.ipv6]);
        command.args(["--mtu", &address.mtu.to_string()]);
        command.args(["--life", &LIFE.as_secs().to_string()]);
        process::run_well(&mut command, BOOT, Show::Nothing)?;
        guest.booted_in = start.elapsed();
        Ok(guest)
    }

    /// The guest's name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// From the start of the machine to an active port.
    #[must_use]
    pub fn booted_in(&self) -> Duration {
        self.booted_in
    }

    /// Runs a shell's words inside until they end; how they end is the outcome.
    ///
    /// # Errors
    /// When the guest does not answer, or the words do not end within `limit`.
    pub fn run(&self, words: &str, limit: Duration) -> Result<Outcome, Error> {
        let mut command = self.command("exec");
        command.args(["--timeout", &limit.as_secs().max(1).to_string()]);
        command.arg("--").arg(words);
        let outcome = process::run(&mut command, limit + GRACE, Show::Nothing)?;
        answered(&command, outcome)
    }

    /// Starts a shell's words inside.
    ///
    /// # Errors
    /// When the guest does not take them.
    pub fn start(&self, words: &str, limit: Duration) -> Result<Job<'_>, Error> {
        let mut command = self.command("spawn");
        command.args(["--timeout", &limit.as_secs().max(1).to_string()]);
        command.arg("--").arg(words);
        let outcome = process::run_well(&mut command, SHORT, Show::Nothing)?;
        Ok(Job {
            guest: self,
            number: outcome.stdout.trim().to_owned(),
            is_over: false,
        })
    }

    /// What its kernel wrote to the console.
    #[must_use]
    pub fn console(&self) -> String {
        let path = self.folder.join(self.name).join("console.log");
        let bytes = std::fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = self.image.command(verb);
        command.env("RXE_PEER_RUN", &self.folder);
        command.args(["--name", self.name]);
        command
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // Nobody is there to be told; the namespace ends what this does not.
        process::undisturbed(|| {
            let _ = process::run(&mut self.command("stop"), SHORT, Show::Nothing);
        });
    }
}

/// Words that run inside a guest; they are ended when this goes.
#[derive(Debug)]
pub struct Job<'a> {
    guest: &'a Guest,
    number: String,
    is_over: bool,
}

impl Job<'_> {
    /// Waits until they end.
    ///
    /// # Errors
    /// As [`Guest::run`].
    pub fn finish(mut self, limit: Duration) -> Result<Outcome, Error> {
        let mut command = self.guest.command("wait");
        command.arg("--").arg(&self.number);
        let outcome = process::run(&mut command, limit + GRACE, Show::Nothing)?;
        self.is_over = matches!(outcome.end, End::Exit(_));
        answered(&command, outcome)
    }

    /// Ends them; what they had written by then.
    ///
    /// # Errors
    /// As [`Guest::run`].
    pub fn end(self) -> Result<Outcome, Error> {
        self.kill();
        self.finish(SHORT)
    }

    fn kill(&self) {
        let mut command = self.guest.command("kill");
        command.arg("--").arg(&self.number);
        // What has ended already needs no signal.
        let _ = process::run(&mut command, SHORT, Show::Nothing);
    }
}

impl Drop for Job<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            process::undisturbed(|| self.kill());
        }
    }
}

/// An outcome of words that ran; an error if the guest did not run them to their end.
fn answered(command: &Command, outcome: Outcome) -> Result<Outcome, Error> {
    let is_answer = match outcome.end {
        End::Exit(status) => !matches!(status.code(), Some(LATE | UNANSWERED) | None),
        End::Deadline | End::Interrupted => false,
    };
    if is_answer {
        return Ok(outcome);
    }
    Err(Error::Failed {
        program: process::in_words(command),
        status: outcome.end_in_words(),
        output: format!("{}{}", outcome.stdout, outcome.stderr),
    })
}

/// The exit statuses of the script that are its own, not those of the words that it runs.
const LATE: i32 = 124;
const UNANSWERED: i32 = 125;

const BUILD: Duration = Duration::from_secs(900);
const BOOT: Duration = Duration::from_secs(90);
const SHORT: Duration = Duration::from_secs(30);
/// What handing words over and fetching their end may take.
const GRACE: Duration = Duration::from_secs(20);
/// A guest whose owner was killed ends by itself.
const LIFE: Duration = Duration::from_secs(1200);
