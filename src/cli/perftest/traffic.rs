//! What goes over the wire while it is measured.

use std::time::{Duration, Instant};

use warpwire_pipelines::connect::perftest::{Destination, Direction, Results, Role, Tool};
use warpwire_pipelines::messaging::{Completed, Work};
use warpwire_protocols::rdma::{ROUTE_HEADER_BYTES, Service};
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Order, Payload};

use super::options::LONGEST_INLINE;
use super::{Bench, Failure};

/// A measurement under way.
pub(super) struct Traffic<'a, 'b> {
    bench: &'a mut Bench<'b>,
    /// What every request of a queue pair says.
    orders: Vec<Order>,
    patience: Duration,
    flows: Vec<Flow>,
    /// Requests of which one completes.
    every: u32,
    /// Rests since the clock was looked at.
    rests: u32,
    /// Packets that had come when nothing else had moved for as long as is waited.
    packets: u64,
    /// Packets came meanwhile: it is waited until then.
    extended: Option<Instant>,
    last: Option<Told>,
}

/// How far a queue pair has come.
#[derive(Clone, Copy, Default)]
struct Flow {
    posted: u32,
    done: u32,
    received: u32,
    /// Receives that are posted.
    waiting: u32,
}

/// What was measured.
pub(super) struct Told {
    pub(super) size: u32,
    pub(super) iterations: u64,
    pub(super) elapsed: Duration,
    /// The highest rate of a tenth of the messages, in messages a second.
    pub(super) peak: f64,
    /// Of latencies: one a message, sorted.
    pub(super) samples: Vec<Duration>,
}

impl Told {
    /// Bytes a second.
    pub(super) fn rate(&self) -> f64 {
        self.messages() * f64::from(self.size)
    }

    /// Bytes a second while it was fastest.
    pub(super) fn peak_rate(&self) -> f64 {
        self.peak.max(self.messages()) * f64::from(self.size)
    }

    pub(super) fn messages(&self) -> f64 {
        self.iterations as f64 / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    pub(super) fn results(&self) -> Results {
        Results {
            size: u64::from(self.size),
            iterations: self.iterations,
            peak: self.peak_rate() / MIB,
            average: self.rate() / MIB,
            message_rate: self.messages() / 1e6,
        }
    }
}

pub(super) const MIB: f64 = 1024.0 * 1024.0;

/// When messages were posted, and when they were done.
#[derive(Default)]
struct Times {
    posted: Vec<Instant>,
    done: Vec<Instant>,
}

impl Times {
    fn note(times: &mut Vec<Instant>, count: u32) {
        let room = MOST_TIMES.saturating_sub(times.len());
        times.extend(std::iter::repeat_n(
            Instant::now(),
            room.min(count as usize),
        ));
    }

    /// The highest rate of a tenth of the messages, from when its first was posted until its last
    /// was done, in messages a second.
    fn peak(&self) -> f64 {
        let tenth = (self.done.len() / 10).max(1);
        let spans = self.posted.iter().zip(self.done.iter().skip(tenth - 1));
        let shortest = spans
            .map(|(posted, done)| done.duration_since(*posted))
            .min();
        let seconds = shortest.map_or(f64::INFINITY, |span| span.as_secs_f64());
        tenth as f64 / seconds.max(f64::MIN_POSITIVE)
    }
}

/// Rests between two looks at the clock.
const GLANCE: u32 = 16;

/// Messages whose times are kept.
const MOST_TIMES: usize = 1 << 20;

impl<'a, 'b> Traffic<'a, 'b> {
    pub(super) fn new(bench: &'a mut Bench<'b>, theirs: &[Destination]) -> Result<Self, Failure> {
        let patience = bench.plan.options.patience();
        let flows = vec![Flow::default(); bench.pairs.len()];
        let places = 0..bench.pairs.len();
        let orders = places.map(|place| bench.order(place, theirs.get(place)));
        let orders = orders.collect::<Result<Vec<_>, _>>()?;
        let mut traffic = Self {
            bench,
            orders,
            patience,
            flows,
            every: 1,
            rests: 0,
            packets: 0,
            extended: None,
            last: None,
        };
        if traffic.receives() {
            for place in 0..traffic.flows.len() {
                traffic.fill(place)?;
            }
        }
        Ok(traffic)
    }

