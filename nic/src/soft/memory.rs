//! What the device model may touch: registered arenas, each behind a key.
#![expect(unsafe_code, reason = "lends registered arenas to the device half")]

use std::sync::Arc;

use warpwire_gpu::Arena;
use warpwire_ring::{Grant, KeyTable, Region};

/// The protection domain of a fabric.
#[derive(Debug, Default)]
pub(super) struct Keys {
    grants: Vec<Option<Grant>>,
    arenas: Vec<Option<Arc<Arena>>>,
}

impl Keys {
    /// Registers a whole arena; the region that comes back carries its key.
    pub(super) fn register(&mut self, arena: &Arc<Arena>, writable: bool) -> Region {
        let place = self.grants.len() as u32;
        // The low byte is never 0, so that no key equals the one which ends a receive list.
        let key = place << 8 | (place.wrapping_mul(37) & 0x7f) | 0x80;
        let region = Region {
            key,
            ..arena.whole()
        };
        self.grants.push(Some(Grant { region, writable }));
        self.arenas.push(Some(Arc::clone(arena)));
        region
    }

    /// Takes a key back: accesses with it are refused from now on. Returns whether it was valid.
    pub(super) fn revoke(&mut self, key: u32) -> bool {
        let place = (key >> 8) as usize;
        match self.grants.get_mut(place) {
            Some(grant) if grant.is_some_and(|grant| grant.region.key == key) => {
                *grant = None;
                if let Some(arena) = self.arenas.get_mut(place) {
                    *arena = None;
                }
                true
            }
            _ => false,
        }
    }

    /// The memory behind the keys.
    #[inline(always)]
    pub(super) fn table(&self) -> KeyTable<'_> {
        // SAFETY: every grant covers one arena, whole, which is held beside it; its users share it
        // by the rings' protocols.
        unsafe { KeyTable::new(&self.grants) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwire_ring::{Denied, DeviceMemory, Location, Place};

    #[test]
    fn keys_open_their_arena_until_revoked() {
        let mut keys = Keys::default();
        let arena = Arc::new(Arena::new(4096, Location::Device).expect("maps"));
        let (one, two) = (keys.register(&arena, true), keys.register(&arena, false));
        assert_ne!(one.key, two.key);
        let place = |key| Place {
            key,
            address: one.address,
        };
        assert_eq!(keys.table().write(place(one.key), &[1; 8]), Ok(()));
        assert_eq!(
            keys.table().write(place(two.key), &[2; 8]),
            Err(Denied::Right)
        );
        assert!(keys.revoke(one.key) && !keys.revoke(one.key));
        assert_eq!(
            keys.table().write(place(one.key), &[3; 8]),
            Err(Denied::Key)
        );
        let mut bytes = [0; 8];
        assert_eq!(keys.table().read(place(two.key), &mut bytes), Ok(()));
        assert_eq!(bytes, [1; 8], "the arena lives while a key opens it");
    }

    #[test]
    fn lines_are_checked_whole() {
        let mut keys = Keys::default();
        let arena = Arc::new(Arena::new(4096, Location::Device).expect("maps"));
        let (one, two) = (keys.register(&arena, true), keys.register(&arena, false));
        let end = one.length;
        let cases = [
            (one.key, 0, Ok(())),
            (one.key, 8, Ok(())),
            (one.key, end - 64, Ok(())),
            (one.key, end - 56, Err(Denied::Bounds)),
            (one.key, end, Err(Denied::Bounds)),
            (one.key, 4, Err(Denied::Alignment)),
            (two.key, 0, Err(Denied::Right)),
            (two.key ^ 1, 0, Err(Denied::Key)),
        ];
        for (key, offset, want) in cases {
            let address = one.address.offset(offset);
            let line = [1, 2, 3, 4, 5, 6, 7, offset + 8];
            let got = keys.table().store_line(Place { key, address }, &line);
            assert_eq!(got, want, "key {key} offset {offset}");
            let mut bytes = [0; 64];
            if want.is_ok() {
                let read = keys.table().read(Place { key, address }, &mut bytes);
                assert_eq!(read, Ok(()));
                let words = line.map(u64::to_ne_bytes);
                assert_eq!(bytes.as_slice(), words.as_flattened(), "offset {offset}");
            }
        }
    }
}
