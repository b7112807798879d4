//! The scoreboard against a model that keeps every byte.

use super::*;
use proptest::prelude::*;

/// Close to where numbers wrap.
const BASE: u32 = u32::MAX - 150;
const BYTES: usize = 400;
const MSS: u32 = 10;

fn number(offset: usize) -> TcpSequence {
    TcpSequence(BASE.wrapping_add(offset as u32))
}

/// Every byte by itself.
struct Model {
    una: usize,
    nxt: usize,
    lost_to: usize,
    has: Vec<bool>,
    repeated: Vec<bool>,
}

impl Model {
    fn flight(&self) -> Flight {
        Flight {
            una: number(self.una),
            nxt: number(self.nxt),
            lost_to: number(self.lost_to),
            tolerance: 3,
            mss: MSS,
        }
    }

    /// RFC 6675: IsLost, or what a timeout says.
    fn is_lost(&self, at: usize) -> bool {
        let above = &self.has[at..self.nxt];
        let bytes = above.iter().filter(|has| **has).count();
        let starts = above.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        !self.has[at] && (at < self.lost_to || bytes > 20 || starts >= 3)
    }

    fn pipe(&self) -> usize {
        (self.una..self.nxt)
            .filter(|at| !self.has[*at])
            .map(|at| usize::from(!self.is_lost(at)) + usize::from(self.repeated[at]))
            .sum()
    }

    fn next_lost(&self) -> Option<usize> {
        (self.una..self.nxt).find(|at| self.is_lost(*at) && !self.repeated[*at])
    }
}

#[derive(Clone, Debug)]
enum Step {
    Send(usize),
    Has(usize, usize),
    Acknowledge(usize),
    Repeat(usize),
    Timeout,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1usize..40).prop_map(Step::Send),
        5 => (0usize..200, 1usize..30).prop_map(|(at, length)| Step::Has(at, length)),
        1 => (1usize..30).prop_map(Step::Acknowledge),
        4 => (1usize..12).prop_map(Step::Repeat),
        1 => Just(Step::Timeout),
    ]
}

proptest! {
    #[test]
    fn agrees_with_a_model_of_bytes(steps in prop::collection::vec(step(), 1..80)) {
        let mut model = Model {
            una: 0,
            nxt: 40,
            lost_to: 0,
            has: vec![false; BYTES + 1],
            repeated: vec![false; BYTES + 1],
        };
        let mut board = Scoreboard::default();
        board.clear(number(0));
        for step in steps {
            match step {
                Step::Send(length) => model.nxt = (model.nxt + length).min(BYTES),
                Step::Has(at, length) => {
                    let from = (model.una + 1 + at).min(model.nxt);
                    let to = (from + length).min(model.nxt);
                    // The peer tells of no more ranges than are kept; see the next test.
                    let mut has = model.has.clone();
                    has[from..to].fill(true);
                    let ranges = has.windows(2).filter(|pair| !pair[0] && pair[1]).count();
                    if from == to || ranges > MOST_RANGES {
                        continue;
                    }
                    let news = model.has[from..to].iter().filter(|has| !**has).count();
                    model.has = has;
                    prop_assert_eq!(board.mark(number(from), number(to)), news as u32);
                }
                Step::Acknowledge(length) => {
                    let mut una = (model.una + length).min(model.nxt);
                    while model.has[una] { una += 1 }
                    model.has[..una].fill(false);
                    model.una = una;
                    model.lost_to = model.lost_to.max(una);
                    prop_assert!(board.advance(number(una)));
                }
                Step::Repeat(length) => {
                    let lost = board.next_lost(&model.flight());
                    prop_assert_eq!(lost.map(|lost| lost.0), model.next_lost().map(number));
                    let Some((from, to)) = lost else { continue };
                    let length = (to.diff(from) as usize).min(length);
                    let start = model.next_lost().unwrap();
                    model.repeated[start..start + length].fill(true);
                    board.repeated(&model.flight(), number(start + length), 0);
                }
                Step::Timeout => {
                    model.lost_to = model.nxt;
                    model.repeated.fill(false);
                    board.forget_repetitions(&model.flight());
                }
            }
            let has = model.has.iter().filter(|has| **has).count() as u32;
            prop_assert_eq!(board.bytes(), has);
            prop_assert_eq!(board.pipe(&model.flight()), model.pipe() as u32);
            let lost = board.next_lost(&model.flight()).map(|lost| lost.0);
            prop_assert_eq!(lost, model.next_lost().map(number));
        }
    }

    /// With more ranges than are kept it knows less, but nothing that is wrong.
    #[test]
    fn knows_nothing_wrong(ranges in prop::collection::vec((1usize..390, 1usize..6), 1..120)) {
        let mut board = Scoreboard::default();
        board.clear(number(0));
        let mut has = [false; BYTES];
        for (from, length) in ranges {
            has[from..from + length].fill(true);
            board.mark(number(from), number(from + length));
            for entry in board.entries() {
                let from = entry.left.0.wrapping_sub(BASE) as usize;
                let to = entry.right.0.wrapping_sub(BASE) as usize;
                prop_assert!(from < to && has[from..to].iter().all(|has| *has));
            }
        }
    }
}

fn flight(una: usize, nxt: usize) -> Flight {
    Flight {
        una: number(una),
        nxt: number(nxt),
        lost_to: number(una),
        tolerance: 3,
        mss: MSS,
    }
}

#[test]
fn a_lost_repetition_is_repeated_when_it_is_overtaken() {
    let mut board = Scoreboard::default();
    board.clear(number(0));
    board.mark(number(10), number(40));
    let first = flight(0, 60);
    assert!(board.sees_loss(&first));
    assert_eq!(board.next_lost(&first), Some((number(0), number(10))));
    board.repeated(&first, number(10), 0);
    assert_eq!(board.next_lost(&first), None);
    // What was under way before the repetition says nothing of it.
    board.mark(number(40), number(60));
    assert_eq!(board.judge(&first, 1000, u64::MAX >> 24), 0);
    let more = flight(0, 100);
    board.mark(number(60), number(80));
    assert_eq!(
        board.judge(&more, 1000, u64::MAX >> 24),
        0,
        "as much as may overtake"
    );
    board.mark(number(80), number(90));
    assert_eq!(board.judge(&more, 1000, u64::MAX >> 24), 1);
    assert_eq!(board.next_lost(&more), Some((number(0), number(10))));
    board.repeated(&more, number(10), 1_000_000);
    assert_eq!(board.judge(&more, 1_900_000, 1_000_000), 0);
    assert_eq!(board.judge(&more, 2_200_000, 1_000_000), 1, "by age");
}

#[test]
fn a_peer_that_has_less_than_it_had_is_noticed() {
    let mut board = Scoreboard::default();
    board.clear(number(0));
    board.mark(number(10), number(40));
    assert!(board.advance(number(5)));
    assert!(!board.advance(number(10)));
    assert!(board.is_empty());
}
