//! The program that pipeline kernels are counted with, and the frame.

use std::net::Ipv4Addr;

use warpwire::pipelines::{Kit, PipelineFile};
use warpwire_core::block::{
    Block, BlockCounters, Parameters as _, PipelineParameters, Port, PortCounters, Steering,
};
use warpwire_core::program::{ARGS_BYTES, MAX_NICS, Op, Program};
use warpwire_core::spec::Span;
use warpwire_core::stage::StageSet;
use warpwire_core::stages::BuiltIn;
use warpwire_ring::DeviceAddress;

use crate::stage::Stage;
use crate::wires::Wire;

/// A router that answers its caller: every stage works on every frame.
pub(super) const PROGRAM: &str = r#"
[nic.wire]
open = "soft"
[[receive]]
from = "wire"
[[receive.stage]]
do = "classify"
[[receive.stage]]
do = "filter"
deny = [{ source = "192.0.2.0/24" }, { kind = "udp", destination_port = 53 }]
[[receive.stage]]
do = "rewrite"
swap_macs = true
decrement_ttl = true
[[receive.stage]]
do = "reply"
"#;

/// UDP over IPv4 in so many bytes.
pub(super) fn frame(length: u32) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x08, 0x00]);
    let total = (length - 14) as u16;
    let mut header = [0u8; 20];
    header[..2].copy_from_slice(&[0x45, 0]);
    header[2..4].copy_from_slice(&total.to_be_bytes());
    header[8..10].copy_from_slice(&[64, 17]);
    header[12..16].copy_from_slice(&Ipv4Addr::new(198, 18, 0, 1).octets());
    header[16..20].copy_from_slice(&Ipv4Addr::new(198, 18, 0, 2).octets());
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    frame.extend(header);
    // Without a checksum, which UDP over IPv4 may leave out.
    for word in [4000, 5000, total - 20, 0] {
        frame.extend(u16::to_be_bytes(word));
    }
    frame.resize(length as usize, 0x5a);
    frame
}

fn checksum(header: &[u8; 20]) -> u16 {
    let words = header.as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Puts the program and its counters beside the queues of a wire.
pub(super) fn lay_out(stage: &Stage, wire: &impl Wire) -> Result<PipelineParameters, String> {
    let file = PipelineFile::parse("counted.toml", PROGRAM, Kit::built_in().catalogue());
    let file = file.map_err(|problems| problems.to_string())?;
    let receive = file.receives.first().ok_or("it receives nothing")?;
    let op = |entry: &warpwire::pipelines::file::StageEntry| {
        let count = entry.spec.counter_entries();
        let mut args = [0; ARGS_BYTES / 8];
        for (word, bytes) in args.iter_mut().zip(entry.args.as_chunks::<8>().0) {
            *word = u64::from_ne_bytes(*bytes);
        }
        Op {
            kind: entry.kind,
            counter_count: count,
            when: entry.when,
            counters: stage.cut(count as usize * 8),
            samples: DeviceAddress::NULL,
            args,
        }
    };
    let ops: Vec<Op> = receive.stages.iter().map(op).collect();
    let port = Port {
        receive: wire.rx_block(),
        transmit: wire.tx_block(),
        program: Program {
            ops: stage.place_all(&ops),
            rules: stage.place_all(&receive.rules),
            addresses: stage.place_all(&receive.addresses),
            op_count: ops.len() as u32,
            rule_count: receive.rules.len() as u32,
            address_count: receive.addresses.len() as u32,
            reserved: 0,
        },
        counters: stage.cut(size_of::<PortCounters>()),
        mac: [2, 0, 0, 0, 0, 1],
        flags: 0,
        nic: 0,
        queue: 0,
    };
    let block = Block {
        ports: stage.place(port),
        counters: stage.cut(size_of::<BlockCounters>()),
        near: 1,
        far: 0,
        outputs: [Span { first: 0, count: 1 }; MAX_NICS],
    };
    Ok(PipelineParameters {
        header: PipelineParameters::HEADER,
        steering: Steering::default(),
        stages: BuiltIn::LAYOUT,
        blocks: stage.place(block),
        block_count: 1,
        reserved: 0,
    })
}
