//! Pieces of memory with a place and a key.

use crate::address::DeviceAddress;

/// Where the bytes of a region lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u32)]
pub enum Location {
    /// GPU memory.
    Device = 1,
    /// Host memory, pinned and mapped into the device.
    PinnedHost = 2,
    /// Ordinary host memory.
    #[default]
    PageableHost = 3,
}

impl Location {
    /// The location with this number, if there is one.
    #[inline(always)]
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Device),
            2 => Some(Self::PinnedHost),
            3 => Some(Self::PageableHost),
            _ => None,
        }
    }
}

/// A piece of memory: where it starts, how long it is, where it lies, and the key that opens it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Region {
    /// First byte.
    pub address: DeviceAddress,
    /// Bytes.
    pub length: u64,
    /// The NIC's local key (`lkey`), in host order; 0 where the NIC knows no keys.
    pub key: u32,
    /// Where the bytes lie.
    pub location: Location,
}

const _: () = assert!(size_of::<Region>() == 24);

impl Region {
    /// The address `offset` bytes in, if `length` bytes from there lie within the region.
    #[inline(always)]
    pub const fn at(&self, offset: u64, length: u64) -> Option<DeviceAddress> {
        if offset <= self.length && length <= self.length - offset {
            Some(self.address.offset(offset))
        } else {
            None
        }
    }

    /// Whether `length` bytes from `address` on lie within the region.
    #[inline(always)]
    pub const fn contains(&self, address: DeviceAddress, length: u64) -> bool {
        let offset = address.value().wrapping_sub(self.address.value());
        self.at(offset, length).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_come_back() {
        for location in [
            Location::Device,
            Location::PinnedHost,
            Location::PageableHost,
        ] {
            assert_eq!(Location::from_number(location as u32), Some(location));
        }
        assert_eq!(Location::from_number(0), None);
        assert_eq!(Location::from_number(4), None);
    }

    #[test]
    fn bounds_hold_at_the_edges() {
        let region = Region {
            address: DeviceAddress::new(100),
            length: 10,
            ..Region::default()
        };
        let cases = [
            (0, 10, Some(100)),
            (9, 1, Some(109)),
            (10, 0, Some(110)),
            (10, 1, None),
            (u64::MAX, 2, None),
            (1, u64::MAX, None),
        ];
        for (offset, length, want) in cases {
            let got = region.at(offset, length).map(DeviceAddress::value);
            assert_eq!(got, want, "offset {offset} length {length}");
        }
        assert!(!region.contains(DeviceAddress::new(99), 1));
        assert!(region.contains(DeviceAddress::new(109), 1));
    }
}
