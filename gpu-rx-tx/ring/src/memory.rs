//! Raw access to memory that the NIC, the host or another warp may touch at the same time.
//!
//! Everything that turns a [`DeviceAddress`] into an access stands here: volatile and atomic loads
//! and stores, copies, and read-modify-write atomics with an explicit order and scope. On the GPU
//! these are `ld`/`st` in the generic space; read-modify-write goes through assembly because the
//! compiler drops order and scope of the portable form.
//!
//! Every function is unsafe with the same contract, called *the queue's promise* elsewhere: the
//! bytes lie in live memory that was given to the queue at set-up, and the address is a multiple of
//! the access's size.
#![expect(unsafe_code, reason = "the one place where addresses become accesses")]

mod sum;

use core::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::address::DeviceAddress;
pub use sum::sum;

/// 16 bytes as four native words: the unit of aligned header loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C, align(16))]
pub struct Quad(pub [u32; 4]);

macro_rules! plain_access {
    ($load:ident, $store:ident, $acquire:ident, $release:ident, $ty:ty, $atomic:ty) => {
        /// A relaxed load: never torn, ordered with nothing.
        ///
        /// # Safety
        /// The queue's promise, see the module's text.
        #[inline(always)]
        pub unsafe fn $load(address: DeviceAddress) -> $ty {
            // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
            let cell = unsafe { <$atomic>::from_ptr(address.value() as *mut $ty) };
            cell.load(Ordering::Relaxed)
        }

        /// A relaxed store: never torn, ordered with nothing.
        ///
        /// # Safety
        /// The queue's promise, see the module's text.
        #[inline(always)]
        pub unsafe fn $store(address: DeviceAddress, value: $ty) {
            // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
            let cell = unsafe { <$atomic>::from_ptr(address.value() as *mut $ty) };
            cell.store(value, Ordering::Relaxed);
        }

        /// An acquire load: what the writer did before its release store is seen after it.
        ///
        /// # Safety
        /// The queue's promise, see the module's text.
        #[inline(always)]
        pub unsafe fn $acquire(address: DeviceAddress) -> $ty {
            // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
            let cell = unsafe { <$atomic>::from_ptr(address.value() as *mut $ty) };
            cell.load(Ordering::Acquire)
        }

        /// A release store: what was done before it is seen by whoever acquires the value.
        ///
        /// # Safety
        /// The queue's promise, see the module's text.
        #[inline(always)]
        pub unsafe fn $release(address: DeviceAddress, value: $ty) {
            // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
            let cell = unsafe { <$atomic>::from_ptr(address.value() as *mut $ty) };
            cell.store(value, Ordering::Release);
        }
    };
}

plain_access!(
    load_u8,
    store_u8,
    load_acquire_u8,
    store_release_u8,
    u8,
    AtomicU8
);
plain_access!(
    load_u16,
    store_u16,
    load_acquire_u16,
    store_release_u16,
    u16,
    AtomicU16
);
plain_access!(
    load_u32,
    store_u32,
    load_acquire_u32,
    store_release_u32,
    u32,
    AtomicU32
);
plain_access!(
    load_u64,
    store_u64,
    load_acquire_u64,
    store_release_u64,
    u64,
    AtomicU64
);

