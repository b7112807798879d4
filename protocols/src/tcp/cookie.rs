//! SYN cookies: a listener that is full keeps a handshake in the numbers that the peer sends back.
//! RFC 4987 section 3.6.
//!
//! ```text
//!  first number:   time(5) | segment size(3) | hash(24)
//!  timestamp:      clock, whose lowest bits are   ECN(1) | SACK(1) | window scale(4), 15 for none
//! ```
//! Without timestamps the connection has neither scaled windows nor SACK nor ECN.

use super::config::Config;
use super::initial::{COOKIE, Initial, Secret, Tuple};
use super::segment::Segment;
use crate::wire::tcp::{TcpFlags, TcpSequence};

/// A handshake that a cookie told of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Established {
    /// Our numbers.
    pub initial: Initial,
    /// Number of the peer's SYN.
    pub peer: TcpSequence,
    /// The largest segment that the peer takes, in bytes, rounded down.
    pub maximum_segment_size: u16,
    /// How far the peer's windows are shifted, if windows are scaled.
    pub window_scale: Option<u8>,
    /// Selective acknowledgements were agreed.
    pub sack: bool,
    /// Explicit congestion notification was agreed.
    pub ecn: bool,
    /// The peer's last timestamp, if timestamps were agreed.
    pub timestamp: Option<u32>,
}

/// The numbers of the answer to a SYN, which are the cookie: the first number, and the timestamp
/// to be sent.
pub(super) fn bake(
    secret: &Secret,
    tuple: &Tuple,
    syn: &Segment,
    config: &Config,
    now_ns: u64,
) -> (TcpSequence, u32) {
    let offered = syn.options.maximum_segment_size;
    let size = offered.unwrap_or(config.default_peer_mss());
    let fits = SIZES.iter().rposition(|one| *one <= size);
    let index = fits.unwrap_or(0) as u32;
    let options = terms(syn, config);
    let period = (now_ns >> PERIOD_BITS) as u32;
    let cookie = numbered(secret, tuple, syn.sequence, period, index, options);
    let clock = clock(now_ns, Initial::new(secret, tuple, now_ns).timestamp);
    let value = clock & !TERMS_MASK | options;
    // Not ahead of the clock: what is sent next must not look older.
    let is_ahead = (value.wrapping_sub(clock) as i32) > 0;
    let value = if is_ahead {
        value.wrapping_sub(TERMS_MASK + 1)
    } else {
        value
    };
    (cookie, value)
}

/// What the cookie says that an acknowledgement brings back; `None` if it is none, or old.
pub(super) fn taste(
    secret: &Secret,
    tuple: &Tuple,
    ack: &Segment,
    config: &Config,
    now_ns: u64,
) -> Option<Established> {
    let cookie = ack.acknowledgement.wrapping_add(u32::MAX);
    let peer = ack.sequence.wrapping_add(u32::MAX);
    let timestamps = ack.options.timestamps.filter(|_| config.timestamps);
    let options = timestamps.map_or(NO_TERMS, |timestamps| timestamps.echo & TERMS_MASK);
    let now = (now_ns >> PERIOD_BITS) as u32;
    let age = now.wrapping_sub(cookie.0 >> 27) & 31;
    let period = now.wrapping_sub(age);
    let index = cookie.0 >> 24 & 7;
    let size = *SIZES.get(index as usize)?;
    if age > 1 || cookie != numbered(secret, tuple, peer, period, index, options) {
        return None;
    }
    let scale = (options & 15) as u8;
    Some(Established {
        initial: Initial {
            sequence: cookie,
            timestamp: Initial::new(secret, tuple, now_ns).timestamp,
        },
        peer,
        maximum_segment_size: size,
        window_scale: (scale < 15).then_some(scale),
        sack: options & SACK != 0,
        ecn: options & ECN != 0,
        timestamp: timestamps.map(|timestamps| timestamps.value),
    })
}

/// What a SYN and we agree on, in six bits.
fn terms(syn: &Segment, config: &Config) -> u32 {
    if !config.timestamps || syn.options.timestamps.is_none() {
        return NO_TERMS;
    }
    let scale = syn.options.window_scale.filter(|_| config.window_scaling);
    let sack = config.sack && syn.options.sack_permitted;
    let ecn = config.ecn && syn.flags.contains(TcpFlags::ECE | TcpFlags::CWR);
    let scale = u32::from(scale.unwrap_or(15).min(15));
    scale | if sack { SACK } else { 0 } | if ecn { ECN } else { 0 }
}

/// Whether windows are scaled, SACK and ECN agreed, by the timestamp of a cookie.
pub(super) const fn agreed(value: u32) -> (bool, bool, bool) {
    (value & 15 != 15, value & SACK != 0, value & ECN != 0)
}

fn numbered(
    secret: &Secret,
    tuple: &Tuple,
    peer: TcpSequence,
    period: u32,
    index: u32,
    options: u32,
) -> TcpSequence {
    let more = u64::from(peer.0) << 32 | u64::from(period & 0x007f_ffff) << 9;
    let more = more | u64::from(index << 6 | options);
    let hash = secret.hash(tuple, COOKIE, more) as u32 >> 8;
    TcpSequence((period & 31) << 27 | index << 24 | hash)
}

