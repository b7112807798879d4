//! Two warpwires over memif, each on a processor of its own.

use std::time::Duration;

use serde_json::Value;
use warpwire_ptx::process::{Running, Show};

use super::error::Error;
use super::messages::{Figure, messages};
use super::setting::{FAR, NEAR, Setting};

/// The command that is run at both ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Face {
    WriteBandwidth,
    SendBandwidth,
    WriteLatency,
    SendLatency,
}

impl Face {
    const fn word(self) -> &'static str {
        match self {
            Self::WriteBandwidth => "write-bw",
            Self::SendBandwidth => "send-bw",
            Self::WriteLatency => "write-lat",
            Self::SendLatency => "send-lat",
        }
    }

    const fn is_latency(self) -> bool {
        matches!(self, Self::WriteLatency | Self::SendLatency)
    }
}

/// Takes a figure by `warpwire bench` at both ends.
pub(super) fn measure(setting: &Setting, face: Face, bytes: u32) -> Result<Figure, Error> {
    let socket = setting.socket();
    let told = socket.with_extension("json");
    let port = free_port()?;
    let own = std::env::current_exe().map_err(|source| Error::System {
        action: "finding this program".to_owned(),
        source,
        cure: "mount /proc",
    })?;
    let count = messages(setting.seconds, face.is_latency(), bytes);
    let end = |core: usize, role: &str| {
        let mut command = setting.on(core);
        let nic = format!(
            "memif:{},role={role},buffer=8192,depth=1024",
            socket.display()
        );
        command
            .arg(&own)
            .args(["bench", face.word(), "--fused", "--nic", &nic])
            .args(["--port", &port.to_string(), "--size", &bytes.to_string()])
            .args(["--iters", &count.to_string(), "--mtu", "4096"]);
        if !face.is_latency() {
            command.args(["--tx-depth", "256", "--cq-mod", "32", "--post_list", "16"]);
            command.args(["--inline_size", "64"]);
        }
        command
    };
    let server = Running::start(&mut end(FAR, "server"), Show::Nothing)?;
    let mut client = end(NEAR, "client");
    client.arg("127.0.0.1").arg("--out_json_file").arg(&told);
    let client = Running::start(&mut client, Show::Nothing)?;
    finish(setting, client)?;
    finish(setting, server)?;
    let text = std::fs::read_to_string(&told).map_err(|source| Error::System {
        action: format!("reading {}", told.display()),
        source,
        cure: "set TMPDIR to a folder that can be written",
    })?;
    figure_of(&text, face.is_latency()).ok_or(Error::Words {
        program: "warpwire",
        field: "figure",
    })
}

/// Waits for the end of a process, and takes a bad one for an error with its words.
pub(super) fn finish(setting: &Setting, running: Running) -> Result<String, Error> {
    let outcome = running.wait(PATIENCE)?;
    setting.check()?;
    match outcome.is_success() {
        true => Ok(outcome.stdout),
        false => Err(Error::Ended {
            end: outcome.end_in_words(),
            words: last_line(&outcome.stderr, &outcome.stdout),
        }),
    }
}

fn last_line(errors: &str, out: &str) -> String {
    let line = |text: &str| {
        text.lines()
            .rfind(|line| !line.trim().is_empty())
            .map(str::to_owned)
    };
    line(errors).or_else(|| line(out)).unwrap_or_default()
}

/// A TCP port of the loopback interface that nobody uses.
pub(super) fn free_port() -> Result<u16, Error> {
    let listener = std::net::TcpListener::bind("127.0.0.1:0");
    let address = listener.and_then(|listener| listener.local_addr());
    address
        .map(|address| address.port())
        .map_err(|source| Error::System {
            action: "finding a free TCP port".to_owned(),
            source,
            cure: "set the loopback interface up",
        })
}

/// The figure in what perftest's faces write.
fn figure_of(text: &str, is_latency: bool) -> Option<Figure> {
    let value: Value = serde_json::from_str(text).ok()?;
    let number = |field: &str| value.get(field)?.as_f64();
    let messages = value.get("n_iterations")?.as_u64()?;
    Some(match is_latency {
        true => Figure {
            messages,
            microseconds: number("t_typical")?,
            rate: 0.0,
        },
        false => Figure {
            messages,
            microseconds: 0.0,
            rate: number("MsgRate")?,
        },
    })
}

const PATIENCE: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_or_missing() {
        let rate = r#"{"MsgSize":8,"n_iterations":100,"BW_average":1.0,"MsgRate":3.5}"#;
        let time = r#"{"MsgSize":8,"n_iterations":7,"t_typical":1.25}"#;
        let found = figure_of(rate, false).expect("whole");
        assert_eq!((found.messages, found.rate), (100, 3.5));
        let found = figure_of(time, true).expect("whole");
        assert_eq!((found.messages, found.microseconds), (7, 1.25));
        assert_eq!(figure_of(rate, true), None);
        assert_eq!(figure_of("{", false), None);
    }
}
