//! cargo, compiler and our linker: from a crate to PTX.

use crate::linker::{FEATURES_VARIABLE, LLVM_VARIABLE, RECIPE, RECIPE_WORD};
use crate::process::{self, Show};
use crate::{Error, Target, Toolchain};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// How to build one crate's PTX.
#[derive(Clone, Debug)]
pub struct Build {
    /// The compiler.
    pub toolchain: Toolchain,
    /// Folder of the workspace that holds the crate.
    pub workspace: PathBuf,
    /// Name of the package, a cdylib.
    pub package: String,
    /// Features of the package.
    pub features: Vec<String>,
    /// Folder for build products.
    pub target_folder: PathBuf,
    /// The binary that is the linker too; see [`crate::linker::main`].
    pub linker: PathBuf,
    /// With a place in the source at every line: the same instructions, in a folder of their own,
    /// for counting.
    pub line_tables: bool,
}

impl Build {
    /// Builds for one target; the path of the PTX.
    pub fn ptx(&self, target: Target) -> Result<PathBuf, Error> {
        // Found by name: a path would make the flags, and with them core, differ from case to case.
        let programs = self.target_folder.join("bin");
        process::copy(&self.linker, &programs.join(LINKER))?;
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths(std::iter::once(programs).chain(std::env::split_paths(&path)))
                .map_err(|error| Error::content("PATH", error.to_string()))?;
        // A folder for each target: core is compiled once for each and then stays.
        let kind = if self.line_tables { "-lines" } else { "" };
        let folder = self.target_folder.join(format!("{target}{kind}"));
        let mut command = Command::new(&self.toolchain.cargo);
        command
            .current_dir(&self.workspace)
            .args(["rustc", "--quiet", "--locked", "--lib"]);
        command.args([
            "--package",
            &self.package,
            "--crate-type",
            "cdylib",
            "--profile",
            "ptx",
        ]);
        command.arg(format!("--features={}", self.features.join(",")));
        command.args(["--target", "nvptx64-nvidia-cuda", "-Zbuild-std=core"]);
        command.arg("--target-dir").arg(&folder);
        // A change of the recipe must link anew; cargo does not look into linkers.
        command
            .arg("--")
            .arg(format!("-Clink-arg={RECIPE_WORD}{RECIPE}"));
        command
            .env("PATH", path)
            .env("RUSTC", &self.toolchain.rustc)
            .env(
                "RUSTFLAGS",
                format!(
                    "-C linker={LINKER} -C target-cpu={target} -C no-vectorize-slp {CONVERGENT}"
                ),
            )
            // The language features of this target are unstable: here alone they are let in.
            .env("RUSTC_BOOTSTRAP", "1")
            .env(LLVM_VARIABLE, &self.toolchain.llvm)
            .env(FEATURES_VARIABLE, target.features());
        if self.line_tables {
            command.env("CARGO_PROFILE_PTX_DEBUG", "line-tables-only");
        }
        for inherited in INHERITED {
            command.env_remove(inherited);
        }
        process::run_well(&mut command, LIMIT, Show::Nothing)?;
        let name = self.package.replace('-', "_");
        Ok(folder
            .join("nvptx64-nvidia-cuda/ptx")
            .join(format!("{name}.ptx")))
    }
}

/// rustc's own optimiser does not know of collective calls: it copies one into both arms of an
/// earlier branch where that tells it an argument, and lanes of different arms never meet. LLVM,
/// which does know, makes up for the rest.
const CONVERGENT: &str = "-Zmir-enable-passes=-JumpThreading";

/// The name under which rustc finds our linker.
const LINKER: &str = "warpwire-ptx-linker";

/// What `cargo run` and `cargo test` set for us, and this other cargo must not take for its own.
const INHERITED: [&str; 5] = [
    "CARGO",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_TARGET_DIR",
    "RUSTC_WRAPPER",
    "RUSTUP_TOOLCHAIN",
];

/// The first build compiles core: a minute on two idle cores.
const LIMIT: Duration = Duration::from_secs(600);
