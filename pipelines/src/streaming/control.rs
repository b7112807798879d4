//! The host beside the engine: frames that are not TCP, and what they say about connections.

use std::net::IpAddr;

use warpwire_engine::streams::tables::{Command, MOVED, TOO_BIG, UNREACHABLE};
use warpwire_engine::tables::Path;
use warpwire_protocols::tcp::{EphemeralPorts, Secret, Tuple};

use super::commands::Commands;
use super::error::Error;
use super::settings::StreamConfig;
use super::slow::{Hop, IcmpReport, Moved, NoWay, Reported, SlowConfig, SlowCounters, SlowPath};
use super::table::{Table, address_words};
use crate::copies::CopyRing;

/// The slow path, with its two rings.
pub(super) struct Control {
    slow: SlowPath,
    frames: CopyRing,
    inject: CopyRing,
    /// A frame that its ring had no room for.
    held: Option<Vec<u8>>,
    /// A next hop that moved, of which the engine was not told yet.
    moved: Option<Moved>,
    ports: EphemeralPorts,
    mac: [u8; 6],
}

impl Control {
    pub(super) fn new(
        config: &StreamConfig,
        mac: [u8; 6],
        table: &Table,
        now_ns: u64,
    ) -> Result<Self, Error> {
        let slow = SlowConfig {
            mac,
            mtu: config.mtu,
            addresses: config.addresses.clone(),
            routes: config.routes.clone(),
        };
        Ok(Self {
            slow: SlowPath::new(&slow, now_ns)?,
            frames: table.slow.clone(),
            inject: table.inject.clone(),
            held: None,
            moved: None,
            ports: EphemeralPorts::new(Secret(config.secret)),
            mac,
        })
    }

    /// Takes what came, looks at the clock, and sends what is to be sent. Says whether there was
    /// anything.
    pub(super) fn run(&mut self, now_ns: u64, commands: &mut Commands) -> Result<bool, Error> {
        let mut reports = Vec::new();
        let slow = &mut self.slow;
        let count = self.frames.drain(MOST_FRAMES, |_, frame| {
            reports.extend(slow.on_frame(now_ns, frame));
        });
        if slow.timeout_ns().is_some_and(|at_ns| at_ns <= now_ns) {
            slow.on_timer(now_ns);
        }
        for report in reports {
            // With no slot it is lost, as the frame could have been.
            commands.give(&command(&report), false)?;
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

    /// Tells the engine of next hops that moved, as far as there are slots.
    fn tell_moved(&mut self, commands: &mut Commands) -> Result<(), Error> {
        while let Some(moved) = self.moved.take().or_else(|| self.slow.take_moved()) {
            let is_gateway = self.slow.is_gateway(moved.address);
            if commands
                .give(&moved_command(&moved, is_gateway), false)?
                .is_none()
            {
                self.moved = Some(moved);
                break;
            }
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

    /// The next port for a connection to a peer.
    pub(super) fn port(&mut self, local: IpAddr, remote: IpAddr, remote_port: u16) -> Option<u16> {
        let tuple = Tuple::new(local, 0, remote, remote_port);
        self.ports.choose(&tuple, |_| true)
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

/// Frames that are looked at before the engine goes on.
const MOST_FRAMES: u32 = 32;
