//! `warpwire bench`: figures against others, taken in one run.

mod error;
mod machine;
mod memif;
mod packets;
mod record;
mod rounds;
mod row;
mod setting;
mod soft;
mod testpmd;
mod wire;
mod xdp;

use super::{Failure, perftest};

/// Measure: against others in one interleaved run, or with perftest at the other end
#[derive(clap::Args)]
pub(super) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand)]
enum What {
    Packets(packets::Arguments),
    #[command(flatten)]
    Messages(perftest::Measure),
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Packets(arguments) => packets::run(arguments),
        What::Messages(measure) => perftest::run(measure),
    }
}
