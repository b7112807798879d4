//! TCP under arbitrary segments, timers and calls of the application: nothing is placed outside the
//! window that was told, or twice; the window's right edge never moves left; no more is sent than
//! the peer allowed; what is counted adds up; and as long as something is under way a timer runs.

mod watch;

use warpwire_protocols::tcp::{
    Answer, Config, Connection, Controller, Events, Initial, KeepAlive, Listener, Secret, Segment,
    State, Tuple,
};
use warpwire_protocols::wire::tcp::{TcpFlags, TcpSequence};
use warpwire_protocols::wire::tcp_option::{Options, SackBlock, Timestamps};

use crate::choices::Choices;

/// One end, and what a bystander knows of it.
struct Run {
    connection: Connection,
    config: Config,
    now_ns: u64,
    offload: u32,
    /// Numbers of both SYNs.
    ours: TcpSequence,
    theirs: Option<TcpSequence>,
    our_scale: Option<u8>,
    their_scale: Option<u8>,
    /// Which bytes of the receive ring are placed and not consumed.
    held: Vec<bool>,
    /// Positions: of what was written, sent, acknowledged, readable and consumed.
    written: u32,
    sent: u32,
    freed: u32,
    ordered: u32,
    consumed: u32,
    /// The right edges that we told, and that the peer did.
    told: Option<TcpSequence>,
    allowed: Option<TcpSequence>,
    /// Our last timestamp.
    stamp: u32,
    /// The peer's clock.
    clock: u32,
    events: Events,
    is_reset: bool,
}

/// Runs a connection as the bytes say.
pub fn check(data: &[u8]) {
    let mut choices = Choices::new(data);
    let Some(mut run) = start(&mut choices) else {
        return;
    };
    run.poll();
    run.look();
    for _ in 0..MOST_STEPS {
        let Some(choice) = choices.byte() else {
            break;
        };
        let done = match choice % 16 {
            0 | 1 => run.write(&mut choices),
            2 => run.consume(&mut choices),
            3 | 4 => run.pass_time(&mut choices),
            5 => run.end(choice),
            6 => run.network(&mut choices),
            7..=9 => run.arbitrary(&mut choices),
            _ => run.plausible(&mut choices),
        };
        if done.is_none() {
            break;
        }
        if choice & 0x80 == 0 || choice & 0x60 != 0 {
            run.poll();
            run.look();
        }
    }
    run.poll();
    run.look();
}

fn config(choices: &mut Choices<'_>) -> Option<Config> {
    let switches = choices.byte()?;
    let is = |bit: u8| switches >> bit & 1 == 1;
    let control = match is(7) {
        true => Controller::FixedRate {
            bytes_per_s: choices
                .one(&[1, 1000, 10_000_000, u64::MAX])?
                .try_into()
                .ok()?,
        },
        false => Controller::Cubic,
    };
    Some(Config {
        maximum_segment_size: choices.one(&[536, 1460, 216, 8960])?,
        receive_bytes: choices.one(&[1024, 4096, 1 << 17])?,
        send_bytes: choices.one(&[1024, 4096, 1 << 14])?,
        control,
        no_delay: is(0),
        sack: is(1),
        timestamps: is(2),
        window_scaling: is(3),
        ecn: is(4),
        delayed_ack_ns: if is(5) { 40 * MS } else { 0 },
        user_timeout_ns: 100_000 * MS,
        keep_alive: is(6).then_some(KeepAlive {
            idle_ns: 1000 * MS,
            interval_ns: 100 * MS,
            probes: 3,
        }),
        ..Config::default()
    })
}

fn start(choices: &mut Choices<'_>) -> Option<Run> {
    let config = config(choices)?;
    let now_ns = 5000 * MS;
    let initial = Initial {
        sequence: TcpSequence(choices.one(&[0, u32::MAX - 500, 0x7fff_ff00])?),
        timestamp: choices.one(&[0, u32::MAX - 3])?,
    };
    let way = choices.byte()?;
    let mut run = Run {
        connection: Connection::connect(&config, initial, now_ns),
        config,
        now_ns,
        offload: choices.one(&[0, 3000, 65_000])?,
        ours: initial.sequence,
        theirs: None,
        our_scale: None,
        their_scale: None,
        held: vec![false; config.receive_bytes as usize],
        written: 0,
        sent: 0,
        freed: 0,
        ordered: 0,
        consumed: 0,
        told: None,
        allowed: None,
        stamp: 0,
        clock: 1000,
        events: Events::empty(),
        is_reset: false,
    };
    if way.is_multiple_of(3) {
        return Some(run);
    }
    let mut syn = Segment {
        sequence: TcpSequence(choices.one(&[0, u32::MAX - 500, 0x7fff_ff00])?),
        flags: TcpFlags::SYN,
        window: choices.one(&[0, 1000, 65_535])?,
        options: run.options(choices)?,
        ..Segment::default()
    };
    if way & 0x40 != 0 {
        syn.flags |= TcpFlags::ECE | TcpFlags::CWR;
    }
    run.theirs = Some(syn.sequence);
    run.their_scale = syn.options.window_scale;
    run.allowed = Some(initial.sequence.wrapping_add(1 + u32::from(syn.window)));
    if way % 3 == 1 {
        run.connection = Connection::answer(&config, initial, &syn, now_ns);
        return Some(run);
    }
    run.by_cookie(&syn)
}

