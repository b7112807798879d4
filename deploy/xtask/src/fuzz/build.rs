//! Building the harness: coverage counters in every crate, AddressSanitizer where it can be had.

use crate::process::{self, Show};
use crate::{Error, cargo, repository};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The folder of all that belongs to fuzzing.
pub(super) const OWN: &str = "bench/fuzz";

/// Where the harness, gathered corpora and findings lie.
pub(super) fn folder(root: &Path) -> PathBuf {
    repository::target(root).join("fuzz")
}

/// Builds the harness; returns the program.
pub(super) fn build(root: &Path) -> Result<PathBuf, Error> {
    let compiler = Compiler::ask()?;
    let target = folder(root);
    let mut command = Command::new(cargo());
    command.args(["build", "--quiet", "--release", "--target", &compiler.host]);
    command.arg("--manifest-path");
    command.arg(root.join(OWN).join("libfuzzer/Cargo.toml"));
    command.arg("--target-dir").arg(&target);
    // Coverage counters and sanitizers are unstable flags of a stable compiler.
    command.env("RUSTC_BOOTSTRAP", "1");
    command.env("RUSTFLAGS", compiler.flags());
    process::run_well(&mut command, BUILD_LIMIT, Show::Errors)?;
    let program = target.join(&compiler.host).join("release");
    Ok(program.join("warpwire-libfuzzer"))
}

struct Compiler {
    host: String,
    has_sanitizer: bool,
}

impl Compiler {
    fn ask() -> Result<Self, Error> {
        let words = |argument: &[&str]| {
            let mut command = Command::new("rustc");
            command.args(argument);
            process::run_well(&mut command, Duration::from_secs(60), Show::Errors)
        };
        let version = words(&["-vV"])?.stdout;
        let host = version.lines().find_map(|line| line.strip_prefix("host: "));
        let host = host.ok_or_else(|| Error::content("rustc -vV", "names no host"))?;
        let libraries = words(&["--print", "target-libdir"])?.stdout;
        let has_sanitizer = has_sanitizer(Path::new(libraries.trim()));
        if !has_sanitizer {
            println!("no AddressSanitizer: this compiler comes without its run time");
        }
        Ok(Self {
            host: host.to_owned(),
            has_sanitizer,
        })
    }

    fn flags(&self) -> String {
        let mut flags = COVERAGE.join(" ");
        if self.has_sanitizer {
            flags.push_str(" -Zsanitizer=address");
        }
        flags
    }
}

/// rustup's compilers bring the run time, Debian's does not.
fn has_sanitizer(libraries: &Path) -> bool {
    let entries = std::fs::read_dir(libraries).into_iter().flatten().flatten();
    let mut names = entries.map(|entry| entry.file_name());
    names.any(|name| name.to_string_lossy().ends_with("_rt.asan.a"))
}

/// What libFuzzer reads: counters of edges, their places, and the operands of comparisons.
const COVERAGE: [&str; 6] = [
    "--cfg fuzzing",
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
];

const BUILD_LIMIT: Duration = Duration::from_secs(1200);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sanitizer_is_asked_for_only_where_it_is() {
        let flags = |has_sanitizer| {
            let host = String::new();
            Compiler {
                host,
                has_sanitizer,
            }
            .flags()
        };
        assert!(flags(true).ends_with(" -Zsanitizer=address"));
        assert!(!flags(false).contains("-Z"));
        assert!(!has_sanitizer(&repository::root()));
    }
}
