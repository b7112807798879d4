//! A fabric that does nothing but take time: nothing is repeated, and nothing stalls.

use std::num::NonZeroU64;

use warpwire_protocols::tcp::{Config, Controller};

use super::foreign::{Foreign, Setting};
use super::ours::Ours;
use super::{Fabric, Side, User, Weather, World};

/// 100 Mbit/s with 10 ms there and back.
const LINK: Weather = Weather {
    byte_ns: 80,
    ..Weather::FINE
};
const ROUND_NS: u64 = 10_000_000;
const BYTES: u64 = 2_000_000;

struct Taken {
    time_ns: u64,
    packets: [u64; 2],
}

/// The same, and segments that arrive within 100 us arrive joined.
const JOINED: Weather = Weather {
    gather_ns: 100_000,
    ..LINK
};

/// Moves bytes from the first to the second end, or both ways.
fn moved(sides: [Box<dyn Side>; 2], bytes: [u64; 2]) -> Taken {
    over(LINK, sides, bytes)
}

fn over(weather: Weather, sides: [Box<dyn Side>; 2], bytes: [u64; 2]) -> Taken {
    let [first, second] = bytes;
    let mut world = World {
        sides,
        users: [
            User::new(1, first as usize, 0),
            User::new(2, second as usize, 0),
        ],
        fabric: Fabric::new(3, weather),
    };
    let start_ns = world.fabric.now_ns;
    let ends = world.run(1_000_000);
    assert_eq!(world.is_exact(), [true; 2], "{ends:?}");
    assert_eq!(ends, [Ok(()), Ok(())]);
    let [one, two] = &world.users;
    Taken {
        time_ns: one.last_ns.max(two.last_ns) - start_ns,
        packets: world.fabric.sent,
    }
}

fn ours(config: Config, offload: u32) -> [Box<dyn Side>; 2] {
    [
        Box::new(Ours::connecting(0, config, offload, 5)),
        Box::new(Ours::listening(1, config, offload, 6, 4)),
    ]
}

/// Headers, and as many round trips as slow start may take.
fn bound_ns(bytes: u64, rounds: u64) -> u64 {
    bytes * LINK.byte_ns * 11 / 10 + rounds * ROUND_NS
}

#[test]
fn a_stream_fills_the_link_and_repeats_nothing() {
    let usual = Config::of_mtu(1500, false);
    let rows = [
        ("as usual", usual, 0),
        ("with trains", usual, 65_000),
        (
            "without selective acknowledgements",
            Config {
                sack: false,
                ..usual
            },
            0,
        ),
        (
            "without timestamps",
            Config {
                timestamps: false,
                ..usual
            },
            0,
        ),
        (
            "acknowledging everything",
            Config {
                delayed_ack_ns: 0,
                ..usual
            },
            0,
        ),
        ("with notification", Config { ecn: true, ..usual }, 0),
        (
            "large segments",
            Config {
                receive_bytes: 1 << 20,
                send_bytes: 1 << 20,
                ..Config::of_mtu(9000, false)
            },
            0,
        ),
    ];
    for (name, config, offload) in rows {
        let taken = moved(ours(config, offload), [BYTES, 0]);
        let least = BYTES.div_ceil(u64::from(config.maximum_segment_size) - 12);
        let [acknowledgements, data] = taken.packets;
        assert!(
            data <= least + 12,
            "{name}: {data} packets, {least} carry the stream: something was repeated"
        );
        let most = match config.delayed_ack_ns {
            0 => data + 8,
            _ => data * 6 / 10 + 8,
        };
        assert!(
            acknowledgements <= most,
            "{name}: {acknowledgements} acknowledge {data}"
        );
        let bound_ns = bound_ns(BYTES, 10);
        assert!(
            taken.time_ns <= bound_ns,
            "{name}: {} ms, {} at most",
            taken.time_ns / 1_000_000,
            bound_ns / 1_000_000
        );
    }
}

