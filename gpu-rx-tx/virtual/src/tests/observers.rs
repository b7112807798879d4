//! Observers see every access, fence and meeting, in order.

use std::sync::{Arc, Mutex};

use warpwire_device::Place;

use super::Bench;
use crate::memory::{Order, Scope};
use crate::module::Space;
use crate::observer::{AccessEvent, AccessKind, Observer, Watch};

/// Writes down what lane 3 does and what all do.
#[derive(Clone, Debug, Default)]
struct Scribe(Arc<Mutex<Vec<String>>>);

impl Scribe {
    fn note(&self, text: String) {
        self.0.lock().expect("nobody panicked").push(text);
    }
}

impl Watch for Scribe {
    type Observer = Self;

    fn observer(&self, _kernel: &str, _place: Place) -> Self {
        self.clone()
    }
}

impl Observer for Scribe {
    fn access(&mut self, access: &AccessEvent) {
        if access.lane == 3 {
            let AccessEvent {
                space,
                bytes,
                kind,
                order,
                scope,
                ..
            } = access;
            self.note(format!("{kind:?} {space:?} {bytes} {order:?} {scope:?}"));
            assert!(*space != Space::Local || access.address < 64, "{access:?}");
            assert!(
                *kind != AccessKind::Atomic || access.line > 12,
                "{access:?}"
            );
        }
    }

    fn fence(&mut self, lanes: u32, _line: u32, order: Order, scope: Scope) {
        self.note(format!("fence {lanes:#x} {order:?} {scope:?}"));
    }

    fn met(&mut self, lanes: u32, _line: u32) {
        self.note(format!("met {lanes:#x}"));
    }

    fn arrived(&mut self, _line: u32) {
        self.note("arrived".to_owned());
    }

    fn passed(&mut self) {
        self.note("passed".to_owned());
    }
}

#[test]
fn observers_are_told_everything_in_order() {
    let bench = Bench::body(
        ".local .align 8 .b8 depot[8]; mov.b64 %rd1, depot; st.local.b32 [%rd1+4], 1;\n\
         ld.global.v2.b32 {%r1, %r2}, [%rd31];\n\
         atom.add.acq_rel.gpu.global.u32 %r3, [%rd31], 1;\n\
         fence.acq_rel.sys; bar.warp.sync -1; bar.sync 0;\n\
         st.release.sys.global.b64 [%rd31], %rd1; st.mmio.relaxed.sys.global.u64 [%rd31], %rd1;",
    );
    let scribe = Scribe::default();
    bench
        .run_watched(&scribe)
        .unwrap_or_else(|fault| panic!("{fault}"));
    let expected = [
        // The parameter.
        "Load Param 8 Weak Gpu",
        "Store Local 4 Weak Gpu",
        "Load Global 4 Weak Gpu",
        "Load Global 4 Weak Gpu",
        "Atomic Global 4 AcquireRelease Gpu",
        "fence 0xffffffff AcquireRelease Sys",
        "met 0xffffffff",
        "arrived",
        "passed",
        "Store Global 8 Release Sys",
        "Store Global 8 Mmio Sys",
    ];
    assert_eq!(*scribe.0.lock().expect("nobody panicked"), expected);
}
