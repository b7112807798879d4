//! The CPU executor's table of kernels: one row for each entry point, no linker magic.

use warpwire_ring::DeviceAddress;

use crate::lockstep::Lockstep;
use crate::scalar::Scalar;

/// One kernel as the CPU executor runs it.
///
/// The functions get the address of the parameter block and return 0, or the number of the
/// [`warpwire_ring::Cause`] that ended them.
///
/// # Safety of a call
/// *The kernel's promise*: the address is that of a parameter block whose layout `layout` names;
/// the block and all memory that it points to stay live until the function returned or was unwound;
/// the promises of all queues, words and counters in it hold.
#[derive(Clone, Copy, Debug)]
pub struct KernelRow {
    /// The name of the entry point, as in the PTX.
    pub name: &'static str,
    /// Hash of the parameter block's layout, compared at launch.
    pub layout: u64,
    /// The kernel at width 1.
    pub scalar: for<'a> unsafe fn(&Scalar<'a>, DeviceAddress) -> u32,
    /// The kernel as one lane of 32.
    pub lockstep: for<'a> unsafe fn(&Lockstep<'a>, DeviceAddress) -> u32,
}

/// Bytes from a block's heartbeat to the word in which a kernel on a GPU leaves what it returns:
/// entry points return nothing there. The number of the [`warpwire_ring::Cause`] that ended the
/// block; untouched if none did.
pub const VERDICT_OFFSET: u64 = 64;
