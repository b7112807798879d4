//! Hashes of layouts: host and device compare them at attach and at launch.

/// Folds a size or an offset into a hash (FNV-1a over the value's bytes). Start with [`SEED`].
pub const fn fold(hash: u64, value: usize) -> u64 {
    let mut hash = hash;
    let mut rest = value as u64;
    let mut byte = 0;
    while byte < 8 {
        hash = (hash ^ (rest & 0xff)).wrapping_mul(0x0000_0100_0000_01b3);
        rest >>= 8;
        byte += 1;
    }
    hash
}

/// What an empty layout hashes to.
pub const SEED: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of a struct's size, alignment and the offsets of the named fields.
#[macro_export]
macro_rules! layout_hash {
    ($ty:ty { $($field:ident),* $(,)? }) => {{
        let mut hash = $crate::layout::fold($crate::layout::SEED, ::core::mem::size_of::<$ty>());
        hash = $crate::layout::fold(hash, ::core::mem::align_of::<$ty>());
        $( hash = $crate::layout::fold(hash, ::core::mem::offset_of!($ty, $field)); )*
        hash
    }};
}
