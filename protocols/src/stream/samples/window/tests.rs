//! A window by hand, and against sets.

use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

type Small = Window<1>;

fn came(from: u64, count: u64) -> Option<Run> {
    let came = true;
    Some(Run { from, count, came })
}

fn missing(from: u64, count: u64) -> Option<Run> {
    let came = false;
    Some(Run { from, count, came })
}

#[test]
fn spans_fit_into_the_numbers() {
    assert!(Window::<1>::new(7).is_ok());
    assert!(Window::<2>::new(8).is_ok());
    for bits in [0, 6, 65] {
        assert_eq!(Window::<1>::new(bits), Err(SpanTooLong));
    }
    assert_eq!(Window::<16>::new(8), Err(SpanTooLong));
    assert_eq!(Window::<16>::SPAN, 1024);
}

#[test]
fn records_in_order_and_out_of_it() {
    let mut window = Small::new(16).unwrap();
    assert_eq!((window.settle(), window.flush()), (None, None));
    assert_eq!(window.offer(10), Offered::Fresh(10));
    assert_eq!((window.settle(), window.settle()), (came(10, 1), None));
    assert_eq!(window.offer(12), Offered::Fresh(12));
    assert_eq!(window.offer(13), Offered::Fresh(13));
    assert_eq!(
        (window.offer(12), window.settle()),
        (Offered::Duplicate, None)
    );
    assert_eq!(
        (window.offer(10), window.offer(9)),
        (Offered::Late, Offered::Late)
    );
    assert_eq!(window.late_in_row(), 2);
    assert_eq!(
        (window.offer(11), window.settle()),
        (Offered::Fresh(11), came(11, 3))
    );
    assert_eq!((window.late_in_row(), window.base()), (0, 14));
    let counts = Counts {
        fresh: 4,
        duplicates: 1,
        late: 2,
        missing: 0,
    };
    assert_eq!(window.counts(), &counts);
}

#[test]
fn gaps_are_told_once_when_the_window_passes_them() {
    let mut window = Small::new(32).unwrap();
    for number in [0, 3, 4, 63] {
        assert_eq!(window.offer(number), Offered::Fresh(number));
    }
    assert_eq!((window.settle(), window.settle()), (came(0, 1), None));
    assert_eq!(window.offer(66), Offered::Ahead(66));
    assert_eq!(window.make_room(66), missing(1, 2));
    assert_eq!(window.make_room(66), came(3, 2));
    assert_eq!(window.make_room(66), None);
    assert_eq!(
        (window.offer(66), window.offer(2)),
        (Offered::Fresh(66), Offered::Late)
    );
    // A leap past everything.
    assert_eq!(window.offer(1000), Offered::Ahead(1000));
    let told: Vec<_> = std::iter::from_fn(|| window.make_room(1000)).collect();
    let runs = [
        missing(5, 58),
        came(63, 1),
        missing(64, 2),
        came(66, 1),
        missing(67, 870),
    ];
    assert_eq!(told, runs.map(Option::unwrap));
    assert_eq!(window.offer(1000), Offered::Fresh(1000));
    assert_eq!(
        (window.flush(), window.flush()),
        (missing(937, 63), came(1000, 1))
    );
    assert_eq!(
        (window.flush(), window.counts().missing),
        (None, 2 + 58 + 2 + 870 + 63)
    );
}

#[test]
fn numbers_go_on_after_their_largest() {
    let mut window = Small::new(8).unwrap();
    for (number, extended) in [(250, 250), (255, 255), (0, 256), (251, 251), (20, 276)] {
        assert_eq!(window.offer(number), Offered::Fresh(extended));
    }
    let told: Vec<_> = std::iter::from_fn(|| window.flush()).collect();
    let runs = [
        came(250, 2),
        missing(252, 3),
        came(255, 2),
        missing(257, 19),
        came(276, 1),
    ];
    assert_eq!(told, runs.map(Option::unwrap));
    // Before the beginning of numbers there is nothing.
    let mut window = Small::new(8).unwrap();
    assert_eq!(
        (window.offer(1), window.offer(255)),
        (Offered::Fresh(1), Offered::Late)
    );
    // Room that was made moves what numbers are taken to be near to.
    let mut window = Small::new(8).unwrap();
    assert_eq!(
        (window.offer(0), window.settle()),
        (Offered::Fresh(0), came(0, 1))
    );
    assert_eq!(
        (window.make_room(1000), window.make_room(1000)),
        (missing(1, 936), None)
    );
    assert_eq!(window.offer(1000 % 256), Offered::Fresh(1000));
    // All 64 bits: the largest number is the last.
    let mut window = Small::new(64).unwrap();
    assert_eq!(window.offer(u64::MAX - 1), Offered::Fresh(u64::MAX - 1));
    assert_eq!(window.settle(), came(u64::MAX - 1, 1));
}

