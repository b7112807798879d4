//! Oracles over arbitrary bytes: each is a fuzz target, and a test over its corpus.
//!
//! Invariant: an oracle takes any bytes; it panics on a finding and never otherwise.
//! Invariant: an oracle is a function of its bytes alone: no clock, no randomness, no file, and no
//! state that outlives the call.
//! Invariant: an oracle ends soon, whatever the bytes: every loop in it has a bound.

pub mod capture;
mod choices;
pub mod headers;
pub mod http;
pub mod job;
pub mod parser;
pub mod pipeline;
pub mod queues;
pub mod rdma;
pub mod tcp;

/// An oracle and its name, which is that of its folder in `corpus/` too.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// The name.
    pub name: &'static str,
    /// Panics on a finding.
    pub check: fn(&[u8]),
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "parser",
        check: parser::check,
    },
    Target {
        name: "headers",
        check: headers::check,
    },
    Target {
        name: "capture",
        check: capture::check,
    },
    Target {
        name: "memif-messages",
        check: warpwire_nic::memif::oracle::check,
    },
    Target {
        name: "pipeline",
        check: pipeline::check,
    },
    Target {
        name: "stages",
        check: queues::stages::check,
    },
    Target {
        name: "mlx5-device",
        check: queues::device::check,
    },
    Target {
        name: "rdma-responder",
        check: rdma::responder,
    },
    Target {
        name: "rdma-requester",
        check: rdma::requester,
    },
    Target {
        name: "http",
        check: http::check,
    },
    Target {
        name: "tcp",
        check: tcp::check,
    },
    Target {
        name: "ring-receive",
        check: queues::receive,
    },
    Target {
        name: "ring-transmit",
        check: queues::transmit,
    },
    Target {
        name: "ring-hostile",
        check: queues::hostile,
    },
];