#[test]
fn streams_both_ways_share_their_acknowledgements() {
    let config = Config::of_mtu(1500, false);
    let taken = moved(ours(config, 0), [BYTES, BYTES]);
    let least = BYTES.div_ceil(1448);
    for packets in taken.packets {
        assert!(
            packets <= least * 16 / 10 + 20,
            "{packets} packets for {least}"
        );
    }
    assert!(
        taken.time_ns <= bound_ns(BYTES * 16 / 15, 12),
        "{}",
        taken.time_ns
    );
}

#[test]
fn segments_that_arrive_joined_are_one() {
    let config = Config::of_mtu(1500, false);
    let taken = over(JOINED, ours(config, 65_000), [BYTES, 0]);
    let [acknowledgements, data] = taken.packets;
    assert!(data <= BYTES.div_ceil(1448) + 12, "{data} packets");
    assert!(acknowledgements <= data, "{acknowledgements} for {data}");
    assert!(taken.time_ns <= bound_ns(BYTES, 12), "{}", taken.time_ns);
}

#[test]
fn a_fixed_rate_is_kept_and_not_exceeded() {
    let bytes_per_s = NonZeroU64::new(4_000_000).expect("is not 0");
    let config = Config {
        control: Controller::FixedRate { bytes_per_s },
        ..Config::of_mtu(1500, false)
    };
    for offload in [0, 65_000] {
        let taken = moved(ours(config, offload), [BYTES, 0]);
        let ideal_ns = BYTES * 250;
        assert!(
            (ideal_ns * 9 / 10..=ideal_ns * 11 / 10 + 6 * ROUND_NS).contains(&taken.time_ns),
            "{} ms of {}",
            taken.time_ns / 1_000_000,
            ideal_ns / 1_000_000
        );
        let [_, data] = taken.packets;
        assert!(data <= BYTES.div_ceil(1448) + 12, "{data} packets");
    }
}

#[test]
fn the_last_bytes_wait_for_no_timer() {
    // Whatever the length, the end comes with the last acknowledgement, not 40 ms later or 200.
    for bytes in [
        1, 100, 1447, 1448, 1449, 2896, 2897, 14_000, 14_480, 14_481, 40_000,
    ] {
        for no_delay in [false, true] {
            let config = Config {
                no_delay,
                ..Config::of_mtu(1500, false)
            };
            let taken = moved(ours(config, 0), [bytes, 0]);
            let most_ns = bound_ns(bytes, 6);
            assert!(
                taken.time_ns <= most_ns,
                "{bytes} bytes: {} us, {} at most",
                taken.time_ns / 1000,
                most_ns / 1000
            );
        }
    }
}

#[test]
fn smoltcp_is_a_peer_like_another() {
    let setting = Setting {
        receive_bytes: 1 << 18,
        send_bytes: 1 << 18,
        mtu: 1500,
        reno: false,
        timestamps: false,
        nagle: true,
        delays_ack: true,
    };
    let config = Config::of_mtu(1500, false);
    let now_ns = Fabric::new(0, LINK).now_ns;
    let sends: [Box<dyn Side>; 2] = [
        Box::new(Ours::connecting(0, config, 0, 5)),
        Box::new(Foreign::new(1, setting, 7, now_ns)),
    ];
    let taken = moved(sends, [BYTES, 0]);
    assert!(
        taken.packets[1] <= BYTES.div_ceil(1460) + 12,
        "{:?}",
        taken.packets
    );
    assert!(taken.time_ns <= bound_ns(BYTES, 12), "{}", taken.time_ns);
    let receives: [Box<dyn Side>; 2] = [
        Box::new(Foreign::new(0, setting, 7, now_ns)),
        Box::new(Ours::listening(1, config, 0, 5, 4)),
    ];
    let taken = moved(receives, [BYTES, 0]);
    assert!(
        taken.packets[1] <= BYTES.div_ceil(1460) + 12,
        "{:?}",
        taken.packets
    );
    // It opens no more than its buffers; the time is mostly its own.
    assert!(taken.time_ns <= bound_ns(BYTES, 40), "{}", taken.time_ns);
}
