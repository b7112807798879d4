//! A stage of a user's own, in a crate outside the repository, built by `warpwire kernel build`.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// A copy of `examples/stage` outside the repository, which names this warpwire by its path.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let from = root.join("examples/stage");
        let folder = format!("warpwire-{name}-{}", std::process::id());
        let to = std::env::temp_dir().join(folder);
        std::fs::create_dir_all(to.join("src")).expect("can be made");
        for file in ["Cargo.toml", "src/lib.rs", "hops.toml"] {
            let content = std::fs::read_to_string(from.join(file)).expect("is there");
            let core = root.join("pipelines/core").display().to_string();
            let content = content.replace("../../pipelines/core", &core);
            std::fs::write(to.join(file), content).expect("can be written");
        }
        Self(to)
    }

    fn build(&self, words: &[&str]) -> Output {
        // Results stay in the product's target folder, so that a second run builds little.
        let out = target().join("kernel-build");
        Command::new(env!("CARGO_BIN_EXE_warpwire"))
            .args(["kernel", "build"])
            .arg(&self.0)
            .arg("--out")
            .arg(&out)
            .args(words)
            .output()
            .expect("the command can be started")
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn target() -> PathBuf {
    let command = Path::new(env!("CARGO_BIN_EXE_warpwire"));
    let folder = command.ancestors().nth(2);
    folder.expect("is in a target folder").to_path_buf()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_crate_with_a_stage_becomes_a_command_and_a_kernel() {
    let copy = Copy::new("stage");
    let output = copy.build(&["--cpu-only", "--profile", "dev"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let command = shown
        .lines()
        .find_map(|line| line.strip_prefix("command: "));
    let command = command.expect("names the command");
    let pipeline = copy.0.join("hops.toml");
    let run = Command::new(command)
        .arg("run")
        .arg(&pipeline)
        .arg("--json")
        .output();
    let run = run.expect("the command runs");
    assert!(run.status.success(), "{}", text(&run.stderr));
    let report: Value = serde_json::from_slice(&run.stdout).expect("is JSON");
    let stage = &report["receives"][0]["stages"][0];
    assert_eq!(stage["do"], "hops");
    // UDP with a time to live of 64 has passed no router; ARP has none.
    assert_eq!(stage["counters"]["hops"]["0"], 500, "{report}");
    assert_eq!(report["receives"][0]["dropped"]["dropped"], 1000);

    if let Err(lack) = warpwire_ptx::Toolchain::find() {
        return warpwire_skip::installable(lack.to_string());
    }
    let output = copy.build(&["--profile", "dev"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    let ptx = shown
        .lines()
        .find_map(|line| line.strip_prefix("PTX for sm_80: "));
    let ptx = std::fs::read_to_string(ptx.expect("names the PTX")).expect("is there");
    for entry in ["pipeline_mlx5", "pipeline_xdp", "pipeline_memif_client"] {
        assert!(
            ptx.contains(&format!(".visible .entry {entry}(")),
            "{entry}"
        );
    }
    assert!(
        !ptx.contains(".entry mac_swap"),
        "only what the crate lists"
    );
    assert!(!ptx.contains("panicking"), "a panic path");
}

#[test]
fn a_crate_that_is_none_is_refused_by_name() {
    let copy = Copy::new("no-stage");
    let manifest = copy.0.join("Cargo.toml");
    let content = std::fs::read_to_string(&manifest).expect("is there");
    let without: Vec<&str> = content
        .lines()
        .filter(|line| !line.starts_with("warpwire-core"))
        .collect();
    std::fs::write(&manifest, without.join("\n")).expect("can be written");
    let output = copy.build(&["--cpu-only"]);
    assert_eq!(output.status.code(), Some(2));
    let errors = text(&output.stderr);
    assert!(
        errors.contains("does not depend on warpwire-core"),
        "{errors}"
    );
}