/// Loads 16 aligned bytes, by one access or not at all. May tear against a concurrent writer: only
/// for bytes whose turn it is ours.
///
/// # Safety
/// The queue's promise, and no other agent writes the bytes until the lease or slot ends.
#[inline(always)]
pub unsafe fn load_quad(address: DeviceAddress) -> Quad {
    #[cfg(target_arch = "nvptx64")]
    {
        // A plain load would be split into one for each word that is used.
        let (a, b, c, d): (u32, u32, u32, u32);
        // SAFETY: live, 16-byte aligned memory by the caller's promise; the instruction changes
        // nothing.
        unsafe {
            core::arch::asm!(
                "ld.v4.b32 {{{a}, {b}, {c}, {d}}}, [{address}];",
                a = out(reg32) a, b = out(reg32) b, c = out(reg32) c, d = out(reg32) d,
                address = in(reg64) address.value(),
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        Quad([a, b, c, d])
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: live, 16-byte aligned and unshared for now, by the caller's promise.
        unsafe { core::ptr::read(address.value() as *const Quad) }
    }
}

/// [`load_quad`], as two numbers of 64 bits.
///
/// # Safety
/// As [`load_quad`].
#[inline(always)]
pub unsafe fn load_pair(address: DeviceAddress) -> [u64; 2] {
    #[cfg(target_arch = "nvptx64")]
    {
        let (low, high): (u64, u64);
        // SAFETY: as in `load_quad`.
        unsafe {
            core::arch::asm!(
                "ld.v2.b64 {{{low}, {high}}}, [{address}];",
                low = out(reg64) low, high = out(reg64) high, address = in(reg64) address.value(),
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        [low, high]
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: passed on.
        let Quad([a, b, c, d]) = unsafe { load_quad(address) };
        let pair = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        [pair(a, b), pair(c, d)]
    }
}

/// Stores 16 aligned bytes.
///
/// # Safety
/// The queue's promise, and no other agent reads or writes the bytes until they are published.
#[inline(always)]
pub unsafe fn store_quad(address: DeviceAddress, value: Quad) {
    // SAFETY: live, 16-byte aligned and unshared for now, by the caller's promise.
    unsafe { core::ptr::write(address.value() as *mut Quad, value) }
}

/// Asks for the cache line at `address` to be fetched while other work is done. A hint: any address
/// is allowed, and none is accessed. Does nothing on the GPU.
#[inline(always)]
pub fn prefetch(address: DeviceAddress) {
    #[cfg(target_arch = "x86_64")]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch never faults, whatever the address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.value() as *const i8) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Like [`prefetch`], for a line that is about to be written: other caches give up their copy
/// early.
#[inline(always)]
pub fn prefetch_write(address: DeviceAddress) {
    #[cfg(target_arch = "x86_64")]
    {
        // The portable hint falls back to one for reading where the target's baseline lacks this
        // instruction; processors that do not know it take it for a no-op.
        // SAFETY: a prefetch never faults and changes no memory and no register.
        unsafe {
            core::arch::asm!(
                "prefetchw [{address}]",
                address = in(reg) address.value(),
                options(nostack, preserves_flags, readonly),
            );
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Copies `length` bytes between two pieces of memory that do not overlap.
///
/// # Safety
/// The queue's promise for both pieces, and both are unshared for the length of the call.
#[inline(always)]
pub unsafe fn copy(from: DeviceAddress, to: DeviceAddress, length: u32) {
    let (from, to) = (from.value() as *const u8, to.value() as *mut u8);
    // SAFETY: both live, unshared and apart, by the caller's promise.
    unsafe { core::ptr::copy_nonoverlapping(from, to, length as usize) }
}

/// Copies bytes out of shared memory into a local buffer.
///
/// # Safety
/// The queue's promise for `into.len()` bytes at `from`, unshared for the length of the call.
#[inline(always)]
pub unsafe fn copy_out(from: DeviceAddress, into: &mut [u8]) {
    let from = from.value() as *const u8;
    // SAFETY: the source is live by the caller's promise, the destination by its reference.
    unsafe { core::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len()) }
}

/// Copies bytes from a local buffer into shared memory.
///
/// # Safety
/// The queue's promise for `bytes.len()` bytes at `to`, unshared for the length of the call.
#[inline(always)]
pub unsafe fn copy_in(bytes: &[u8], to: DeviceAddress) {
    let to = to.value() as *mut u8;
    // SAFETY: the destination is live by the caller's promise, the source by its reference.
    unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) }
}

/// Adds to a counter that other warps add to as well: relaxed order, scope of the GPU. Returns the
/// old value.
///
/// # Safety
/// The queue's promise, see the module's text.
#[inline(always)]
pub unsafe fn fetch_add_u64(address: DeviceAddress, value: u64) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let old: u64;
        // SAFETY: live, aligned memory by the caller's promise; the instruction touches nothing
        // else.
        unsafe {
            core::arch::asm!(
                "atom.add.relaxed.gpu.u64 {old}, [{address}], {value};",
                old = out(reg64) old, address = in(reg64) address.value(), value = in(reg64) value,
            );
        }
        old
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
        let cell = unsafe { AtomicU64::from_ptr(address.value() as *mut u64) };
        cell.fetch_add(value, Ordering::Relaxed)
    }
}

/// Carries out a peer's addition on a word that anybody may use: acquire and release order, scope
/// of the system. Returns the old value.
///
/// # Safety
/// The queue's promise, see the module's text.
#[inline(always)]
pub unsafe fn remote_add_u64(address: DeviceAddress, value: u64) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let old: u64;
        // SAFETY: live, aligned memory by the caller's promise; the instruction touches nothing
        // else.
        unsafe {
            core::arch::asm!(
                "atom.add.acq_rel.sys.u64 {old}, [{address}], {value};",
                old = out(reg64) old, address = in(reg64) address.value(), value = in(reg64) value,
            );
        }
        old
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
        let cell = unsafe { AtomicU64::from_ptr(address.value() as *mut u64) };
        cell.fetch_add(value, Ordering::AcqRel)
    }
}

/// Carries out a peer's replacement of a word by `value` if it holds `compare`: acquire and release
/// order, scope of the system. Returns the old value.
///
/// # Safety
/// The queue's promise, see the module's text.
#[inline(always)]
pub unsafe fn remote_compare_swap_u64(address: DeviceAddress, compare: u64, value: u64) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let old: u64;
        // SAFETY: live, aligned memory by the caller's promise; the instruction touches nothing
        // else.
        unsafe {
            core::arch::asm!(
                "atom.cas.acq_rel.sys.b64 {old}, [{address}], {compare}, {value};",
                old = out(reg64) old, address = in(reg64) address.value(),
                compare = in(reg64) compare, value = in(reg64) value,
            );
        }
        old
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
        let cell = unsafe { AtomicU64::from_ptr(address.value() as *mut u64) };
        let outcome = cell.compare_exchange(compare, value, Ordering::AcqRel, Ordering::Acquire);
        outcome.unwrap_or_else(|old| old)
    }
}

