//! The host half: pipeline files, their runtime, counters and captures.
