//! A test: what its streams carry, and for how long.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use warpwire_pipelines::streaming::Stream;

use super::super::report::Tally;
use super::dialogue::{Dialogue, Heard, Phase};
use super::words::{CONGESTION, Parameters, Refusal, Results, State, StreamResult, stream_id};
use super::{discard, stream_at};

pub(super) struct Test {
    /// The control connection's number, peer, cookie and dialogue.
    control: usize,
    peer: SocketAddr,
    cookie: Vec<u8>,
    dialogue: Dialogue,
    parameters: Parameters,
    /// Whether we send, for each stream that the client has to open.
    directions: Vec<bool>,
    flows: Vec<Flow>,
    /// When something happened last, and how many bytes had been moved then.
    alive: (Instant, u64),
    /// Since when bytes count, and what this process had used.
    started: Instant,
    usage: Usage,
    is_omitting: bool,
    ended: Option<(Duration, Usage)>,
}

/// A stream of a test.
struct Flow {
    place: usize,
    sends: bool,
    /// Bytes that were moved since they count.
    bytes: u64,
    /// Segments that were repeated before bytes counted, and by now.
    repeated_before: u32,
    repeated: u32,
}

impl Test {
    pub(super) fn new(control: usize, peer: SocketAddr, cookie: Vec<u8>) -> Self {
        Self {
            control,
            peer,
            cookie,
            dialogue: Dialogue::begin(),
            parameters: Parameters::default(),
            directions: Vec::new(),
            flows: Vec::new(),
            alive: (Instant::now(), 0),
            started: Instant::now(),
            usage: Usage::default(),
            is_omitting: false,
            ended: None,
        }
    }

    pub(super) const fn peer(&self) -> SocketAddr {
        self.peer
    }

    pub(super) fn wants_streams(&self) -> bool {
        self.dialogue.phase() == Phase::Streams && self.flows.len() < self.directions.len()
    }

    pub(super) fn has_cookie(&self, cookie: &[u8]) -> bool {
        self.cookie == cookie
    }

    /// Whether it sends by the clock.
    pub(super) fn is_paced(&self) -> bool {
        self.is_running() && self.parameters.bandwidth > 0.0 && self.flows.iter().any(|a| a.sends)
    }

    /// The numbers of all its connections.
    pub(super) fn places(&self) -> Vec<usize> {
        let flows = self.flows.iter().map(|flow| flow.place);
        flows.chain([self.control]).collect()
    }

    /// Adds the next stream; its place among them.
    pub(super) fn add(&mut self, place: usize) -> usize {
        let index = self.flows.len();
        self.flows.push(Flow {
            place,
            sends: self.directions.get(index).copied().unwrap_or(false),
            bytes: 0,
            repeated_before: 0,
            repeated: 0,
        });
        self.alive.0 = Instant::now();
        index
    }

    /// All streams are there.
    pub(super) fn start(
        &mut self,
        streams: &mut [Option<Stream>],
        tally: &mut Tally,
    ) -> Result<(), Refusal> {
        for flow in self.flows.iter().filter(|flow| flow.sends) {
            // The ring is as it was left by whoever had it before; nobody else writes there from
            // now on, so once is enough.
            for piece in flow.stream(streams)?.room()? {
                for (byte, next) in piece.iter_mut().zip((0..=u8::MAX).cycle()) {
                    *byte = next;
                }
            }
        }
        self.dialogue.start();
        self.is_omitting = self.parameters.omit > 0;
        self.count_from_now(streams)?;
        self.alive.0 = self.started;
        self.speak(streams, tally)?;
        self.fill(streams, tally)
    }

    /// Hears and answers the control connection. Whether the test is over.
    pub(super) fn converse(
        &mut self,
        streams: &mut [Option<Stream>],
        tally: &mut Tally,
    ) -> Result<bool, Refusal> {
        let left = Refusal::Left(self.dialogue.phase().name());
        let Some(control) = stream_at(streams, self.control) else {
            return Err(left);
        };
        for piece in control.peek()? {
            self.dialogue.hear(piece);
        }
        tally.came += discard(control)? as u64;
        while let Some(heard) = self.dialogue.understand()? {
            self.alive.0 = Instant::now();
            match heard {
                Heard::Parameters(parameters) => {
                    self.directions = parameters.directions().collect();
                    self.parameters = parameters;
                }
                Heard::End => {
                    self.end(streams, tally)?;
                    self.dialogue.ask_results();
                }
                Heard::Results => {
                    let words = serde_json::to_vec(&self.results())?;
                    self.dialogue.tell_results(&words);
                }
                Heard::Done => return Ok(true),
            }
        }
        self.speak(streams, tally)?;
        match stream_at(streams, self.control) {
            Some(control) if !control.is_at_end()? => Ok(false),
            // Who has our results may leave without a word.
            _ if self.dialogue.phase() == Phase::Done && self.dialogue.outbox().is_empty() => {
                Ok(true)
            }
            _ => Err(Refusal::Left(self.dialogue.phase().name())),
        }
    }

