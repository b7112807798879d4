//! Tables as perftest prints them.

use std::net::Ipv6Addr;
use std::time::Duration;

use serde_json::json;
use warpwire_pipelines::connect::perftest::{Destination, Direction, Results, Tool};

use super::traffic::{MIB, Told};
use super::{Bench, Failure, Json, is_latency, say};

/// What is printed before and after the figures.
pub(super) struct Table {
    tool: Tool,
    lines: Vec<String>,
    gbits: bool,
    json: Json,
    records: Vec<serde_json::Value>,
}

const RULE: &str =
    "---------------------------------------------------------------------------------------";

impl Table {
    pub(super) fn new(
        bench: &Bench<'_>,
        own: &[Destination],
        theirs: &[Destination],
        json: Json,
    ) -> Self {
        let plan = bench.plan;
        let options = plan.options;
        let (by_cm, exchange) = match options.by_cm {
            true => ("ON", "rdma_cm"),
            false => ("OFF", "Ethernet"),
        };
        let title = title(plan.tool);
        let title = match plan.direction {
            Direction::One => title.to_owned(),
            Direction::Both => title.replacen(" BW", " Bidirectional BW", 1),
        };
        let service = format!("{:?}", plan.service).to_uppercase();
        let mut lines = vec![
            RULE.to_owned(),
            format!("                    {title}"),
            format!(" Device         : {}", bench.device.words()),
            format!(
                " Number of qps   : {}\t\tTransport type : RoCEv2",
                own.len()
            ),
            format!(" Connection type : {service}\t\tUsing SRQ      : OFF"),
            format!(" TX depth        : {}", options.tx_depth),
            format!(" Mtu             : {}[B]", bench.mtu.bytes()),
            " Link type       : Ethernet".to_owned(),
            format!(" rdma_cm QPs     : {by_cm}"),
            format!(" Data ex. method : {exchange}"),
            RULE.to_owned(),
        ];
        lines.extend(own.iter().flat_map(|one| address("local", one)));
        lines.extend(theirs.iter().flat_map(|one| address("remote", one)));
        lines.push(RULE.to_owned());
        Self {
            tool: plan.tool,
            lines,
            gbits: options.gbits,
            json,
            records: Vec::new(),
        }
    }

    pub(super) fn head(&self) -> Result<(), Failure> {
        for line in &self.lines {
            say(line)?;
        }
        if is_latency(self.tool) {
            say(format_args!(
                " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec] \
                 \x20 t_stdev[usec]   99% percentile[usec]   99.9% percentile[usec]"
            ))
        } else {
            let unit = if self.gbits { "Gb/sec" } else { "MiB/sec" };
            say(format_args!(
                " #bytes     #iterations    BW peak[{unit}]    BW average[{unit}]   MsgRate[Mpps]"
            ))
        }
    }

    /// A row; with both directions, what the peer measured is added.
    pub(super) fn row(&mut self, told: &Told, peer: Option<&Results>) -> Result<(), Failure> {
        let record = if is_latency(self.tool) {
            latency_row(told)?
        } else {
            self.bandwidth_row(told, peer)?
        };
        self.records.push(record);
        Ok(())
    }

    fn bandwidth_row(
        &self,
        told: &Told,
        peer: Option<&Results>,
    ) -> Result<serde_json::Value, Failure> {
        let unit = match self.gbits {
            true => 1e9 / 8.0,
            false => MIB,
        };
        let peer = peer.copied().unwrap_or_default();
        let peak = (told.peak_rate() + peer.peak * MIB) / unit;
        let rate = (told.rate() + peer.average * MIB) / unit;
        let messages = told.messages() / 1e6 + peer.message_rate;
        say(format_args!(
            " {:<10} {:<14} {peak:<18.2} {rate:<20.2} {messages:<.6}",
            told.size, told.iterations
        ))?;
        Ok(json!({
            "MsgSize": told.size, "n_iterations": told.iterations,
            "BW_peak": peak, "BW_average": rate, "MsgRate": messages,
        }))
    }

    /// The end, and the file.
    pub(super) fn end(self) -> Result<(), Failure> {
        say(RULE)?;
        let Some(record) = self.json else {
            return Ok(());
        };
        let value = match self.records.as_slice() {
            [one] => one.clone(),
            several => serde_json::Value::from(several.to_vec()),
        };
        record.write(&value)
    }
}

fn latency_row(told: &Told) -> Result<serde_json::Value, Failure> {
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
    say(format_args!(
        " {:<7} {:<14} {least:<14.2} {most:<14.2} {typical:<16.2} {average:<14.2} {deviation:<16.2}\
         \x20{p99:<22.2} {p999:<.2}",
        told.size, told.iterations
    ))?;
    Ok(json!({
        "MsgSize": told.size, "n_iterations": told.iterations,
        "t_min": least, "t_max": most, "t_typical": typical, "t_avg": average,
        "t_stdev": deviation, "percentile_99": p99, "percentile_99.9": p999,
    }))
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
