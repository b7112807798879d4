//! Ways out of a fabric: whatever takes and gives Ethernet frames.

use super::foreign::NicUplink;
use super::tap::Tap;
use crate::error::Error;
use crate::memif::Memif;
use crate::patience::Patience;
use crate::pcap::{CapturePort, Words};
use crate::spec::{NicKind, NicSpec};
use crate::trouble::Trouble;
use crate::xdp;

/// A port of a fabric that leads elsewhere: a capture file, a tap, another NIC.
pub trait Uplink: Send {
    /// What it is, for reports.
    fn name(&self) -> &str;

    /// The Ethernet address of frames that are passed in, if there is one: a NIC that is plugged
    /// into this goes by it.
    fn mac(&self) -> Option<[u8; 6]> {
        None
    }

    /// Takes a frame that left the fabric. False if it cannot: the frame is lost and counted.
    fn send(&mut self, frame: &[u8]) -> bool;

    /// A frame that enters the fabric, if there is one: its bytes go to the start of `into`, its
    /// length is returned. Never blocks.
    fn receive(&mut self, into: &mut [u8], now_ns: u64) -> Option<usize>;

    /// Whether the source can wait: then it is asked only when every adapter could take a frame.
    fn patient(&self) -> bool {
        false
    }

    /// Called once a round, after frames were sent and before they are asked for: kicks, control
    /// sockets. Returns whether it did anything.
    fn round(&mut self, _now_ns: u64) -> bool {
        false
    }

    /// When it has its next frame, if that is known: a virtual clock may be turned that far.
    fn next_due_ns(&self) -> Option<u64> {
        None
    }

    /// What it counted itself, by name.
    fn counters(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }

    /// What has gone wrong with it so far, told as often as is asked.
    fn troubles(&self) -> Vec<Trouble> {
        Vec::new()
    }

    /// Finishes: flushes files, gives back what the system lent.
    ///
    /// # Errors
    /// What could not be finished.
    fn close(&mut self) -> Result<(), Error> {
        Ok(())
    }
}

/// What a soft NIC's option `uplink` names: `tap:INTERFACE`, or a NIC of another kind whose own
/// options are joined by `+`, as in `memif:/run/a.sock+role=server`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum UplinkWords {
    /// A tap interface.
    Tap(String),
    /// A capture, AF_XDP or memif.
    Nic(NicSpec),
}

impl UplinkWords {
    /// Reads and checks the option; nothing is opened.
    pub(super) fn of(spec: &NicSpec) -> Result<Option<Self>, Error> {
        let Some(words) = spec.option("uplink") else {
            return Ok(None);
        };
        if let Some(interface) = words.strip_prefix("tap:") {
            return Ok(Some(Self::Tap(interface.to_owned())));
        }
        let uplink: NicSpec = words.replace('+', ",").parse()?;
        if ![NicKind::Pcap, NicKind::Xdp, NicKind::Memif].contains(&uplink.kind) {
            let problem = format!("`{words}` is no uplink");
            let cure = "write tap:INTERFACE, xdp:IFACE, memif:SOCKET or pcap:FILE".to_owned();
            return Err(spec.wrong("uplink", problem, cure));
        }
        crate::check(&uplink)?;
        Ok(Some(Self::Nic(uplink)))
    }

    /// Opens it.
    pub(super) fn open(&self, patience: Patience<'_>) -> Result<Box<dyn Uplink>, Error> {
        let spec = match self {
            Self::Tap(interface) => return Ok(Box::new(Tap::open(interface)?)),
            Self::Nic(spec) => spec,
        };
        if spec.kind == NicKind::Pcap {
            let words = Words::of(spec)?;
            let port = CapturePort::open(Some(&words.play), words.record.as_deref(), words.pace)?;
            return Ok(Box::new(port));
        }
        let nic: Box<dyn crate::Nic> = match spec.kind {
            NicKind::Xdp => Box::new(xdp::open(spec)?),
            _ => Box::new(Memif::open_within(spec, patience)?),
        };
        Ok(Box::new(NicUplink::new(nic)?))
    }
}
