//! Ephemeral ports that a stranger cannot guess. RFC 6056 section 3.3.3 (algorithm 3).

use super::initial::{PORT, Secret, Tuple};
use core::num::NonZeroU32;

/// Chooses ports from 49152 on, the range of RFC 6335: between the same ends one after the other,
/// from a place that differs from peer to peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EphemeralPorts {
    secret: Secret,
    next: u32,
}

impl EphemeralPorts {
    /// Ports under this secret.
    pub const fn new(secret: Secret) -> Self {
        Self { secret, next: 0 }
    }

    /// A port for a connection between these ends, whose local port does not matter: the next one
    /// that `is_free`. `None` if none is.
    pub fn choose(&mut self, tuple: &Tuple, is_free: impl Fn(u16) -> bool) -> Option<u16> {
        let ends = Tuple {
            local_port: 0,
            ..*tuple
        };
        let offset = self.secret.hash(&ends, PORT, 0) as u32 >> 1;
        for _ in 0..COUNT.get() {
            let place = offset.wrapping_add(self.next) % COUNT;
            self.next = (self.next + 1) % COUNT;
            let port = FIRST + place as u16;
            if is_free(port) {
                return Some(port);
            }
        }
        None
    }
}

const FIRST: u16 = 49152;
const COUNT: NonZeroU32 = NonZeroU32::new(16384).unwrap();

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_free_port_is_found_and_no_other() {
        let mut ports = EphemeralPorts::new(Secret([3, 4]));
        let tuple = Tuple::default();
        let mut taken = BTreeSet::new();
        for _ in 0..COUNT.get() {
            let port = ports.choose(&tuple, |port| !taken.contains(&port)).unwrap();
            assert!(port >= FIRST && taken.insert(port));
        }
        assert_eq!(ports.choose(&tuple, |port| !taken.contains(&port)), None);
        let only = ports.choose(&tuple, |port| port == 50_000);
        assert_eq!(only, Some(50_000));
    }

    #[test]
    fn peers_begin_at_different_places() {
        let first = |remote_port| {
            let tuple = Tuple {
                remote_port,
                ..Tuple::default()
            };
            EphemeralPorts::new(Secret([3, 4])).choose(&tuple, |_| true)
        };
        let places: BTreeSet<_> = (0..100).map(first).collect();
        assert!(places.len() > 90);
    }
}
