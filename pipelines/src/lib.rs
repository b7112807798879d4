//! The host half: pipeline files, their runtime, counters and captures.
//!
//! Invariant: the host sets up, watches and drains; it touches no frame on a kernel's way.
//! Invariant: a pipeline file is checked whole before anything is opened, and every problem names
//! its line, its field and a cure.
//! Invariant: nothing here knows a stage by name: stages say about themselves what the host must
//! know.

pub mod file;

pub use file::{Catalogue, PipelineFile, Problem, Problems};
