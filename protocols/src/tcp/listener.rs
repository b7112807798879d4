//! Who may become a connection: RFC 9293 sections 3.10.7.1 (CLOSED) and 3.10.7.2 (LISTEN).

use super::config::Config;
use super::cookie::{self, Established};
use super::initial::{Initial, Secret, Tuple};
use super::segment::{Outgoing, Payload, Segment};
use crate::wire::tcp::{TcpFlags, TcpSequence};
use crate::wire::tcp_option::{Options, Timestamps};

/// Takes segments for a port that belong to no connection. It keeps a count of handshakes that are
/// not complete; more than its backlog are answered by cookies, of which nothing is kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listener {
    secret: Secret,
    previous: Secret,
    /// When a cookie was last sent; cookies are asked for only where there can be some.
    baked_ns: u64,
    embryonic: u32,
    backlog: u32,
    is_baked: bool,
}

/// What to do with a segment that belongs to no connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// Nothing.
    Nothing,
    /// Make a connection of it ([`Connection::answer`](super::Connection::answer)). It counts as
    /// embryonic until [`Listener::settled`].
    Connection(Initial),
    /// Send this; keep nothing.
    Cookie(Outgoing),
    /// Make a connection of it ([`Connection::established`](super::Connection::established)), then
    /// hand the segment to that.
    Established(Established),
    /// Send this: the segment belongs to nobody.
    Reset(Outgoing),
}

impl Listener {
    /// A listener with so many handshakes under way at most; of 0, all are answered by cookies.
    pub const fn new(secret: Secret, backlog: u32) -> Self {
        Self {
            secret,
            previous: secret,
            baked_ns: 0,
            embryonic: 0,
            backlog,
            is_baked: false,
        }
    }

    /// From now on cookies are made with another secret; those of the last one are still taken.
    /// To be called every few minutes or hours, not more often than every 140 seconds.
    pub const fn rotate(&mut self, secret: Secret) {
        self.previous = self.secret;
        self.secret = secret;
    }

    /// Handshakes that are under way.
    pub const fn embryonic(&self) -> u32 {
        self.embryonic
    }

    /// A connection of [`Answer::Connection`] was established, or ended before.
    pub const fn settled(&mut self) {
        self.embryonic = self.embryonic.saturating_sub(1);
    }

    /// What to do with a segment for the port that belongs to no connection.
    pub fn on_segment(
        &mut self,
        now_ns: u64,
        tuple: &Tuple,
        segment: &Segment,
        config: &Config,
    ) -> Answer {
        if segment.has(TcpFlags::RST) {
            return Answer::Nothing;
        }
        if segment.has(TcpFlags::ACK) {
            return match self.taste(now_ns, tuple, segment, config) {
                Some(established) => Answer::Established(established),
                // It may follow one that is late or lost and brings the cookie, or will again.
                None if segment.span() > 0 && self.has_cookies_out(now_ns) => Answer::Nothing,
                None => answer_unknown(segment).map_or(Answer::Nothing, Answer::Reset),
            };
        }
        if !segment.has(TcpFlags::SYN) || segment.has(TcpFlags::FIN) {
            return Answer::Nothing;
        }
        if self.embryonic < self.backlog {
            self.embryonic += 1;
            return Answer::Connection(Initial::new(&self.secret, tuple, now_ns));
        }
        self.baked_ns = now_ns;
        self.is_baked = true;
        Answer::Cookie(self.bake(now_ns, tuple, segment, config))
    }

    fn taste(
        &self,
        now_ns: u64,
        tuple: &Tuple,
        segment: &Segment,
        config: &Config,
    ) -> Option<Established> {
        if !self.has_cookies_out(now_ns) || segment.has(TcpFlags::SYN) {
            return None;
        }
        cookie::taste(&self.secret, tuple, segment, config, now_ns)
            .or_else(|| cookie::taste(&self.previous, tuple, segment, config, now_ns))
    }

    /// Whether a cookie that was sent may still come back.
    const fn has_cookies_out(&self, now_ns: u64) -> bool {
        let age_ns = now_ns.saturating_sub(self.baked_ns);
        self.is_baked && age_ns >> cookie::PERIOD_BITS <= 1
    }

