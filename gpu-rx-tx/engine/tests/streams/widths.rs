//! An engine of 32 lanes does what one of one lane does, to the byte: 32 threads that meet in every
//! collective call, with the clock of the test.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

use warpwire_device::{Lockstep, Place, WarpHost};

/// What the lanes share.
#[derive(Default)]
struct Meeting {
    arrived: u32,
    round: u64,
    votes: u32,
    values: [u64; 32],
    /// What the last round came to.
    told: (u32, [u64; 32]),
    /// The calls of the round, which must be the same.
    call: Option<&'static str>,
}

/// 32 lanes on as many threads.
pub(crate) struct Lanes {
    meeting: Mutex<Meeting>,
    met: Condvar,
    now_ns: u64,
}

impl Lanes {
    pub(crate) fn new(now_ns: u64) -> Self {
        Self {
            meeting: Mutex::default(),
            met: Condvar::new(),
            now_ns,
        }
    }

    /// Runs all lanes.
    pub(crate) fn run(&self, lane: impl Fn(&Lockstep<'_>) + Sync) {
        std::thread::scope(|scope| {
            for number in 0..32 {
                let lane = &lane;
                scope.spawn(move || lane(&Lockstep::new(self, number)));
            }
        });
    }

    fn lock(&self) -> MutexGuard<'_, Meeting> {
        self.meeting.lock().expect("no lane panicked")
    }

    fn meet(&self, lane: u32, call: &'static str, vote: bool, value: u64) -> (u32, [u64; 32]) {
        let mut meeting = self.lock();
        let expected = *meeting.call.get_or_insert(call);
        assert_eq!(expected, call, "lane {lane} is in another call");
        meeting.votes |= u32::from(vote) << lane;
        meeting.values[lane as usize] = value;
        meeting.arrived += 1;
        if meeting.arrived == 32 {
            meeting.told = (meeting.votes, meeting.values);
            meeting.arrived = 0;
            meeting.votes = 0;
            meeting.call = None;
            meeting.round += 1;
            self.met.notify_all();
            return meeting.told;
        }
        let round = meeting.round;
        while meeting.round == round {
            let (woken, patience) = self
                .met
                .wait_timeout(meeting, PATIENCE)
                .expect("no lane panicked");
            assert!(!patience.timed_out(), "lane {lane} waits in {call}");
            meeting = woken;
        }
        meeting.told
    }
}

impl WarpHost for Lanes {
    fn place(&self) -> Place {
        Place::ALONE
    }

    fn now_ns(&self, _lane: u32) -> u64 {
        self.now_ns
    }

    fn pause(&self, _lane: u32) {}

    fn ballot(&self, lane: u32, vote: bool) -> u32 {
        self.meet(lane, "ballot", vote, 0).0
    }

    fn shuffle(&self, lane: u32, value: u64, source: u32) -> u64 {
        self.meet(lane, "shuffle", false, value).1[source as usize]
    }

    fn sync_warp(&self, lane: u32) {
        self.meet(lane, "sync_warp", false, 0);
    }

    fn sync_block(&self, lane: u32) {
        self.meet(lane, "sync_block", false, 0);
    }
}

const PATIENCE: Duration = Duration::from_secs(60);

mod tests {
    use warpwire_engine::streams::tables::RELEASE;

    use crate::ends::{Plan, Way};
    use crate::exact::{Talk, bytes};
    use crate::net::{Faults, Net};
    use crate::wires::{Client, Memif, Mlx5, Wire, Xdp};

    /// What one or two connections leave.
    fn trace<W: Wire>(
        warps: u32,
        way: Way,
        seed: u64,
        count: usize,
        loss: u64,
    ) -> Vec<(usize, Vec<u8>)> {
        let plan = Plan {
            warps,
            ..Plan::default()
        };
        let mut net = Net::<W>::new(&plan, seed, false);
        net.ends.iter_mut().for_each(|end| end.way = way);
        net.ends[1].listen(&net.clock, 0, 80, 1);
        net.faults = Faults {
            loss,
            doubles: 20,
            reorders: 50,
            corrupts: loss / 2,
        };
        let pairs = [40_000, 40_001].map(|port| net.connected(port));
        let talk = |pair: usize, end: usize| {
            let amount = bytes((pair * 2 + end) as u32, count);
            Talk::new(pairs[pair][end], amount)
        };
        let mut talks = [0, 1].map(|end| [talk(0, end), talk(1, end)]);
        net.until(600, |ends| {
            let mut done = true;
            for (end, talks) in ends.iter_mut().zip(&mut talks) {
                for talk in talks {
                    done &= talk.step(end, 5000);
                }
            }
            done
        });
        let [ones, others] = &talks;
        for (one, other) in ones.iter().zip(others) {
            assert!(one.read == other.to_write && other.read == one.to_write);
        }
        for (place, end) in net.ends.iter_mut().enumerate() {
            pairs.iter().for_each(|pair| end.wish(pair[place], RELEASE));
            end.run(&net.clock, 1);
            end.check_untouched();
        }
        net.log
    }

    fn check<W: Wire>(warps: u32, way: Way, seed: u64, count: usize, loss: u64) {
        let wanted = trace::<W>(warps, Way::Narrow, seed, count, loss);
        let found = trace::<W>(warps, way, seed, count, loss);
        assert_eq!(found.len(), wanted.len(), "frames of seed {seed}");
        assert!(wanted.len() > 20, "{}", wanted.len());
        for (at, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert_eq!(found, wanted, "frame {at} of seed {seed}");
        }
    }

    #[test]
    fn frames_of_32_lanes_are_those_of_one() {
        check::<Memif<Client>>(1, Way::Wide, 1, 4000, 20);
        check::<Mlx5<4>>(1, Way::Wide, 2, 3000, 20);
    }

    #[test]
    fn frames_of_a_crew_of_32_lanes_are_those_of_one() {
        check::<Mlx5<4>>(4, Way::Wide, 4, 3000, 0);
    }

    #[test]
    fn frames_of_warps_that_meet_are_those_of_a_crew_in_one_hand() {
        check::<Memif<Client>>(2, Way::Apart, 5, 8000, 20);
        check::<Xdp>(3, Way::Apart, 6, 8000, 20);
        check::<Mlx5<4>>(5, Way::Apart, 7, 8000, 20);
    }
}
