//! Runs a script: what it injects, what our end says to it, and whether that was expected.

mod expect;

use std::collections::VecDeque;
use std::fmt::Write as _;

use warpwire_protocols::tcp::{
    Answer, Connection, Events, Initial, Listener, Outgoing, Secret, Segment, State, Tuple,
    answer_unknown,
};
use warpwire_protocols::wire::tcp::{TcpFlags, TcpSequence};
use warpwire_protocols::wire::tcp_option::{Options, SackBlock, Timestamps};

use crate::cases::Case;
use crate::end::End;
use crate::language::{Choice, Line, Packet, Step, read};
use crate::words::{self, Setting};

/// Where the numbers of a run begin: ours, the peer's, our clock of timestamps, and the time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    ours: u32,
    theirs: u32,
    stamp: u32,
    now_ns: u64,
}

pub(crate) const STARTS: [Start; 3] = [
    Start {
        ours: 0,
        theirs: u32::MAX - 700,
        stamp: 0,
        now_ns: 0,
    },
    Start {
        ours: u32::MAX - 2500,
        theirs: 0x7fff_ff00,
        stamp: u32::MAX - 30,
        now_ns: 77_000_000_000_000,
    },
    Start {
        ours: 0x7fff_fe00,
        theirs: 0,
        stamp: 0x7fff_ffff,
        now_ns: 5_000_000_000,
    },
];

struct Run {
    setting: Setting,
    start: Start,
    listener: Option<Listener>,
    end: Option<End>,
    now_ns: u64,
    sent: VecDeque<(u64, Outgoing)>,
    /// Numbers of both SYNs.
    ours: Option<u32>,
    theirs: u32,
    /// The first and the last value of our clock that was seen.
    stamps: Option<(u32, u32)>,
    embryonic: bool,
    rotations: u64,
}

/// Runs a script; says where it fails.
pub(crate) fn run(case: &Case, start: Start) -> Result<(), String> {
    let setting = words::setting(case.config)?;
    let listener = setting
        .backlog
        .map(|backlog| Listener::new(Secret([3, 4]), backlog));
    let mut run = Run {
        setting,
        start,
        listener,
        end: None,
        now_ns: start.now_ns,
        sent: VecDeque::new(),
        ours: None,
        theirs: start.theirs,
        stamps: None,
        embryonic: false,
        rotations: 0,
    };
    let mut told = String::new();
    for (index, text) in case.script.lines().enumerate() {
        run.lines(text).map_err(|fault| {
            let _ = write!(
                told,
                "line {index}: {}\n  {fault}\n  {start:?}",
                text.trim()
            );
            std::mem::take(&mut told)
        })?;
    }
    match run.sent.front() {
        Some((_, out)) => Err(format!("at the end: {} too many", run.tell(out))),
        None => Ok(()),
    }
}

impl Run {
    fn lines(&mut self, text: &str) -> Result<(), String> {
        let Some(line) = read(text)? else {
            return Ok(());
        };
        if let Step::Words(words) = &line.step
            && words[0] == "passive"
        {
            let lines = words::passive(&words[1..])?;
            return lines.lines().try_for_each(|line| self.lines(line));
        }
        self.line(line)
    }

    fn line(&mut self, line: Line) -> Result<(), String> {
        let Line { wait_ns, step } = line;
        let until_ns = wait_ns.as_ref().map(|wait| self.now_ns + wait.end());
        match step {
            Step::Expect(packet) => self.expect(&packet, wait_ns),
            Step::Drain => {
                self.sent.clear();
                Ok(())
            }
            Step::Pass => {
                self.pass(until_ns.ok_or("pass how long?")?)?;
                self.sent.clear();
                Ok(())
            }
            Step::Silence => {
                self.quiet()?;
                self.pass(until_ns.unwrap_or(self.now_ns))?;
                self.quiet()
            }
            Step::Inject(packet) => {
                self.wait(until_ns)?;
                self.inject(&packet)
            }
            Step::Words(words) if words[0] == "answers" => {
                let until_ns = until_ns.ok_or("answers how long?")?;
                self.answers(until_ns, &words[1..])
            }
            Step::Words(words) => {
                self.wait(until_ns)?;
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                self.words(&words)
            }
        }
    }