    /// Moves the bytes of a stream that can be moved now.
    pub(super) fn exchange(
        &mut self,
        index: usize,
        streams: &mut [Option<Stream>],
        tally: &mut Tally,
    ) -> Result<(), Refusal> {
        let is_running = self.is_running();
        let allowed = self.allowed();
        let Some(flow) = self.flows.get_mut(index) else {
            return Ok(());
        };
        let stream = flow.stream(streams);
        if !is_running {
            // Nothing counts then, and who has what it wants may break it.
            let came = stream.map(discard);
            tally.came += came.map_or(0, |came| came.unwrap_or(0)) as u64;
            return Ok(());
        }
        let stream = stream?;
        // Who receives has nothing to say.
        let came = discard(stream)? as u64;
        tally.came += came;
        let moved = match flow.sends {
            true => {
                let room = stream.room()?.iter().map(|piece| piece.len() as u64).sum();
                let count = allowed.saturating_sub(flow.bytes).min(room);
                stream.commit(usize::try_from(count).unwrap_or(usize::MAX))?;
                tally.left += count;
                count
            }
            false => came,
        };
        flow.bytes += moved;
        Ok(())
    }

    /// Moves what can be moved, of all streams.
    pub(super) fn fill(
        &mut self,
        streams: &mut [Option<Stream>],
        tally: &mut Tally,
    ) -> Result<(), Refusal> {
        (0..self.flows.len()).try_for_each(|index| self.exchange(index, streams, tally))
    }

    /// What is due by the clock.
    pub(super) fn look(
        &mut self,
        streams: &mut [Option<Stream>],
        now: Instant,
    ) -> Result<(), Refusal> {
        let is_running = self.is_running();
        let elapsed = now.duration_since(self.started).as_secs();
        if is_running && self.is_omitting && elapsed >= self.parameters.omit {
            self.is_omitting = false;
            self.count_from_now(streams)?;
        }
        let moved = self.flows.iter().map(|flow| flow.bytes).sum();
        if moved != self.alive.1 {
            self.alive = (now, moved);
        }
        let patience = if is_running { SILENCE } else { PATIENCE };
        match now.duration_since(self.alive.0) >= patience {
            true => Err(Refusal::Silent(
                patience.as_secs(),
                self.dialogue.phase().name(),
            )),
            false => Ok(()),
        }
    }

    /// Tells the client why its test ends.
    pub(super) fn refuse(&mut self, refusal: &Refusal, streams: &mut [Option<Stream>]) {
        self.dialogue.refuse(refusal);
        // Who is not there to hear it is not told.
        let _ = self.speak(streams, &mut Tally::default());
    }

    pub(super) fn say(&mut self, state: State, streams: &mut [Option<Stream>]) {
        self.dialogue.say(state);
        // As above.
        let _ = self.speak(streams, &mut Tally::default());
    }

    /// What was measured, for who runs the server: in words, and for programs.
    pub(super) fn summary(&self) -> (String, Map<String, Value>) {
        let seconds = self.seconds();
        let side = |sends: bool| {
            let bytes = self.flows.iter().filter(|flow| flow.sends == sends);
            let bytes: u64 = bytes.map(|flow| flow.bytes).sum();
            (bytes, bytes as f64 * 8.0 / seconds.max(f64::MIN_POSITIVE))
        };
        let ((came, came_rate), (left, left_rate)) = (side(false), side(true));
        let repeated: u32 = self.flows.iter().map(Flow::repeated).sum();
        let streams = self.flows.len();
        let line = format!(
            "{streams} streams, {seconds:.2} s: received {came} bytes, {:.0} Mbit/s; sent {left} \
             bytes, {:.0} Mbit/s, {repeated} segments again",
            came_rate / 1e6,
            left_rate / 1e6,
        );
        let facts: [(&str, Value); 7] = [
            ("streams", streams.into()),
            ("seconds", seconds.into()),
            ("came_bytes", came.into()),
            ("came_bits_per_second", came_rate.into()),
            ("left_bytes", left.into()),
            ("left_bits_per_second", left_rate.into()),
            ("retransmits", repeated.into()),
        ];
        let facts = facts.map(|(name, fact)| (name.to_owned(), fact));
        (line, facts.into_iter().collect())
    }

