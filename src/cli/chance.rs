//! Numbers that nobody can guess: sequence numbers to start from, keys of memory.

use std::hash::{BuildHasher, RandomState};

/// Such a number, another one each time.
pub(super) fn chance() -> u64 {
    // A hash whose key the system's random numbers made, and which changes with each call.
    RandomState::new().hash_one(0)
}

#[cfg(test)]
mod tests {
    use super::chance;

    #[test]
    fn no_two_are_alike() {
        let mut seen: Vec<u64> = (0..1000).map(|_| chance()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 1000);
    }
}