    /// What was measured last.
    pub(super) fn last(&self) -> Option<&Told> {
        self.last.as_ref()
    }

    /// Whether messages go into receives here.
    fn receives(&self) -> bool {
        let plan = self.bench.plan;
        match plan.tool {
            Tool::SendBandwidth => plan.role == Role::Server || plan.direction == Direction::Both,
            Tool::SendLatency => true,
            _ => false,
        }
    }

    /// Whether requests go from here.
    fn sends(&self) -> bool {
        let plan = self.bench.plan;
        plan.role == Role::Client || plan.direction == Direction::Both
    }

    /// Posts receives up to the depth.
    fn fill(&mut self, place: usize) -> Result<(), Failure> {
        let plan = self.bench.plan;
        let region = *self.bench.device.region();
        let header = match plan.service {
            Service::Ud => ROUTE_HEADER_BYTES,
            _ => 0,
        };
        let at = plan.target(place as u64) - u64::from(header);
        let piece = region.gather(at, plan.longest().max(1) + header);
        let depth = plan.options.rx_depth;
        if let (Some(flow), Some(pair)) =
            (self.flows.get_mut(place), self.bench.pairs.get_mut(place))
        {
            while flow.waiting < depth && pair.free_receives() > 0 {
                pair.receive(&[piece])?;
                flow.waiting += 1;
            }
        }
        Ok(())
    }

    /// Runs it at a size; the passive end of a one-sided operation has nothing to do and nothing to
    /// tell.
    pub(super) fn play(&mut self, size: u32) -> Result<Option<&Told>, Failure> {
        for flow in &mut self.flows {
            (flow.posted, flow.done, flow.received) = (0, 0, 0);
        }
        let (sends, receives) = (self.sends(), self.receives());
        self.every = 1;
        let told = match self.bench.plan.tool {
            Tool::SendLatency => self.send_latency(size)?,
            Tool::WriteLatency => self.write_latency(size)?,
            _ if !sends && !receives => return Ok(None),
            Tool::ReadLatency | Tool::AtomicLatency => self.fetch_latency(size)?,
            _ => self.bandwidth(size, sends, receives)?,
        };
        self.last = Some(told);
        Ok(self.last.as_ref())
    }

    /// Posts a request that completes.
    fn post(&mut self, place: usize, size: u32) -> Result<(), Failure> {
        self.post_list(place, size, [true])
    }

    /// Posts requests that ring the doorbell once; each completes if it is said to.
    fn post_list(
        &mut self,
        place: usize,
        size: u32,
        completes: impl IntoIterator<Item = bool>,
    ) -> Result<(), Failure> {
        let region = *self.bench.device.region();
        let at = self.bench.plan.source(place as u64);
        let piece = [region.gather(at, size)];
        let mut bytes = [0; LONGEST_INLINE as usize];
        let bytes = bytes.get_mut(..size as usize);
        let payload = match bytes {
            _ if size == 0 => Payload::Pieces(&[]),
            Some(bytes) if size <= self.bench.plan.inline() => {
                self.bench.device.read(at, bytes)?;
                Payload::Inline(bytes)
            }
            _ => Payload::Pieces(&piece),
        };
        if let (Some(pair), Some(order)) = (self.bench.pairs.get_mut(place), self.orders.get(place))
        {
            let works = completes.into_iter().map(|signal| Work {
                order: Order { signal, ..*order },
                payload,
            });
            pair.post_all(works)?;
        }
        Ok(())
    }

    /// What a queue pair has completed, if anything; receives are posted again.
    fn poll(&mut self, place: usize) -> Result<Option<Completed>, Failure> {
        let Some(pair) = self.bench.pairs.get_mut(place) else {
            return Ok(None);
        };
        let number = pair.number();
        let completed = pair.poll();
        match completed {
            Some(Completed::SendFailed { cause, .. } | Completed::ReceiveFailed { cause, .. }) => {
                let words = format!("queue pair {number:#x}: {cause}");
                return Err(Failure::Traffic(words));
            }
            Some(Completed::Received(_)) => {
                let depth = self.bench.plan.options.rx_depth;
                if let Some(flow) = self.flows.get_mut(place) {
                    flow.received += 1;
                    flow.waiting -= 1;
                    if flow.waiting <= depth / 2 {
                        self.fill(place)?;
                    }
                }
            }
            Some(Completed::Sent { .. }) => {
                if let Some(flow) = self.flows.get_mut(place) {
                    // It speaks for all before it that have none of their own.
                    let most = self.bench.plan.options.iterations;
                    flow.done = (flow.done + self.every).min(most);
                }
            }
            None => {}
        }
        Ok(completed)
    }

