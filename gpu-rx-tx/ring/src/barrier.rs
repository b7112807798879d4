//! Barriers named by purpose.
//!
//! An order is a pair: each use names its partner in a comment, `// pairs with: …`. The scope is a
//! property of the queue: [`Scope::Gpu`] when both ends run on one GPU, [`Scope::System`] when the
//! NIC, the host or a peer is the other end. On a CPU both are the same fence.
#![cfg_attr(
    target_arch = "nvptx64",
    expect(
        unsafe_code,
        reason = "fences of a chosen scope are assembly on the GPU"
    )
)]

/// How far an order reaches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Scope {
    /// Threads of the same GPU.
    Gpu = 1,
    /// The NIC, the host and other GPUs as well.
    #[default]
    System = 2,
}

/// Descriptors and payload are written: let them be seen before the index or doorbell record that
/// follows. The partner is the consumer's acquire of that index.
#[inline(always)]
pub fn before_publish(scope: Scope) {
    fence(scope);
}

/// The doorbell record is written: let it be seen before the doorbell that follows. The partner is
/// the NIC's read of the record after the doorbell.
#[inline(always)]
pub fn before_doorbell(scope: Scope) {
    fence(scope);
}

/// An owner bit, index or completion was read: what its writer wrote before is read after this.
#[inline(always)]
pub fn after_observe(scope: Scope) {
    fence(scope);
}

/// All reads of a lent slot are done: let them be over before the slot is given back.
#[inline(always)]
pub fn before_release(scope: Scope) {
    fence(scope);
}

#[inline(always)]
fn fence(scope: Scope) {
    #[cfg(target_arch = "nvptx64")]
    match scope {
        Scope::Gpu => {
            // SAFETY: a fence touches no memory.
            unsafe { core::arch::asm!("fence.acq_rel.gpu;") }
        }
        Scope::System => {
            // SAFETY: a fence touches no memory.
            unsafe { core::arch::asm!("fence.acq_rel.sys;") }
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        let _ = scope;
        core::sync::atomic::fence(core::sync::atomic::Ordering::AcqRel);
    }
}
