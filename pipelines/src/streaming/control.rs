//! The host beside the engine: frames that are not TCP, and what they say about connections.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Mutex;

use warpwire_engine::streams::tables::{Command, HANDED, MOVED, TOO_BIG, UNREACHABLE};
use warpwire_engine::tables::Path;
use warpwire_protocols::tcp::{EphemeralPorts, Secret, Tuple};

use super::commands::Commands;
use super::endpoint::lock;
use super::error::Error;
use super::settings::StreamConfig;
use super::slow::{Hop, IcmpReport, Moved, NoWay, Reported, SlowConfig, SlowCounters, SlowPath};
use super::table::{Table, address_words};
use crate::copies::CopyRing;

/// The slow path, with its two rings.
pub(super) struct Control {
    slow: SlowPath,
    /// Of each block: frames for the host, and segments that came to others.
    frames: Vec<(CopyRing, Option<CopyRing>)>,
    inject: CopyRing,
    /// A frame that its ring had no room for.
    held: Option<Vec<u8>>,
    /// Commands that blocks were not given yet: next hops that moved.
    waiting: VecDeque<(usize, Command)>,
    ports: EphemeralPorts,
    mac: [u8; 6],
}

impl Control {
    pub(super) fn new(
        config: &StreamConfig,
        mac: [u8; 6],
        tables: &[Table],
        now_ns: u64,
    ) -> Result<Self, Error> {
        let inject = tables.first().map(|table| table.inject.clone());
        let inject = inject.ok_or(NO_QUEUES)?;
        let slow = SlowConfig {
            mac,
            mtu: config.mtu,
            addresses: config.addresses.clone(),
            routes: config.routes.clone(),
        };
        Ok(Self {
            slow: SlowPath::new(&slow, now_ns)?,
            frames: tables
                .iter()
                .map(|table| (table.slow.clone(), table.handed.clone()))
                .collect(),
            inject,
            held: None,
            waiting: VecDeque::new(),
            ports: EphemeralPorts::new(Secret(config.secret)),
            mac,
        })
    }

    /// Takes what came, looks at the clock, and sends what is to be sent. Says whether there was
    /// anything.
    pub(super) fn run(&mut self, now_ns: u64, commands: &[Mutex<Commands>]) -> Result<bool, Error> {
        let mut reports = Vec::new();
        let slow = &mut self.slow;
        let mut count = 0;
        for (frames, _) in &self.frames {
            count += frames.drain(MOST_FRAMES, |head, frame| {
                if head.sequence & HANDED == 0 {
                    reports.extend(slow.on_frame(now_ns, frame));
                } else if let Some((_, Some(handed))) =
                    self.frames.get(head.sequence as u32 as usize)
                {
                    // With no room it is lost, as it could have been: its sender repeats it.
                    handed.offer(now_ns, frame);
                }
            });
        }
        if slow.timeout_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            slow.on_timer(now_ns);
        }
        for report in reports {
            // With no slot it is lost, as the frame could have been. One block has the connection.
            for commands in commands {
                lock(commands).give(&command(&report), false)?;
            }
        }
        self.tell_moved(commands)?;
        let mut sent = false;
        while let Some(frame) = self.held.take().or_else(|| self.slow.take_frame()) {
            if !self.inject.offer(now_ns, &frame) {
                self.held = Some(frame);
                break;
            }
            sent = true;
        }
        Ok(count > 0 || sent)
    }

    /// Tells the engines of next hops that moved, as far as there are slots.
    fn tell_moved(&mut self, commands: &[Mutex<Commands>]) -> Result<(), Error> {
        while let Some(moved) = self.slow.take_moved() {
            let command = moved_command(&moved, self.slow.is_gateway(moved.address));
            self.waiting
                .extend((0..commands.len()).map(|block| (block, command)));
        }
        while let Some((block, command)) = self.waiting.front() {
            if let Some(commands) = commands.get(*block)
                && lock(commands).give(command, false)?.is_none()
            {
                break;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }

    /// Whether an address is on the link.
    pub(super) fn is_on_link(&self, to: IpAddr) -> bool {
        self.slow.is_on_link(to)
    }

    /// The way to an address, but for the port here; `None` while its next hop is asked for.
    pub(super) fn path(&mut self, now_ns: u64, to: IpAddr) -> Result<Option<Path>, NoWay> {
        let source = self.slow.source(to)?;
        let Hop::Known(next_hop) = self.slow.next_hop(now_ns, to)? else {
            return Ok(None);
        };
        Ok(Some(Path {
            next_hop,
            mac: self.mac,
            hop_limit: 64,
            ..ends(source, to)
        }))
    }

    /// The next port for a connection to a peer, of those that `fits`.
    pub(super) fn port(
        &mut self,
        local: IpAddr,
        peer: SocketAddr,
        fits: impl Fn(u16) -> bool,
    ) -> Option<u16> {
        let tuple = Tuple::new(local, 0, peer.ip(), peer.port());
        self.ports.choose(&tuple, fits)
    }

    /// The own address towards another one.
    pub(super) fn source(&self, to: IpAddr) -> Result<IpAddr, NoWay> {
        self.slow.source(to)
    }

    pub(super) fn counters(&self) -> SlowCounters {
        self.slow.counters()
    }
}

/// A path of which only the addresses are known.
fn ends(local: IpAddr, remote: IpAddr) -> Path {
    let (local, remote) = (address_words(local), address_words(remote));
    Path {
        local: local.words,
        remote: remote.words,
        ip_version: local.ip_version as u8,
        ..Path::default()
    }
}

fn command(report: &IcmpReport) -> Command {
    let (kind, mtu) = match report.what {
        Reported::Unreachable { .. } => (UNREACHABLE, 0),
        Reported::TooBig { mtu } => (TOO_BIG, u32::from(mtu)),
    };
    Command {
        kind,
        mtu,
        sequence: report.sequence.0,
        port: u32::from(report.remote.1),
        path: Path {
            source_port: report.local.1,
            ..ends(report.local.0, report.remote.0)
        },
        ..Command::default()
    }
}

/// Connections to other networks go by a gateway, those on the link to the neighbour itself.
fn moved_command(moved: &Moved, is_gateway: bool) -> Command {
    let address = address_words(moved.address);
    Command {
        kind: MOVED,
        path: Path {
            remote: if is_gateway { [0; 4] } else { address.words },
            next_hop: moved.to,
            mac: moved.from,
            ip_version: address.ip_version as u8,
            ..Path::default()
        },
        ..Command::default()
    }
}

/// What a NIC without queues is told.
pub(super) const NO_QUEUES: Error = Error::Setting {
    field: "nic",
    value: 0,
    must: "one with queues",
};

/// Frames of a block that are looked at before the engine goes on.
const MOST_FRAMES: u32 = 32;
