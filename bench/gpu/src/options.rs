//! Arguments.

use std::path::PathBuf;

/// Checks a GPU and the kernels on it, and measures both: one JSON record and a short table.
///
/// Exit status: 0 all is right, 1 a part failed, 2 wrong arguments, 3 there is no GPU to run on.
#[derive(clap::Parser, Clone, Debug)]
#[command(name = "warpwire-gpu-check", version, about)]
pub(crate) struct Options {
    /// The PTX. Without a word: `warpwire.ptx` beside this program.
    #[arg(long, overrides_with = "ptx")]
    pub(crate) ptx: Option<PathBuf>,
    /// The folder of programs for comparisons. Without a word: `corpus` beside this program.
    #[arg(long, overrides_with = "corpus")]
    pub(crate) corpus: Option<PathBuf>,
    /// Where the record goes.
    #[arg(long, default_value = "gpu-check.json")]
    pub(crate) output: PathBuf,
    /// Which GPU, from 0.
    #[arg(long, default_value_t = 0)]
    pub(crate) device: u32,
    /// Sizes that a slow device can take too: figures say little then.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Ends after so many seconds, whatever is left to do.
    #[arg(long, default_value_t = 285, value_parser = clap::value_parser!(u64).range(2..=290))]
    pub(crate) seconds: u64,
}
