//! Reading counters: of queues, stages and NICs, while kernels run or after.

use std::collections::BTreeMap;
use std::mem::offset_of;

use serde_json::{Map, Value};
use warpwire_core::block::{BlockCounters, PortCounters};
use warpwire_core::kernels::TransmitCounters;
use warpwire_core::reason::Reason;
use warpwire_core::spec::{COMMON_COUNTERS, CounterSpec, Spec};
use warpwire_nic::soft::Fabric;
use warpwire_nic::{Nic, QueuePair};
use warpwire_ring::{DeviceAddress, Provenance, RxCursor, Trigger, TxCursor};

use super::generator;
use super::layout::{Layout, PortRecord};
use super::log::PortCauses;
use super::memory::{Row, word_among};
use super::open::{OpenNics, Play};
use crate::file::{GenerateEntry, PipelineFile};
use crate::report::{
    Balance, Cable, GeneratorReport, NicReport, ProvenanceReport, ReceiveReport, Report,
    StageReport, Traffic,
};

/// Frames that NICs with stages received, and frames that all NICs sent.
pub(super) fn totals(file: &PipelineFile, open: &OpenNics) -> (u64, u64) {
    let received = file
        .receives
        .iter()
        .filter_map(|one| open.nics.get(one.nic));
    let received = received.map(|nic| received_by(nic.as_ref()).frames).sum();
    let sent = open
        .nics
        .iter()
        .map(|nic| sent_by(nic.as_ref()).frames)
        .sum();
    (received, sent)
}

/// Frames that passed all queues, received and sent.
pub(super) fn all_totals(open: &OpenNics) -> (u64, u64) {
    let received = open.nics.iter().map(|nic| received_by(nic.as_ref()).frames);
    let sent = open.nics.iter().map(|nic| sent_by(nic.as_ref()).frames);
    (received.sum(), sent.sum())
}

/// Whether frames lie in receive queues that a pipeline has not taken yet.
pub(super) fn waiting(file: &PipelineFile, open: &OpenNics) -> bool {
    let nics = file
        .receives
        .iter()
        .filter_map(|one| open.nics.get(one.nic));
    nics.into_iter()
        .any(|nic| nic.counters().rx_frames > received_by(nic.as_ref()).frames)
}

/// Frames of a capture that were played or given up.
pub(super) fn played(fabric: &Fabric, play: &Play) -> u64 {
    let counts = fabric.port_counts(play.port).uplink;
    let done = |name: &str| matches!(name, "frames played" | "too long to play");
    let counts = counts.iter().filter(|(name, _)| done(name));
    counts.map(|(_, count)| count).sum()
}

/// Everything that was counted.
pub(super) fn report(
    file: &PipelineFile,
    open: &OpenNics,
    pipelines: &[Layout],
    generators: &[generator::Layout],
) -> Report {
    let nics = file.nics.iter().zip(&open.nics).enumerate();
    Report {
        name: file.name.clone(),
        nics: nics
            .map(|(place, (entry, nic))| {
                let ports = pipelines.iter().flat_map(|layout| &layout.ports);
                let ports = ports.filter(|port| port.nic == place);
                nic_report(&entry.name, nic.as_ref(), ports)
            })
            .collect(),
        receives: (0..file.receives.len())
            .map(|place| receive_report(file, open, pipelines, place))
            .collect(),
        generators: file
            .generators
            .iter()
            .zip(generators)
            .map(|(entry, layout)| generator_report(file, open, entry, layout))
            .collect(),
        balances: pipelines
            .iter()
            .map(|layout| balance(file, open, layout))
            .collect(),
        cables: (0..file.nics.len())
            .filter_map(|place| cable(file, open, place))
            .collect(),
        ..Report::default()
    }
}

/// The way from a soft NIC to its peer.
fn cable(file: &PipelineFile, open: &OpenNics, place: usize) -> Option<Cable> {
    let entry = file.nics.get(place)?;
    let peer = entry.spec.option("peer")?;
    let to = file.nic(peer)?;
    let (from_nic, to_nic) = (open.nics.get(place)?, open.nics.get(to)?);
    let drives = |nic: usize| {
        let receives = file.receives.iter().any(|receive| receive.nic == nic);
        receives.then_some(())
    };
    drives(to)?;
    let sent = sent_by(from_nic.as_ref()).frames;
    let received = received_by(to_nic.as_ref()).frames;
    let lost = to_nic.counters().dropped();
    Some(Cable {
        from: entry.name.clone(),
        to: peer.to_owned(),
        sent,
        received,
        lost,
        adds_up: sent == received + lost,
    })
}

fn received_by(nic: &dyn Nic) -> Traffic {
    sum(nic.queues().iter().map(|pair| Traffic {
        frames: receive_field(pair, offset_of!(RxCursor, frames))
            + receive_field(pair, offset_of!(RxCursor, faults))
            + receive_field(pair, offset_of!(RxCursor, too_long)),
        bytes: receive_field(pair, offset_of!(RxCursor, bytes)),
    }))
}