/// The clock of timestamps: milliseconds, from a connection's own beginning.
pub(super) const fn clock(now_ns: u64, offset: u32) -> u32 {
    ((now_ns / 1_000_000) as u32).wrapping_add(offset)
}

/// Segment sizes that a cookie tells apart: what MTUs and tunnels leave.
const SIZES: [u16; 8] = [64, 536, 1024, 1220, 1360, 1440, 1460, 8940];
/// A cookie is taken in the period of 69 seconds in which it was made, and in the next.
pub(super) const PERIOD_BITS: u32 = 36;
const TERMS_MASK: u32 = 63;
const SACK: u32 = 16;
const ECN: u32 = 32;
const NO_TERMS: u32 = 15;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::tcp_option::{Options, Timestamps};

    const SECRET: Secret = Secret([7, 9]);
    const NOW_NS: u64 = 77_000_000_000_000;

    fn tuple() -> Tuple {
        Tuple {
            local_port: 80,
            remote_port: 4000,
            ..Tuple::default()
        }
    }

    fn syn(size: Option<u16>, scale: Option<u8>, sack: bool, timestamps: bool) -> Segment {
        Segment {
            sequence: TcpSequence(u32::MAX),
            flags: TcpFlags::SYN | TcpFlags::ECE | TcpFlags::CWR,
            options: Options {
                maximum_segment_size: size,
                window_scale: scale,
                sack_permitted: sack,
                timestamps: timestamps.then_some(Timestamps { value: 5, echo: 0 }),
                ..Options::default()
            },
            ..Segment::default()
        }
    }

    fn ack(syn: &Segment, cookie: TcpSequence, value: u32) -> Segment {
        let timestamps = syn.options.timestamps;
        Segment {
            sequence: syn.sequence.wrapping_add(1),
            acknowledgement: cookie.wrapping_add(1),
            flags: TcpFlags::ACK,
            options: Options {
                timestamps: timestamps.map(|_| Timestamps {
                    value: 6,
                    echo: value,
                }),
                ..Options::default()
            },
            ..Segment::default()
        }
    }

    #[test]
    fn a_cookie_brings_back_what_was_agreed() {
        let config = Config {
            ecn: true,
            ..Config::default()
        };
        for size in [
            None,
            Some(30),
            Some(536),
            Some(1300),
            Some(1460),
            Some(9000),
        ] {
            for (scale, sack, timestamps) in [
                (None, false, false),
                (Some(7), true, false),
                (Some(0), false, true),
                (Some(14), true, true),
                (None, true, true),
            ] {
                let syn = syn(size, scale, sack, timestamps);
                let (cookie, value) = bake(&SECRET, &tuple(), &syn, &config, NOW_NS);
                let ack = ack(&syn, cookie, value);
                let later = NOW_NS + 60_000_000_000;
                let found = taste(&SECRET, &tuple(), &ack, &config, later).unwrap();
                let offered = size.unwrap_or(536).max(64);
                assert!(found.maximum_segment_size <= offered);
                assert_eq!(found.window_scale, scale.filter(|_| timestamps));
                assert_eq!(found.sack, sack && timestamps);
                assert_eq!(found.ecn, timestamps);
                assert_eq!(found.peer, syn.sequence);
                assert_eq!(found.initial.sequence, cookie);
                assert_eq!(found.timestamp, timestamps.then_some(6));
                let clock = clock(NOW_NS, found.initial.timestamp);
                assert!(clock.wrapping_sub(value) < 64, "not ahead of the clock");
            }
        }
    }

    #[test]
    fn other_numbers_and_old_ones_are_no_cookies() {
        let config = Config::default();
        let syn = syn(Some(1460), Some(7), true, true);
        let (cookie, value) = bake(&SECRET, &tuple(), &syn, &config, NOW_NS);
        let good = ack(&syn, cookie, value);
        let check = |secret: Secret, tuple: Tuple, ack: Segment, now_ns: u64| {
            taste(&secret, &tuple, &ack, &config, now_ns).is_some()
        };
        assert!(check(SECRET, tuple(), good, NOW_NS));
        assert!(!check(Secret([7, 8]), tuple(), good, NOW_NS));
        assert!(!check(
            SECRET,
            Tuple {
                remote_port: 1,
                ..tuple()
            },
            good,
            NOW_NS
        ));
        assert!(!check(SECRET, tuple(), good, NOW_NS + (2 << PERIOD_BITS)));
        let echo_of_more = ack(&syn, cookie, value ^ ECN);
        assert!(!check(SECRET, tuple(), echo_of_more, NOW_NS));
        let mut sequence = good;
        sequence.sequence = good.sequence.wrapping_add(1);
        assert!(!check(SECRET, tuple(), sequence, NOW_NS));
        for bit in 0..32 {
            let mut other = good;
            other.acknowledgement.0 = (cookie.0 ^ 1 << bit).wrapping_add(1);
            assert!(!check(SECRET, tuple(), other, NOW_NS), "bit {bit}");
        }
    }
}
