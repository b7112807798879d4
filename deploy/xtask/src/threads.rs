//! Work on several processors, whose panics go on where it was asked for.

use std::panic::resume_unwind;
use std::thread::scope;

/// Does one on another thread, meanwhile the other here.
pub fn both<A: Send, B>(one: impl FnOnce() -> A + Send, other: impl FnOnce() -> B) -> (A, B) {
    scope(|scope| {
        let one = scope.spawn(one);
        let other = other();
        (one.join().unwrap_or_else(|why| resume_unwind(why)), other)
    })
}

/// Does the same with every item, each on a thread of its own; what came of them, in their order.
pub fn each<T: Send, R: Send>(
    items: impl IntoIterator<Item = T>,
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let work = &work;
    scope(|scope| {
        let threads = items.into_iter();
        let threads = threads.map(|item| scope.spawn(move || work(item)));
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter();
        let ended = ended.map(|thread| thread.join().unwrap_or_else(|why| resume_unwind(why)));
        ended.collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    #[test]
    fn all_run_at_a_time_and_keep_their_order() {
        let together = Barrier::new(3);
        let turned = each([1, 2, 3], |number| {
            together.wait();
            number * 2
        });
        assert_eq!(turned, [2, 4, 6]);
        let together = Barrier::new(2);
        let (one, other) = both(|| together.wait(), || together.wait());
        assert!(one.is_leader() != other.is_leader());
    }

    #[test]
    #[should_panic(expected = "the third")]
    fn a_panic_goes_on() {
        each([1, 2, 3], |number| assert!(number != 3, "the third"));
    }
}