fn sent_by(nic: &dyn Nic) -> Traffic {
    let field = |pair: &QueuePair, offset: usize| {
        word_among(&pair.memory, pair.transmit.cursor.offset(offset as u64))
    };
    sum(nic.queues().iter().map(|pair| Traffic {
        frames: field(pair, offset_of!(TxCursor, frames)),
        bytes: field(pair, offset_of!(TxCursor, bytes)),
    }))
}

fn receive_field(pair: &QueuePair, offset: usize) -> u64 {
    word_among(&pair.memory, pair.receive.cursor.offset(offset as u64))
}

fn sum(parts: impl Iterator<Item = Traffic>) -> Traffic {
    parts.fold(Traffic::default(), |total, part| Traffic {
        frames: total.frames + part.frames,
        bytes: total.bytes + part.bytes,
    })
}

fn nic_report<'a>(
    name: &str,
    nic: &dyn Nic,
    ports: impl Iterator<Item = &'a PortRecord>,
) -> NicReport {
    let counters = nic.counters();
    let named = |list: &[(&'static str, u64)]| -> BTreeMap<String, u64> {
        let counted = list.iter().filter(|(_, count)| *count > 0);
        counted
            .map(|(name, count)| ((*name).to_owned(), *count))
            .collect()
    };
    let mut causes = Vec::new();
    for port in ports {
        let PortCauses { receive, transmit } = port.causes();
        for (what, cause) in [("receive", receive), ("transmit", transmit)] {
            if let Some(cause) = cause {
                causes.push(format!("{what} queue {}: {cause}", port.queue));
            }
        }
    }
    NicReport {
        name: name.to_owned(),
        open: nic.spec().to_string(),
        received: received_by(nic),
        sent: sent_by(nic),
        receive_provenance: provenance(nic, |pair| pair.receive.provenance),
        transmit_provenance: provenance(nic, |pair| pair.transmit.provenance),
        lost: named(&counters.drops),
        other: named(&counters.other),
        choices: nic.choices(),
        causes,
        warnings: Vec::new(),
    }
}

/// The sum of the provenance counters of a NIC's queues in one direction.
fn provenance(nic: &dyn Nic, block: impl Fn(&QueuePair) -> DeviceAddress) -> ProvenanceReport {
    let sum = |offset: usize| -> u64 {
        let words = nic.queues().iter().map(|pair| {
            let address = block(pair).offset(offset as u64);
            word_among(&pair.memory, address)
        });
        words.sum()
    };
    let trigger = |trigger: Trigger| sum(offset_of!(Provenance, triggers) + 8 * trigger as usize);
    ProvenanceReport {
        device_calls: sum(offset_of!(Provenance, device_calls)),
        descriptors_built: sum(offset_of!(Provenance, descriptors_built)),
        headers_built: sum(offset_of!(Provenance, headers_built)),
        triggers_mmio: trigger(Trigger::Mmio),
        triggers_polled_index: trigger(Trigger::PolledIndex),
        triggers_system_call: trigger(Trigger::SystemCall),
        bytes_copied_device: sum(offset_of!(Provenance, bytes_copied_device)),
        bytes_copied_host: sum(offset_of!(Provenance, bytes_copied_host)),
        bytes_by_reference: sum(offset_of!(Provenance, bytes_by_reference)),
    }
}

fn receive_report(
    file: &PipelineFile,
    open: &OpenNics,
    pipelines: &[Layout],
    place: usize,
) -> ReceiveReport {
    let Some(entry) = file.receives.get(place) else {
        return ReceiveReport::default();
    };
    let ports = pipelines.iter().flat_map(|layout| &layout.ports);
    let ports: Vec<&PortRecord> = ports.filter(|port| port.nic == entry.nic).collect();
    let nic = open.nics.get(entry.nic);
    let received = nic.map_or(0, |nic| received_by(nic.as_ref()).frames);
    let dropped = drops(open, entry.nic, &ports);
    let completed = offset_of!(PortCounters, checksums_completed) / 8;
    let total: u64 = dropped.values().sum();
    let stages = entry.stages.iter().enumerate().map(|(stage, entry)| {
        let records = pipelines.iter().flat_map(|layout| &layout.stages);
        let rows = records
            .filter(|record| record.receive == place && record.stage == stage)
            .map(|record| &record.counters);
        let rows: Vec<&Row> = rows.collect();
        StageReport {
            name: entry.name.clone(),
            word: entry.spec.name,
            frames: total_of(&rows, 0),
            bytes: total_of(&rows, 1),
            counters: counters(entry.spec, &rows),
        }
    });
    ReceiveReport {
        nic: file
            .nics
            .get(entry.nic)
            .map_or_else(String::new, |nic| nic.name.clone()),
        received,
        sent: received.saturating_sub(total),
        checksums_completed: ports
            .iter()
            .map(|port| port.counters.value(completed as u32))
            .sum(),
        stages: stages.collect(),
        dropped,
    }
}

/// Frames that ended here by reason, those that the queues could not read included.
fn drops(open: &OpenNics, nic: usize, ports: &[&PortRecord]) -> BTreeMap<&'static str, u64> {
    let first = (offset_of!(PortCounters, drops) / 8) as u32;
    let mut drops = BTreeMap::new();
    let mut add = |reason: Reason, count: u64| {
        if count > 0 {
            *drops.entry(reason.name()).or_insert(0) += count;
        }
    };
    for index in 0..Reason::COUNT as u32 {
        let Some(reason) = Reason::from_index(index) else {
            continue;
        };
        let counts = ports.iter().map(|port| port.counters.value(first + index));
        add(reason, counts.sum());
    }
    for pair in open.nics.get(nic).map_or(&[][..], |nic| nic.queues()) {
        let faults = receive_field(pair, offset_of!(RxCursor, faults));
        add(Reason::UNREADABLE, faults);
        let too_long = receive_field(pair, offset_of!(RxCursor, too_long));
        add(Reason::TOO_LONG, too_long);
    }
    drops
}

