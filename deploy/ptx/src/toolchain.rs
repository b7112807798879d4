//! The compiler for PTX: Debian's, or a rustup nightly.

use crate::Error;
use crate::process::{self, Show};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A compiler with the sources of `core`, and LLVM's programs of the same major version.
#[derive(Clone, Debug)]
pub struct Toolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// Its cargo.
    pub cargo: PathBuf,
    /// The folder of llvm-link, opt, llc, llvm-ar.
    pub llvm: PathBuf,
    /// Name and versions, for the record.
    pub description: String,
}

impl Toolchain {
    /// Finds one that is complete.
    ///
    /// # Errors
    /// Says what each candidate lacks and what brings it.
    pub fn find() -> Result<Self, Error> {
        let mut lacks = Vec::new();
        for candidate in Candidate::all() {
            match candidate.complete() {
                Ok(toolchain) => return Ok(toolchain),
                Err(lack) => lacks.push(format!("{}: {lack}", candidate.name)),
            }
        }
        Err(Error::Environment(format!(
            "no compiler for nvptx64 is complete here.\n  {}\n\
             Cure: on Debian 12, as root, `cargo xtask setup`; elsewhere `rustup toolchain install \
             nightly --component rust-src,llvm-tools`.",
            lacks.join("\n  ")
        )))
    }
}

struct Candidate {
    name: String,
    rustc: PathBuf,
    cargo: PathBuf,
    /// The folder of a rustup tool-chain, which brings LLVM's programs itself.
    rustup: Option<PathBuf>,
}

impl Candidate {
    fn all() -> Vec<Self> {
        let mut all = vec![Self {
            name: "Debian".into(),
            rustc: "/usr/bin/rustc".into(),
            cargo: "/usr/bin/cargo".into(),
            rustup: None,
        }];
        for folder in nightlies() {
            all.push(Self {
                name: folder
                    .file_name()
                    .unwrap_or_default()
                    .to_string_lossy()
                    .into_owned(),
                rustc: folder.join("bin/rustc"),
                cargo: folder.join("bin/cargo"),
                rustup: Some(folder),
            });
        }
        all
    }

    fn complete(&self) -> Result<Toolchain, String> {
        for program in [&self.rustc, &self.cargo] {
            if !program.is_file() {
                return Err(format!("{} is not there", program.display()));
            }
        }
        let version = ask(&self.rustc, &["--version", "--verbose"])?;
        let field = |name: &str| {
            let line = version.lines().find_map(|line| line.strip_prefix(name));
            line.map(str::trim)
                .ok_or_else(|| format!("rustc does not tell its{name}"))
        };
        let (release, llvm_version) = (field("release:")?, field("LLVM version:")?);
        let root = ask(&self.rustc, &["--print", "sysroot"])?;
        let core = Path::new(root.trim()).join("lib/rustlib/src/rust/library/core/src/lib.rs");
        if !core.is_file() {
            return Err(
                "it lacks the sources of core (Debian: rust-web-src, rustup: rust-src)".into(),
            );
        }
        let major = llvm_version.split('.').next().unwrap_or(llvm_version);
        let llvm = match &self.rustup {
            Some(folder) => folder.join("lib/rustlib").join(field("host:")?).join("bin"),
            None => PathBuf::from(format!("/usr/lib/llvm-{major}/bin")),
        };
        for program in ["llvm-link", "opt", "llc", "llvm-ar"] {
            if !llvm.join(program).is_file() {
                return Err(format!(
                    "{} is not in {} (Debian: llvm-{major}, rustup: llvm-tools)",
                    program,
                    llvm.display()
                ));
            }
        }
        Ok(Toolchain {
            rustc: self.rustc.clone(),
            cargo: self.cargo.clone(),
            llvm,
            description: format!("rustc {release}, LLVM {llvm_version}"),
        })
    }
}

/// Folders of rustup's nightly tool-chains, newest name last among the dated ones.
fn nightlies() -> Vec<PathBuf> {
    let home = std::env::var_os("RUSTUP_HOME")
        .map(PathBuf::from)
        .or_else(|| std::env::var_os("HOME").map(|home| Path::new(&home).join(".rustup")));
    let Some(home) = home else { return Vec::new() };
    let entries = std::fs::read_dir(home.join("toolchains"))
        .into_iter()
        .flatten()
        .flatten();
    let mut found: Vec<PathBuf> = entries
        .filter(|entry| entry.file_name().to_string_lossy().starts_with("nightly"))
        .map(|entry| entry.path())
        .collect();
    found.sort();
    found
}

fn ask(program: &Path, words: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(words);
    process::run_well(&mut command, Duration::from_secs(30), Show::Nothing)
        .map(|outcome| outcome.stdout)
        .map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_candidate_lacks_is_named() {
        let check = |rustc: &str, cargo: &str, part: &str| {
            let candidate = Candidate {
                name: "trial".into(),
                rustc: rustc.into(),
                cargo: cargo.into(),
                rustup: None,
            };
            let lack = candidate.complete().unwrap_err();
            assert!(lack.contains(part), "{lack}");
        };
        check("/no/rustc", "/bin/true", "/no/rustc is not there");
        check("/bin/true", "/no/cargo", "/no/cargo is not there");
        check("/bin/true", "/bin/true", "release");
        check("/bin/false", "/bin/true", "failed");
    }
}
