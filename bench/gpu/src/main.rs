//! `warpwire-gpu-check`: on a machine with a GPU, what is right there and how fast it is.
//!
//! Exit status: 0 all is right, 1 a part failed, 2 wrong arguments, 3 there is no GPU to run on.

mod clock;
mod figures;
mod latency;
mod machine;
mod options;
mod parity;
mod part;
mod rates;
mod record;
mod rings;
mod scene;
mod setting;
mod slices;
mod sweeps;

use std::convert::Infallible;
use std::process::{self, ExitCode};

use clap::Parser;

use options::Options;
use record::Session;
use setting::{Refusal, Setting};

fn main() -> ExitCode {
    let options = Options::parse();
    match check(&options) {
        Ok(never) => match never {},
        Err(refusal) => {
            eprintln!("{refusal}");
            ExitCode::from(refusal.status())
        }
    }
}

/// Runs every part, writes what came of it, and ends the process.
fn check(options: &Options) -> Result<Infallible, Refusal> {
    let ground = setting::Ground::find(options)?;
    let session = Session::begin(options, &ground);
    let mut setting = None;
    session.part(&part::LOAD, |_| {
        let (opened, found) = Setting::open(&ground)?;
        setting = Some(opened);
        Ok(found)
    });
    if let Some(setting) = &setting {
        let compare = |limit| parity::measure(&ground, setting, limit);
        session.part(&part::PARITY, compare);
        session.part(&part::CLOCK, |limit| clock::measure(setting, limit));
        session.part(&part::LATENCY, |limit| latency::measure(setting, limit));
        session.part(&part::SWEEPS, |limit| sweeps::measure(setting, limit));
        session.part(&part::SLICES, |limit| slices::measure(setting, limit));
        session.part(&part::RATES, |limit| rates::measure(setting, limit));
    }
    let status = i32::from(!session.end());
    // Giving the device back could wait for a kernel that does not end; the system does it as well.
    process::exit(status)
}