fn balance(file: &PipelineFile, open: &OpenNics, layout: &Layout) -> Balance {
    let mut balance = Balance::default();
    for nic in &layout.nics {
        if let Some(entry) = file.nics.get(*nic) {
            balance.nics.push(entry.name.clone());
        }
        let Some(open_nic) = open.nics.get(*nic) else {
            continue;
        };
        if file.receives.iter().any(|receive| receive.nic == *nic) {
            let ports = layout.ports.iter().filter(|port| port.nic == *nic);
            let ports: Vec<&PortRecord> = ports.collect();
            balance.received += received_by(open_nic.as_ref()).frames;
            balance.dropped += drops(open, *nic, &ports).values().sum::<u64>();
        }
        if !file
            .generators
            .iter()
            .any(|generator| generator.nic == *nic)
        {
            balance.sent += sent_by(open_nic.as_ref()).frames;
        }
    }
    let place = |offset: usize| (offset / 8) as u32;
    let rows: Vec<&Row> = layout.block_counters.iter().collect();
    balance.turns = total_of(&rows, place(offset_of!(BlockCounters, turns)));
    balance.idle_turns = total_of(&rows, place(offset_of!(BlockCounters, idle_turns)));
    balance.adds_up = balance.received == balance.dropped + balance.sent;
    balance
}

fn generator_report(
    file: &PipelineFile,
    open: &OpenNics,
    entry: &GenerateEntry,
    layout: &generator::Layout,
) -> GeneratorReport {
    let place = |offset: usize| (offset / 8) as u32;
    let first = place(offset_of!(TransmitCounters, templates));
    let full = place(offset_of!(TransmitCounters, full_turns));
    let rows: Vec<&Row> = layout.counters.iter().collect();
    let mut frames = BTreeMap::new();
    for (template, frame) in (0..).zip(&layout.order) {
        if let Some(frame) = entry.frames.get(*frame) {
            *frames.entry(frame.name.clone()).or_insert(0) += total_of(&rows, first + template);
        }
    }
    GeneratorReport {
        nic: file
            .nics
            .get(entry.nic)
            .map_or_else(String::new, |nic| nic.name.clone()),
        sent: open
            .nics
            .get(entry.nic)
            .map_or_else(Traffic::default, |nic| sent_by(nic.as_ref())),
        full_turns: total_of(&rows, full),
        frames,
    }
}

fn total_of(rows: &[&Row], index: u32) -> u64 {
    rows.iter().map(|row| row.value(index)).sum()
}

/// A stage's own counters by their names.
fn counters(spec: &Spec, rows: &[&Row]) -> Map<String, Value> {
    let mut named = Map::new();
    let mut first = COMMON_COUNTERS;
    for counter in spec.counters {
        let value = match counter.entries {
            1 => Value::from(total_of(rows, first)),
            entries => Value::Object(table(counter, &summed(rows, first, entries))),
        };
        named.insert(counter.name.to_owned(), value);
        first += counter.entries;
    }
    named
}

fn summed(rows: &[&Row], first: u32, entries: u32) -> Vec<u64> {
    let mut total = vec![0; entries as usize];
    for row in rows {
        for (sum, value) in total.iter_mut().zip(row.values(first, entries)) {
            *sum += value;
        }
    }
    total
}

/// Entries that are not zero, by their labels or numbers.
fn table(counter: &CounterSpec, values: &[u64]) -> Map<String, Value> {
    let named = values.iter().enumerate().filter(|(_, value)| **value > 0);
    let named = named.map(|(index, value)| {
        let name = match (counter.labels.get(index), counter.hexadecimal) {
            (Some(label), _) => (*label).to_owned(),
            (None, true) => format!("{index:#06x}"),
            (None, false) => index.to_string(),
        };
        (name, Value::from(*value))
    });
    named.collect()
}
