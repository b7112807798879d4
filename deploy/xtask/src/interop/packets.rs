//! `cargo xtask interop packets`: what the stack makes of packets, against outside judges.

use super::bytes::{self, Script};
use super::captures::{self, Capture, Court};
use super::cases::{self, Case};
use super::differences::Differences;
use super::linux::{self, Loads};
use super::product::{self, Product};
use super::tshark::Tshark;
use super::{memif, namespaces, play};
use crate::process::{self, SKIPPED};
use crate::{Error, repository, threads};
use clap::ValueEnum;
use std::path::Path;
use std::time::Instant;

/// Arguments of `cargo xtask interop packets`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Judges to hear; all of them when none is named.
    #[arg(value_enum)]
    judges: Vec<Judge>,
    /// Loads of 5 seconds instead of 60.
    #[arg(long)]
    quick: bool,
    /// The folder of captures that are judged besides the repository's own.
    #[arg(long, default_value = "../shared/pcaps")]
    captures: std::path::PathBuf,
    /// Print rows for the table of differences, but for their reasons, where rows are missing.
    #[arg(long)]
    propose: bool,
    /// The profile that the command is built with.
    #[arg(long, default_value = "test")]
    profile: String,
    /// Judge this program instead of building one.
    #[arg(long, conflicts_with = "profile")]
    program: Option<std::path::PathBuf>,
}

/// An outside judge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub enum Judge {
    /// tshark counts what is in captures.
    Tshark,
    /// scapy builds the frames that must come out.
    Scapy,
    /// zlib computes the ICRC of Soft-RoCE's packets.
    Icrc,
    /// Linux pings, resolves and sends loads through.
    Linux,
    /// testpmd sends and counts over memif.
    Testpmd,
}

/// `cargo xtask interop packets`.
///
/// # Errors
/// When the command cannot be built, or a judge is missing.
pub fn main(options: &Options) -> Result<bool, Error> {
    let root = repository::root();
    let mut chosen = options.judges.clone();
    if chosen.is_empty() {
        chosen = Judge::value_variants().to_vec();
    }
    chosen.sort();
    chosen.dedup();
    if !process::is_root() {
        for judge in [Judge::Linux, Judge::Testpmd] {
            if chosen.contains(&judge) {
                eprintln!("{SKIPPED}{judge:?}: network namespaces and testpmd need root");
            }
            chosen.retain(|other| *other != judge);
        }
    }
    let folder = repository::target(&root).join("interop");
    let program = match &options.program {
        Some(program) => program.clone(),
        None => product::build(&root, &options.profile)?,
    };
    let product = Product::set_up(&program, &folder)?;
    let captures = captures(&root, &root.join(&options.captures))?;
    let bench = Bench {
        root,
        captures,
        product,
        seconds: if options.quick { 5 } else { 60 },
    };
    let mut all = Vec::new();
    for judge in chosen {
        let start = Instant::now();
        let cases = bench.hear(judge, options.propose).unwrap_or_else(|error| {
            // One judge that fails does not silence the others.
            let name = format!("{judge:?}");
            vec![Case {
                name,
                ours: "heard".into(),
                judge: error.to_string(),
                explanation: None,
            }]
        });
        let seconds = start.elapsed().as_secs();
        println!("{judge:?}: {} cases, {seconds} s", cases.len());
        all.extend(cases);
    }
    Ok(cases::conclude(&all))
}

struct Bench {
    root: std::path::PathBuf,
    captures: Vec<Capture>,
    product: Product,
    seconds: u64,
}

impl Bench {
    fn hear(&self, judge: Judge, propose: bool) -> Result<Vec<Case>, Error> {
        match judge {
            Judge::Tshark => self.tshark(propose),
            Judge::Scapy => bytes::rewritten(&self.product, &Script::of(&self.root)),
            Judge::Icrc => self.icrc(),
            Judge::Linux => {
                namespaces::sweep()?;
                let mut cases = linux::responder(&self.product)?;
                let loads = Loads {
                    seconds: self.seconds,
                };
                cases.extend(linux::forwarder(&self.product, loads)?);
                Ok(cases)
            }
            Judge::Testpmd => {
                namespaces::sweep()?;
                memif::judge(&self.product)
            }
        }
    }

    fn tshark(&self, propose: bool) -> Result<Vec<Case>, Error> {
        let table = Differences::read(&self.root.join("bench/judges/tshark.toml"))?;
        let tshark = Tshark::set_up(self.product.folder())?;
        let mut court = Court::new(table);
        // Both are programs that mostly start and end: side by side.
        let captures = || self.captures.iter();
        let (judgements, ours) = threads::both(
            || {
                let told = captures().map(|capture| tshark.judge(&capture.path));
                told.collect::<Result<Vec<_>, _>>()
            },
            || {
                let counted = captures().map(|capture| play::count(&self.product, capture));
                counted.collect::<Result<Vec<_>, _>>()
            },
        );
        let mut cases = Vec::new();
        let told = ours?.into_iter().zip(judgements?);
        for (capture, (ours, judgement)) in captures().zip(told) {
            cases.extend(court.judge(capture, &ours, &judgement));
        }
        cases.extend(court.unused());
        if propose {
            println!("{}", court.proposals());
        }
        Ok(cases)
    }

    fn icrc(&self) -> Result<Vec<Case>, Error> {
        let script = Script::of(&self.root);
        let mut captures = self.captures.clone();
        captures.retain(|capture| capture.name.starts_with("rxe/"));
        let mut cases = bytes::soft_roce(&self.product, &script, &captures)?;
        cases.extend(bytes::icrc(&self.product, &script, &captures)?);
        Ok(cases)
    }
}

/// The captures of the repository, and those beside it; of two of one name the first.
fn captures(root: &Path, beside: &Path) -> Result<Vec<Capture>, Error> {
    let mut found = Vec::new();
    for folder in ["bench/testdata/captures", "protocols/testdata"] {
        found.extend(captures::find(&root.join(folder))?);
    }
    if beside.is_dir() {
        found.extend(captures::find(beside)?);
    } else {
        eprintln!("{SKIPPED}captures: {} is not there", beside.display());
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found.dedup_by(|next, kept| next.name == kept.name);
    Ok(found)
}