/// Sets bits in a word that anybody may use: acquire and release order, scope of the system.
/// Returns the old value.
///
/// # Safety
/// The queue's promise, see the module's text.
#[inline(always)]
pub unsafe fn remote_or_u64(address: DeviceAddress, value: u64) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let old: u64;
        // SAFETY: live, aligned memory by the caller's promise; the instruction touches nothing
        // else.
        unsafe {
            core::arch::asm!(
                "atom.or.acq_rel.sys.b64 {old}, [{address}], {value};",
                old = out(reg64) old, address = in(reg64) address.value(), value = in(reg64) value,
            );
        }
        old
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
        let cell = unsafe { AtomicU64::from_ptr(address.value() as *mut u64) };
        cell.fetch_or(value, Ordering::AcqRel)
    }
}

/// Replaces a word that anybody may use: acquire and release order, scope of the system. Returns
/// the old value.
///
/// # Safety
/// The queue's promise, see the module's text.
#[inline(always)]
pub unsafe fn remote_swap_u64(address: DeviceAddress, value: u64) -> u64 {
    #[cfg(target_arch = "nvptx64")]
    {
        let old: u64;
        // SAFETY: live, aligned memory by the caller's promise; the instruction touches nothing
        // else.
        unsafe {
            core::arch::asm!(
                "atom.exch.acq_rel.sys.b64 {old}, [{address}], {value};",
                old = out(reg64) old, address = in(reg64) address.value(), value = in(reg64) value,
            );
        }
        old
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
        let cell = unsafe { AtomicU64::from_ptr(address.value() as *mut u64) };
        cell.swap(value, Ordering::AcqRel)
    }
}

/// Sets bits in a word that other warps set bits in as well: release order, scope of the GPU.
/// Returns the old value.
///
/// # Safety
/// The queue's promise, see the module's text.
#[inline(always)]
pub unsafe fn fetch_or_u32(address: DeviceAddress, value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let old: u32;
        // SAFETY: live, aligned memory by the caller's promise; the instruction touches nothing
        // else.
        unsafe {
            core::arch::asm!(
                "atom.or.acq_rel.gpu.b32 {old}, [{address}], {value};",
                old = out(reg32) old, address = in(reg64) address.value(), value = in(reg32) value,
            );
        }
        old
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
        let cell = unsafe { AtomicU32::from_ptr(address.value() as *mut u32) };
        cell.fetch_or(value, Ordering::AcqRel)
    }
}

/// Clears bits, the partner of [`fetch_or_u32`]. Returns the old value.
///
/// # Safety
/// The queue's promise, see the module's text.
#[inline(always)]
pub unsafe fn fetch_and_u32(address: DeviceAddress, value: u32) -> u32 {
    #[cfg(target_arch = "nvptx64")]
    {
        let old: u32;
        // SAFETY: live, aligned memory by the caller's promise; the instruction touches nothing
        // else.
        unsafe {
            core::arch::asm!(
                "atom.and.acq_rel.gpu.b32 {old}, [{address}], {value};",
                old = out(reg32) old, address = in(reg64) address.value(), value = in(reg32) value,
            );
        }
        old
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: the caller promises live, aligned memory; all sharing is through atomics.
        let cell = unsafe { AtomicU32::from_ptr(address.value() as *mut u32) };
        cell.fetch_and(value, Ordering::AcqRel)
    }
}

/// Writes a doorbell: one 64-bit store that reaches the NIC as one transaction.
///
/// # Safety
/// The address is a doorbell register of the queue, or the word that stands for it.
#[inline(always)]
pub unsafe fn store_mmio_u64(address: DeviceAddress, value: u64) {
    #[cfg(target_arch = "nvptx64")]
    {
        // SAFETY: a mapped doorbell by the caller's promise.
        unsafe {
            core::arch::asm!(
                "st.mmio.relaxed.sys.global.u64 [{address}], {value};",
                address = in(reg64) address.value(), value = in(reg64) value,
            );
        }
    }
    #[cfg(not(target_arch = "nvptx64"))]
    {
        // SAFETY: a mapped doorbell, or an aligned word of live memory, by the caller's promise.
        let cell = unsafe { AtomicU64::from_ptr(address.value() as *mut u64) };
        cell.store(value, Ordering::Relaxed);
    }
}
