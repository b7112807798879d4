//! `cargo xtask ptx`: kernels as PTX, built, linted, assembled and measured.

pub mod assemble;
mod build;
pub mod linker;
mod lints;
pub mod policy;
mod report;
pub mod sources;
mod text;
pub mod toolchain;

pub use build::Build;
pub use report::Report;

use crate::{Error, repository};
use serde::Deserialize;
use std::path::Path;

/// The PTX that the repository holds.
pub const COMMITTED: &str = "pipelines/kernels/warpwire.ptx";

/// What each kernel may use.
pub const POLICY: &str = "pipelines/kernels/policy.toml";

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
}

/// A GPU architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// Ampere.
    #[serde(rename = "sm_80")]
    Sm80,
    /// Hopper.
    #[serde(rename = "sm_90")]
    Sm90,
    /// Blackwell.
    #[serde(rename = "sm_100")]
    Sm100,
}

impl Target {
    /// All of them; the first is the committed one.
    pub const ALL: [Self; 3] = [Self::Sm80, Self::Sm90, Self::Sm100];

    /// The version of PTX that the back end writes: the lowest that the target knows and that has
    /// what we use.
    #[must_use]
    pub fn features(self) -> &'static str {
        match self {
            Self::Sm80 | Self::Sm90 => "+ptx83",
            Self::Sm100 => "+ptx86",
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Sm80 => "sm_80",
            Self::Sm90 => "sm_90",
            Self::Sm100 => "sm_100",
        })
    }
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
    let report = run(&root)?;
    println!("{report}");
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

/// Builds, lints and assembles the kernels for every target.
pub fn run(root: &Path) -> Result<Report, Error> {
    let policy = policy::Policy::read(&root.join(POLICY))?;
    let build = Build::of_kernels(root)?;
    let assembler = assemble::Assembler::find(root)?;
    let mut report = Report::new(&build.toolchain.description);
    for target in Target::ALL {
        report.add(target, &build.ptx(target)?, &policy, &assembler)?;
    }
    Ok(report)
}

/// The hash that the committed PTX carries, if it is there and carries one.
fn committed_hash(root: &Path) -> Option<String> {
    let ptx = repository::text(&root.join(COMMITTED)).ok()?;
    sources::carried(&ptx).map(str::to_owned)
}
