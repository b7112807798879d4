//! `cargo xtask ptx`: kernels as PTX, built, linted, assembled and measured.

pub mod assemble;
mod lints;
pub mod policy;
mod report;
pub mod sources;
mod text;

pub use report::Report;
pub use warpwire_ptx::{Build, Target, linker, toolchain};

use crate::{Error, process, repository, threads};
use assemble::Assembler;
use policy::Policy;
use std::collections::BTreeMap;
use std::path::Path;

/// The PTX that the repository holds.
pub const COMMITTED: &str = "pipelines/kernels/warpwire.ptx";

/// What each kernel may use.
pub const POLICY: &str = "pipelines/kernels/policy.toml";

/// What each probe may use.
const PROBES_POLICY: &str = "deploy/probes/policy.toml";

/// Arguments of `cargo xtask ptx`.
///
/// Builds the kernels for every target, lints the PTX, assembles it, compares registers and stack
/// with pipelines/kernels/policy.toml, and rewrites pipelines/kernels/warpwire.ptx if its sources
/// have changed. Needs Debian's rustc-web, rust-web-src, cargo-web and llvm-22, or a rustup nightly
/// with rust-src and llvm-tools; and NVIDIA's ptxas and nvdisasm, which `cargo xtask setup` brings.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only compare the committed PTX with its sources; needs no compiler.
    #[arg(long)]
    check: bool,
    /// Leave the committed PTX as it is.
    #[arg(long, conflicts_with = "check")]
    no_write: bool,
    /// Only the oldest target, whose PTX is the committed one, and the newest; and the kernels only
    /// assembled, function by function. What they take was measured for all targets when that PTX
    /// was written: for that each kernel has a copy of whatever it calls, which takes minutes.
    #[arg(long, requires = "no_write")]
    outermost: bool,
}

/// `cargo xtask ptx`.
pub fn main(options: &Options) -> Result<bool, Error> {
    let root = repository::root();
    let fresh = sources::hash(&root)?;
    let is_fresh = committed_hash(&root).as_ref() == Some(&fresh);
    if options.check {
        match is_fresh {
            true => println!("{COMMITTED} is made of the sources that are here"),
            false => println!("{COMMITTED} is stale. Cure: run `cargo xtask ptx` and commit it"),
        }
        return Ok(is_fresh);
    }
    let [oldest, .., newest] = Target::ALL;
    let targets: &[Target] = match options.outermost {
        true => &[oldest, newest],
        false => &Target::ALL,
    };
    let mut report = run(&root, targets, !options.outermost)?;
    let is_as_written = options.outermost && {
        let written = repository::text(&root.join(COMMITTED))?;
        report.compare(&written, &fresh)
    };
    println!("{report}");
    if options.outermost {
        println!("kernels were assembled, not measured");
        if !is_as_written {
            println!("{COMMITTED} was not compared: other sources or another compiler");
        }
    }
    if !report.is_clean() {
        println!("{COMMITTED} stays as it is");
    } else if is_fresh || options.no_write {
        println!(
            "{COMMITTED} is {}",
            if is_fresh { "fresh" } else { "stale" }
        );
    } else {
        report.commit(&root.join(COMMITTED), &fresh)?;
        println!("{COMMITTED} is written anew: commit it");
    }
    Ok(report.is_clean())
}

/// Builds, lints and assembles the kernels and the probes for these targets. `is_measured`: also
/// what the kernels take.
fn run(root: &Path, targets: &[Target], is_measured: bool) -> Result<Report, Error> {
    let assembler = Assembler::find(root)?;
    let kernels = of_kernels(root)?;
    let probes = Build {
        package: "warpwire-probes".into(),
        ..kernels.clone()
    };
    let mut report = Report::new(&kernels.toolchain.description);
    for (build, policy, is_measured) in [
        (&kernels, POLICY, is_measured),
        (&probes, PROBES_POLICY, true),
    ] {
        let policy = Policy::read(&root.join(policy))?;
        // Compiler and assembler take a processor each: together the targets leave none idle.
        let assembled = threads::each(targets, |target| {
            let ptx = build.ptx(*target)?;
            let resources = match is_measured {
                true => assembler.assemble(&ptx, *target)?,
                false => {
                    assembler.check(&ptx, *target)?;
                    BTreeMap::new()
                }
            };
            Ok::<_, Error>((*target, ptx, resources))
        });
        for unit in assembled {
            let (target, ptx, resources) = unit?;
            report.add(target, &ptx, &policy, resources)?;
        }
    }
    Ok(report)
}

/// How to build the product's kernels, with this program as the linker.
///
/// # Errors
/// What the machine lacks.
pub fn of_kernels(root: &Path) -> Result<Build, Error> {
    Ok(Build {
        toolchain: toolchain::Toolchain::find()?,
        workspace: root.to_path_buf(),
        package: "warpwire-kernels".into(),
        features: Vec::new(),
        target_folder: repository::target(root).join("ptx"),
        linker: process::own().to_path_buf(),
        line_tables: false,
    })
}

/// The hash that the committed PTX carries, if it is there and carries one.
fn committed_hash(root: &Path) -> Option<String> {
    let ptx = repository::text(&root.join(COMMITTED)).ok()?;
    sources::carried(&ptx).map(str::to_owned)
}