#[test]
fn a_sensor_that_counts_anew_is_begun_anew() {
    let mut window = Small::new(32).unwrap();
    window.offer(5000);
    window.offer(5002);
    assert_eq!(window.settle(), came(5000, 1));
    for _ in 0..3 {
        assert_eq!(window.offer(0), Offered::Late);
    }
    assert_eq!(window.late_in_row(), 3);
    assert_eq!(
        (window.flush(), window.flush()),
        (missing(5001, 1), came(5002, 1))
    );
    window.start(0);
    assert_eq!(
        (window.offer(0), window.settle()),
        (Offered::Fresh(0), came(0, 1))
    );
}

/// A window of sets, and what must hold of all that is told.
struct Model {
    span: u64,
    settled: u64,
    came: BTreeSet<u64>,
    gaps: u64,
}

impl Model {
    /// `limit`: nothing from there on may be given up.
    fn told(&mut self, run: Run, limit: u64) {
        assert_eq!(run.from, self.settled, "runs follow each other");
        assert!(run.count > 0);
        let end = run.from + run.count;
        let found = self.came.range(run.from..end).count() as u64;
        assert_eq!(found, if run.came { run.count } else { 0 }, "{run:?}");
        if !run.came {
            assert!(end <= limit, "given up too soon: {run:?}, {limit}");
            self.gaps += run.count;
        }
        self.settled = end;
    }
}

fn against_model<const WORDS: usize>(bits: u32, start: u64, steps: &[(i16, u8)]) {
    let mut window = Window::<WORDS>::new(bits).unwrap();
    let start = start & (u64::MAX >> (64 - bits));
    let span = Window::<WORDS>::SPAN;
    let mut model = Model {
        span,
        settled: start,
        came: BTreeSet::new(),
        gaps: 0,
    };
    let (mut next, mut late, mut duplicates) = (start, 0, 0);
    for (index, (jump, after)) in steps.iter().enumerate() {
        let most = 1 << (bits - 1).min(40);
        let jump = i64::from(*jump) % most.min(3 * span as i64);
        let number = if index == 0 {
            start
        } else {
            next.saturating_add_signed(jump)
        };
        let offered = match window.offer(number) {
            Offered::Ahead(ahead) => {
                assert!(ahead == number && number >= model.settled + model.span);
                while let Some(run) = window.make_room(ahead) {
                    model.told(run, number - span + 1);
                }
                window.offer(number)
            }
            offered => offered,
        };
        let expected = match () {
            () if number < model.settled => Offered::Late,
            () if !model.came.insert(number) => Offered::Duplicate,
            () => Offered::Fresh(number),
        };
        assert_eq!(offered, expected, "{number}");
        late += u64::from(expected == Offered::Late);
        duplicates += u64::from(expected == Offered::Duplicate);
        next = next.max(number + 1);
        if after % 4 == 0 {
            while let Some(run) = window.settle() {
                model.told(run, 0);
            }
            assert!(!model.came.contains(&model.settled));
        }
        if after % 32 == 1 {
            while let Some(run) = window.flush() {
                model.told(run, next);
            }
            assert_eq!(model.settled, next);
        }
    }
    while let Some(run) = window.flush() {
        model.told(run, next);
    }
    assert_eq!((window.base(), model.settled), (next, next));
    let (fresh, missing) = (model.came.len() as u64, model.gaps);
    let counts = Counts {
        fresh,
        duplicates,
        late,
        missing,
    };
    assert_eq!(window.counts(), &counts);
}

proptest! {
    #[test]
    fn a_window_is_a_set(
        start in prop_oneof![Just(0), Just(u64::MAX - 40), any::<u64>()],
        bits in prop::sample::select(vec![16, 32, 48]),
        steps in prop::collection::vec((-90..90_i16, any::<u8>()), 1..200),
        leaps in prop::collection::vec((any::<i16>(), any::<u8>()), 1..60),
    ) {
        against_model::<1>(bits, start, &steps);
        against_model::<2>(bits, start, &steps);
        against_model::<4>(bits, start, &leaps);
        against_model::<1>(8, start, &steps);
    }
}
