//! libfabric's own measurement of itself.

use std::process::Command;
use std::time::Duration;

use warpwire_ptx::process::{self, Running, Show};

use super::error::Error;
use super::messages::{Figure, messages};
use super::ours::{finish, free_port};
use super::setting::{FAR, NEAR, Setting};
use super::ucx::{Over, listens};

/// Takes the time of a message one way, by fi_pingpong at both ends.
pub(super) fn measure(setting: &Setting, over: Over, bytes: u32) -> Result<Figure, Error> {
    note_version(setting)?;
    let port = free_port()?.to_string();
    let (provider, kind) = match over {
        Over::Tcp => ("tcp", "msg"),
        Over::SharedMemory => ("shm", "rdm"),
    };
    let count = messages(setting.seconds, true, bytes);
    let count = match over {
        Over::Tcp => count / SLOWER,
        Over::SharedMemory => count,
    };
    let (size, count) = (bytes.to_string(), count.to_string());
    let start = |core: usize, more: &[&str]| {
        let mut command = setting.on(core);
        command
            .args(["fi_pingpong", "-p", provider, "-e", kind])
            .args(["-S", &size, "-I", &count])
            .args(more);
        Running::start(&mut command, Show::Nothing)
    };
    let mut server = start(FAR, &["-B", &port])?;
    listens(&mut server, setting, &port)?;
    let client = start(NEAR, &["-P", &port, "127.0.0.1"])?;
    let out = finish(setting, client)?;
    finish(setting, server)?;
    figure_of(&out).ok_or(Error::Words {
        program: "fi_pingpong",
        field: "usec/xfer",
    })
}

fn note_version(setting: &Setting) -> Result<(), Error> {
    let outcome = process::run(
        Command::new("fi_info").arg("--version"),
        SHORT,
        Show::Nothing,
    )?;
    let line = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("libfabric: "));
    if let Some(words) = line {
        setting.note_version(format!("libfabric {}", words.trim()));
    }
    Ok(())
}

/// The row of numbers below the heads; a transfer is a message one way.
fn figure_of(out: &str) -> Option<Figure> {
    let mut lines = out.lines().skip_while(|line| !line.contains("usec/xfer"));
    let place = lines
        .next()?
        .split_whitespace()
        .position(|word| word == "usec/xfer")?;
    let row: Vec<&str> = lines.next()?.split_whitespace().collect();
    Some(Figure {
        messages: count(row.get(1)?)?,
        microseconds: row.get(place)?.parse().ok()?,
        rate: 0.0,
    })
}

/// A count such as `200k`.
fn count(word: &str) -> Option<u64> {
    let (digits, factor) = match word.strip_suffix(['k', 'm']) {
        Some(digits) if word.ends_with('k') => (digits, 1e3),
        Some(digits) => (digits, 1e6),
        None => (word, 1.0),
    };
    digits
        .parse::<f64>()
        .ok()
        .map(|number| (number * factor) as u64)
}

const SHORT: Duration = Duration::from_secs(10);
/// How many times fewer messages it gets over TCP.
const SLOWER: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_read_by_its_heads() {
        let out = "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n\
                   64      200k    =200k    24m         0.30s     84.21       0.76       1.31\n";
        let found = figure_of(out).expect("whole");
        assert_eq!((found.messages, found.microseconds), (200_000, 0.76));
        assert_eq!(figure_of("nothing"), None);
    }
}
