//! Installs what the tests need: Debian packages, NVIDIA's assembler from the Python index, and the
//! image that Soft-RoCE peers boot from.

use crate::interop::roce::peer::Image;
use crate::process::{self, Show};
use crate::{Error, repository};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Arguments of `cargo xtask setup`.
#[derive(clap::Args, Debug)]
pub struct Options {
    /// Only list what is missing; fail when anything is.
    #[arg(long)]
    check: bool,
}

/// `cargo xtask setup`.
pub fn main(options: &Options) -> Result<bool, Error> {
    let root = repository::root();
    let missing = Missing::find(&root)?;
    if missing.is_empty() {
        println!("everything that the tests need is installed");
        return Ok(true);
    }
    if options.check {
        println!("missing: {}", missing.in_words());
        return Ok(false);
    }
    missing.install(&root)?;
    Ok(true)
}

/// What the tests need and this machine lacks.
#[derive(Debug, Default)]
pub struct Missing {
    debian: Vec<&'static str>,
    python: Vec<&'static str>,
    image: Option<&'static str>,
}

impl Missing {
    /// Looks, without network and without changing anything.
    pub fn find(root: &Path) -> Result<Self, Error> {
        let debian = match installed_packages() {
            Some(installed) => {
                let absent = |package: &&&str| !installed.contains(&format!("{package} installed"));
                DEBIAN.iter().filter(absent).copied().collect()
            }
            None => DEBIAN.to_vec(),
        };
        let cuda = cuda_folder(root);
        let absent = |(program, _): &&(&str, &str)| !cuda.join(program).is_file();
        let python = PYTHON
            .iter()
            .filter(absent)
            .map(|(_, package)| *package)
            .collect();
        let image = (!Image::of(root).is_fresh()).then_some(IMAGE);
        Ok(Self {
            debian,
            python,
            image,
        })
    }

    /// Whether all is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.debian.is_empty() && self.python.is_empty() && self.image.is_none()
    }

    /// The names of all packages that are missing.
    #[must_use]
    pub fn in_words(&self) -> String {
        let packages = self.debian.iter().chain(&self.python);
        let all: Vec<&str> = packages.chain(&self.image).copied().collect();
        all.join(" ")
    }

    /// Installs all of it. Debian packages need root, all else goes below `target/`.
    pub fn install(&self, root: &Path) -> Result<(), Error> {
        if !self.debian.is_empty() {
            self.install_debian()?;
        }
        if !self.python.is_empty() {
            self.install_python(root)?;
        }
        if self.image.is_some() {
            println!("building below target/: {IMAGE}");
            Image::of(root).build()?;
        }
        Ok(())
    }

    fn install_debian(&self) -> Result<(), Error> {
        if !process::is_root() {
            let missing = self.debian.join(" ");
            return Err(Error::NeedsRoot {
                task: "cargo xtask setup",
                missing,
            });
        }
        if installed_packages().is_none() {
            return Err(Error::Environment(format!(
                "cargo xtask setup knows Debian 12 only, and there is no dpkg-query here; \
                 install the counterparts of these yourself: {}",
                self.debian.join(" ")
            )));
        }
        println!("installing: {}", self.debian.join(" "));
        apt_get(&["update", "--quiet"])?;
        let mut words = vec!["install", "--yes", "--quiet", "--no-install-recommends"];
        words.extend(&self.debian);
        apt_get(&words)
    }

    fn install_python(&self, root: &Path) -> Result<(), Error> {
        println!("installing below target/: {}", self.python.join(" "));
        let folder = python_folder(root);
        std::fs::create_dir_all(&folder).map_err(|source| Error::file(&folder, source))?;
        let mut command = Command::new("python3");
        command.args(["-m", "pip", "install", "--quiet", "--no-deps", "--upgrade"]);
        command
            .args(["--root-user-action=ignore", "--target"])
            .arg(&folder);
        // All of them at once: pip replaces the shared folder `nvidia` as a whole.
        command.args(PYTHON.iter().map(|(_, package)| package));
        process::run_well(&mut command, INSTALL_LIMIT, Show::Errors).map(drop)
    }
}

/// Where NVIDIA's assembler and disassembler lie after set-up.
#[must_use]
pub fn cuda_folder(root: &Path) -> PathBuf {
    let vendor = python_folder(root).join("nvidia");
    // The folder inside carries the major version of CUDA: cu13.
    let versions = std::fs::read_dir(&vendor).into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = versions
        .map(|entry| entry.path().join("bin"))
        .filter(|bin| bin.join("ptxas").is_file())
        .collect();
    found.sort();
    found.pop().unwrap_or(vendor)
}

fn python_folder(root: &Path) -> PathBuf {
    repository::target(root).join("tools/cuda")
}

/// Lines of `NAME installed`; none where there is no dpkg.
fn installed_packages() -> Option<std::collections::HashSet<String>> {
    let mut command = Command::new("dpkg-query");
    command.args(["--show", "--showformat", "${Package} ${db:Status-Status}\n"]);
    let outcome = process::run(&mut command, Duration::from_secs(60), Show::Nothing).ok()?;
    Some(outcome.stdout.lines().map(str::to_owned).collect())
}

fn apt_get(words: &[&str]) -> Result<(), Error> {
    let mut command = Command::new("apt-get");
    command.args(words).env("DEBIAN_FRONTEND", "noninteractive");
    command.args(["--option", "DPkg::Lock::Timeout=300"]);
    process::run_well(&mut command, INSTALL_LIMIT, Show::Errors).map(drop)
}

const INSTALL_LIMIT: Duration = Duration::from_secs(1200);

/// What the tests call, by tier: peers and judges, C headers that layouts are compared with, the
/// compiler for PTX, the C++ compiler for libFuzzer, and what runs the peers' virtual machines.
const DEBIAN: &[&str] = &[
    "arping",
    "dpdk",
    "dpdk-dev",
    "ethtool",
    "iperf3",
    "iproute2",
    "ndisc6",
    "iputils-ping",
    "python3-scapy",
    "tcpdump",
    "tshark",
    "valgrind",
    "g++",
    "gcc",
    "libc6-dev",
    "libdpdk-dev",
    "libfabric-bin",
    "libibverbs-dev",
    "linux-libc-dev",
    "cargo-web",
    "llvm-22",
    "rust-web-src",
    "rustc-web",
    "python3-pip",
    "cpio",
    "curl",
    "kmod",
    "procps",
    "qemu-system-x86",
    "socat",
    "ucx-utils",
    "wrk",
    "xz-utils",
];

/// What the peers of `cargo xtask interop roce` boot from.
const IMAGE: &str = "rxe-peer-image";

/// A program and the Python package that brings it.
const PYTHON: &[(&str, &str)] = &[
    ("ptxas", "nvidia-cuda-nvcc"),
    ("nvdisasm", "nvidia-cuda-nvdisasm"),
    ("cuobjdump", "nvidia-cuda-cuobjdump"),
];
