//! Linux and a command of ours at the two ends of a cable.
//!
//! ```text
//!   namespace `near`: Linux               namespace `far`: `warpwire serve`
//!   +-----------------------+             +--------------------------------+
//!   | v0 10.79.0.1 fd79::1  |----cable----| v1, AF_XDP 10.79.0.2 fd79::2   |
//!   +-----------------------+             +--------------------------------+
//! ```

use super::cases::{Case, Role};
use crate::Error;
use crate::interop::namespaces::{End, Namespace};
use crate::interop::product::Product;
use crate::process::{self, Outcome, Running, Show};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// How much of everything there is, as variables of the peers' shells.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    variables: [(&'static str, &'static str); 7],
}

impl Setting {
    /// All of it.
    pub const WHOLE: Self = Self::new([
        "20",
        "20",
        "1073741824",
        "67108864",
        "30",
        "102400",
        "1000000",
    ]);
    /// Minutes less.
    pub const QUICK: Self = Self::new(["3", "2", "67108864", "16777216", "5", "4096", "200000"]);

    const fn new(values: [&'static str; 7]) -> Self {
        let [load, measure, socat, lossy, closed, each, flood] = values;
        Self {
            variables: [
                ("LOAD_SECONDS", load),
                ("MEASURE_SECONDS", measure),
                ("SOCAT_BYTES", socat),
                ("LOSSY_BYTES", lossy),
                ("CLOSED_SECONDS", closed),
                ("EACH_BYTES", each),
                ("FLOOD_SEGMENTS", flood),
            ],
        }
    }
}

/// Two namespaces, and the files that are served and fetched.
#[derive(Debug)]
pub struct Scene {
    near: Namespace,
    far: Namespace,
    program: PathBuf,
    folder: PathBuf,
    /// The script of peers on sockets.
    peer: PathBuf,
    setting: Setting,
}

impl Scene {
    /// Makes the network and the files.
    ///
    /// # Errors
    /// When a namespace or a file cannot be made.
    pub fn set_up(root: &Path, product: &Product, setting: Setting) -> Result<Self, Error> {
        let near = Namespace::create("near")?;
        let far = Namespace::create("far")?;
        let own = End {
            name: "v0",
            mac: "02:79:00:00:00:01",
            addresses: &["10.79.0.1/24", "fd79::1/64"],
        };
        let others = End {
            name: "v1",
            mac: OUR_MAC,
            addresses: &[],
        };
        near.cable(&own, &far, &others)?;
        let scene = Self {
            near,
            far,
            program: product.program().to_path_buf(),
            folder: product.folder().to_path_buf(),
            peer: root.join("bench/judges/streams.py"),
            setting,
        };
        process::run_well(&mut scene.shell(FILES, None), LIMIT, Show::Nothing)?;
        Ok(scene)
    }

    /// Plays a case: the command until it is ready, then the peer, then the command's end. What the
    /// peer told.
    ///
    /// # Errors
    /// When a half does not start, does not end in time, ends badly, or says what it must not. The
    /// text has the output of both.
    pub fn play(&self, case: &Case) -> Result<String, Error> {
        for network in NETWORKS {
            // The system-wide choice of a namespace leaves out algorithms that routes may name.
            let words = format!("ip {network} congctl {}", case.congestion);
            self.near.run(&words, SHORT)?;
        }
        let mut ours = Running::start(&mut self.ours(case), Show::Nothing)?;
        if let Some(word) = case.role().ready() {
            ours.wait_until(READY, |stdout, _| stdout.contains(word))?;
        }
        let words = format!("{PRELUDE}\n{}", case.peer);
        let asked = process::run(
            &mut self.shell(&words, Some(ours.id())),
            LIMIT,
            Show::Nothing,
        )?;
        let ended = match case.role() {
            Role::Serves => ours.interrupt(SHORT)?,
            Role::Sends | Role::Receives => ours.wait(SHORT)?,
        };
        let is_right = asked.is_success() && ended.is_success();
        match case.judge(&ended.stdout) {
            Ok(()) if is_right => Ok(asked.stdout.trim().replace('\n', "; ")),
            judged => Err(failed(case, &asked, &ended, judged.err())),
        }
    }

    fn ours(&self, case: &Case) -> Command {
        let mut command = self.far.command(&self.program);
        command.current_dir(&self.folder);
        command.args(case.ours.split_whitespace());
        let nic = match case.link {
            "" => "xdp:v1".to_owned(),
            link => format!("soft,uplink=xdp:v1,{link}"),
        };
        command.args(["--nic", &nic, "--gateway", "10.79.0.1"]);
        command.args(["--addr", "10.79.0.2/24", "--addr", "fd79::2/64"]);
        command
    }

    /// A shell of Linux's side, that any failing program ends.
    fn shell(&self, words: &str, server: Option<u32>) -> Command {
        let mut command = self.near.command("bash");
        command.current_dir(&self.folder);
        command.envs(self.setting.variables);
        command.env("PEER", &self.peer).env("OUR_MAC", OUR_MAC);
        command.env("SERVER", server.unwrap_or_default().to_string());
        command.args(["-euo", "pipefail", "-c", words]);
        command
    }
}

fn failed(case: &Case, asked: &Outcome, ours: &Outcome, judged: Option<String>) -> Error {
    let judged = judged.map_or_else(String::new, |text| format!("; {text}"));
    Error::Failed {
        program: case.name.to_owned(),
        status: format!(
            "peer: {}; ours: {}{judged}",
            asked.end_in_words(),
            ours.end_in_words()
        ),
        output: format!(
            "{}{}{}{}",
            asked.stdout, asked.stderr, ours.stdout, ours.stderr
        ),
    }
}

/// The routes that Linux made for its addresses.
const NETWORKS: [&str; 2] = [
    "-4 route replace 10.79.0.0/24 dev v0 src 10.79.0.1",
    "-6 route replace fd79::/64 dev v0 metric 256",
];
const OUR_MAC: &str = "02:79:00:00:00:02";
/// What every peer's shell knows.
const PRELUDE: &str = r#"
fetch() { curl --disable --noproxy '*' --silent --show-error --fail "$@"; }
peer() { python3 -B "$PEER" "$@"; }
capture() {
    tcpdump --immediate-mode -i v0 -s 128 -B 65536 -w run.pcap tcp > /dev/null 2> dump &
    capture=$!
    trap 'kill $capture 2> /dev/null || true' EXIT
    until grep -q listening dump; do sleep 0.05; done
    "$@"
    sleep 0.3
    kill -INT $capture
    wait $capture
    grep -q '^0 packets dropped by kernel' dump || { cat dump; exit 1; }
}
count() { tshark -n -r run.pcap -Y "$1" 2> /dev/null | wc -l; }
measure() {
    for words in "" "--reverse" "--parallel 3" "--parallel 3 --reverse" "--bidir"; do
        iperf3 --client $1 --time $MEASURE_SECONDS --json $words > told ||
            { cat told; exit 1; }
        peer measured $MEASURE_SECONDS "$words" < told
    done
}
"#;
/// The files of the site, and what goes over bad links.
const FILES: &str = "mkdir -p site && for bytes in 1 1024 1048576 20971520 104857600; do \
     head -c $bytes /dev/urandom > site/$bytes; done; head -c $LOSSY_BYTES /dev/urandom > lossy";

const SHORT: Duration = Duration::from_secs(30);
const READY: Duration = Duration::from_secs(60);
/// Each peer ends within this.
const LIMIT: Duration = Duration::from_secs(240);
