//! `warpwire-gpu-check`: on a machine with a GPU, what is right there and how fast it is.
//!
//! Exit status: 0 all is right, 1 a part failed, 2 wrong arguments, 3 there is no GPU to run on.

mod clock;
mod figures;
mod latency;
mod machine;
mod options;
mod part;
mod rates;
mod record;
mod rings;
mod scene;
mod setting;
mod slices;
mod sweeps;

use std::process::ExitCode;

use clap::Parser;

use options::Options;
use record::Session;
use setting::{Refusal, Setting};

fn main() -> ExitCode {
    let options = Options::parse();
    match check(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(refusal) => {
            eprintln!("{refusal}");
            ExitCode::from(refusal.status())
        }
    }
}

/// Runs every part, and writes what came of it. Whether all is right.
fn check(options: &Options) -> Result<bool, Refusal> {
    let ground = setting::Ground::find(options)?;
    let session = Session::begin(options, &ground);
    let mut setting = None;
    session.part(&part::LOAD, |_| {
        let (opened, found) = Setting::open(&ground)?;
        setting = Some(opened);
        Ok(found)
    });
    if let Some(setting) = &setting {
        session.part(&part::CLOCK, |limit| clock::measure(setting, limit));
        session.part(&part::LATENCY, |limit| latency::measure(setting, limit));
        session.part(&part::SWEEPS, |limit| sweeps::measure(setting, limit));
        session.part(&part::SLICES, |limit| slices::measure(setting, limit));
        session.part(&part::RATES, |limit| rates::measure(setting, limit));
    }
    Ok(session.end())
}
