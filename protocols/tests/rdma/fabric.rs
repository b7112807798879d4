//! A fabric between two ends, in virtual time: seeded loss, doubling, delay and thus reordering.

pub(crate) use crate::dice::Dice;
use crate::end::End;

/// How bad a fabric is; chances in 10,000.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) doubling: u64,
    pub(crate) delay: u64,
    /// Packets that meet congestion.
    pub(crate) marks: u64,
}

impl Weather {
    pub(crate) const FINE: Self = Self {
        loss: 0,
        doubling: 0,
        delay: 0,
        marks: 0,
    };
}

struct Flight {
    at_ns: u64,
    number: u64,
    to: usize,
    marked: bool,
    bytes: Vec<u8>,
}

pub(crate) struct Fabric {
    pub(crate) now_ns: u64,
    pub(crate) weather: Weather,
    dice: Dice,
    flights: Vec<Flight>,
    number: u64,
    /// Packets that were sent, for bounds on repetition.
    pub(crate) sent: u64,
}

impl Fabric {
    pub(crate) fn new(seed: u64, weather: Weather) -> Self {
        Self {
            now_ns: 1,
            weather,
            dice: Dice::new(seed),
            flights: Vec::new(),
            number: 0,
            sent: 0,
        }
    }

    fn send(&mut self, to: usize, bytes: Vec<u8>) {
        self.sent += 1;
        let copies = match () {
            () if self.dice.happens(self.weather.loss) => 0,
            () if self.dice.happens(self.weather.doubling) => 2,
            () => 1,
        };
        for _ in 0..copies {
            let late = match self.dice.happens(self.weather.delay) {
                true => self.dice.below(200_000),
                false => 0,
            };
            self.number += 1;
            self.flights.push(Flight {
                at_ns: self.now_ns + 2_000 + late,
                number: self.number,
                to,
                marked: self.dice.happens(self.weather.marks),
                bytes: bytes.clone(),
            });
        }
    }

    /// Lets both ends send what they can, then moves on to the next arrival or timer. Says whether
    /// there was one.
    pub(crate) fn step(&mut self, ends: &mut [End; 2]) -> bool {
        for (from, end) in ends.iter_mut().enumerate() {
            for _ in 0..64 {
                let Some(bytes) = end.poll(self.now_ns) else {
                    break;
                };
                self.now_ns += 100;
                self.send(1 - from, bytes);
            }
        }
        let first = self.flights.iter().map(|one| (one.at_ns, one.number)).min();
        let timers = ends
            .iter()
            .filter_map(|end| end.pair.timeout_ns(self.now_ns));
        let timer = timers.min();
        match (first, timer) {
            (Some((at_ns, number)), timer) if timer.is_none_or(|timer| at_ns <= timer) => {
                let place = self.flights.iter().position(|one| one.number == number);
                let flight = self.flights.swap_remove(place.expect("is there"));
                self.now_ns = self.now_ns.max(at_ns);
                ends[flight.to].take(self.now_ns, &flight.bytes, flight.marked);
                true
            }
            (_, Some(timer)) => {
                self.now_ns = self.now_ns.max(timer);
                for end in ends {
                    end.on_timer(self.now_ns);
                }
                true
            }
            _ => false,
        }
    }

    /// Goes on until `done` says so; fails after too many steps.
    pub(crate) fn run(
        &mut self,
        ends: &mut [End; 2],
        limit: u64,
        mut done: impl FnMut(&mut [End; 2]) -> bool,
    ) {
        for _ in 0..limit {
            if done(ends) {
                return;
            }
            if !self.step(ends) {
                assert!(done(ends), "nothing more happens");
                return;
            }
        }
        panic!("not done after {limit} steps");
    }
}
