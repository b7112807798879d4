//! What goes over the wire while it is measured.

use std::time::{Duration, Instant};

use warpwire_pipelines::connect::perftest::{Destination, Results, Role, Tool};
use warpwire_pipelines::messaging::{Completed, Work};
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Gather, Order, Payload};

use super::{Bench, Failure, is_latency};

/// A measurement under way.
pub(super) struct Traffic<'a, 'b> {
    bench: &'a mut Bench<'b>,
    theirs: Vec<Destination>,
    patience: Duration,
    /// Receives that are posted, by queue pair.
    posted: Vec<u32>,
}

/// What was measured.
pub(super) struct Told {
    pub(super) size: u32,
    pub(super) iterations: u64,
    pub(super) elapsed: Duration,
    /// Of latencies: one a message, sorted.
    pub(super) samples: Vec<Duration>,
}

impl Told {
    /// Bytes a second.
    pub(super) fn rate(&self) -> f64 {
        let bytes = f64::from(self.size) * self.iterations as f64;
        bytes / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub(super) fn messages(&self) -> f64 {
        self.iterations as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub(super) fn results(&self) -> Results {
        Results {
            size: u64::from(self.size),
            iterations: self.iterations,
            peak: self.rate() / MIB,
            average: self.rate() / MIB,
            message_rate: self.messages() / 1e6,
        }
    }
}

pub(super) const MIB: f64 = 1024.0 * 1024.0;

impl<'a, 'b> Traffic<'a, 'b> {
    pub(super) fn new(bench: &'a mut Bench<'b>, theirs: &[Destination]) -> Result<Self, Failure> {
        let patience = Duration::from_secs(bench.options.patience);
        let posted = vec![0; bench.pairs.len()];
        let mut traffic = Self {
            bench,
            theirs: theirs.to_vec(),
            patience,
            posted,
        };
        if traffic.receives() {
            for place in 0..traffic.posted.len() {
                traffic.fill(place)?;
            }
        }
        Ok(traffic)
    }

    /// Whether messages go into receives here.
    fn receives(&self) -> bool {
        match self.bench.tool {
            Tool::SendBandwidth => self.bench.role == Role::Server,
            Tool::SendLatency => true,
            _ => false,
        }
    }

    fn fill(&mut self, place: usize) -> Result<(), Failure> {
        let region = *self.bench.device.region();
        let piece = Gather {
            address: region.address + self.bench.target(place as u64),
            length: self.bench.size.max(1),
            key: region.key,
        };
        let depth = self.bench.options.rx_depth;
        if let (Some(posted), Some(pair)) =
            (self.posted.get_mut(place), self.bench.pairs.get_mut(place))
        {
            while *posted < depth && pair.free_receives() > 0 {
                pair.receive(&[piece])?;
                *posted += 1;
            }
        }
        Ok(())
    }

    /// Runs it; the passive end of a one-sided operation has nothing to do and nothing to tell.
    pub(super) fn play(&mut self) -> Result<Option<Told>, Failure> {
        let is_client = self.bench.role == Role::Client;
        match self.bench.tool {
            Tool::SendLatency => self.send_latency().map(Some),
            Tool::WriteLatency => self.write_latency().map(Some),
            Tool::SendBandwidth if !is_client => self.count_receives().map(Some),
            _ if !is_client => Ok(None),
            tool if is_latency(tool) => self.fetch_latency().map(Some),
            _ => self.bandwidth().map(Some),
        }
    }

    fn order(&self, place: usize) -> Order {
        let opcode = match self.bench.tool {
            Tool::SendBandwidth | Tool::SendLatency => Opcode::SEND,
            Tool::WriteBandwidth | Tool::WriteLatency => Opcode::WRITE,
            Tool::ReadBandwidth | Tool::ReadLatency => Opcode::READ,
            Tool::AtomicBandwidth | Tool::AtomicLatency => Opcode::FETCH_ADD,
        };
        let peer = self.theirs.get(place);
        Order {
            address: peer.map_or(0, |peer| peer.address),
            key: peer.map_or(0, |peer| peer.rkey),
            value: 1,
            ..Order::new(opcode)
        }
    }

    fn post(&mut self, place: usize) -> Result<(), Failure> {
        let order = self.order(place);
        let region = *self.bench.device.region();
        let piece = [Gather {
            address: region.address + self.bench.source(place as u64),
            length: self.bench.size,
            key: region.key,
        }];
        let pieces = if self.bench.size == 0 {
            &[][..]
        } else {
            &piece
        };
        let payload = Payload::Pieces(pieces);
        if let Some(pair) = self.bench.pairs.get_mut(place) {
            pair.post(&[Work { order, payload }])?;
        }
        Ok(())
    }

    /// Waits for the next completion of a queue pair.
    fn wait(&mut self, place: usize) -> Result<Completed, Failure> {
        let pair = self.bench.pairs.get_mut(place);
        let pair = pair.ok_or_else(|| Failure::Bench("no such queue pair".to_owned()))?;
        let number = pair.number();
        match pair.wait(self.patience)? {
            Completed::SendFailed { cause, .. } | Completed::ReceiveFailed { cause, .. } => {
                Err(Failure::Bench(format!("queue pair {number:#x}: {cause}")))
            }
            completed => Ok(completed),
        }
    }

    /// As many requests as may be under way, on all queue pairs.
    fn bandwidth(&mut self) -> Result<Told, Failure> {
        let count = self.bench.pairs.len();
        let iterations = self.bench.options.iterations;
        let mut posted = vec![0; count];
        let mut done = vec![0; count];
        let started = Instant::now();
        while done.iter().any(|done| *done < iterations) {
            for place in 0..count {
                while posted[place] < iterations
                    && posted[place] - done[place] < self.bench.options.tx_depth
                {
                    self.post(place)?;
                    posted[place] += 1;
                }
            }
            for place in 0..count {
                if done[place] < posted[place] {
                    self.wait(place)?;
                    done[place] += 1;
                }
            }
        }
        Ok(self.told(u64::from(iterations) * count as u64, started.elapsed()))
    }

    fn told(&self, iterations: u64, elapsed: Duration) -> Told {
        Told {
            size: self.bench.size,
            iterations,
            elapsed,
            samples: Vec::new(),
        }
    }

    /// The server's end of sends.
    fn count_receives(&mut self) -> Result<Told, Failure> {
        let count = self.bench.pairs.len();
        let iterations = self.bench.options.iterations;
        let mut started = None;
        for _ in 0..iterations {
            for place in 0..count {
                self.wait(place)?;
                started.get_or_insert_with(Instant::now);
                self.posted[place] -= 1;
                if self.posted[place] <= self.bench.options.rx_depth / 2 {
                    self.fill(place)?;
                }
            }
        }
        let elapsed = started.map_or(Duration::ZERO, |started| started.elapsed());
        Ok(self.told(u64::from(iterations) * count as u64, elapsed))
    }

    /// Reads and atomics: one at a time.
    fn fetch_latency(&mut self) -> Result<Told, Failure> {
        let iterations = self.bench.options.iterations;
        let mut samples = Vec::new();
        let started = Instant::now();
        for _ in 0..iterations {
            let posted = Instant::now();
            self.post(0)?;
            self.wait(0)?;
            samples.push(posted.elapsed());
        }
        let mut told = self.told(u64::from(iterations), started.elapsed());
        samples.sort_unstable();
        told.samples = samples;
        Ok(told)
    }

    /// To and fro; half of each round counts.
    fn send_latency(&mut self) -> Result<Told, Failure> {
        let iterations = self.bench.options.iterations;
        let is_client = self.bench.role == Role::Client;
        let mut samples = Vec::new();
        let started = Instant::now();
        let mut last = Instant::now();
        for _ in 0..iterations {
            if is_client {
                last = Instant::now();
                self.post(0)?;
            }
            while !matches!(self.wait(0)?, Completed::Received(_)) {}
            self.posted[0] -= 1;
            if is_client {
                samples.push(last.elapsed() / 2);
            } else {
                self.post(0)?;
            }
            self.fill(0)?;
        }
        self.drain(iterations)?;
        let mut told = self.told(u64::from(iterations), started.elapsed());
        samples.sort_unstable();
        told.samples = samples;
        Ok(told)
    }

    /// Waits until everything that was sent is acknowledged.
    fn drain(&mut self, _sent: u32) -> Result<(), Failure> {
        let full = self.bench.pairs.first().map_or(0, |pair| pair.send_slots());
        let deadline = Instant::now() + self.patience;
        while self
            .bench
            .pairs
            .first()
            .is_some_and(|pair| pair.free_sends() < full)
        {
            if let Some(pair) = self.bench.pairs.first_mut() {
                pair.poll();
            }
            if Instant::now() >= deadline {
                return Err(Failure::Bench(
                    "the last messages were not acknowledged".to_owned(),
                ));
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Both write a counter behind the message and poll for the peer's; the server begins. Half of
    /// the time from one write to the next counts.
    fn write_latency(&mut self) -> Result<Told, Failure> {
        let iterations = self.bench.options.iterations;
        let is_client = self.bench.role == Role::Client;
        let last_byte = u64::from(self.bench.size.max(1) - 1);
        let (source, target) = (self.bench.source(0), self.bench.target(0));
        let mut samples = Vec::new();
        let started = Instant::now();
        let mut last: Option<Instant> = None;
        for number in 1..=iterations {
            let counter = [number as u8];
            if is_client {
                self.poll_byte(target + last_byte, number as u8)?;
            }
            let now = Instant::now();
            samples.extend(last.map(|last| now.duration_since(last) / 2));
            last = Some(now);
            self.bench.device.write(source + last_byte, &counter)?;
            self.post(0)?;
            if !is_client {
                self.poll_byte(target + last_byte, number as u8)?;
            }
            self.wait(0)?;
        }
        let mut told = self.told(u64::from(iterations), started.elapsed());
        samples.sort_unstable();
        told.samples = samples;
        Ok(told)
    }

    fn poll_byte(&self, at: u64, value: u8) -> Result<(), Failure> {
        let deadline = Instant::now() + self.patience;
        let mut byte = [0];
        loop {
            self.bench.device.read(at, &mut byte)?;
            if byte == [value] {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(Failure::Bench("the peer's write did not arrive".to_owned()));
            }
            std::thread::yield_now();
        }
    }
}
