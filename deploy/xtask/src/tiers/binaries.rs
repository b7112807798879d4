//! The test binaries of the workspace, as cargo reports them.

use crate::Error;
use serde::Deserialize;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A compiled test target.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Binary {
    package: PathBuf,
    /// Name of the target: the crate, or the file in `tests/`.
    pub(super) target: String,
    executable: PathBuf,
}

impl Binary {
    /// The command that runs it as `cargo test` would.
    pub(super) fn command(&self, cargo: &OsStr) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(&self.package)
            .env("CARGO_MANIFEST_DIR", &self.package);
        command.env("CARGO", cargo);
        command
    }

    /// Folder of the package in the repository, and the target.
    pub(super) fn in_words(&self, root: &Path) -> String {
        let package = self.package.strip_prefix(root).unwrap_or(&self.package);
        let words = format!("{} {}", package.display(), self.target);
        words.trim_start().to_owned()
    }
}

#[derive(Deserialize)]
struct Message {
    reason: String,
    manifest_path: Option<PathBuf>,
    target: Option<Target>,
    profile: Option<Profile>,
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

/// Reads the lines of `cargo test --no-run --message-format=json`.
pub(super) fn parse(lines: &str) -> Result<Vec<Binary>, Error> {
    let mut found = Vec::new();
    for line in lines.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line)
            .map_err(|error| Error::content("cargo's messages", error.to_string()))?;
        let Message {
            manifest_path: Some(manifest),
            target: Some(target),
            ..
        } = message
        else {
            continue;
        };
        let is_test = message.profile.is_some_and(|profile| profile.test);
        if let ("compiler-artifact", true, Some(executable)) =
            (message.reason.as_str(), is_test, message.executable)
        {
            let package = manifest.parent().unwrap_or(Path::new(".")).to_path_buf();
            found.push(Binary {
                target: target.name,
                package,
                executable,
            });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_executables_are_taken() {
        let line = |reason: &str, test: bool, executable: &str| {
            let manifest = "/r/nic/Cargo.toml";
            let target = r#"{"name":"peer_ping"}"#;
            format!(r#"{{"reason":"{reason}","manifest_path":"{manifest}","target":{target},"#)
                + &format!(r#""profile":{{"test":{test}}},"executable":{executable}}}"#)
        };
        let lines = [
            line("compiler-artifact", true, "\"/t/peer_ping-1\""),
            line("compiler-artifact", false, "\"/t/warpwire\""),
            line("compiler-artifact", true, "null"),
            r#"{"reason":"build-finished","success":true}"#.to_owned(),
        ];
        let binaries = parse(&lines.join("\n")).unwrap();
        assert_eq!(binaries.len(), 1);
        assert_eq!(binaries[0].in_words(Path::new("/r")), "nic peer_ping");
    }
}
