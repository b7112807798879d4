//! The other end: `puppet` of `deploy/rxe-peer`, told line by line what to do.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use warpwire_protocols::wire::bth::{Psn, Qpn};

/// A conversation with a puppet.
pub(super) struct Puppet {
    stream: TcpStream,
    answers: BufReader<TcpStream>,
}

/// Its queue pair.
#[derive(Clone, Copy, Debug)]
pub(super) struct Its {
    pub(super) qp: Qpn,
    pub(super) psn: Psn,
    pub(super) key: u32,
    pub(super) address: u64,
    pub(super) qkey: u32,
    pub(super) gid: [u8; 16],
}

/// A message that it received.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Received {
    pub(super) is_write: bool,
    pub(super) length: u32,
    pub(super) immediate: Option<u32>,
}

impl Puppet {
    pub(super) fn call(address: SocketAddr) -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("puppet at {address}: {error}");
        let stream = TcpStream::connect_timeout(&address, LIMIT).map_err(failed)?;
        stream.set_nodelay(true).map_err(failed)?;
        stream.set_read_timeout(Some(LIMIT)).map_err(failed)?;
        let answers = BufReader::new(stream.try_clone().map_err(failed)?);
        Ok(Self { stream, answers })
    }

    /// Says what to do, and does not wait.
    pub(super) fn say(&mut self, words: &str) -> Result<(), String> {
        let line = format!("{words}\n");
        let said = self.stream.write_all(line.as_bytes());
        said.map_err(|error| format!("puppet: {words}: {error}"))
    }

    /// Hears what came of it: the words after `ok`.
    pub(super) fn hear(&mut self) -> Result<String, String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line);
        read.map_err(|error| format!("puppet: {error}"))?;
        let line = line.trim_end();
        match line.strip_prefix("ok") {
            Some(rest) => Ok(rest.trim_start().to_owned()),
            None => Err(format!("puppet: {line}")),
        }
    }

    pub(super) fn tell(&mut self, words: &str) -> Result<String, String> {
        self.say(words)?;
        self.hear().map_err(|error| format!("{words}: {error}"))
    }

    /// A new queue pair.
    pub(super) fn open(
        &mut self,
        service: &str,
        mtu: u32,
        gid_index: u32,
        timeout: u8,
    ) -> Result<Its, String> {
        let told = self.tell(&format!("open {service} {mtu} {gid_index} {timeout}"))?;
        let wrong = || format!("puppet: {told}");
        let words: Vec<&str> = told.split(' ').collect();
        let [qp, psn, key, address, qkey, gid] = words.as_slice() else {
            return Err(wrong());
        };
        let number = |word: &str| u64::from_str_radix(word, 16).map_err(|_| wrong());
        let gid = u128::from_str_radix(gid, 16).map_err(|_| wrong())?;
        Ok(Its {
            qp: Qpn::new(number(qp)? as u32),
            psn: Psn::new(number(psn)? as u32),
            key: number(key)? as u32,
            address: number(address)?,
            qkey: number(qkey)? as u32,
            gid: gid.to_be_bytes(),
        })
    }

    pub(super) fn fill(&mut self, at: u64, length: u32, seed: u32) -> Result<(), String> {
        self.tell(&format!("fill {at} {length} {seed}")).map(drop)
    }

    pub(super) fn check(&mut self, at: u64, length: u32, seed: u32) -> Result<(), String> {
        self.tell(&format!("check {at} {length} {seed}")).map(drop)
    }

    pub(super) fn post(&mut self, at: u64, length: u32) -> Result<(), String> {
        self.tell(&format!("post {at} {length}")).map(drop)
    }

    pub(super) fn receive(&mut self) -> Result<Received, String> {
        let told = self.tell("recv")?;
        let wrong = || format!("puppet: recv: {told}");
        let words: Vec<&str> = told.split(' ').collect();
        let [opcode, length, immediate] = words.as_slice() else {
            return Err(wrong());
        };
        Ok(Received {
            // IBV_WC_RECV_RDMA_WITH_IMM.
            is_write: *opcode == "129",
            length: length.parse().map_err(|_| wrong())?,
            immediate: match *immediate {
                "-" => None,
                word => Some(u32::from_str_radix(word, 16).map_err(|_| wrong())?),
            },
        })
    }

    pub(super) fn word(&mut self, at: u64) -> Result<u64, String> {
        let told = self.tell(&format!("word {at}"))?;
        u64::from_str_radix(&told, 16).map_err(|_| format!("puppet: word: {told}"))
    }
}

/// Longer than the puppet itself waits.
const LIMIT: Duration = Duration::from_secs(30);
