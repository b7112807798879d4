//! Messages between two engines over a cable of soft NICs, on the CPU.

mod suite;

use std::time::Instant;

use suite::run;
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Backend, Builder};
use warpwire_nic::soft::Impairments;
use warpwire_protocols::rdma::{Attributes, Mtu};

fn on(backend: Backend) -> Builder {
    CpuExecutor::builder().backend(backend)
}

/// Sizes around the bounds of packets.
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

const LARGE: &str = "mtu=9000,slot=9088";
/// Frames of MTU 4096 arrive in several pieces.
const SMALL: &str = "mtu=9000,slot=9280,segments=5";

#[test]
fn every_operation_at_every_size() {
    for (mtu, options) in [
        (Mtu::M256, LARGE),
        (Mtu::M1024, LARGE),
        (Mtu::M4096, LARGE),
        (Mtu::M4096, SMALL),
    ] {
        let attributes = Attributes {
            mtu,
            ..Attributes::default()
        };
        let started = Instant::now();
        let executor = on(Backend::Scalar);
        run(
            executor,
            options,
            attributes,
            Impairments::default(),
            &sizes(mtu),
        );
        println!("{mtu:?} {options}: {:?}", started.elapsed());
    }
}

#[test]
fn warps_of_32_lanes_do_the_same() {
    let backend = Backend::Lockstep { seed: 7 };
    let attributes = Attributes {
        // Such warps are slow.
        timeout: 19,
        ..Attributes::default()
    };
    let sizes = sizes(attributes.mtu);
    run(
        on(backend),
        LARGE,
        attributes,
        Impairments::default(),
        &sizes,
    );
}

#[test]
fn losses_change_nothing_but_the_time() {
    let link = Impairments {
        loss_ppm: 10_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        reorder_ns: 50_000,
        corrupt_ppm: 5_000,
        ..Impairments::default()
    };
    let attributes = Attributes {
        timeout: 8,
        ..Attributes::default()
    };
    let sizes = sizes(attributes.mtu);
    run(on(Backend::Scalar), LARGE, attributes, link, &sizes);
}
