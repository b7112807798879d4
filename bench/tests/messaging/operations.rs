//! Every operation, at sizes around the packets' bounds, with contents compared.

use std::time::Instant;

use warpwire_gpu::executor::Backend;
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Attributes, Mtu};

use crate::ends::{LARGE, Mode, Plan};
use crate::suite::run;

/// Frames of MTU 4096 arrive in several pieces.
const SMALL: &str = "mtu=9000,slot=9280,segments=5";

fn sizes(mtu: Mtu) -> [u32; 10] {
    let mtu = mtu.bytes();
    [
        0,
        1,
        3,
        4,
        mtu - 1,
        mtu,
        mtu + 1,
        4 * mtu + 5,
        65536,
        1 << 20,
    ]
}

fn at_every_size(mode: Mode) {
    for (mtu, options) in [
        (Mtu::M256, LARGE),
        (Mtu::M1024, LARGE),
        (Mtu::M4096, LARGE),
        (Mtu::M4096, SMALL),
    ] {
        let plan = Plan {
            options,
            attributes: Attributes {
                mtu,
                ..Attributes::default()
            },
            ..Plan::new(mode)
        };
        let started = Instant::now();
        run(&plan, &sizes(mtu));
        println!("{mode:?} {mtu:?} {options}: {:?}", started.elapsed());
    }
}

#[test]
fn every_operation_at_every_size_sliced() {
    at_every_size(Mode::Sliced);
}

#[test]
fn every_operation_at_every_size_fused() {
    at_every_size(Mode::Fused);
}

#[test]
fn every_operation_at_every_size_in_the_nic() {
    at_every_size(Mode::Nic);
}

#[test]
fn warps_of_32_lanes_do_the_same() {
    let plan = Plan {
        backend: Backend::Lockstep { seed: 7 },
        attributes: Attributes {
            // Such warps are slow.
            timeout: 19,
            ..Attributes::default()
        },
        ..Plan::new(Mode::Sliced)
    };
    run(&plan, &[0, 3, 1023, 1025, 4 * 1024 + 5]);
}

#[test]
fn losses_change_nothing_but_the_time() {
    for (mode, selective) in [
        (Mode::Sliced, false),
        (Mode::Crew, false),
        (Mode::Fused, false),
        (Mode::Sliced, true),
        (Mode::Crew, true),
        (Mode::Fused, true),
        (Mode::Nic, false),
    ] {
        let plan = Plan {
            attributes: Attributes {
                // Long enough for a machine that has other things to do.
                timeout: 11,
                selective,
                ..Attributes::default()
            },
            link: Impairments {
                loss_ppm: 10_000,
                duplicate_ppm: 10_000,
                reorder_ppm: 10_000,
                reorder_ns: 50_000,
                corrupt_ppm: 5_000,
                ..Impairments::default()
            },
            ..Plan::new(mode)
        };
        run(&plan, &sizes(Mtu::M1024));
    }
}
