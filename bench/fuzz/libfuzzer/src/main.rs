//! Drives the oracle that `WARPWIRE_FUZZ_TARGET` names by libFuzzer. `cargo xtask fuzz` calls it.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use warpwire_fuzz::{TARGETS, Target};

fuzz_target!(|data: &[u8]| (target().check)(data));

fn target() -> &'static Target {
    static CHOSEN: OnceLock<&Target> = OnceLock::new();
    CHOSEN.get_or_init(|| {
        let name = std::env::var("WARPWIRE_FUZZ_TARGET").unwrap_or_default();
        let found = TARGETS.iter().find(|target| target.name == name);
        found.unwrap_or_else(|| {
            eprintln!("WARPWIRE_FUZZ_TARGET is `{name}`, which names no target");
            std::process::exit(2);
        })
    })
}
