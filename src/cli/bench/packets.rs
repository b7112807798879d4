//! `warpwire bench packets --against testpmd`: how fast 64-byte frames pass, us and others.

use super::comparison::{self, AFTER_HELP, Options};
use super::error::Error;
use super::row::{self, Need, Row, Sample, Side, Target, Unit};
use super::setting::{FRAME_BYTES, Setting};
use super::{memif, soft, wire, xdp};
use crate::cli::Failure;

/// Measure how fast 64-byte frames pass through kernels and NICs, against others in the same run
///
/// Sides take turns, round by round; figures are medians. Headers are parsed. At most two threads
/// spin.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(super) struct Arguments {
    /// Whom NICs are measured against
    #[arg(long)]
    against: Against,
    /// Rows to measure, all if absent: some of memif, xdp, soft, parse and icrc, or single ones
    /// such as memif-transmit
    #[arg(long, value_delimiter = ',', value_name = "ROW", value_parser = known_row)]
    rows: Vec<String>,
    #[command(flatten)]
    options: Options,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
enum Against {
    /// DPDK's testpmd, for NICs; rows without a NIC have a peer of their own
    Testpmd,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let Against::Testpmd = arguments.against;
    let chosen = row::choose(PACKETS, &arguments.rows).map_err(Failure::Bench)?;
    let mut record = comparison::begin("packets", "testpmd".to_owned(), &arguments.options);
    record.configuration.frame_bytes = Some(FRAME_BYTES);
    comparison::run(record, chosen, &arguments.options)
}

fn known_row(word: &str) -> Result<String, String> {
    row::choose(PACKETS, &[word.to_owned()]).map(|_| word.to_owned())
}

const XDP: &[Need] = &[Need::Root, Need::Testpmd, Need::TwoProcessors];
const MEMIF: &[Need] = &[Need::Testpmd, Need::TwoProcessors];

/// All rows of `bench packets`, in the order of the table.
pub(super) const PACKETS: &[Row] = &[
    Row {
        name: "memif-transmit",
        ours: "transmit kernel to testpmd rxonly",
        peer: "testpmd txonly to testpmd rxonly",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: MEMIF,
        measure: memif::transmit,
    },
    Row {
        name: "memif-round-trip",
        ours: "transmit kernel, testpmd macswap, receive_count kernel",
        peer: "testpmd flowgen, testpmd macswap, the same flowgen",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: MEMIF,
        measure: memif::round_trip,
    },
    Row {
        name: "memif-receive",
        ours: "transmit kernel to receive_count kernel",
        peer: "transmit kernel to testpmd rxonly",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: MEMIF,
        measure: memif::receive,
    },
    Row {
        name: "memif-swap",
        ours: "transmit and receive_count kernels around mac_swap kernel",
        peer: "transmit and receive_count kernels around testpmd macswap",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: MEMIF,
        measure: memif::swap,
    },
    Row {
        name: "xdp-receive",
        ours: "receive_count kernel on what the kernel generates",
        peer: "testpmd rxonly on net_af_xdp, the same generator",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.2),
        needs: XDP,
        measure: xdp::receive,
    },
    Row {
        name: "xdp-transmit",
        ours: "transmit kernel to Linux",
        peer: "testpmd txonly on net_af_xdp to Linux",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.15),
        needs: XDP,
        measure: xdp::transmit,
    },
    Row {
        name: "xdp-swap",
        ours: "mac_swap kernel between the generator in the kernel and Linux",
        peer: "testpmd macswap on net_af_xdp, the same generator and Linux",
        unit: Unit::Mpps,
        target: Target::AtLeast(1.1),
        needs: XDP,
        measure: xdp::swap,
    },
    Row {
        name: "soft",
        ours: "transmit and receive_count kernels around the device model",
        peer: "a bare ring between the processors, payload written and read",
        unit: Unit::Mpps,
        target: Target::Either {
            figure: 20.0,
            ratio: 1.0 / 3.0,
        },
        needs: &[Need::TwoProcessors],
        measure: soft::soft,
    },
    Row {
        name: "parse-mixed",
        ours: "fast path, eight kinds of frame mixed",
        peer: "etherparse SlicedPacket, the same frames",
        unit: Unit::Nanoseconds,
        target: Target::AtMost(0.5),
        needs: &[],
        measure: wire::parse_mixed,
    },
    Row {
        name: "parse-tag",
        ours: "slow path, one VLAN tag",
        peer: "etherparse SlicedPacket, the same frames",
        unit: Unit::Nanoseconds,
        target: Target::AtMost(0.5),
        needs: &[],
        measure: wire::parse_tag,
    },
    Row {
        name: "parse-ipv6-extensions",
        ours: "slow path, two IPv6 extension headers",
        peer: "etherparse SlicedPacket, the same frames",
        unit: Unit::Nanoseconds,
        target: Target::AtMost(0.5),
        needs: &[],
        measure: wire::parse_extensions,
    },
    icrc("icrc-device-64", DEVICE, wire::icrc_device::<64>),
    icrc("icrc-host-64", HOST, wire::icrc_host::<64>),
    icrc("icrc-device-256", DEVICE, wire::icrc_device::<256>),
    icrc("icrc-host-256", HOST, wire::icrc_host::<256>),
    icrc("icrc-device-1024", DEVICE, wire::icrc_device::<1024>),
    icrc("icrc-host-1024", HOST, wire::icrc_host::<1024>),
    icrc("icrc-device-4096", DEVICE, wire::icrc_device::<4096>),
    icrc("icrc-host-4096", HOST, wire::icrc_host::<4096>),
];

const DEVICE: &str = "invariant CRC by the arithmetic of device code";
const HOST: &str = "invariant CRC on the host";

const fn icrc(
    name: &'static str,
    ours: &'static str,
    measure: fn(&Setting, Side) -> Result<Sample, Error>,
) -> Row {
    Row {
        name,
        ours,
        peer: "crc32fast over as many bytes",
        unit: Unit::Nanoseconds,
        target: Target::None,
        needs: &[],
        measure,
    }
}