impl Run {
    /// Begins by a cookie.
    fn by_cookie(mut self, syn: &Segment) -> Option<Self> {
        let (tuple, config) = (Tuple::default(), self.config);
        let mut listener = Listener::new(Secret([1, 2]), 0);
        let answer = listener.on_segment(self.now_ns, &tuple, syn, &config);
        let Answer::Cookie(cookie) = answer else {
            panic!("a SYN for a full listener gives a cookie, not {answer:?}");
        };
        let ack = Segment {
            sequence: syn.sequence.wrapping_add(1),
            acknowledgement: cookie.sequence.wrapping_add(1),
            flags: TcpFlags::ACK,
            window: syn.window,
            options: Options {
                timestamps: cookie.options.timestamps.map(|stamps| Timestamps {
                    value: stamps.echo,
                    echo: stamps.value,
                }),
                ..Options::default()
            },
            ..Segment::default()
        };
        let Answer::Established(known) = listener.on_segment(self.now_ns, &tuple, &ack, &config)
        else {
            panic!("the cookie is not believed");
        };
        self.ours = cookie.sequence;
        self.our_scale = cookie.options.window_scale;
        self.their_scale = known.window_scale;
        self.told = Some(self.edge(&cookie));
        self.connection = Connection::established(&config, &known, self.now_ns);
        self.take(&ack);
        assert_eq!(self.connection.state(), State::Established);
        Some(self)
    }

    fn write(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let count = choices.one(&[1, 10, 536, 1460, 5000, u32::MAX])?;
        let may = self.connection.writable();
        assert!(may <= self.config.send_bytes);
        let taken = self.connection.write(count);
        assert_eq!(taken, count.min(may));
        self.written = self.written.wrapping_add(taken);
        Some(())
    }

    fn consume(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let count = choices.one(&[1, 100, 1000, u32::MAX])?;
        let count = count.min(self.connection.readable());
        assert_eq!(self.connection.read_position(), self.consumed);
        for index in 0..count {
            let at = self.ring(self.consumed.wrapping_add(index));
            self.held[at] = false;
        }
        self.connection.consume(count);
        self.consumed = self.consumed.wrapping_add(count);
        Some(())
    }

    fn pass_time(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let choice = choices.byte()?;
        let step_ns = [1, MS, 50 * MS, 1000 * MS, 100_000 * MS, 1 << 50][choice as usize % 6];
        self.clock = self.clock.wrapping_add((step_ns / MS) as u32);
        self.now_ns = match choice & 0x80 {
            0 => self.now_ns.saturating_add(step_ns),
            _ => self
                .connection
                .timeout_ns()
                .map_or(self.now_ns, |at_ns| at_ns.max(self.now_ns)),
        };
        let events = self.connection.on_timer(self.now_ns, &self.config);
        self.tell(events);
        Some(())
    }

    fn end(&mut self, choice: u8) -> Option<()> {
        match choice >> 4 {
            0 => {
                self.connection.abort();
                assert_eq!(self.connection.state(), State::Closed);
            }
            1..=4 => self.connection.close(),
            _ => {}
        }
        Some(())
    }

    /// What the network says, or somebody in its name.
    fn network(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let choice = choices.byte()?;
        let ahead = choices.one(&[0, 1, 2, 500, 1_000_000])?;
        let sequence = self.ours.wrapping_add(self.freed.wrapping_add(ahead));
        let size = self.connection.statistics().segment_bytes;
        match choice % 4 {
            0 => {
                let events = self.connection.on_unreachable(sequence);
                self.tell(events);
            }
            _ => {
                let mtu = choices.one(&[0, 68, 576, 1000, 1280, 1499, 9000, u16::MAX])?;
                self.connection.on_too_big(sequence, mtu, &self.config);
                let now = self.connection.statistics().segment_bytes;
                assert!(now <= size, "too big made segments larger");
            }
        }
        Some(())
    }

    fn options(&mut self, choices: &mut Choices<'_>) -> Option<Options> {
        let which = choices.byte()?;
        let mut options = Options::default();
        if which & 1 != 0 {
            options.maximum_segment_size = Some(choices.one(&[0, 1, 536, 1460, u16::MAX])?);
        }
        if which & 2 != 0 {
            options.window_scale = Some(choices.one(&[0, 1, 7, 14, 15, 255])?);
        }
        options.sack_permitted = which & 4 != 0;
        if which & 8 != 0 {
            let step = choices.one(&[0, 0, 1, -1, 1 << 30])?;
            self.clock = self.clock.wrapping_add_signed(step);
            options.timestamps = Some(Timestamps {
                value: self.clock,
                echo: self
                    .stamp
                    .wrapping_add_signed(choices.one(&[0, 0, -1, 1000])?),
            });
        }
        for _ in 0..which >> 4 & 3 {
            let first = self.ours.wrapping_add(1).wrapping_add(self.freed);
            let from = choices.one(&[0, 1, 100, 536, 1072, 1460, 2920, -100, 1 << 30])?;
            let length = choices.one(&[0, 1, 100, 536, 1460, 10_000, -5, 1 << 30])?;
            let left = TcpSequence(first.0.wrapping_add_signed(from));
            let right = TcpSequence(left.0.wrapping_add_signed(length));
            options.sack.push(SackBlock { left, right });
        }
        Some(options)
    }

