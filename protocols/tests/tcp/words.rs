//! What the words of a script mean: settings of our end, and figures.

use std::num::NonZeroU64;

use warpwire_protocols::tcp::{Config, Controller, KeepAlive, Statistics};

use crate::language;

/// What the words before a script set.
pub(crate) struct Setting {
    pub(crate) config: Config,
    /// Handshakes of the listener; `None`: there is no listener.
    pub(crate) backlog: Option<u32>,
    /// The most bytes of a train.
    pub(crate) offload: u32,
}

pub(crate) fn setting(words: &str) -> Result<Setting, String> {
    let mut setting = Setting {
        config: Config {
            receive_bytes: 1 << 16,
            send_bytes: 1 << 16,
            timestamps: false,
            handshake_timeout_ns: 200_000_000_000,
            ..Config::of_mtu(1500, false)
        },
        backlog: Some(16),
        offload: 0,
    };
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        set(&mut setting, name, value)?;
    }
    Ok(setting)
}

fn set(setting: &mut Setting, name: &str, value: &str) -> Result<(), String> {
    let config = &mut setting.config;
    let number = || language::number(value);
    let time = || language::time(value);
    match name {
        "mss" => config.maximum_segment_size = number()? as u16,
        "rcv" => config.receive_bytes = number()?,
        "snd" => config.send_bytes = number()?,
        "nodelay" => config.no_delay = true,
        "nosack" => config.sack = false,
        "ts" => config.timestamps = true,
        "v6" => {
            config.ip_header_bytes = 40;
            config.maximum_segment_size = 1440;
        }
        "delayed_ack" => config.delayed_ack_ns = time()?,
        "nows" => config.window_scaling = false,
        "ecn" => config.ecn = true,
        "rate" => {
            let bytes_per_s = NonZeroU64::new(u64::from(number()?)).ok_or("no rate")?;
            config.control = Controller::FixedRate { bytes_per_s };
        }
        "max_rto" => config.max_rto_ns = time()?,
        "user_timeout" => config.user_timeout_ns = time()?,
        "handshake" => config.handshake_timeout_ns = time()?,
        "time_wait" => config.time_wait_ns = time()?,
        "keep_alive" => {
            let parts: Vec<&str> = value.split(',').collect();
            let [idle, interval, probes] = parts[..] else {
                return Err(format!("`{value}` is no idle time, interval and count"));
            };
            config.keep_alive = Some(KeepAlive {
                idle_ns: language::time(idle)?,
                interval_ns: language::time(interval)?,
                probes: language::number(probes)? as u8,
            });
        }
        "backlog" => setting.backlog = Some(number()?),
        "nobody" => setting.backlog = None,
        "offload" => setting.offload = number()?,
        _ => return Err(format!("`{name}` is no setting")),
    }
    Ok(())
}

/// A figure by its name.
pub(crate) fn figure(name: &str, figures: &Statistics) -> Option<u64> {
    let figure = match name {
        "srtt_ms" => figures.srtt_ns / 1_000_000,
        "rttvar_ms" => figures.rttvar_ns / 1_000_000,
        "cwnd" => figures.cwnd.into(),
        "ssthresh" => figures.ssthresh.into(),
        "in_flight" => figures.in_flight.into(),
        "segment_bytes" => figures.segment_bytes.into(),
        "retransmits" => figures.retransmits.into(),
        "timeouts" => figures.timeouts.into(),
        "tail_probes" => figures.tail_probes.into(),
        "marks" => figures.marks.into(),
        "duplicate_acks" => figures.duplicate_acks.into(),
        _ => return None,
    };
    Some(figure)
}

/// The lines that stand for the handshake of a connection that the peer opens: `passive` and how.
pub(crate) fn passive(words: &[String]) -> Result<String, String> {
    let (mut options, mut stamp, mut rtt, mut window) = (Vec::new(), false, "100ms", "65535");
    let mut sack = true;
    for word in words {
        match word.split_once('=').unwrap_or((word, "")) {
            ("mss", size) => options.push(format!("mss {size}")),
            ("ws", shift) => options.push(format!("ws {shift}")),
            ("rtt", time) => rtt = time,
            ("win", size) => window = size,
            ("ts", _) => stamp = true,
            ("nosack", _) => sack = false,
            _ => return Err(format!("`{word}` is not how a peer opens")),
        }
    }
    if sack {
        options.push("sackok".to_owned());
    }
    let stamps = match stamp {
        true => "<ts 1000>",
        false => "",
    };
    if stamp {
        options.push("ts 1000".to_owned());
    }
    let options = options.join(",");
    Ok(format!(
        "< S 0 win {window} <{options}>
        > S. 0 ack 1
        +{rtt} < . 1 ack 1 win {window} {stamps}
        state Established"
    ))
}
