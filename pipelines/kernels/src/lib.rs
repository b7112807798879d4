//! The GPU entry points, linked into one PTX file; an empty shell on other targets.
//!
//! Invariant: this crate holds no code; `warpwire-core` lists the entry points.
//! Invariant: it depends on `warpwire-core` alone.
