//! `warpwire kernel build PATH`: a user's own stages as a command and as PTX.
//!
//! The user's crate depends on `warpwire-core`, defines stages, and lists them by
//! `warpwire_core::stages!`. Two small crates are made around it in the folder of the results: one
//! whose `main` is this command with the user's stages in its kit, for the CPU executor, and one
//! that links the entry points for GPUs. Both are built against the warpwire that the user's crate
//! names, with its lock file.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use warpwire_ptx::process::{self, Show};
use warpwire_ptx::{Build, Target, Toolchain};

use super::{Failure, signals};

/// Build a crate with stages of your own
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(clap::Subcommand)]
enum Task {
    /// Build a crate that lists stages by warpwire_core::stages!, as a command and as PTX
    Build(BuildArguments),
}

#[derive(clap::Args)]
struct BuildArguments {
    /// The folder of the crate
    path: PathBuf,
    /// GPU architecture to build PTX for; any number of times, sm_80 if absent
    #[arg(long, value_name = "ARCHITECTURE", value_parser = target)]
    target: Vec<Target>,
    /// Build the command only, for the CPU executor
    #[arg(long, conflicts_with = "target")]
    cpu_only: bool,
    /// Cargo profile of the command
    #[arg(long, default_value = "release", value_parser = ["release", "dev"])]
    profile: String,
    /// Folder for the results; target/warpwire in the crate's folder if absent
    #[arg(long, value_name = "FOLDER")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Task::Build(arguments) = &arguments.task;
    let targets = match arguments.target.as_slice() {
        [] => vec![Target::Sm80],
        targets => targets.to_vec(),
    };
    process::heed(signals::heed()?);
    let home = Home::of(&arguments.path)?;
    let out = match &arguments.out {
        Some(folder) => absolute(folder)?,
        None => home.folder.join("target/warpwire"),
    };
    let mut report = io::stdout().lock();
    let command = build_command(&home, &out, &arguments.profile)?;
    writeln!(report, "command: {}", command.display())?;
    if arguments.cpu_only {
        return Ok(());
    }
    let toolchain = Toolchain::find().map_err(Failure::Build)?;
    for target in targets {
        let ptx = build_ptx(&home, &out, toolchain.clone(), target)?;
        writeln!(report, "PTX for {target}: {}", ptx.display())?;
    }
    Ok(())
}

fn target(word: &str) -> Result<Target, String> {
    word.parse()
        .map_err(|error: warpwire_ptx::Error| error.to_string())
}

/// The user's crate, and the warpwire that it names.
struct Home {
    /// The crate's folder.
    folder: PathBuf,
    /// Its package name.
    name: String,
    /// The root of warpwire's sources.
    warpwire: PathBuf,
}

impl Home {
    fn of(path: &Path) -> Result<Self, Failure> {
        let folder = absolute(path)?;
        let manifest = folder.join("Cargo.toml");
        let mut command = Command::new(cargo());
        command.args(["metadata", "--format-version=1", "--manifest-path"]);
        command.arg(&manifest);
        let outcome = process::run(&mut command, METADATA_LIMIT, Show::Nothing);
        let outcome = outcome.map_err(Failure::Build)?;
        let wrong = |problem: String, cure: &str| Failure::Crate {
            manifest: manifest.clone(),
            problem,
            cure: cure.to_owned(),
        };
        if !outcome.is_success() {
            let said = outcome.stderr.trim().trim_start_matches("error: ");
            return Err(wrong(
                format!("cargo cannot read it: {said}"),
                "name the folder of a crate that `cargo metadata` accepts",
            ));
        }
        let metadata: Value = serde_json::from_str(&outcome.stdout)
            .map_err(|error| wrong(format!("cargo metadata: {error}"), "use a newer cargo"))?;
        let packages = metadata["packages"].as_array().cloned().unwrap_or_default();
        let manifest_of = |package: &Value| package["manifest_path"].as_str().map(PathBuf::from);
        let own = packages
            .iter()
            .find(|package| manifest_of(package).as_deref() == Some(&manifest));
        let own = own.and_then(|package| package["name"].as_str());
        let core = packages
            .iter()
            .find(|package| package["name"] == "warpwire-core");
        let root = core.and_then(manifest_of);
        let root = root.and_then(|path| path.ancestors().nth(3).map(Path::to_path_buf));
        match (own, root) {
            (Some(name), Some(warpwire)) => Ok(Self {
                folder,
                name: name.to_owned(),
                warpwire,
            }),
            (None, _) => Err(wrong(
                "is not the manifest of a package".to_owned(),
                "name the folder of a package, not of a workspace",
            )),
            (_, None) => Err(wrong(
                "does not depend on warpwire-core".to_owned(),
                "write warpwire-core = { path = \"…/warpwire/pipelines/core\" }",
            )),
        }
    }

