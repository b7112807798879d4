//! Opening the NICs of a file, each kind in its way.

use std::io::BufReader;
use std::path::Path;

use warpwire_nic::memif::Memif;
use warpwire_nic::pcap::{CapturePort, MAX_RECORD_BYTES, Reader, Words, open_file};
use warpwire_nic::soft::{
    AdapterConfig, Clock, Fabric, FabricConfig, Impairments, PortId, SoftNic,
};
use warpwire_nic::{Nic, NicKind, NicSpec, Patience, xdp};

use crate::file::{NicEntry, PipelineFile};
use crate::runtime::Error;
use crate::runtime::log::Log;

/// The open NICs of a file, in its order.
pub(super) struct OpenNics {
    pub(super) nics: Vec<Box<dyn Nic>>,
    /// Where the soft NICs are, if there are any.
    pub(super) fabric: Option<Fabric>,
    /// Captures that are played.
    pub(super) plays: Vec<Play>,
}

/// A capture that is played into a NIC.
pub(super) struct Play {
    /// The NIC, by its place in the file.
    pub(super) nic: usize,
    pub(super) port: PortId,
    /// Frames that it holds.
    pub(super) frames: u64,
}

impl OpenNics {
    /// Closes captures and NICs, and notes what could not be written or given back.
    pub(super) fn close(self, log: &mut Log) {
        for play in &self.plays {
            let closed = self.fabric.as_ref().map(|fabric| fabric.detach(play.port));
            if let Some(Err(error)) = closed {
                log.fail_at(play.nic, error.into());
            }
        }
        for (place, nic) in self.nics.into_iter().enumerate() {
            if let Err(error) = nic.close() {
                log.fail_at(place, error.into());
            }
        }
    }
}

type Opened = (usize, Box<dyn Nic>);

/// Opens all NICs, for as long as `patience` lasts.
pub(super) fn open(file: &PipelineFile, patience: Patience<'_>) -> Result<OpenNics, Error> {
    let mut opened: Vec<Opened> = Vec::new();
    let of_kind = |kind| {
        let entries = file.nics.iter().enumerate();
        entries.filter(move |(_, entry)| entry.spec.kind == kind)
    };
    for entry in &file.nics {
        warpwire_nic::check(&entry.spec)?;
    }
    let (places, specs): (Vec<usize>, Vec<NicSpec>) = of_kind(NicKind::Xdp)
        .map(|(place, entry)| (place, entry.spec.clone()))
        .unzip();
    for (place, nic) in places.into_iter().zip(xdp::open_all(&specs)?) {
        opened.push((place, Box::new(nic)));
    }
    opened.extend(open_memifs(of_kind(NicKind::Memif).collect(), patience)?);
    let soft: Vec<_> = of_kind(NicKind::Soft).collect();
    let captures: Vec<_> = of_kind(NicKind::Pcap).collect();
    let mut plays = Vec::new();
    let fabric = match soft.is_empty() && captures.is_empty() {
        true => None,
        false => {
            let fabric = new_fabric(file.seed, !captures.is_empty());
            open_soft(&fabric, &soft, patience, &mut opened)?;
            for (place, entry) in captures {
                let (nic, play) = open_capture(&fabric, place, entry, patience)?;
                plays.push(play);
                opened.push((place, Box::new(nic)));
            }
            Some(fabric)
        }
    };
    opened.sort_by_key(|(place, _)| *place);
    Ok(OpenNics {
        nics: opened.into_iter().map(|(_, nic)| nic).collect(),
        fabric,
        plays,
    })
}

/// Each in a thread of its own: two ends of one socket may be in the same file.
fn open_memifs(
    entries: Vec<(usize, &NicEntry)>,
    patience: Patience<'_>,
) -> Result<Vec<Opened>, Error> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = entries
            .into_iter()
            .map(|(place, entry)| {
                (
                    place,
                    scope.spawn(move || Memif::open_within(&entry.spec, patience)),
                )
            })
            .collect();
        let mut opened = Vec::new();
        for (place, thread) in threads {
            // A panic there is a defect of ours, and goes on here.
            let nic = thread
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
            opened.push((place, Box::new(nic) as Box<dyn Nic>));
        }
        Ok(opened)
    })
}

