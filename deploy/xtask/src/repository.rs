//! Where the repository lies, and which files are its own.

use crate::Error;
use std::path::{Path, PathBuf};

/// The root of the repository that this program was built from.
#[must_use]
pub fn root() -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    own.ancestors().nth(2).unwrap_or(own).to_path_buf()
}

/// The folder for build products: `CARGO_TARGET_DIR`, or `target` in the root.
#[must_use]
pub fn target(root: &Path) -> PathBuf {
    match std::env::var_os("CARGO_TARGET_DIR") {
        Some(folder) => root.join(folder),
        None => root.join("target"),
    }
}

/// Every file below `folder` but hidden ones and build products: sorted, relative to `folder`.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(relative) = folders.pop() {
        let whole = folder.join(&relative);
        for entry in std::fs::read_dir(&whole).map_err(|source| Error::file(&whole, source))? {
            let entry = entry.map_err(|source| Error::file(&whole, source))?;
            let kind = entry
                .file_type()
                .map_err(|source| Error::file(entry.path(), source))?;
            let name = entry.file_name();
            let own = relative.join(&name);
            match (kind.is_dir(), name.to_str()) {
                (true, Some("target")) => {}
                (_, Some(name)) if name.starts_with('.') => {}
                (true, _) => folders.push(own),
                (false, _) => found.push(own),
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file.
pub fn text(path: &Path) -> Result<String, Error> {
    std::fs::read_to_string(path).map_err(|source| Error::file(path, source))
}

/// A TOML file, parsed.
pub fn toml(path: &Path) -> Result<toml::Table, Error> {
    text(path)?
        .parse()
        .map_err(|error| Error::content(path, format!("{error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_holds_the_workspace() {
        let manifest = toml(&root().join("Cargo.toml")).unwrap();
        assert!(manifest.contains_key("workspace"));
    }

    #[test]
    fn files_leave_out_build_products_and_hidden_folders() {
        let all = files(&root()).unwrap();
        assert!(all.contains(&PathBuf::from("deploy/xtask/src/repository.rs")));
        assert!(
            !all.iter()
                .any(|path| path.starts_with("target") || path.starts_with(".ci"))
        );
    }
}
