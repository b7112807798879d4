//! Changing a field without summing the packet again. RFC 1624, equation 3: HC' = ~(~HC + ~m + m').

use super::internet::Sum;

/// The checksum after a 16-bit field changed from `old` to `new`.
#[inline(always)]
pub const fn patch16(checksum: u16, old: u16, new: u16) -> u16 {
    Sum::ZERO
        .add_field(!checksum)
        .add_field(!old)
        .add_field(new)
        .checksum()
}

/// The checksum after a 32-bit field changed from `old` to `new`.
#[inline(always)]
pub const fn patch32(checksum: u16, old: u32, new: u32) -> u16 {
    Sum::ZERO
        .add_field(!checksum)
        .add_field32(!old)
        .add_field32(new)
        .checksum()
}

/// The checksum after bytes at an even offset changed from `old` to `new`, which are equally long.
pub fn patch_bytes(checksum: u16, old: &[u8], new: &[u8]) -> u16 {
    // Subtracting a sum is adding its complement, which is its checksum.
    let removed = Sum::ZERO.add_field(Sum::of(old).checksum());
    removed.plus(Sum::of(new)).add_field(!checksum).checksum()
}

/// [`patch16`] for UDP: no checksum (zero) stays none, and a computed zero becomes 0xffff.
#[inline(always)]
pub const fn patch_udp16(checksum: u16, old: u16, new: u16) -> u16 {
    keep_absent(checksum, patch16(checksum, old, new))
}

/// [`patch32`] for UDP: no checksum (zero) stays none, and a computed zero becomes 0xffff.
#[inline(always)]
pub const fn patch_udp32(checksum: u16, old: u32, new: u32) -> u16 {
    keep_absent(checksum, patch32(checksum, old, new))
}

#[inline(always)]
const fn keep_absent(before: u16, after: u16) -> u16 {
    if before == 0 {
        0
    } else if after == 0 {
        0xffff
    } else {
        after
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_example_of_rfc_1624() {
        // Section 4: HC = 0xDD2F, m = 0x5555, m' = 0x3285 gives 0x0000.
        assert_eq!(patch16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn udp_without_checksum_stays_so() {
        assert_eq!(patch_udp16(0, 1, 2), 0);
        assert_eq!(patch_udp32(0, 1, 2), 0);
        assert_eq!(patch_udp16(0xdd2f, 0x5555, 0x3285), 0xffff);
    }

    proptest! {
        #[test]
        fn incremental_is_full(
            bytes in prop::collection::vec(any::<u8>(), 2..120),
            at in any::<prop::sample::Index>(),
            new in any::<[u8; 4]>(),
        ) {
            // A byte that is never zero: over zeros alone the two forms of zero differ.
            let mut bytes = [&[1, 1, 0, 0], &bytes[..], &[0; 4]].concat();
            let at = 4 + at.index(bytes.len() - 8) / 2 * 2;
            let before = bytes.clone();
            let old: [u8; 4] = bytes[at..at + 4].try_into().unwrap();
            let checksum = Sum::of(&before).checksum();

            bytes[at..at + 2].copy_from_slice(&new[..2]);
            let half = |bytes: [u8; 4]| u16::from_be_bytes([bytes[0], bytes[1]]);
            prop_assert_eq!(patch16(checksum, half(old), half(new)), Sum::of(&bytes).checksum());

            bytes[at..at + 4].copy_from_slice(&new);
            let (old32, new32) = (u32::from_be_bytes(old), u32::from_be_bytes(new));
            let full = Sum::of(&bytes).checksum();
            prop_assert_eq!(patch32(checksum, old32, new32), full);
            prop_assert_eq!(patch_bytes(checksum, &old, &new), full);
        }
    }
}