    /// Makes one of the crates around the user's: manifest, one source file, lock file.
    fn wrap(&self, folder: &Path, manifest: &str, file: &str, source: &str) -> Result<(), Failure> {
        let fill = |text: &str| {
            text.replace("NAME", &self.name)
                .replace("USER", &self.folder.display().to_string())
                .replace("WARPWIRE", &self.warpwire.display().to_string())
        };
        let write = |name: &str, text: String| {
            let path = folder.join(name);
            // What is the same keeps its time, so that cargo builds nothing anew.
            match std::fs::read_to_string(&path) {
                Ok(there) if there == text => Ok(()),
                _ => std::fs::write(&path, text).map_err(|source| Failure::File { path, source }),
            }
        };
        std::fs::create_dir_all(folder).map_err(|source| Failure::File {
            path: folder.to_path_buf(),
            source,
        })?;
        write("Cargo.toml", fill(manifest))?;
        write(file, fill(source))?;
        self.lock(folder)
    }

    /// The versions that warpwire was tested with, and what the user's crate adds to them.
    fn lock(&self, folder: &Path) -> Result<(), Failure> {
        let (from, to) = (self.warpwire.join("Cargo.lock"), folder.join("Cargo.lock"));
        if !to.exists() {
            process::copy(&from, &to).map_err(Failure::Build)?;
        }
        let update = |offline: &[&str]| {
            let mut command = Command::new(cargo());
            command.current_dir(folder);
            command
                .args(["update", "--workspace", "--quiet"])
                .args(offline);
            process::run_well(&mut command, METADATA_LIMIT, Show::Nothing)
        };
        update(&["--offline"])
            .or_else(|_| update(&[]))
            .map(|_| ())
            .map_err(Failure::Build)
    }
}

/// The command with the user's stages.
fn build_command(home: &Home, out: &Path, profile: &str) -> Result<PathBuf, Failure> {
    let folder = out.join("command");
    home.wrap(&folder, COMMAND_MANIFEST, "main.rs", COMMAND_SOURCE)?;
    let target = out.join("build");
    let mut command = Command::new(cargo());
    command
        .current_dir(&folder)
        .args(["build", "--quiet", "--locked", "--profile", profile])
        .arg("--target-dir")
        .arg(&target);
    process::run_well(&mut command, BUILD_LIMIT, Show::Errors).map_err(Failure::Build)?;
    let built = match profile {
        "dev" => "debug",
        other => other,
    };
    let from = target.join(built).join(&home.name);
    let to = out.join(&home.name);
    process::copy(&from, &to).map_err(Failure::Build)?;
    Ok(to)
}

/// The entry points with the user's stages, for one GPU architecture.
fn build_ptx(
    home: &Home,
    out: &Path,
    toolchain: Toolchain,
    target: Target,
) -> Result<PathBuf, Failure> {
    let folder = out.join("ptx");
    home.wrap(&folder, PTX_MANIFEST, "lib.rs", PTX_SOURCE)?;
    let build = Build {
        toolchain,
        workspace: folder,
        package: format!("{}-ptx", home.name),
        features: Vec::new(),
        target_folder: out.join("build-ptx"),
        linker: process::own().to_path_buf(),
        line_tables: false,
    };
    let from = build.ptx(target).map_err(Failure::Build)?;
    let to = out.join(format!("{}.{target}.ptx", home.name));
    process::copy(&from, &to).map_err(Failure::Build)?;
    Ok(to)
}

fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let made = match path.exists() {
        true => path.canonicalize(),
        false => std::path::absolute(path),
    };
    made.map_err(|source| Failure::File {
        path: path.to_path_buf(),
        source,
    })
}

fn cargo() -> std::ffi::OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

const COMMAND_MANIFEST: &str = r#"# Made by `warpwire kernel build`.
[package]
name = "NAME-command"
version = "0.0.0"
edition = "2024"
publish = false

[[bin]]
name = "NAME"
path = "main.rs"

[dependencies]
stages = { package = "NAME", path = "USER" }
warpwire = { path = "WARPWIRE" }

[workspace]

[profile.release]
lto = "thin"
codegen-units = 4
"#;

const COMMAND_SOURCE: &str = r"//! The `warpwire` command with the stages of NAME.

use std::process::ExitCode;

use warpwire::pipelines::Kit;

fn main() -> ExitCode {
    let kit = Kit::of::<stages::Stages>(stages::same(), stages::mixed());
    warpwire::cli::main_with(&kit)
}
";

const PTX_MANIFEST: &str = r#"# Made by `warpwire kernel build`.
[package]
name = "NAME-ptx"
version = "0.0.0"
edition = "2024"
publish = false

[lib]
path = "lib.rs"
crate-type = ["cdylib"]

[dependencies]
stages = { package = "NAME", path = "USER" }

[workspace]

[profile.ptx]
inherits = "release"
lto = "off"
codegen-units = 1
debug = false
panic = "abort"
"#;

const PTX_SOURCE: &str = r"//! The entry points with the stages of NAME.
#![no_std]
#![feature(stdarch_nvptx)]

use stages as _;

#[panic_handler]
fn on_panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {
        // SAFETY: ends the kernel with an error that the host sees; touches nothing.
        unsafe { core::arch::nvptx::trap() }
    }
}
";

/// How long cargo may take to say what there is.
const METADATA_LIMIT: Duration = Duration::from_secs(120);
/// How long a build may take.
const BUILD_LIMIT: Duration = Duration::from_secs(1800);
