//! The hash of everything that the committed PTX is made of.

use super::POLICY;
use super::linker::RECIPE;
use crate::{Error, repository};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use toml::{Table, Value};

/// How the line of the committed PTX that carries the hash begins.
pub const MARK: &str = "// sources: sha256:";

/// Hashes, in hexadecimal: the manifest and the sources (without test files) of the kernels' crate
/// and of every crate of the house below it, layouts included; the locked versions of the foreign
/// crates below them; the profile; the way from bitcode to PTX; and the bounds that kernels were
/// measured against.
pub fn hash(root: &Path) -> Result<String, Error> {
    let mut hasher = Sha256::new();
    let manifest = repository::toml(&root.join("Cargo.toml"))?;
    let mut foreign = BTreeSet::new();
    for (_, folder) in house_crates(root, &manifest, &mut foreign)? {
        feed_crate(&mut hasher, root, &folder)?;
    }
    for line in locked(&repository::toml(&root.join("Cargo.lock"))?, foreign) {
        feed(&mut hasher, "lock", line.as_bytes());
    }
    for part in [
        &["workspace", "package"][..],
        &["profile", "release"],
        &["profile", "ptx"],
    ] {
        let value = part
            .iter()
            .try_fold(&Value::Table(manifest.clone()), |value, key| value.get(key))
            .map(Value::to_string);
        feed(
            &mut hasher,
            &part.join("."),
            value.unwrap_or_default().as_bytes(),
        );
    }
    feed(&mut hasher, "recipe", RECIPE.as_bytes());
    let policy = repository::text(&root.join(POLICY))?;
    feed(&mut hasher, "policy", policy.as_bytes());
    Ok(hasher
        .finalize()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect())
}

/// The hash that a PTX text carries.
#[must_use]
pub fn carried(ptx: &str) -> Option<&str> {
    ptx.lines()
        .take(10)
        .find_map(|line| line.strip_prefix(MARK))
        .map(str::trim)
}

fn feed(hasher: &mut Sha256, name: &str, content: &[u8]) {
    // Lengths keep the border between name and content from moving unseen.
    hasher.update(format!("{name}\n{}\n", content.len()));
    hasher.update(content);
}

fn feed_crate(hasher: &mut Sha256, root: &Path, folder: &Path) -> Result<(), Error> {
    let mut files = vec![PathBuf::from("Cargo.toml")];
    let sources = repository::files(&root.join(folder).join("src"))?;
    files.extend(sources.into_iter().map(|file| Path::new("src").join(file)));
    for file in files.iter().filter(|file| !is_for_tests(file)) {
        let path = root.join(folder).join(file);
        let content = std::fs::read(&path).map_err(|source| Error::file(&path, source))?;
        feed(hasher, &folder.join(file).to_string_lossy(), &content);
    }
    Ok(())
}

fn is_for_tests(file: &Path) -> bool {
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    stem == "tests" || stem.ends_with("_tests") || file.iter().any(|part| part == "tests")
}

/// Name and folder of the kernels' crate and of all that it depends on in this repository; names of
/// the foreign crates they depend on go to `foreign`.
fn house_crates(
    root: &Path,
    manifest: &Table,
    foreign: &mut BTreeSet<String>,
) -> Result<BTreeMap<String, PathBuf>, Error> {
    let shared = manifest
        .get("workspace")
        .and_then(|workspace| workspace.get("dependencies"));
    let mut found = BTreeMap::new();
    let mut open = vec![(
        "warpwire-kernels".to_owned(),
        PathBuf::from("pipelines/kernels"),
    )];
    while let Some((name, folder)) = open.pop() {
        let own = repository::toml(&root.join(&folder).join("Cargo.toml"))?;
        let dependencies = own.get("dependencies").and_then(Value::as_table);
        for dependency in dependencies.into_iter().flat_map(Table::keys) {
            let declared = shared.and_then(|shared| shared.get(dependency));
            let path = declared
                .and_then(|declared| declared.get("path"))
                .and_then(Value::as_str);
            match path {
                Some(path) => open.push((dependency.clone(), path.into())),
                None => drop(foreign.insert(dependency.clone())),
            }
        }
        found.insert(name, folder);
    }
    Ok(found)
}

/// A line for each of these packages, and for each below them, as the lock file pins it.
fn locked(lock: &Table, mut open: BTreeSet<String>) -> BTreeSet<String> {
    let packages = lock.get("package").and_then(Value::as_array);
    let packages: Vec<&Value> = packages.into_iter().flatten().collect();
    let text = |package: &Value, key: &str| {
        package
            .get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    let mut seen = BTreeSet::new();
    let mut lines = BTreeSet::new();
    while let Some(name) = open.pop_first() {
        if !seen.insert(name.clone()) {
            continue;
        }
        for package in packages
            .iter()
            .filter(|package| text(package, "name") == name)
        {
            lines.insert(format!(
                "{name} {} {}",
                text(package, "version"),
                text(package, "checksum")
            ));
            let below = package.get("dependencies").and_then(Value::as_array);
            let below = below.into_iter().flatten().filter_map(Value::as_str);
            // An entry is `name` or, where a name is ambiguous, `name version`.
            open.extend(
                below
                    .filter_map(|entry| entry.split(' ').next())
                    .map(str::to_owned),
            );
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_ptx_is_made_of_these_sources() {
        let root = repository::root();
        let ptx = repository::text(&root.join(super::super::COMMITTED)).unwrap();
        let first = ptx.lines().next().unwrap_or_default();
        assert!(
            first.contains("Generated"),
            "the first line must say so: {first}"
        );
        let fresh = hash(&root).unwrap();
        assert_eq!(
            carried(&ptx),
            Some(fresh.as_str()),
            "stale: run `cargo xtask ptx`, commit it"
        );
    }

    #[test]
    fn every_crate_that_device_code_is_made_of_counts() {
        let root = repository::root();
        let manifest = repository::toml(&root.join("Cargo.toml")).unwrap();
        let mut foreign = BTreeSet::new();
        let found = house_crates(&root, &manifest, &mut foreign).unwrap();
        for name in ["kernels", "core", "engine", "device", "ring", "protocols"] {
            assert!(
                found.contains_key(&format!("warpwire-{name}")),
                "{name}: {found:?}"
            );
        }
        assert!(!found.contains_key("warpwire-gpu"));
        assert!(foreign.contains("zerocopy"), "{foreign:?}");
    }

    #[test]
    fn only_what_is_below_is_locked() {
        let lock = r#"
            [[package]]
            name = "a"
            version = "1"
            checksum = "x"
            dependencies = ["b 2"]
            [[package]]
            name = "b"
            version = "2"
            [[package]]
            name = "c"
            version = "3"
        "#;
        let lines = locked(&lock.parse().unwrap(), BTreeSet::from(["a".to_owned()]));
        assert_eq!(
            lines,
            BTreeSet::from(["a 1 x".to_owned(), "b 2 ".to_owned()])
        );
    }

    #[test]
    fn a_name_cannot_pass_for_content() {
        let of = |name: &str, content: &str| {
            let mut hasher = Sha256::new();
            feed(&mut hasher, name, content.as_bytes());
            hasher.finalize()
        };
        assert_ne!(of("a", "bc"), of("ab", "c"));
    }
}
