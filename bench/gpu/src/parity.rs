//! Every kernel on the virtual GPU and on the GPU gives what it gives on the CPU.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use serde_json::json;
use warpwire_bench::parity::{self, Case, Machine};
use warpwire_virtual::{Module, VirtualGpu};

use crate::part::{Found, Limit, Outcome};
use crate::setting::{Ground, Setting};

/// A kernel on a machine.
#[derive(Clone, Debug, Serialize)]
struct Row {
    kernel: String,
    over: &'static str,
    machine: &'static str,
    /// Seeds without a difference.
    seeds: u64,
    /// Frames that were compared, or samples.
    frames: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    difference: Option<String>,
    /// There was no time for all seeds.
    cut_short: bool,
}

impl Row {
    fn is_same(&self) -> bool {
        self.difference.is_none() && !self.cut_short
    }
}

pub(crate) fn measure(ground: &Ground, setting: &Setting, limit: Limit) -> Outcome {
    let module = Module::parse(&ground.text).map_err(|error| error.to_string())?;
    let cases = parity::kernels(module.entries(), &ground.corpus);
    if cases.is_empty() {
        return Err("the PTX has no kernel".to_owned());
    }
    let gpu = VirtualGpu::new(module);
    let machines = [
        (
            "virtual",
            Machine::on(Arc::new(gpu)),
            setting.size(VIRTUAL_SEEDS, 1),
        ),
        (
            "cuda",
            Machine::gpu(Arc::clone(&setting.cuda)),
            setting.size(SEEDS, 1),
        ),
    ];
    let mut rows = Vec::new();
    // All of the GPU's first: that is what nobody else can find out.
    for (name, machine, seeds) in machines.iter().rev() {
        for case in &cases {
            rows.push(compare(case, name, machine, *seeds, limit));
        }
    }
    Ok(found(&rows, &machines.map(|(name, ..)| name)))
}

fn compare(case: &Case, name: &'static str, machine: &Machine, seeds: u64, limit: Limit) -> Row {
    let mut row = Row {
        kernel: case.subject.clone(),
        over: case.over,
        machine: name,
        seeds: 0,
        frames: 0,
        difference: None,
        cut_short: false,
    };
    for seed in 0..seeds {
        if limit.check().is_err() {
            row.cut_short = true;
            return row;
        }
        match case.check(machine, seed) {
            Ok(frames) => row.frames += frames,
            Err(what) => {
                row.difference = Some(format!("seed {seed}: {what}"));
                return row;
            }
        }
        row.seeds += 1;
    }
    if row.frames == 0 {
        row.difference = Some("nothing was compared".to_owned());
    }
    row
}

fn found(rows: &[Row], machines: &[&'static str]) -> Found {
    let mut lines = Vec::new();
    let mut totals = BTreeMap::new();
    for &machine in machines {
        let own = rows.iter().filter(|row| row.machine == machine);
        let same = own.clone().filter(|row| row.is_same()).count();
        let all = own.clone().count();
        let frames: u64 = own.map(|row| row.frames).sum();
        totals.insert(machine, json!({ "same": same, "comparisons": all }));
        lines.push((
            format!("{machine} against the CPU"),
            format!("{same} of {all} comparisons the same, {frames} frames"),
        ));
    }
    let differing: Vec<&Row> = rows.iter().filter(|row| row.difference.is_some()).collect();
    for row in differing.iter().take(MOST_LINES) {
        let what = row.difference.clone().unwrap_or_default();
        let where_found = format!("{} on {} over {}", row.kernel, row.machine, row.over);
        lines.push((where_found, what));
    }
    let late = rows.iter().filter(|row| row.cut_short).count();
    let failure = match (differing.len(), late) {
        (0, 0) => None,
        (count, 0) => Some(format!("{count} comparisons differ")),
        (count, late) => Some(format!(
            "{count} comparisons differ, and for {late} there was no time"
        )),
    };
    Found {
        failure,
        values: json!({ "totals": totals, "comparisons": rows }),
        lines,
    }
}

/// Seeds on a GPU: each program of the corpus belongs to one of 16.
const SEEDS: u64 = 16;
/// Seeds on the virtual GPU, which every test run compares over 16.
const VIRTUAL_SEEDS: u64 = 2;
/// Differences that the table shows; the record has all.
const MOST_LINES: usize = 8;