    /// Lets time pass before something is done; nothing may be sent meanwhile.
    fn wait(&mut self, until_ns: Option<u64>) -> Result<(), String> {
        match until_ns {
            None => Ok(()),
            Some(until_ns) => {
                self.quiet()?;
                self.pass(until_ns)?;
                self.quiet()
            }
        }
    }

    fn quiet(&self) -> Result<(), String> {
        match self.sent.front() {
            None => Ok(()),
            Some((at_ns, out)) => Err(format!(
                "got, but did not expect, at {:?}: {}",
                since(self.start.now_ns, *at_ns),
                self.tell(out)
            )),
        }
    }

    /// Runs timers up to a time.
    fn pass(&mut self, until_ns: u64) -> Result<(), String> {
        let mut idle = 0;
        while let Some(at_ns) = self.timer().filter(|at_ns| *at_ns <= until_ns) {
            idle = if at_ns <= self.now_ns { idle + 1 } else { 0 };
            if idle > 1000 {
                return Err("a timer that never passes".to_owned());
            }
            self.now_ns = self.now_ns.max(at_ns);
            self.on_timer();
        }
        self.now_ns = until_ns;
        self.poll();
        Ok(())
    }

    fn timer(&self) -> Option<u64> {
        self.end
            .as_ref()
            .and_then(|end| end.connection.timeout_ns())
    }

    fn on_timer(&mut self) {
        if let Some(end) = &mut self.end {
            end.on_timer(self.now_ns);
        }
        self.poll();
    }

    fn poll(&mut self) {
        for _ in 0..MOST_SEGMENTS {
            let Some(end) = &mut self.end else {
                return;
            };
            let Some((train, pieces)) = end.poll(self.now_ns, self.setting.offload) else {
                return;
            };
            for (piece, bytes) in pieces {
                let positions = (0..).map(|index| piece.payload.at.wrapping_add(index));
                assert!(
                    positions
                        .map(letter)
                        .zip(&bytes)
                        .all(|(want, got)| want == *got),
                    "other bytes are sent than were written"
                );
            }
            self.see(train);
        }
        panic!("sends without end");
    }

    /// A segment that leaves.
    fn see(&mut self, out: Outgoing) {
        if out.flags.contains(TcpFlags::SYN) {
            self.ours = Some(out.sequence.0);
        }
        if let Some(stamps) = out.options.timestamps {
            let (first, _) = self.stamps.unwrap_or((stamps.value, 0));
            self.stamps = Some((first, stamps.value));
        }
        self.sent.push_back((self.now_ns, out));
    }

    fn ours(&self) -> u32 {
        self.ours.unwrap_or(self.start.ours)
    }

    fn segment(&self, packet: &Packet) -> Segment {
        let sequence = self.theirs.wrapping_add(packet.from.unwrap_or(0));
        let acknowledgement = packet
            .acknowledgement
            .map_or(0, |number| self.ours().wrapping_add(number));
        let (first, last) = self.stamps.unwrap_or((0, 0));
        let mut options = Options::default();
        for choice in &packet.options {
            match choice {
                Choice::Mss(size) => options.maximum_segment_size = Some(*size),
                Choice::Scale(shift) => options.window_scale = *shift,
                Choice::SackAllowed => options.sack_permitted = true,
                Choice::Sack(blocks) => {
                    for (left, right) in blocks {
                        let [left, right] = [left, right].map(|n| self.ours().wrapping_add(*n));
                        options.sack.push(SackBlock {
                            left: TcpSequence(left),
                            right: TcpSequence(right),
                        });
                    }
                }
                Choice::Time { value, echo } => {
                    options.timestamps = Some(Timestamps {
                        value: value.unwrap_or(0),
                        echo: echo.map_or(last, |echo| first.wrapping_add(echo)),
                    });
                }
                Choice::Without(_) => {}
            }
        }
        Segment {
            sequence: TcpSequence(sequence),
            acknowledgement: TcpSequence(acknowledgement),
            flags: flags(&packet.flags),
            window: packet.window.unwrap_or(0) as u16,
            options,
            length: packet.length(),
            is_marked: packet.marked == Some(true),
        }
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), String> {
        if !packet.anyway {
            self.quiet()?;
        }
        let segment = self.segment(packet);
        let payload = vec![packet.fill; segment.length as usize];
        let is_live = |end: &&mut End| end.connection.state() != State::Closed;
        if let Some(end) = self.end.as_mut().filter(is_live) {
            end.take(self.now_ns, &segment, &payload);
        } else if self.end.is_none() && self.listener.is_some() {
            self.listen(&segment, &payload);
        } else if let Some(out) = answer_unknown(&segment) {
            self.see(out);
        }
        let state = self.end.as_ref().map(|end| end.connection.state());
        if let Some(listener) = &mut self.listener
            && self.embryonic
            && state != Some(State::SynReceived)
        {
            listener.settled();
            self.embryonic = false;
        }
        self.poll();
        Ok(())
    }

