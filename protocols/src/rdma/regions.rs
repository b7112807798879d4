//! Regions of memory: keys, rights and bounds. Nothing is read or written for a peer that was not
//! found here first.

use super::attributes::Access;

/// A registered region.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Region {
    /// First byte, as keys' users name it.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The key: above 8 bits of generation, which change each time that a place of the table is
    /// used, the region's place, and above that chance. 0 is no key.
    pub key: u32,
    /// The protection domain.
    pub domain: u32,
    /// What may be done.
    pub access: Access,
    /// Whether a peer may take the key away.
    pub may_invalidate: u32,
}

/// Why memory may not be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Denial {
    /// No such key.
    Key,
    /// A key of another domain.
    Domain,
    /// Not all bytes lie in the region.
    Bounds,
    /// The region does not allow it.
    Rights,
}

impl Region {
    /// Whether `length` bytes from `address` on may be used so.
    ///
    /// # Errors
    /// Why not.
    pub const fn check(&self, wanted: &Wanted, address: u64, length: u32) -> Result<(), Denial> {
        if self.key == 0 || self.key != wanted.key {
            return Err(Denial::Key);
        }
        if self.domain != wanted.domain {
            return Err(Denial::Domain);
        }
        if !self.access.contains(wanted.access) {
            return Err(Denial::Rights);
        }
        let Some(offset) = address.checked_sub(self.address) else {
            return Err(Denial::Bounds);
        };
        match self.length.checked_sub(offset) {
            Some(left) if left >= length as u64 => Ok(()),
            _ => Err(Denial::Bounds),
        }
    }
}

impl Region {
    /// Whether a peer of a queue pair of `domain` may take the key away.
    ///
    /// # Errors
    /// Why not.
    pub const fn check_invalidation(&self, key: u32, domain: u32) -> Result<(), Denial> {
        if self.key == 0 || self.key != key {
            Err(Denial::Key)
        } else if self.domain != domain {
            Err(Denial::Domain)
        } else if self.may_invalidate == 0 {
            Err(Denial::Rights)
        } else {
            Ok(())
        }
    }
}

/// What somebody wants of a region.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The key that was named.
    pub key: u32,
    /// The domain of who wants it.
    pub domain: u32,
    /// What for.
    pub access: Access,
}

/// The regions that a key can name.
pub trait Regions {
    /// The region at the place that a key names; it may have another generation.
    fn region(&self, key: u32) -> Option<Region>;

    /// Whether memory may be used so, now.
    ///
    /// # Errors
    /// Why not.
    fn check(&self, wanted: &Wanted, address: u64, length: u32) -> Result<(), Denial> {
        match self.region(wanted.key) {
            Some(region) => region.check(wanted, address, length),
            None => Err(Denial::Key),
        }
    }

    /// Takes a key away, for everybody: whoever names it from now on is refused. Its region stays
    /// registered, without a key, until its owner releases it.
    fn remove(&mut self, key: u32);

    /// Takes a key away for a peer of a queue pair of `domain`, if it may.
    ///
    /// # Errors
    /// Why not.
    fn invalidate(&mut self, key: u32, domain: u32) -> Result<(), Denial> {
        let region = self.region(key).ok_or(Denial::Key)?;
        region.check_invalidation(key, domain)?;
        self.remove(key);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(Region);

    impl Regions for One {
        fn region(&self, key: u32) -> Option<Region> {
            (key >> 8 == self.0.key >> 8).then_some(self.0)
        }

        fn remove(&mut self, _: u32) {
            self.0.key = 0;
        }
    }

    #[test]
    fn keys_that_peers_may_take_away() {
        let good = Region {
            address: 0x1000,
            length: 0x100,
            key: 0x0705,
            domain: 3,
            access: Access::ALL,
            may_invalidate: 1,
        };
        let kept = Region {
            may_invalidate: 0,
            ..good
        };
        let cases = [
            (good, 0x0705, 3, Ok(())),
            (good, 0x0704, 3, Err(Denial::Key)),
            (good, 0x0805, 3, Err(Denial::Key)),
            (good, 0, 3, Err(Denial::Key)),
            (good, 0x0705, 4, Err(Denial::Domain)),
            (kept, 0x0705, 3, Err(Denial::Rights)),
        ];
        for (region, key, domain, want) in cases {
            let mut regions = One(region);
            assert_eq!(regions.invalidate(key, domain), want, "{key:#x} {domain}");
            let wanted = Wanted {
                key: 0x0705,
                domain: 3,
                access: Access::REMOTE_READ,
            };
            let usable = regions.check(&wanted, 0x1000, 1);
            assert_eq!(usable.is_ok(), want.is_err(), "{key:#x} {domain}");
            let again = regions.invalidate(key, domain);
            assert!(again.is_err(), "once");
        }
    }

    #[test]
    fn keys_rights_and_bounds() {
        let region = Region {
            address: 0x1000,
            length: 0x100,
            key: 0x0705,
            domain: 3,
            access: Access::REMOTE_READ.union(Access::LOCAL_WRITE),
            may_invalidate: 0,
        };
        let good = Wanted {
            key: 0x0705,
            domain: 3,
            access: Access::REMOTE_READ,
        };
        let other_generation = Wanted {
            key: 0x0706,
            ..good
        };
        let other_place = Wanted {
            key: 0x0805,
            ..good
        };
        let other_domain = Wanted { domain: 4, ..good };
        let write = Wanted {
            access: Access::REMOTE_WRITE,
            ..good
        };
        let cases = [
            (good, 0x1000, 0x100, Ok(())),
            (good, 0x1000, 0x101, Err(Denial::Bounds)),
            (good, 0x0fff, 1, Err(Denial::Bounds)),
            (good, 0x1100, 0, Ok(())),
            (good, 0x1100, 1, Err(Denial::Bounds)),
            (good, 0x1101, 0, Err(Denial::Bounds)),
            (good, u64::MAX, 2, Err(Denial::Bounds)),
            (good, 0x10ff, u32::MAX, Err(Denial::Bounds)),
            (other_generation, 0x1000, 1, Err(Denial::Key)),
            (other_place, 0x1000, 1, Err(Denial::Key)),
            (other_domain, 0x1000, 1, Err(Denial::Domain)),
            (write, 0x1000, 1, Err(Denial::Rights)),
        ];
        for (wanted, address, length, want) in cases {
            let got = One(region).check(&wanted, address, length);
            assert_eq!(got, want, "{wanted:?} {address:#x} {length}");
        }
        let unused = One(Region::default());
        let none = Wanted { key: 0, ..good };
        assert_eq!(unused.check(&none, 0, 0), Err(Denial::Key));
    }
}
