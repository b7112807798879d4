//! The whole way from Rust to measured PTX, on a small kernel.

use std::path::Path;
use std::sync::Mutex;
use xtask::ptx::assemble::Assembler;
use xtask::ptx::policy::Policy;
use xtask::ptx::toolchain::Toolchain;
use xtask::ptx::{Build, Report, Target};
use xtask::repository;

/// Held while one test builds and reads what it built: both write to one place.
static TURN: Mutex<()> = Mutex::new(());

/// A build of the fixture, or a skip.
fn build() -> Option<Build> {
    let toolchain = Toolchain::find();
    let toolchain = toolchain
        .map_err(|lack| warpwire_skip::installable(lack.to_string()))
        .ok()?;
    let root = repository::root();
    Some(Build {
        toolchain,
        workspace: root.join("deploy/xtask/testdata/kernel"),
        package: "fixture-kernel".into(),
        features: vec![],
        // The product's folder, so that core is compiled once for both.
        target_folder: repository::target(&root).join("ptx"),
        linker: env!("CARGO_BIN_EXE_xtask").into(),
        line_tables: false,
    })
}

fn policy() -> Policy {
    let root = repository::root();
    Policy::read(&root.join("deploy/xtask/testdata/kernel/policy.toml")).unwrap()
}

fn assembler() -> Option<Assembler> {
    let assembler = Assembler::find(&repository::root());
    assembler
        .map_err(|lack| warpwire_skip::installable(lack.to_string()))
        .ok()
}

#[test]
fn a_kernel_becomes_clean_and_measured_ptx() {
    let Some(build) = build() else { return };
    let Some(assembler) = assembler() else { return };
    let turn = TURN.lock().unwrap();
    let mut report = Report::new(&build.toolchain.description);
    for target in Target::ALL {
        let ptx = build.ptx(target).unwrap();
        let resources = assembler.assemble(&ptx, target).unwrap();
        report.add(target, &ptx, &policy(), resources).unwrap();
    }
    drop(turn);
    println!("{report}");
    assert!(report.is_clean());
    // The kernel and the function it calls, for each target.
    assert_eq!(report.measured(), 2 * Target::ALL.len());
    let path = build.target_folder.join("committed.ptx");
    report.commit(&path, "0123").unwrap();
    assert_eq!(
        xtask::ptx::sources::carried(&repository::text(&path).unwrap()),
        Some("0123")
    );
    assert_assembles(&assembler, &path);
}

/// The committed form, comments first, is still PTX.
fn assert_assembles(assembler: &Assembler, path: &Path) {
    let found = assembler.assemble(path, Target::Sm80).unwrap();
    let kernel = found["fixture_sums"];
    assert!(
        kernel.registers > 0 && kernel.instructions > 0,
        "{kernel:?}"
    );
}

#[test]
fn what_the_compiler_does_to_careless_code_is_refused() {
    let Some(build) = build() else { return };
    let Some(assembler) = assembler() else { return };
    let build = Build {
        features: vec!["faulty".into()],
        ..build
    };
    let turn = TURN.lock().unwrap();
    let mut report = Report::new(&build.toolchain.description);
    let target = Target::Sm80;
    let ptx = build.ptx(target).unwrap();
    let resources = assembler.assemble(&ptx, target).unwrap();
    report.add(target, &ptx, &policy(), resources).unwrap();
    drop(turn);
    let faults = report.faults().join("\n");
    for expected in [
        "panic path",
        "without order and scope",
        "`fixture_faulty` has no row",
    ] {
        assert!(faults.contains(expected), "{expected}:\n{faults}");
    }
}