    fn listen(&mut self, segment: &Segment, payload: &[u8]) {
        let config = self.setting.config;
        let listener = self.listener.as_mut().expect("is there");
        match listener.on_segment(self.now_ns, &Tuple::default(), segment, &config) {
            Answer::Nothing => {}
            Answer::Reset(out) | Answer::Cookie(out) => self.see(out),
            Answer::Connection(_) => {
                self.embryonic = true;
                let connection = Connection::answer(&config, self.initial(), segment, self.now_ns);
                let mut end = End::new(connection, config);
                end.hear(segment);
                self.end = Some(end);
            }
            Answer::Established(known) => {
                let connection = Connection::established(&config, &known, self.now_ns);
                let mut end = End::new(connection, config);
                let scale = 32 - (config.receive_bytes >> 16).leading_zeros();
                let scales = known.window_scale.map(|_| scale as u8);
                let ours = known.initial.sequence;
                end.knows(ours, known.peer, [scales, known.window_scale]);
                end.take(self.now_ns, segment, payload);
                self.end = Some(end);
            }
        }
    }

    /// Where the numbers of a connection begin: where this run wants it.
    fn initial(&self) -> Initial {
        Initial {
            sequence: TcpSequence(self.start.ours),
            timestamp: self.start.stamp,
        }
    }

    fn words(&mut self, words: &[&str]) -> Result<(), String> {
        match *words {
            ["connect"] => {
                let config = self.setting.config;
                let connection = Connection::connect(&config, self.initial(), self.now_ns);
                self.end = Some(End::new(connection, config));
            }
            ["embryonic", count] => {
                let listener = self.listener.as_ref().ok_or("no listener")?;
                return same(count, &listener.embryonic().to_string());
            }
            ["rotate"] => {
                self.rotations += 1;
                let listener = self.listener.as_mut().ok_or("no listener")?;
                listener.rotate(Secret([5, self.rotations]));
            }
            ["sent", relation, count] => {
                let sent = self.sent.iter().map(|(_, out)| out.segments()).sum::<u32>();
                self.sent.clear();
                return holds("segments sent", sent.into(), relation, count);
            }
            ["state", "none"] if self.end.is_none() => {}
            [times, "<", ..] if times.starts_with('x') => {
                let times: u32 = times[1..].parse().map_err(|_| "how often?")?;
                let line = read(&words[1..].join(" "))?;
                let Some(Step::Inject(mut packet)) = line.map(|line| line.step) else {
                    return Err("only a segment is repeated".to_owned());
                };
                packet.anyway = true;
                return (0..times).try_for_each(|_| self.inject(&packet));
            }
            _ => return self.of_connection(words),
        }
        self.poll();
        Ok(())
    }

    /// What is done with the connection, or asked of it.
    fn of_connection(&mut self, words: &[&str]) -> Result<(), String> {
        let ours = self.ours();
        let end = self.end.as_mut().ok_or("no connection")?;
        let connection = &mut end.connection;
        let number = |text: &str| crate::language::number(text);
        match *words {
            ["write", count, ref rest @ ..] => {
                let count = number(count)?;
                let at = connection.write_position();
                let bytes: Vec<u8> = (0..count).map(|i| letter(at.wrapping_add(i))).collect();
                let taken = end.write(&bytes);
                let accepts = rest.get(1).map_or(Ok(count), |text| number(text))?;
                same(&accepts.to_string(), &taken.to_string())?;
            }
            ["read", count] => {
                let count = number(count)?;
                let got = end.read(count).len();
                same(&count.to_string(), &got.to_string())?;
            }
            ["close"] => connection.close(),
            ["abort"] => connection.abort(),
            ["unreachable", at] => {
                let at = TcpSequence(ours.wrapping_add(number(at)?));
                let events = connection.on_unreachable(at);
                end.events |= events;
            }
            ["too_big", at, "mtu", mtu] => {
                let at = TcpSequence(ours.wrapping_add(number(at)?));
                connection.on_too_big(at, number(mtu)? as u16, &end.config);
            }
            _ => return self.ask(words),
        }
        self.poll();
        Ok(())
    }