/// Captures may hold frames of any length.
fn new_fabric(seed: u64, with_captures: bool) -> Fabric {
    let default = FabricConfig::default();
    let config = FabricConfig {
        seed,
        max_frame_bytes: match with_captures {
            true => CAPTURE_SLOT_BYTES,
            false => default.max_frame_bytes,
        },
        ..default
    };
    Fabric::new(config, Clock::system())
}

/// Opens the soft NICs on one fabric, and plugs those into each other that name a peer.
fn open_soft(
    fabric: &Fabric,
    entries: &[(usize, &NicEntry)],
    patience: Patience<'_>,
    opened: &mut Vec<Opened>,
) -> Result<(), Error> {
    let mut ports = Vec::new();
    for (place, entry) in entries {
        let peer = entry.spec.option("peer").filter(|peer| *peer != "loop");
        let mut spec = entry.spec.clone();
        if peer.is_some() {
            spec.options.retain(|(key, _)| key != "peer");
        }
        let nic = fabric.open_within(&spec, patience)?;
        ports.push((entry, peer, nic.port()));
        opened.push((*place, Box::new(nic)));
    }
    for (entry, peer, port) in &ports {
        let Some(peer) = peer else {
            continue;
        };
        let found = ports.iter().find(|(other, ..)| other.name == *peer);
        let Some((.., other)) = found else {
            let problem = format!("no soft NIC of the file is called `{peer}`");
            let cure = "write the name of one, or loop".to_owned();
            return Err(entry.spec.wrong("peer", problem, cure).into());
        };
        fabric.cable(*port, *other);
    }
    Ok(())
}

/// A capture file: an adapter with large slots, plugged into the file.
fn open_capture(
    fabric: &Fabric,
    place: usize,
    entry: &NicEntry,
    patience: Patience<'_>,
) -> Result<(SoftNic, Play), Error> {
    let words = Words::of(&entry.spec)?;
    let port = CapturePort::open(Some(&words.play), words.record.as_deref(), words.pace)?;
    let config = AdapterConfig {
        queues: entry.queues,
        depth: CAPTURE_SLOTS,
        slot_bytes: CAPTURE_SLOT_BYTES,
        max_frame_bytes: CAPTURE_SLOT_BYTES,
        ..AdapterConfig::default()
    };
    let nic = fabric.plug(entry.spec.clone(), config, Impairments::default())?;
    let file = fabric.attach(Box::new(port), Impairments::default());
    fabric.cable(nic.port(), file);
    let play = Play {
        nic: place,
        port: file,
        frames: frames_of(&words.play, patience)?,
    };
    Ok((nic, play))
}

/// Frames that a capture holds up to its end, or to where it cannot be read.
fn frames_of(path: &Path, patience: Patience<'_>) -> Result<u64, Error> {
    let file = open_file(path).ok();
    let reader = file.and_then(|file| Reader::new(BufReader::new(file)).ok());
    let Some(mut reader) = reader else {
        return Ok(0);
    };
    let mut frames = 0_u64;
    while let Ok(Some(_)) = reader.next_record() {
        frames += 1;
        if frames.is_multiple_of(FRAMES_A_LOOK) {
            let nic = format!("pcap:{}", path.display());
            patience.check(&nic, || "counting the frames of the capture".to_owned())?;
        }
    }
    Ok(frames)
}

/// Frames that are counted between two looks whether to give up.
const FRAMES_A_LOOK: u64 = 4096;
/// Bytes of a slot for frames from captures: no record that is read is longer.
const CAPTURE_SLOT_BYTES: u32 = MAX_RECORD_BYTES as u32;
/// Slots for frames from captures, which wait until there is one.
const CAPTURE_SLOTS: u32 = 256;
