//! From a crate of kernels to PTX: the compiler, the linker that rustc calls, and the build.
//!
//! Used by `cargo xtask ptx` for the product's kernels and by `warpwire kernel build` for a user's.
//!
//! Invariant: every program it starts has a deadline, and is named when it fails.
//! Invariant: the binary that calls [`Build::ptx`] is the linker too: its `main` asks
//! [`linker::main`] first.

mod build;
pub mod linker;
pub mod process;
mod target;
pub mod toolchain;

pub use build::Build;
pub use target::Target;
pub use toolchain::Toolchain;

/// What stops a task. Each text names the thing at fault and, where there is one, the cure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A program could not be started.
    #[error("cannot start `{program}`: {source}; {cure}")]
    Start {
        /// Name of the program.
        program: String,
        /// The system's answer.
        source: std::io::Error,
        /// What brings the program.
        cure: &'static str,
    },
    /// A program ended badly.
    #[error("`{program}` failed ({status}):\n{output}")]
    Failed {
        /// The whole command.
        program: String,
        /// Exit status, or that it was stopped at its deadline.
        status: String,
        /// What it wrote, in so far as it was captured.
        output: String,
    },
    /// A file could not be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A file does not hold what it must.
    #[error("{path}: {problem}")]
    Content {
        /// The file.
        path: std::path::PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// The task needs root.
    #[error("{task} needs root: run it as root, or install these yourself: {missing}")]
    NeedsRoot {
        /// The task.
        task: &'static str,
        /// What is missing.
        missing: String,
    },
    /// The machine is not one that the task knows.
    #[error("{0}")]
    Environment(String),
}

impl Error {
    /// Wraps the system's answer about a file.
    pub fn file(path: impl Into<std::path::PathBuf>, source: std::io::Error) -> Self {
        Self::File {
            path: path.into(),
            source,
        }
    }

    /// Says what is wrong with the content of a file.
    pub fn content(path: impl Into<std::path::PathBuf>, problem: impl Into<String>) -> Self {
        Self::Content {
            path: path.into(),
            problem: problem.into(),
        }
    }
}