    fn ask(&mut self, words: &[&str]) -> Result<(), String> {
        let end = self.end.as_mut().ok_or("no connection")?;
        let connection = &end.connection;
        match *words {
            ["state", name] => same(name, &format!("{:?}", connection.state())),
            ["readable", count] => same(count, &connection.readable().to_string()),
            ["writable", count] => same(count, &connection.writable().to_string()),
            ["cause", name] => {
                let cause = connection.cause();
                same(
                    name,
                    &cause.map_or("none".to_owned(), |one| format!("{one:?}")),
                )
            }
            ["event", name] => {
                let event = Events::from_name(name).ok_or("is no event")?;
                let got = end.events;
                end.events.remove(event);
                match got.contains(event) {
                    true => Ok(()),
                    false => Err(format!("got {got:?}")),
                }
            }
            ["note", name] => {
                let notes: Vec<String> = end.notes.iter().map(|n| format!("{n:?}")).collect();
                match notes.iter().any(|note| note == name) {
                    true => Ok(()),
                    false => Err(format!("got {notes:?}")),
                }
            }
            ["timer", "none"] => match connection.timeout_ns() {
                None => Ok(()),
                Some(at_ns) => Err(format!("got {:?}", since(self.now_ns, at_ns))),
            },
            ["stat", name, relation, want] => {
                let figures = connection.statistics();
                let figure = words::figure(name, &figures).ok_or("is no figure")?;
                holds(name, figure, relation, want)
            }
            ["bytes", range, fill] => {
                let (from, to) = range.split_once(':').ok_or("is no range")?;
                let [from, to] = [from, to].map(crate::language::number);
                let bytes = end.bytes(from?..to?);
                match bytes.iter().position(|byte| *byte != fill.as_bytes()[0]) {
                    None => Ok(()),
                    Some(at) => Err(format!("byte {at} of them is {:?}", bytes[at] as char)),
                }
            }
            _ => Err("is not in the language".to_owned()),
        }
    }
}

fn same(want: &str, got: &str) -> Result<(), String> {
    match want == got {
        true => Ok(()),
        false => Err(format!("got {got}")),
    }
}

fn holds(name: &str, got: u64, relation: &str, want: &str) -> Result<(), String> {
    let want = u64::from(crate::language::number(want)?);
    let holds = match relation {
        "=" => got == want,
        "<=" => got <= want,
        ">=" => got >= want,
        _ => return Err(format!("`{relation}` is no relation")),
    };
    match holds {
        true => Ok(()),
        false => Err(format!("got {name} {got}")),
    }
}

fn since(from_ns: u64, at_ns: u64) -> std::time::Duration {
    std::time::Duration::from_nanos(at_ns.saturating_sub(from_ns))
}

/// What is written at a position.
fn letter(position: u32) -> u8 {
    (position % 251) as u8 + 1
}

fn flags(letters: &str) -> TcpFlags {
    let named = FLAGS.iter().filter(|(_, letter)| letters.contains(*letter));
    named.map(|(flag, _)| *flag).collect()
}

const FLAGS: [(TcpFlags, char); 8] = [
    (TcpFlags::SYN, 'S'),
    (TcpFlags::FIN, 'F'),
    (TcpFlags::RST, 'R'),
    (TcpFlags::PSH, 'P'),
    (TcpFlags::ACK, '.'),
    (TcpFlags::ECE, 'E'),
    (TcpFlags::CWR, 'W'),
    (TcpFlags::URG, 'U'),
];
const MOST_SEGMENTS: usize = 5000;
