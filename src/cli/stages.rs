//! `warpwire stages`: what a pipeline file may name, from what the stages say about themselves.

use std::io::{self, Write};

use warpwire_core::spec::{Field, FieldKind, Spec};
use warpwire_pipelines::Catalogue;

use super::Failure;

/// List the stages that a pipeline file may name, with their fields and counters
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Only this stage
    stage: Option<String>,
}

pub(super) fn run(arguments: &Arguments, catalogue: &Catalogue) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let wanted = |spec: &&&Spec| match &arguments.stage {
        Some(name) => spec.name == name,
        None => true,
    };
    let mut found = false;
    for spec in catalogue.specs().iter().filter(wanted) {
        found = true;
        describe(&mut out, spec)?;
    }
    match (&arguments.stage, found) {
        (Some(name), false) => Err(Failure::Stage {
            name: name.clone(),
            known: catalogue.names().join(", "),
        }),
        _ => Ok(()),
    }
}

fn describe(out: &mut impl Write, spec: &Spec) -> io::Result<()> {
    writeln!(out, "{}: {}", spec.name, spec.about)?;
    for field in spec.fields {
        let must = if field.required { ", required" } else { "" };
        writeln!(out, "    {} = {}{must}", field.name, shape(field))?;
        writeln!(out, "        {}", field.about)?;
    }
    let counters: Vec<String> = spec
        .counters
        .iter()
        .map(|counter| match counter.entries {
            1 => counter.name.to_owned(),
            entries => format!("{}[{entries}]", counter.name),
        })
        .collect();
    if !counters.is_empty() {
        writeln!(out, "    counters: {}", counters.join(", "))?;
    }
    Ok(())
}

/// What may stand in a field, in a few words.
fn shape(field: &Field) -> String {
    match field.kind {
        FieldKind::Flag => "true or false".to_owned(),
        FieldKind::Words(words) => {
            let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
            format!("[{}]", names.join(", "))
        }
        FieldKind::Number { low, high, .. } => format!("{low} to {high}"),
        FieldKind::Mac => "\"02:00:00:00:00:01\"".to_owned(),
        FieldKind::Address => "an IP address".to_owned(),
        FieldKind::Ports => "a list of ports".to_owned(),
        FieldKind::Rules => "a list of matchers".to_owned(),
        FieldKind::OwnAddresses => "a list of IP addresses".to_owned(),
        FieldKind::Nic => "the name of a NIC".to_owned(),
        FieldKind::Hex(count) => format!("{count} bytes in hexadecimal"),
        FieldKind::File | FieldKind::Rows | FieldKind::Headers => "the name of a file".to_owned(),
    }
}
