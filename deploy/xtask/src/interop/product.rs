//! The `warpwire` command: built, run on a pipeline, and asked what it counted.

use super::namespaces::Namespace;
use crate::process::{self, Outcome, Running, Show};
use crate::{Error, repository};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The command, and a folder for the files of its runs.
#[derive(Debug)]
pub struct Product {
    program: PathBuf,
    folder: PathBuf,
}

/// Builds the command with a profile of the workspace.
///
/// # Errors
/// When it does not build.
pub fn build(root: &Path, profile: &str) -> Result<PathBuf, Error> {
    let words = ["--package", "warpwire", "--bin", "warpwire"];
    cargo_build(root, profile, &words)?;
    // Cargo's own names: the profiles `dev` and `test` share a folder.
    let products = match profile {
        "dev" | "test" => "debug",
        other => other,
    };
    Ok(repository::target(root).join(products).join("warpwire"))
}

/// Builds the programs of further packages, into the folder of the command.
///
/// # Errors
/// When they do not build.
pub fn build_beside(root: &Path, profile: &str, packages: &[&str]) -> Result<(), Error> {
    let mut words = vec!["--bins"];
    for package in packages {
        words.extend(["--package", package]);
    }
    cargo_build(root, profile, &words)
}

fn cargo_build(root: &Path, profile: &str, words: &[&str]) -> Result<(), Error> {
    let mut command = Command::new(crate::cargo());
    command.current_dir(root).args(["build", "--quiet"]);
    command.args(words).args(["--profile", profile]);
    process::run_well(&mut command, BUILD, Show::Errors).map(drop)
}

impl Product {
    /// A command, and a folder for its runs, which is emptied first.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn set_up(program: &Path, folder: &Path) -> Result<Self, Error> {
        if folder.exists() {
            std::fs::remove_dir_all(folder).map_err(|source| Error::file(folder, source))?;
        }
        std::fs::create_dir_all(folder).map_err(|source| Error::file(folder, source))?;
        // A build may replace the program while we run it.
        let copy = folder.join("warpwire");
        process::copy(program, &copy)?;
        Ok(Self {
            program: copy,
            folder: folder.to_path_buf(),
        })
    }

    /// The copy of the command that runs.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Where runs start, so that pipelines name files without a folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs a pipeline that ends by itself.
    ///
    /// # Errors
    /// When it fails, or does not end; [`Run::Refused`] is no error.
    pub fn run(&self, name: &str, pipeline: &str) -> Result<Run, Error> {
        let (mut command, words) = self.command(None, name, pipeline)?;
        let outcome = process::run(&mut command, LIMIT, Show::Nothing)?;
        if outcome.is_success() {
            return Report::read(&words, &outcome).map(Run::Report);
        }
        // 1 and 2 are the command's own ways to say no; anything else is a crash.
        match outcome.end {
            process::End::Exit(status) if matches!(status.code(), Some(1 | 2)) => {
                Ok(Run::Refused(outcome.stderr))
            }
            _ => Err(failed(words, &outcome)),
        }
    }

    /// Starts a pipeline that ends when it is told to, inside `space`.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, space: &Namespace, name: &str, pipeline: &str) -> Result<Session, Error> {
        let (mut command, words) = self.command(Some(space), name, pipeline)?;
        let running = Running::start(&mut command, Show::Nothing)?;
        Ok(Session { running, words })
    }

    fn command(
        &self,
        space: Option<&Namespace>,
        name: &str,
        pipeline: &str,
    ) -> Result<(Command, String), Error> {
        let file = self.folder.join(format!("{name}.toml"));
        std::fs::write(&file, pipeline).map_err(|source| Error::file(&file, source))?;
        let mut command = match space {
            Some(space) => space.command(&self.program),
            None => Command::new(&self.program),
        };
        command
            .current_dir(&self.folder)
            .arg("run")
            .arg(&file)
            .arg("--json");
        let words = process::in_words(&command);
        Ok((command, words))
    }
}

/// How a run ended.
#[derive(Debug)]
pub enum Run {
    /// With a report.
    Report(Report),
    /// With an error in words.
    Refused(String),
}