    /// Waits until a queue pair has come as far as `is_there` says.
    fn until(&mut self, what: &str, is_there: impl Fn(&Flow) -> bool) -> Result<(), Failure> {
        let deadline = Instant::now() + self.patience;
        while !self.flows.first().is_some_and(&is_there) {
            if self.poll(0)?.is_none() {
                self.rest(deadline, what)?;
            }
        }
        Ok(())
    }

    fn rest(&mut self, deadline: Instant, what: &str) -> Result<(), Failure> {
        match self.bench.plan.options.fused {
            true => {
                let is_busy = self.bench.device.endpoint().step();
                // The kernel carries frames to and from its interfaces on these processors, too.
                if !is_busy && !self.bench.plan.options.is_over_memif() {
                    std::thread::yield_now();
                }
            }
            false => std::thread::yield_now(),
        }
        // Looking at the clock takes about as long as a round that finds nothing.
        self.rests = self.rests.wrapping_add(1);
        if !self.rests.is_multiple_of(GLANCE) || Instant::now() < deadline {
            return Ok(());
        }
        if self.extended.is_some_and(|until| Instant::now() < until) {
            return Ok(());
        }
        // A long message comes for long.
        let packets = self.bench.device.endpoint().counters().received;
        if packets != self.packets {
            self.packets = packets;
            self.extended = Some(Instant::now() + self.patience);
            return Ok(());
        }
        let seconds = self.patience.as_secs();
        Err(Failure::Traffic(format!(
            "{what}: nothing within {seconds} s"
        )))
    }

    /// As many requests as may be under way, on all queue pairs; or as many messages as come.
    fn bandwidth(&mut self, size: u32, sends: bool, receives: bool) -> Result<Told, Failure> {
        let count = self.flows.len();
        let options = self.bench.plan.options;
        let (iterations, depth) = (options.iterations, options.tx_depth);
        let every = options.moderation.min(depth);
        let list = options.list.min(depth);
        self.every = every;
        let all = u64::from(iterations) * count as u64;
        let is_done = |flow: &Flow| {
            (!sends || flow.done >= iterations) && (!receives || flow.received >= iterations)
        };
        let mut started = sends.then(Instant::now);
        let mut times = Times::default();
        let mut deadline = Instant::now() + self.patience;
        while !self.flows.iter().all(is_done) {
            let mut is_idle = true;
            for place in 0..count {
                let flow = self.flows.get(place).copied().unwrap_or_default();
                let room = depth.saturating_sub(flow.posted - flow.done);
                let more = if sends {
                    room.min(iterations - flow.posted)
                } else {
                    0
                };
                let end = flow.posted + more - more % list.min(iterations - flow.posted).max(1);
                for first in (flow.posted..end).step_by(list as usize) {
                    let numbers = first + 1..=end.min(first + list);
                    let completes = numbers.map(|n| n.is_multiple_of(every) || n == iterations);
                    self.post_list(place, size, completes)?;
                }
                Times::note(&mut times.posted, end - flow.posted);
                if let Some(flow) = self.flows.get_mut(place) {
                    flow.posted = end;
                }
                while let Some(completed) = self.poll(place)? {
                    is_idle = false;
                    started.get_or_insert_with(Instant::now);
                    if matches!(completed, Completed::Sent { .. }) {
                        Times::note(&mut times.done, every);
                    }
                }
            }
            if is_idle {
                self.rest(deadline, "messages")?;
            } else {
                deadline = Instant::now() + self.patience;
            }
        }
        let elapsed = started.map_or(Duration::ZERO, |started| started.elapsed());
        Ok(Told {
            peak: times.peak(),
            ..told(size, all, elapsed)
        })
    }

    /// Reads and atomics: one at a time.
    fn fetch_latency(&mut self, size: u32) -> Result<Told, Failure> {
        let iterations = self.bench.plan.options.iterations;
        let mut samples = Vec::new();
        let started = Instant::now();
        for number in 1..=iterations {
            let posted = Instant::now();
            self.post(0, size)?;
            self.until("an answer", |flow| flow.done == number)?;
            samples.push(posted.elapsed());
        }
        Ok(told(size, u64::from(iterations), started.elapsed()).with(samples))
    }

