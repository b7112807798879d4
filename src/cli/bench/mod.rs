//! `warpwire bench`: figures against others, taken in one run.

mod comparison;
mod engine;
mod error;
mod libfabric;
mod machine;
mod memif;
mod messages;
mod ours;
mod packets;
mod record;
mod rounds;
mod row;
mod setting;
mod soft;
mod streams;
mod testpmd;
mod ucx;
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
    Messages(messages::Arguments),
    Streams(streams::Arguments),
    #[command(flatten)]
    Measure(perftest::Measure),
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Packets(arguments) => packets::run(arguments),
        What::Messages(arguments) => messages::run(arguments),
        What::Streams(arguments) => streams::run(arguments),
        What::Measure(measure) => perftest::run(measure),
    }
}