/// A run in the background.
#[derive(Debug)]
pub struct Session {
    running: Running,
    words: String,
}

impl Session {
    /// Waits until `ready` says so.
    ///
    /// # Errors
    /// When the run ends before that, or it takes too long.
    pub fn wait_until(&mut self, mut ready: impl FnMut() -> bool) -> Result<(), Error> {
        self.running.wait_until(READY, |_, _| ready())
    }

    /// Ends it as Ctrl-C would; what it counted.
    ///
    /// # Errors
    /// When it does not end well.
    pub fn finish(self) -> Result<Report, Error> {
        let outcome = self.running.interrupt(END)?;
        match outcome.is_success() {
            true => Report::read(&self.words, &outcome),
            false => Err(failed(self.words, &outcome)),
        }
    }
}

fn failed(program: String, outcome: &Outcome) -> Error {
    Error::Failed {
        program,
        status: outcome.end_in_words(),
        output: format!("{}{}", outcome.stdout, outcome.stderr),
    }
}

/// What a run counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report(Value);

impl Report {
    fn read(words: &str, outcome: &Outcome) -> Result<Self, Error> {
        let value = serde_json::from_str(&outcome.stdout);
        value.map(Self).map_err(|error| Error::Failed {
            program: words.to_owned(),
            status: format!("its report is no JSON: {error}"),
            output: format!("{}{}", outcome.stdout, outcome.stderr),
        })
    }

    /// The number at a JSON pointer.
    ///
    /// # Errors
    /// When there is none: the report has another shape than this reader expects.
    pub fn number(&self, pointer: &str) -> Result<u64, Error> {
        let found = self.0.pointer(pointer).and_then(Value::as_u64);
        found.ok_or_else(|| self.lacks(pointer))
    }

    /// The entries of the table at a JSON pointer, with their numbers.
    ///
    /// # Errors
    /// As [`Report::number`].
    pub fn table(&self, pointer: &str) -> Result<Vec<(&str, u64)>, Error> {
        let found = self.0.pointer(pointer).and_then(Value::as_object);
        let entries = found.ok_or_else(|| self.lacks(pointer))?.iter();
        entries
            .map(|(key, value)| {
                let number = value.as_u64().ok_or_else(|| self.lacks(pointer))?;
                Ok((key.as_str(), number))
            })
            .collect()
    }

    /// The sum of all numbers in the table at a JSON pointer.
    ///
    /// # Errors
    /// As [`Report::number`].
    pub fn sum(&self, pointer: &str) -> Result<u64, Error> {
        Ok(self.table(pointer)?.iter().map(|(_, number)| number).sum())
    }

    /// Whether received frames are all dropped for a reason or sent, in every pipeline.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        let balances = self.0.pointer("/balances").and_then(Value::as_array);
        balances.is_some_and(|balances| {
            let adds_up = |balance: &Value| balance.pointer("/adds_up") == Some(&Value::Bool(true));
            balances.iter().all(adds_up)
        })
    }

    /// How many entries the list at a JSON pointer has.
    #[must_use]
    pub fn length(&self, pointer: &str) -> usize {
        let list = self.0.pointer(pointer).and_then(Value::as_array);
        list.map_or(0, Vec::len)
    }

    fn lacks(&self, pointer: &str) -> Error {
        Error::content("report", format!("has no such value at {pointer}"))
    }
}

const BUILD: Duration = Duration::from_secs(900);
const LIMIT: Duration = Duration::from_secs(120);
const READY: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_gives_numbers_and_names_what_it_lacks() {
        let text = r#"{"nics":[{"received":{"frames":7}}],"balances":[{"adds_up":true}],
                       "receives":[{"dropped":{"icrc":2,"filtered":3}}]}"#;
        let report = Report(serde_json::from_str(text).unwrap());
        assert_eq!(report.number("/nics/0/received/frames").unwrap(), 7);
        assert_eq!(report.sum("/receives/0/dropped").unwrap(), 5);
        assert!(report.adds_up());
        let error = report.number("/nics/1/received/frames").unwrap_err();
        assert!(error.to_string().contains("/nics/1/received/frames"));
        assert!(!Report(Value::Null).adds_up());
    }
}
