//! `warpwire check FILE`: says what is wrong with a pipeline file, without any hardware.

use std::io::Write;
use std::path::PathBuf;

use warpwire_pipelines::files::{self, FileUse};
use warpwire_pipelines::{Catalogue, PipelineFile};

use super::{Failure, complain};

/// Check pipeline files without touching any hardware
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Pipeline files
    #[arg(required = true)]
    files: Vec<PathBuf>,
}

pub(super) fn run(arguments: &Arguments, catalogue: &Catalogue) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let mut wrong = None;
    for path in &arguments.files {
        let checked = PipelineFile::load(path, catalogue).and_then(|file| {
            let own = FileUse::of_pipeline(path);
            files::check(&path.display().to_string(), &file, &[own])?;
            Ok(file)
        });
        match checked {
            Ok(file) => writeln!(out, "{}: {}", path.display(), summary(&file))?,
            Err(problems) => {
                if let Some(earlier) = wrong.replace(problems) {
                    complain(&earlier);
                }
            }
        }
    }
    match wrong {
        Some(problems) => Err(problems.into()),
        None => Ok(()),
    }
}

fn summary(file: &PipelineFile) -> String {
    let stages: usize = file.receives.iter().map(|one| one.stages.len()).sum();
    let count = |number: usize, word: &str| match number {
        1 => format!("1 {word}"),
        _ => format!("{number} {word}s"),
    };
    format!(
        "good: {}, {}, {}",
        count(file.nics.len(), "NIC"),
        count(stages, "stage"),
        count(file.blocks as usize, "block"),
    )
}
