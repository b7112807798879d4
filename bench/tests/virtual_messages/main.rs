//! Messages between two engines over a cable of soft NICs, both the PTX that ships on the virtual
//! GPU: every operation, at a few sizes.

#[path = "../messaging/ends.rs"]
#[expect(dead_code, reason = "the other tests of messages use the rest")]
mod ends;
#[path = "../messaging/suite.rs"]
#[expect(dead_code, reason = "the other tests of messages use the rest")]
mod suite;

use std::path::Path;
use std::sync::Arc;

use ends::{Mode, Plan};
use suite::run_on;
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::Backend;
use warpwire_protocols::rdma::{Attributes, Mtu};
use warpwire_virtual::{Module, VirtualGpu};

#[test]
fn messages_pass_between_two_virtual_gpus() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines/kernels/warpwire.ptx");
    let text = std::fs::read_to_string(path).expect("is committed");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    let gpu = Arc::new(VirtualGpu::new(module));
    let executor = CpuExecutor::builder()
        .backend(Backend::Virtual { seed: 3 })
        .program(gpu.clone());
    let attributes = Attributes {
        mtu: Mtu::M1024,
        // Such warps are slow.
        timeout: 19,
        ..Attributes::default()
    };
    let sizes = [0, 1, 4, attributes.mtu.bytes() + 1];
    let plan = Plan {
        attributes,
        ..Plan::new(Mode::Sliced)
    };
    run_on(&plan, executor, &sizes);
    let counts = gpu.counts();
    let kernel = &counts["transport_mlx5"];
    assert_eq!(kernel.warps, 2, "an engine at each end");
}
