//! UCX's own measurement of itself.

use std::process::Command;
use std::time::Duration;

use warpwire_ptx::process::{self, Running, Show};

use super::error::Error;
use super::messages::{Figure, messages};
use super::ours::{finish, free_port};
use super::setting::{FAR, NEAR, Setting};

/// What carries the messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Over {
    Tcp,
    SharedMemory,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Test {
    Bandwidth,
    Latency,
}

/// Takes a figure by ucx_perftest at both ends.
pub(super) fn measure(
    setting: &Setting,
    over: Over,
    test: Test,
    bytes: u32,
) -> Result<Figure, Error> {
    note_version(setting)?;
    let port = free_port()?.to_string();
    let transports = match over {
        Over::Tcp => "tcp,self",
        Over::SharedMemory => "sm,self",
    };
    let start = |core: usize, more: &[&str]| {
        let mut command = setting.on(core);
        command
            .args(["ucx_perftest", "-p", &port])
            .args(more)
            .env("UCX_TLS", transports)
            .env(
                "UCX_NET_DEVICES",
                if over == Over::Tcp { "lo" } else { "all" },
            )
            .env("UCX_WARN_UNUSED_ENV_VARS", "n");
        Running::start(&mut command, Show::Nothing)
    };
    let count = messages(setting.seconds, test == Test::Latency, bytes);
    let count = match over {
        Over::Tcp => count / SLOWER,
        Over::SharedMemory => count,
    };
    let (count, warm) = (count.to_string(), (count / 20).max(1).to_string());
    let size = bytes.to_string();
    let word = match test {
        Test::Bandwidth => "tag_bw",
        Test::Latency => "tag_lat",
    };
    let mut server = start(FAR, &[])?;
    // It would tell that it waits only when it ends: standard output is no terminal.
    listens(&mut server, setting, &port)?;
    let words = [
        "127.0.0.1",
        "-t",
        word,
        "-s",
        &size,
        "-n",
        &count,
        "-w",
        &warm,
        "-f",
    ];
    let client = start(NEAR, &words)?;
    let out = finish(setting, client)?;
    finish(setting, server)?;
    figure_of(&out, test).ok_or(Error::Words {
        program: "ucx_perftest",
        field: "final line",
    })
}

/// Waits until somebody listens on a TCP port.
pub(super) fn listens(server: &mut Running, setting: &Setting, port: &str) -> Result<(), Error> {
    let number: u16 = port.parse().unwrap_or(0);
    let there = server.wait_until(SHORT, |_, _| {
        ["/proc/net/tcp", "/proc/net/tcp6"].iter().any(|table| {
            let text = std::fs::read_to_string(table).unwrap_or_default();
            text.lines().any(|line| is_listener(line, number))
        })
    });
    setting.check()?;
    Ok(there?)
}

/// Whether a line of the kernel's table of sockets is one that listens on a port.
fn is_listener(line: &str, port: u16) -> bool {
    let mut fields = line.split_whitespace().skip(1);
    let local = fields.next().unwrap_or_default();
    let state = fields.nth(1).unwrap_or_default();
    local.ends_with(&format!(":{port:04X}")) && state == "0A"
}

/// Version in the words of `ucx_info -v`, once.
fn note_version(setting: &Setting) -> Result<(), Error> {
    let outcome = process::run(Command::new("ucx_info").arg("-v"), SHORT, Show::Nothing)?;
    let words = outcome.stdout.lines().find_map(|line| {
        let (_, rest) = line
            .split_once("ersion ")
            .or_else(|| line.split_once("ersion: "))?;
        rest.split_whitespace().next().map(str::to_owned)
    });
    if let Some(words) = words {
        setting.note_version(format!("UCX {words}"));
    }
    Ok(())
}

/// The last line of numbers.
///
/// ```text
/// Final:  iterations  50%ile  average  overall  average  overall  average  overall
///                     microseconds              MB/s              messages a second
/// ```
fn figure_of(out: &str, test: Test) -> Option<Figure> {
    let numbers = |line: &str| -> Option<Vec<f64>> {
        let rest = line.trim_start();
        let rest = rest.strip_prefix("Final:").unwrap_or(rest);
        let all: Option<Vec<f64>> = rest
            .split_whitespace()
            .map(|word| word.parse().ok())
            .collect();
        all.filter(|all| all.len() == COLUMNS)
    };
    let line = out.lines().filter_map(numbers).next_back()?;
    let [iterations, _, _, overall, _, _, _, rate] = *line.first_chunk::<COLUMNS>()?;
    let messages = iterations as u64;
    Some(match test {
        Test::Latency => Figure {
            messages,
            microseconds: overall,
            rate: 0.0,
        },
        Test::Bandwidth => Figure {
            messages,
            microseconds: 0.0,
            rate: rate / 1e6,
        },
    })
}

const COLUMNS: usize = 8;
const SHORT: Duration = Duration::from_secs(10);
/// How many times fewer messages it gets over TCP.
const SLOWER: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_numbers_count() {
        let out = "+-----+\n[thread 0]   100  0.1 0.2 0.3 1.0 2.0 3.0 4.0\n\
                   Final:   500000   0.378   0.380   0.381   20.08   20.07   2631920   2630000\n";
        let time = figure_of(out, Test::Latency).expect("there");
        assert_eq!((time.messages, time.microseconds), (500_000, 0.381));
        let rate = figure_of(out, Test::Bandwidth).expect("there");
        assert_eq!(rate.rate, 2.63);
        assert_eq!(figure_of("Final: 1 2 3", Test::Latency), None);
    }

    #[test]
    fn listeners_are_found_in_the_kernels_table() {
        let line = "   0: 0100007F:36A6 00000000:0000 0A 00000000:00000000 00:00000000";
        assert!(is_listener(line, 0x36a6));
        assert!(!is_listener(line, 0x36a7));
        assert!(!is_listener(&line.replace(" 0A ", " 01 "), 0x36a6));
    }
}
