//! Messages between two ends over a cable of soft NICs, with the PTX that ships on the virtual GPU:
//! every operation, at a few sizes, by engines of one warp and of several; and the script of every
//! verb, carried out beside the engine and in one warp with it.

#[path = "../messaging/ends.rs"]
#[expect(dead_code, reason = "the other tests of messages use the rest")]
mod ends;
#[path = "../messaging/script.rs"]
mod script;
#[path = "../messaging/suite.rs"]
#[expect(dead_code, reason = "the other tests of messages use the rest")]
mod suite;

use std::path::Path;
use std::sync::Arc;

use ends::{LARGE, Mode, Plan};
use script::{carry_out, carry_out_on};
use suite::run_on;
use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Backend, Builder};
use warpwire_protocols::rdma::{Attributes, Mtu};
use warpwire_virtual::{Module, VirtualGpu};

fn gpu() -> Arc<VirtualGpu> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../pipelines/kernels/warpwire.ptx");
    let text = std::fs::read_to_string(path).expect("is committed");
    let module = Module::parse(&text).unwrap_or_else(|error| panic!("{error}"));
    Arc::new(VirtualGpu::new(module))
}

fn executor(gpu: &Arc<VirtualGpu>) -> Builder {
    let builder = CpuExecutor::builder().backend(Backend::Virtual { seed: 3 });
    builder.program(gpu.clone())
}

#[test]
fn messages_pass_between_two_virtual_gpus() {
    for (mode, mtu, options, warps) in [
        (Mode::Sliced, Mtu::M1024, LARGE, 1),
        (Mode::Sliced, Mtu::M4096, SMALL, 1),
        (Mode::Crew, Mtu::M1024, LARGE, 4),
    ] {
        let gpu = gpu();
        let attributes = Attributes {
            mtu,
            // Such warps are slow.
            timeout: 19,
            ..Attributes::default()
        };
        let plan = Plan {
            attributes,
            options,
            ..Plan::new(mode)
        };
        let bytes = mtu.bytes();
        let sizes = [0, 1, 4, bytes - 1, bytes, bytes + 1, 4 * bytes + 5];
        run_on(&plan, executor(&gpu), &sizes);
        let kernel = &gpu.counts()["transport_mlx5"];
        assert_eq!(kernel.warps, 2 * warps, "an engine at each end");
    }
}

#[test]
fn scripts_are_carried_out_beside_a_virtual_gpu_s_engine_and_with_it() {
    let wanted = carry_out(Mode::Fused, Backend::Scalar);
    for (mode, kernels) in [
        (Mode::Fused, &[("perform_mlx5", 1)][..]),
        (Mode::Sliced, &[("perform", 1), ("transport_mlx5", 2)]),
        (Mode::Crew, &[("perform", 1), ("transport_mlx5", 8)]),
    ] {
        let gpu = gpu();
        assert!(
            carry_out_on(mode, executor(&gpu)) == wanted,
            "{mode:?} differs"
        );
        let counts = gpu.counts();
        let ran: Vec<_> = counts
            .iter()
            .map(|(name, kernel)| (*name, kernel.warps))
            .collect();
        assert_eq!(ran, kernels);
    }
}

/// Frames of the largest MTU arrive in several pieces.
const SMALL: &str = "mtu=9000,slot=9280,segments=5";
