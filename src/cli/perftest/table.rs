//! Tables as perftest prints them.

use std::fs;
use std::net::Ipv6Addr;
use std::time::Duration;

use serde_json::json;
use warpwire_pipelines::connect::perftest::{Destination, Tool};
use warpwire_protocols::rdma::Mtu;

use super::traffic::{MIB, Told};
use super::{Bench, Failure, Options, is_latency};

/// What is printed before and after the figures.
pub(super) struct Table {
    tool: Tool,
    lines: Vec<String>,
    gbits: bool,
}

const RULE: &str =
    "---------------------------------------------------------------------------------------";

impl Table {
    pub(super) fn new(
        bench: &Bench<'_>,
        own: &[Destination],
        theirs: &[Destination],
        mtu: Mtu,
    ) -> Self {
        let options = bench.options;
        let mut lines = vec![
            RULE.to_owned(),
            format!("                    {}", title(bench.tool)),
            format!(" Device         : {}", bench.device.words()),
            format!(
                " Number of qps   : {}\t\tTransport type : RoCEv2",
                own.len()
            ),
            " Connection type : RC\t\tUsing SRQ      : OFF".to_owned(),
            format!(" TX depth        : {}", options.tx_depth),
            format!(" Mtu             : {}[B]", mtu.bytes()),
            " Link type       : Ethernet".to_owned(),
            " rdma_cm QPs     : OFF".to_owned(),
            " Data ex. method : Ethernet".to_owned(),
            RULE.to_owned(),
        ];
        lines.extend(own.iter().flat_map(|one| address("local", one)));
        lines.extend(theirs.iter().flat_map(|one| address("remote", one)));
        lines.push(RULE.to_owned());
        Self {
            tool: bench.tool,
            lines,
            gbits: options.gbits,
        }
    }

    pub(super) fn head(&self) {
        for line in &self.lines {
            println!("{line}");
        }
        if is_latency(self.tool) {
            println!(
                " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec] \
                 \x20 t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
            );
        } else {
            let unit = if self.gbits { "Gb/sec" } else { "MiB/sec" };
            println!(
                " #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]"
            );
        }
    }

    pub(super) fn row(&self, told: &Told, options: &Options) -> Result<(), Failure> {
        let record = if is_latency(self.tool) {
            latency_row(told)
        } else {
            self.bandwidth_row(told)
        };
        if let Some(path) = &options.json {
            let text = serde_json::to_string_pretty(&record).unwrap_or_default();
            fs::write(path, text + "\n").map_err(|source| Failure::File {
                path: path.clone(),
                source,
            })?;
        }
        Ok(())
    }

    fn bandwidth_row(&self, told: &Told) -> serde_json::Value {
        let rate = match self.gbits {
            true => told.rate() * 8.0 / 1e9,
            false => told.rate() / MIB,
        };
        let messages = told.messages() / 1e6;
        println!(
            " {:<10} {:<14} {rate:<18.2} {rate:<20.2} {messages:<.6}",
            told.size, told.iterations
        );
        json!({
            "MsgSize": told.size, "n_iterations": told.iterations,
            "BW_peak": rate, "BW_average": rate, "MsgRate": messages,
        })
    }

    pub(super) fn foot(&self) {
        println!("{RULE}");
    }
}

fn latency_row(told: &Told) -> serde_json::Value {
    let microseconds = |duration: &Duration| duration.as_secs_f64() * 1e6;
    let samples: Vec<f64> = told.samples.iter().map(microseconds).collect();
    let count = samples.len().max(1) as f64;
    let at = |share: f64| {
        let place = (samples.len() as f64 * share) as usize;
        let last = samples.len().saturating_sub(1);
        samples.get(place.min(last)).copied().unwrap_or(0.0)
    };
    let average = samples.iter().sum::<f64>() / count;
    let spread = samples
        .iter()
        .map(|one| (one - average).powi(2))
        .sum::<f64>()
        / count;
    let (least, most, typical) = (at(0.0), at(1.0), at(0.5));
    let (deviation, p99, p999) = (spread.sqrt(), at(0.99), at(0.999));
    println!(
        " {:<7} {:<14} {least:<14.2} {most:<14.2} {typical:<16.2} {average:<14.2} {deviation:<16.2}\
         \x20{p99:<22.2} {p999:<.2}",
        told.size, told.iterations
    );
    json!({
        "MsgSize": told.size, "n_iterations": told.iterations,
        "t_min": least, "t_max": most, "t_typical": typical, "t_avg": average,
        "t_stdev": deviation, "percentile_99": p99, "percentile_99.9": p999,
    })
}

fn address(which: &str, one: &Destination) -> [String; 2] {
    let (qp, psn) = (one.qp.value(), one.psn.value());
    let (rkey, address) = (one.rkey, one.address);
    [
        format!(
            " {which} address: LID 0000 QPN 0x{qp:04x} PSN 0x{psn:06x} RKey 0x{rkey:06x} VAddr \
             0x{address:012x}"
        ),
        format!(" GID: {}", Ipv6Addr::from(one.gid.0)),
    ]
}

const fn title(tool: Tool) -> &'static str {
    match tool {
        Tool::SendBandwidth => "Send BW Test",
        Tool::WriteBandwidth => "RDMA_Write BW Test",
        Tool::ReadBandwidth => "RDMA_Read BW Test",
        Tool::AtomicBandwidth => "Atomic BW Test",
        Tool::SendLatency => "Send Latency Test",
        Tool::WriteLatency => "RDMA_Write Latency Test",
        Tool::ReadLatency => "RDMA_Read Latency Test",
        Tool::AtomicLatency => "Atomic FETCH_AND_ADD Latency Test",
    }
}
