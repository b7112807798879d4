//! The host half: pipeline files, their runtime, counters and captures.
//!
//! Invariant: the host sets up, watches and drains; it touches no frame on a kernel's way.
//! Invariant: a pipeline file is checked whole before anything is opened, and every problem names
//! its line, its field and a cure.
//! Invariant: nothing here knows a stage by name: stages say of themselves what the host must know.

pub mod connect;
mod copies;
pub mod file;
pub mod files;
pub mod messaging;
pub mod report;
pub mod runtime;
pub mod sensor;
pub mod streaming;
pub mod traffic;

pub use file::{Catalogue, PipelineFile, Problem, Problems};
pub use report::Report;
pub use runtime::{Ended, Kit, Runtime};
