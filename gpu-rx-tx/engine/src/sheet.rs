//! Memory in which the warps of a block leave each other values between two meetings.
#![expect(
    unsafe_code,
    reason = "reads and writes boards by the address that the host gave"
)]

use core::marker::PhantomData;

use warpwire_ring::DeviceAddress;

/// A field of a board, or a row of them.
pub(crate) struct Field<T> {
    offset: usize,
    rows: u32,
    of: PhantomData<T>,
}

impl<T> Field<T> {
    /// So many values from a byte of the board on, which [`core::mem::offset_of`] says.
    pub(crate) const fn new(offset: usize, rows: u32) -> Self {
        let of = PhantomData;
        Self { offset, rows, of }
    }
}

/// A warp's sight of a board.
#[derive(Clone, Copy)]
pub(crate) struct Sheet(DeviceAddress);

impl Sheet {
    /// `None` if there is no board there.
    ///
    /// # Safety
    /// *The engine's promise* for a board `B`, zeros at first, which a crew uses alone and through
    /// fields of `B` only.
    pub(crate) unsafe fn attach<B>(at: DeviceAddress) -> Option<Self> {
        let sound = !at.is_null() && at.is_aligned(align_of::<B>() as u64);
        sound.then_some(Self(at))
    }

    fn at<T>(self, field: &Field<T>, row: u32) -> *mut T {
        let row = row.min(field.rows - 1) as usize;
        let at = self.0.offset((field.offset + row * size_of::<T>()) as u64);
        at.value() as *mut T
    }

    pub(crate) fn get<T: Copy>(self, field: &Field<T>, row: u32) -> T {
        // SAFETY: within the board, where its writer left such a value in an earlier part of the
        // round, and nobody writes in this one.
        unsafe { self.at(field, row).read() }
    }

    pub(crate) fn set<T: Copy>(self, field: &Field<T>, row: u32, value: T) {
        // SAFETY: within the board; the row is this lane's alone until the block meets.
        unsafe { self.at(field, row).write(value) }
    }
}
