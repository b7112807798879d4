//! Reading the `receive` tables, and checking how the file hangs together.

use warpwire_core::program::{MAX_PORTS, MAX_STAGES};
use warpwire_core::rule::Rule;
use warpwire_core::spec::PackedAddress;

use super::document::{Entry, Section};
use super::nic::NicEntry;
use super::stage::{self, StageEntry, Tables};
use super::{Catalogue, PipelineFile};

/// What is done with the frames of one NIC.
#[derive(Clone, Debug)]
pub struct ReceiveEntry {
    /// The NIC, by its place in the file.
    pub nic: usize,
    /// The line of the table, from 1.
    pub line: usize,
    /// The stages, in the order that frames pass them.
    pub stages: Vec<StageEntry>,
    /// Rules that the stages refer to.
    pub rules: Vec<Rule>,
    /// Addresses that the stages refer to.
    pub addresses: Vec<PackedAddress>,
}

/// Reads every `[[receive]]`.
pub(super) fn read_all(
    root: &Section<'_>,
    nics: &[NicEntry],
    catalogue: &Catalogue,
) -> Vec<ReceiveEntry> {
    let Some(entry) = root.take("receive") else {
        return Vec::new();
    };
    let entries = entry.list("[[receive]] tables", nics.len().max(1));
    let names: Vec<String> = nics.iter().map(|nic| nic.name.clone()).collect();
    let mut receives: Vec<ReceiveEntry> = Vec::new();
    for entry in entries.unwrap_or_default() {
        let Some(receive) = read(&entry, nics, &names, catalogue) else {
            continue;
        };
        if receives.iter().any(|other| other.nic == receive.nic) {
            entry.note(
                "receives from a NIC that another [[receive]] has",
                "put all stages of a NIC into one [[receive]]",
            );
        }
        receives.push(receive);
    }
    receives
}

fn read(
    entry: &Entry<'_>,
    nics: &[NicEntry],
    names: &[String],
    catalogue: &Catalogue,
) -> Option<ReceiveEntry> {
    let section = entry.section()?;
    let from = section.need("from", "write from = \"NIC\"")?;
    let stages = section.need("stage", "write at least one [[receive.stage]]");
    section.finish();
    let text = from.text("the name of a NIC")?;
    let Some(nic) = names.iter().position(|name| name == text) else {
        let cure = format!("write one of {}", names.join(", "));
        from.note(format!("no NIC is called `{text}`"), cure);
        return None;
    };
    let own = nics.get(nic).map_or(&[][..], |nic| &nic.addresses);
    let mut tables = Tables {
        rules: Vec::new(),
        addresses: Vec::new(),
        nics: names,
        from: nic,
        own,
    };
    let stages = read_stages(&stages?, catalogue, &mut tables);
    Some(ReceiveEntry {
        nic,
        line: entry.line(),
        stages,
        rules: tables.rules,
        addresses: tables.addresses,
    })
}

fn read_stages(
    entry: &Entry<'_>,
    catalogue: &Catalogue,
    tables: &mut Tables<'_>,
) -> Vec<StageEntry> {
    let entries = entry
        .list("[[receive.stage]] tables", MAX_STAGES)
        .unwrap_or_default();
    let mut stages: Vec<StageEntry> = Vec::new();
    for (place, entry) in entries.iter().enumerate() {
        let Some(stage) = stage::read(entry, place, catalogue, tables) else {
            continue;
        };
        if let Some(last) = stages.iter().find(|stage| !stage::continues(stage)) {
            let problem = format!("is never reached: `{}` takes every frame", last.name);
            entry.note(
                problem,
                "leave it out, or give the stage before it a `when`",
            );
        }
        if stages.iter().any(|other| other.name == stage.name) {
            entry.note(
                format!("is called `{}` like another stage", stage.name),
                "give each stage a name of its own",
            );
        }
        stages.push(stage);
    }
    stages
}

/// Every block needs queue pairs of its own on each NIC, and can drive so many.
pub(super) fn check_queues(root: &Section<'_>, file: &PipelineFile) {
    for nic in &file.nics {
        if nic.queues < file.blocks {
            root.note(
                &format!("nic.{}.queues", nic.name),
                format!("{} queues for {} blocks", nic.queues, file.blocks),
                format!("write queues = {} or blocks = {}", file.blocks, nic.queues),
            );
        }
    }
    let mut gathers = file.receives.iter().flat_map(|receive| &receive.stages);
    if let Some(stage) = gathers.find(|stage| stage.gather.is_some() && file.blocks > 1) {
        let problem = format!(
            "{} blocks: `{}` is in the hands of one",
            file.blocks, stage.name
        );
        let cure = "write blocks = 1; a block drives several queues";
        root.note("blocks", problem, cure.to_owned());
    }
    for group in file.groups() {
        let queues = |nic: &usize| file.nics.get(*nic).map_or(0, |nic| nic.queues);
        let most: u32 = group
            .iter()
            .map(|nic| queues(nic).div_ceil(file.blocks))
            .sum();
        if most as usize > MAX_PORTS {
            let problem = format!("a block would drive {most} queue pairs of joined NICs");
            let cure = format!("a block can drive {MAX_PORTS}: use fewer queues or more blocks");
            root.note("blocks", problem, cure);
        }
    }
}

impl PipelineFile {
    /// The NICs in groups: those that frames pass between are in one group, and one kernel drives
    /// it. Groups and their members are in the order of the file.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut group: Vec<usize> = (0..self.nics.len()).collect();
        for receive in &self.receives {
            for to in receive.stages.iter().filter_map(|stage| stage.to) {
                let (Some(&one), Some(&other)) = (group.get(receive.nic), group.get(to)) else {
                    continue;
                };
                let (low, high) = (one.min(other), one.max(other));
                group
                    .iter_mut()
                    .filter(|label| **label == high)
                    .for_each(|label| *label = low);
            }
        }
        let members = |label: usize| {
            let member = |(nic, of): (usize, &usize)| (*of == label).then_some(nic);
            group
                .iter()
                .enumerate()
                .filter_map(member)
                .collect::<Vec<_>>()
        };
        let groups = (0..self.nics.len()).map(members);
        groups.filter(|members| !members.is_empty()).collect()
    }
}
