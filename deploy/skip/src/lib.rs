//! How a test says aloud that it did not run, and why.
//!
//! ```no_run
//! # fn test() {
//! if !warpwire_skip::is_root() {
//!     return warpwire_skip::installable("network namespaces need root");
//! }
//! # }
//! ```
//!
//! Each skip is one line, `SKIPPED name: reason`, written to standard error past the test
//! harness's capture; `cargo xtask test` counts these lines.
//!
//! Invariant: only tests depend on this crate.
//! Invariant: it depends on nothing, so that every crate's tests may use it.

use std::io::Write;
use std::os::unix::fs::MetadataExt;

/// Says that the calling test did not run for want of something that root or
/// `cargo xtask setup` brings.
///
/// # Panics
/// On CI as root (`CI=true`), where everything installable is expected to be there.
#[track_caller]
pub fn installable(reason: impl AsRef<str>) {
    say(reason.as_ref());
    let demanded = std::env::var_os("CI").is_some_and(|value| value == "true") && is_root();
    assert!(!demanded, "skipped on CI as root: {}", reason.as_ref());
}

/// Says that the calling test did not run for want of something that no set-up brings: a GPU, a
/// NIC, a capture too large for the repository.
pub fn unobtainable(reason: impl AsRef<str>) {
    say(reason.as_ref());
}

/// Whether the effective user is root.
#[must_use]
pub fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// Whether `PATH` holds an executable file of this name.
#[must_use]
pub fn has_program(name: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else {
        return false;
    };
    std::env::split_paths(&path).any(|folder| {
        std::fs::metadata(folder.join(name))
            .is_ok_and(|file| file.is_file() && file.mode() & 0o111 != 0)
    })
}

/// The line that announces a skip; the harness names a test's thread after the test.
fn line(test: Option<&str>, reason: &str) -> String {
    let reason = reason.replace('\n', " ");
    format!("SKIPPED {}: {reason}\n", test.unwrap_or("main"))
}

fn say(reason: &str) {
    let line = line(std::thread::current().name(), reason);
    // Not eprintln!, which the harness captures. A closed standard error changes no verdict.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_is_one_line_with_name_and_reason() {
        assert_eq!(line(Some("a::b"), "no\nroot"), "SKIPPED a::b: no root\n");
        assert_eq!(line(None, "x"), "SKIPPED main: x\n");
    }

    #[test]
    fn programs_are_found_by_name() {
        assert!(has_program("sh"));
        assert!(!has_program("no-such-program-anywhere"));
    }
}
