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

use ends::{LARGE, Mode, Plan};
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
    for (mtu, options) in [(Mtu::M1024, LARGE), (Mtu::M4096, SMALL)] {
        let executor = CpuExecutor::builder()
            .backend(Backend::Virtual { seed: 3 })
            .program(gpu.clone());
        let attributes = Attributes {
            mtu,
            // Such warps are slow.
            timeout: 19,
            ..Attributes::default()
        };
        let plan = Plan {
            attributes,
            options,
            ..Plan::new(Mode::Sliced)
        };
        let bytes = mtu.bytes();
        let sizes = [0, 1, 4, bytes - 1, bytes, bytes + 1, 4 * bytes + 5];
        run_on(&plan, executor, &sizes);
    }
    let counts = gpu.counts();
    let kernel = &counts["transport_mlx5"];
    assert_eq!(kernel.warps, 4, "an engine at each end, twice");
}

/// Frames of the largest MTU arrive in several pieces.
const SMALL: &str = "mtu=9000,slot=9280,segments=5";
