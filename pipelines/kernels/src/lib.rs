//! The GPU entry points, linked into one PTX file; an empty shell on other targets.
//!
//! Invariant: `warpwire-core` lists the entry points; this crate only makes them one module.
//! Invariant: it depends on `warpwire-core` alone.
#![cfg_attr(target_arch = "nvptx64", no_std, feature(stdarch_nvptx))]

#[cfg(target_arch = "nvptx64")]
use warpwire_core as _;

#[cfg(target_arch = "nvptx64")]
mod panic;