    fn is_running(&self) -> bool {
        self.dialogue.phase() == Phase::Running
    }

    /// Bytes that a stream may have sent by now.
    fn allowed(&self) -> u64 {
        match self.parameters.bandwidth {
            // Casts of floats saturate.
            rate if rate > 0.0 => (rate / 8.0 * self.started.elapsed().as_secs_f64()) as u64,
            _ => u64::MAX,
        }
    }

    fn count_from_now(&mut self, streams: &mut [Option<Stream>]) -> Result<(), Refusal> {
        self.started = Instant::now();
        self.usage = Usage::now();
        for flow in &mut self.flows {
            flow.repeated_before = flow.stream(streams)?.figures()?.retransmits;
            flow.bytes = 0;
        }
        Ok(())
    }

    /// The test is over: what was moved until now counts.
    fn end(&mut self, streams: &mut [Option<Stream>], tally: &mut Tally) -> Result<(), Refusal> {
        for index in 0..self.flows.len() {
            if self.flows.get(index).is_some_and(|flow| !flow.sends) {
                self.exchange(index, streams, tally)?;
            }
        }
        self.ended = Some((self.started.elapsed(), Usage::now().since(self.usage)));
        for flow in &mut self.flows {
            let stream = flow.stream(streams)?;
            flow.repeated = stream.figures()?.retransmits;
            stream.close()?;
        }
        Ok(())
    }

    fn seconds(&self) -> f64 {
        self.ended.map_or(0.0, |(time, _)| time.as_secs_f64())
    }

    fn results(&self) -> Results {
        let seconds = self.seconds();
        let usage = self.ended.map_or(Usage::default(), |(_, usage)| usage);
        let percent = |used: f64| match seconds > 0.0 {
            true => used / seconds * 100.0,
            false => 0.0,
        };
        let sends = self.flows.iter().any(|flow| flow.sends);
        let result = |(index, flow): (usize, &Flow)| StreamResult {
            id: stream_id(index),
            bytes: flow.bytes,
            retransmits: match flow.sends {
                true => flow.repeated().into(),
                false => -1,
            },
            jitter: 0.0,
            errors: 0,
            packets: 0,
            start_time: 0.0,
            end_time: seconds,
        };
        Results {
            cpu_util_total: percent(usage.user + usage.system),
            cpu_util_user: percent(usage.user),
            cpu_util_system: percent(usage.system),
            sender_has_retransmits: if sends { 1 } else { -1 },
            congestion_used: CONGESTION,
            streams: self.flows.iter().enumerate().map(result).collect(),
        }
    }

    /// Writes what is to be said, as far as there is room.
    fn speak(&mut self, streams: &mut [Option<Stream>], tally: &mut Tally) -> Result<(), Refusal> {
        if let Some(control) = stream_at(streams, self.control)
            && !self.dialogue.outbox().is_empty()
        {
            let count = control.write(self.dialogue.outbox())?;
            self.dialogue.written(count);
            tally.left += count as u64;
        }
        Ok(())
    }
}

impl Flow {
    fn stream<'a>(&self, streams: &'a mut [Option<Stream>]) -> Result<&'a mut Stream, Refusal> {
        stream_at(streams, self.place).ok_or(Refusal::Left("a stream of the test"))
    }

    /// Segments that were repeated while bytes counted.
    const fn repeated(&self) -> u32 {
        self.repeated.wrapping_sub(self.repeated_before)
    }
}

/// Processor seconds of this process.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    user: f64,
    system: f64,
}

impl Usage {
    fn now() -> Self {
        let text = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The second field is a name in parentheses and may hold spaces.
        let rest = text.rsplit_once(')').map_or("", |(_, rest)| rest);
        let mut fields = rest.split_whitespace().skip(11).map(str::parse::<f64>);
        let mut next = || fields.next().and_then(Result::ok).unwrap_or(0.0) / TICKS;
        Self {
            user: next(),
            system: next(),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            user: self.user - before.user,
            system: self.system - before.system,
        }
    }
}

/// How long a client may take for a step outside of the measurement.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// How long a test may run without a byte.
const SILENCE: Duration = Duration::from_secs(60);
/// Ticks of the processor clock in a second, as Linux counts them for programs.
const TICKS: f64 = 100.0;
