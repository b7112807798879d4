//! Which package may depend on which.

use crate::expect_none;
use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;
use xtask::repository;

/// A package of the house and the packages of the house that it may depend on. Those that are not
/// here may depend on any.
const ARROWS: &[(&str, &[&str])] = &[
    ("warpwire-protocols", &[]),
    ("warpwire-ring", &[]),
    ("warpwire-skip", &[]),
    ("warpwire-device", &["warpwire-ring"]),
    (
        "warpwire-engine",
        &["warpwire-device", "warpwire-ring", "warpwire-protocols"],
    ),
    (
        "warpwire-core",
        &[
            "warpwire-engine",
            "warpwire-device",
            "warpwire-ring",
            "warpwire-protocols",
        ],
    ),
    ("warpwire-kernels", &["warpwire-core"]),
    ("warpwire-gpu", &["warpwire-device", "warpwire-ring"]),
    (
        "warpwire-virtual",
        &["warpwire-gpu", "warpwire-device", "warpwire-ring"],
    ),
    (
        "warpwire-nic",
        &[
            "warpwire-gpu",
            "warpwire-device",
            "warpwire-engine",
            "warpwire-ring",
            "warpwire-protocols",
            "dpdk-sys",
            "doca-sys",
        ],
    ),
    (
        "warpwire-pipelines",
        &[
            "warpwire-nic",
            "warpwire-gpu",
            "warpwire-core",
            "warpwire-engine",
            "warpwire-device",
            "warpwire-ring",
            "warpwire-protocols",
        ],
    ),
    ("dpdk-sys", &[]),
    ("doca-sys", &[]),
];

/// Foreign crates with one home.
const HOMES: &[(&str, &str)] = &[("cudarc", "warpwire-gpu")];

/// Crates from outside that device code may use: they compile for nvptx64 without std.
const DEVICE_CRATES: &[&str] = &["bitflags", "zerocopy"];

struct Dependency {
    from: String,
    to: String,
    is_for_tests: bool,
}

fn declared() -> Vec<Dependency> {
    let metadata = cargo(&["metadata", "--format-version=1", "--no-deps", "--offline"]);
    let metadata: serde_json::Value = serde_json::from_str(&metadata).unwrap();
    let mut found = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        for dependency in package["dependencies"].as_array().unwrap() {
            found.push(Dependency {
                from: package["name"].as_str().unwrap().to_owned(),
                to: dependency["name"].as_str().unwrap().to_owned(),
                is_for_tests: dependency["kind"] == "dev",
            });
        }
    }
    assert!(
        !found.is_empty(),
        "cargo metadata shows no dependency at all"
    );
    found
}

fn cargo(words: &[&str]) -> String {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(words)
        .current_dir(repository::root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).unwrap()
}

/// The rule that a dependency breaks, if it breaks one.
fn fault(dependency: &Dependency, own: &BTreeSet<&str>) -> Option<String> {
    let Dependency {
        from,
        to,
        is_for_tests,
    } = dependency;
    if let Some((_, home)) = HOMES.iter().find(|(name, home)| name == to && home != from) {
        return Some(format!("{from} -> {to}: only {home} may name it"));
    }
    if to == "warpwire-skip" {
        return (!is_for_tests).then(|| format!("{from} -> {to}: for tests only"));
    }
    if to == "xtask" {
        return Some(format!("{from} -> {to}: nothing depends on the tool"));
    }
    let (_, allowed) = ARROWS.iter().find(|(name, _)| name == from)?;
    (own.contains(to.as_str()) && !allowed.contains(&to.as_str()))
        .then(|| format!("{from} -> {to}: not an arrow of ARCHITECTURE.md"))
}

#[test]
fn arrows_point_downwards() {
    let dependencies = declared();
    let own: BTreeSet<&str> = dependencies
        .iter()
        .flat_map(|dependency| [dependency.from.as_str(), dependency.to.as_str()])
        .filter(|name| name.starts_with("warpwire") || name.ends_with("-sys"))
        .collect();
    let faults: Vec<String> = dependencies
        .iter()
        .filter_map(|dependency| fault(dependency, &own))
        .collect();
    expect_none("dependencies that the map does not have", &faults);
}

#[test]
fn a_wrong_arrow_is_found() {
    let own = BTreeSet::from(["warpwire-ring", "warpwire-protocols", "warpwire-gpu"]);
    let check = |from: &str, to: &str, is_for_tests, wrong| {
        let dependency = Dependency {
            from: from.into(),
            to: to.into(),
            is_for_tests,
        };
        assert_eq!(fault(&dependency, &own).is_some(), wrong, "{from} -> {to}");
    };
    check("warpwire-ring", "warpwire-protocols", false, true);
    check("warpwire-ring", "warpwire-protocols", true, true);
    check("warpwire-gpu", "warpwire-ring", false, false);
    check("warpwire-gpu", "cudarc", false, false);
    check("warpwire-nic", "cudarc", false, true);
    check("warpwire-ring", "warpwire-skip", true, false);
    check("warpwire-ring", "warpwire-skip", false, true);
    check("warpwire-nic", "xtask", true, true);
    check("warpwire-bench", "warpwire-ring", false, false);
}

#[test]
fn every_package_has_a_place_on_the_map() {
    let map = repository::text(&repository::root().join("ARCHITECTURE.md")).unwrap();
    let packages: BTreeMap<String, ()> = declared()
        .into_iter()
        .map(|dependency| (dependency.from, ()))
        .collect();
    let absent: Vec<String> = packages
        .into_keys()
        .filter(|name| !map.contains(&format!(" {name} ")))
        .collect();
    expect_none("packages that ARCHITECTURE.md's map does not show", &absent);
}

#[test]
fn kernels_hold_device_code_only() {
    let tree = cargo(&[
        "tree",
        "--package=warpwire-kernels",
        "--target=nvptx64-nvidia-cuda",
        "--edges=normal,no-proc-macro",
        "--prefix=none",
        "--format={lib}",
        "--offline",
    ]);
    let house = ["core", "engine", "device", "ring", "protocols", "kernels"];
    let allowed = |name: &str| {
        let own = name.strip_prefix("warpwire_");
        name.is_empty()
            || own.is_some_and(|own| house.contains(&own))
            || DEVICE_CRATES.contains(&name)
    };
    let lines = tree
        .lines()
        .map(|line| line.trim_end_matches(" (*)").trim());
    let strangers: BTreeSet<String> = lines
        .filter(|name| !allowed(name))
        .map(str::to_owned)
        .collect();
    let strangers: Vec<String> = strangers.into_iter().collect();
    expect_none(
        "crates that reach the GPU and are not known to be fit for it",
        &strangers,
    );
    assert!(
        tree.contains("warpwire_core"),
        "the tree does not show the kernels' crates:\n{tree}"
    );
}