    fn bake(&self, now_ns: u64, tuple: &Tuple, syn: &Segment, config: &Config) -> Outgoing {
        let (sequence, value) = cookie::bake(&self.secret, tuple, syn, config, now_ns);
        let (scaled, sack, ecn) = cookie::agreed(value);
        let timestamps = syn.options.timestamps.filter(|_| config.timestamps);
        let has_terms = timestamps.is_some();
        let mut flags = TcpFlags::SYN | TcpFlags::ACK;
        flags.set(TcpFlags::ECE, has_terms && ecn);
        Outgoing {
            sequence,
            acknowledgement: syn.sequence.wrapping_add(1),
            flags,
            window: config.receive_bytes.min(u32::from(u16::MAX)) as u16,
            options: Options {
                maximum_segment_size: Some(config.maximum_segment_size),
                window_scale: (has_terms && scaled).then_some(config.window_shift()),
                sack_permitted: has_terms && sack,
                timestamps: timestamps.map(|theirs| Timestamps {
                    value,
                    echo: theirs.value,
                }),
                ..Options::default()
            },
            payload: Payload::default(),
            segment_bytes: config.maximum_segment_size.max(1),
            is_capable: false,
        }
    }
}

/// The RST to a segment that belongs to nobody; none to a RST.
pub fn answer_unknown(segment: &Segment) -> Option<Outgoing> {
    if segment.has(TcpFlags::RST) {
        return None;
    }
    let (sequence, acknowledgement, flags) = match segment.has(TcpFlags::ACK) {
        true => (segment.acknowledgement, TcpSequence(0), TcpFlags::RST),
        false => {
            let following = segment.sequence.wrapping_add(segment.span());
            (TcpSequence(0), following, TcpFlags::RST | TcpFlags::ACK)
        }
    };
    Some(Outgoing {
        sequence,
        acknowledgement,
        flags,
        window: 0,
        options: Options::default(),
        payload: Payload::default(),
        segment_bytes: 1,
        is_capable: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(flags: TcpFlags) -> Segment {
        Segment {
            sequence: TcpSequence(100),
            acknowledgement: TcpSequence(900),
            flags,
            length: 10,
            ..Segment::default()
        }
    }

    #[test]
    fn nobody_answers_by_reset() {
        let (syn, ack, rst) = (TcpFlags::SYN, TcpFlags::ACK, TcpFlags::RST);
        assert_eq!(answer_unknown(&segment(rst)), None);
        assert_eq!(answer_unknown(&segment(rst | ack)), None);
        let reset = answer_unknown(&segment(ack)).unwrap();
        assert_eq!((reset.sequence.0, reset.flags), (900, rst));
        let reset = answer_unknown(&segment(syn)).unwrap();
        assert_eq!((reset.sequence.0, reset.acknowledgement.0), (0, 111));
        assert_eq!(reset.flags, rst | ack);
    }

    #[test]
    fn a_full_listener_bakes_and_takes_cookies_of_two_secrets() {
        let (config, tuple) = (Config::default(), Tuple::default());
        let mut listener = Listener::new(Secret([1, 1]), 1);
        let syn = segment(TcpFlags::SYN);
        let ack = |cookie: TcpSequence| Segment {
            sequence: syn.sequence.wrapping_add(1),
            acknowledgement: cookie.wrapping_add(1),
            flags: TcpFlags::ACK,
            ..Segment::default()
        };
        let ask = |listener: &mut Listener, segment: &Segment| {
            listener.on_segment(1000, &tuple, segment, &config)
        };
        assert!(matches!(ask(&mut listener, &syn), Answer::Connection(_)));
        assert!(matches!(
            ask(&mut listener, &ack(TcpSequence(1))),
            Answer::Reset(_)
        ));
        let Answer::Cookie(cookie) = ask(&mut listener, &syn) else {
            panic!("a full backlog");
        };
        let ack = ack(cookie.sequence);
        assert_eq!(listener.embryonic(), 1);
        for secret in [Secret([2, 2]), Secret([3, 3])] {
            assert!(matches!(ask(&mut listener, &ack), Answer::Established(_)));
            listener.rotate(secret);
        }
        assert!(matches!(ask(&mut listener, &ack), Answer::Reset(_)));
        listener.settled();
        assert!(matches!(ask(&mut listener, &syn), Answer::Connection(_)));
        let odd = segment(TcpFlags::SYN | TcpFlags::FIN);
        assert_eq!(ask(&mut listener, &odd), Answer::Nothing);
        assert_eq!(ask(&mut listener, &segment(TcpFlags::RST)), Answer::Nothing);
        assert_eq!(ask(&mut listener, &segment(TcpFlags::PSH)), Answer::Nothing);
    }
}