    /// To and fro; half of the time from one message to the next counts, at both ends.
    fn send_latency(&mut self, size: u32) -> Result<Told, Failure> {
        let iterations = self.bench.plan.options.iterations;
        let is_client = self.bench.plan.role == Role::Client;
        let mut times = Vec::new();
        let started = Instant::now();
        for number in 1..=iterations {
            if !is_client {
                self.until("the peer's message", |flow| flow.received == number)?;
            }
            times.push(Instant::now());
            self.post(0, size)?;
            if is_client {
                self.until("the peer's message", |flow| flow.received == number)?;
            }
        }
        let elapsed = started.elapsed();
        self.until("an acknowledgement", |flow| flow.done == iterations)?;
        Ok(told(size, u64::from(iterations), elapsed).with(halves(&times)))
    }

    /// Both write a counter behind the message and poll for the peer's; the server begins. Half of
    /// the time from one write to the next counts, at both ends.
    fn write_latency(&mut self, size: u32) -> Result<Told, Failure> {
        let iterations = self.bench.plan.options.iterations;
        let is_client = self.bench.plan.role == Role::Client;
        let last_byte = u64::from(size.max(1) - 1);
        let (source, target) = (self.bench.plan.source(0), self.bench.plan.target(0));
        let mut times = Vec::new();
        let started = Instant::now();
        for number in 1..=iterations {
            let counter = [number as u8];
            if is_client {
                self.poll_byte(target + last_byte, number as u8)?;
            }
            times.push(Instant::now());
            self.bench.device.write(source + last_byte, &counter)?;
            self.post(0, size)?;
            if !is_client {
                self.poll_byte(target + last_byte, number as u8)?;
            }
            self.until("an acknowledgement", |flow| flow.done == number)?;
        }
        // The next size ends elsewhere, and counts from one again.
        self.bench.device.write(target + last_byte, &[0])?;
        Ok(told(size, u64::from(iterations), started.elapsed()).with(halves(&times)))
    }

    fn poll_byte(&mut self, at: u64, value: u8) -> Result<(), Failure> {
        let deadline = Instant::now() + self.patience;
        let mut byte = [0];
        loop {
            self.bench.device.read(at, &mut byte)?;
            if byte == [value] {
                return Ok(());
            }
            self.rest(deadline, "the peer's write")?;
        }
    }
}

impl Told {
    /// With one latency a message.
    fn with(mut self, mut samples: Vec<Duration>) -> Self {
        samples.sort_unstable();
        self.samples = samples;
        self
    }
}

fn told(size: u32, iterations: u64, elapsed: Duration) -> Told {
    Told {
        size,
        iterations,
        elapsed,
        peak: 0.0,
        samples: Vec::new(),
    }
}

/// Half of the time from each to the next.
fn halves(times: &[Instant]) -> Vec<Duration> {
    let pairs = times.iter().zip(times.iter().skip(1));
    pairs
        .map(|(one, next)| next.duration_since(*one) / 2)
        .collect()
}

impl Bench<'_> {
    /// What every request of a queue pair says.
    fn order(&self, place: usize, peer: Option<&Destination>) -> Result<Order, Failure> {
        let opcode = match self.plan.tool {
            Tool::SendBandwidth | Tool::SendLatency => Opcode::SEND,
            Tool::WriteBandwidth | Tool::WriteLatency => Opcode::WRITE,
            Tool::ReadBandwidth | Tool::ReadLatency => Opcode::READ,
            Tool::AtomicBandwidth | Tool::AtomicLatency => Opcode::FETCH_ADD,
        };
        let mut order = Order {
            address: peer.map_or(0, |peer| peer.address),
            key: peer.map_or(0, |peer| peer.rkey),
            value: 1,
            ..Order::new(opcode)
        };
        if let (Service::Ud, Some(peer), Some(pair), Some(qkey)) = (
            self.plan.service,
            peer,
            self.pairs.get(place),
            self.qkeys.get(place),
        ) {
            let (own, other) = (pair.number(), peer.qp.value());
            let path = self.device.path(&peer.gid.0, own, other, 0)?;
            order.datagram = Some(path.datagram(other, *qkey, peer.gid.0));
        }
        Ok(order)
    }
}