    /// A segment of which anything may be wrong.
    fn arbitrary(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let kind = choices.byte()?;
        let flags = choices.one(&[
            TcpFlags::ACK,
            TcpFlags::ACK,
            TcpFlags::ACK | TcpFlags::FIN,
            TcpFlags::SYN,
            TcpFlags::SYN | TcpFlags::ACK,
            TcpFlags::RST,
            TcpFlags::RST | TcpFlags::ACK,
            TcpFlags::empty(),
            TcpFlags::all(),
            TcpFlags::FIN,
            TcpFlags::ACK | TcpFlags::ECE,
            TcpFlags::ACK | TcpFlags::CWR,
        ])?;
        let ahead = choices.one(&[0, 0, 1, -1, 2, 100, 500, 1024, 1460, 4096, -300, i32::MIN])?;
        let acknowledged = choices.one(&[0, 0, 1, -1, 100, 536, 70_000, -70_000, i32::MIN])?;
        let expected = self.expected().wrapping_add(u32::from(kind & 1));
        let first = self.ours.wrapping_add(self.freed.wrapping_add(1));
        let segment = Segment {
            sequence: TcpSequence(expected.0.wrapping_add_signed(ahead)),
            acknowledgement: TcpSequence(first.0.wrapping_add_signed(acknowledged)),
            flags,
            window: choices.one(&[0, 1, 500, 1000, 4096, u16::MAX])?,
            options: self.options(choices)?,
            length: choices.one(&[0, 0, 1, 100, 536, 1460, 5000, 70_000])?,
            is_marked: kind & 2 != 0,
        };
        self.take(&segment);
        Some(())
    }

    /// A segment as a peer would send it that means well: so the stream goes on.
    fn plausible(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let kind = choices.byte()?;
        let is_opening = self.connection.state() == State::SynSent;
        let mut flags = TcpFlags::ACK;
        flags.set(TcpFlags::SYN, is_opening);
        flags.set(TcpFlags::FIN, kind == 255);
        flags.set(TcpFlags::ECE, kind & 0x30 == 0x30);
        let end = self.sent.wrapping_add(u32::from(kind & 1));
        let ahead = choices.one(&[0, 0, 0, 536, 1072])?;
        let part = choices.one(&[0, 536, 1460, u32::MAX])?;
        let under_way = end.wrapping_sub(self.freed);
        let acknowledged = self.freed.wrapping_add(part.min(under_way));
        let mut options = Options::default();
        if is_opening {
            options.maximum_segment_size = Some(1460);
            options.sack_permitted = true;
            options.window_scale = Some(2);
        }
        if self.config.timestamps {
            options.timestamps = Some(Timestamps {
                value: self.clock,
                echo: self.stamp,
            });
        }
        if kind & 0x40 != 0 && !is_opening {
            let first = self.ours.wrapping_add(1).wrapping_add(acknowledged);
            let left = first.wrapping_add(choices.one(&[536, 1072, 1460, 2920])?);
            let length = choices.one(&[536, 1072, 1460, 4380])?;
            let right = left.wrapping_add(length);
            options.sack.push(SackBlock { left, right });
        }
        let segment = Segment {
            sequence: self.expected().wrapping_add(ahead),
            acknowledgement: self.ours.wrapping_add(1).wrapping_add(acknowledged),
            flags,
            window: choices.one(&[0, 1000, 20_000, u16::MAX])?,
            options,
            length: choices.one(&[0, 0, 1, 536, 1072, 1460])?,
            is_marked: kind & 8 != 0,
        };
        self.take(&segment);
        Some(())
    }

    /// The number that is probably expected next.
    fn expected(&self) -> TcpSequence {
        let theirs = self.theirs.unwrap_or_default();
        theirs.wrapping_add(1).wrapping_add(self.ordered)
    }

    fn take(&mut self, segment: &Segment) {
        let before = self.connection;
        let was_reset = self.is_reset;
        let delivery = self
            .connection
            .on_segment(self.now_ns, segment, &self.config);
        self.learn(&before, segment);
        self.hear(segment);
        self.carry_out(&before, segment, &delivery);
        if before.state() == State::Closed {
            assert_eq!(delivery.place, None, "a closed connection takes bytes");
            assert_eq!((delivery.readable, delivery.freed), (0, 0));
            assert_eq!(self.connection.state(), State::Closed);
        }
        assert!(!was_reset || self.connection.state() == State::Closed);
    }
}

const MS: u64 = 1_000_000;
const MOST_STEPS: usize = 300;
const MOST_SEGMENTS: usize = 20_000;
