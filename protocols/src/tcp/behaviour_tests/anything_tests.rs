//! One end alone, against anything: what holds whatever comes.

use super::*;
use proptest::prelude::*;

/// What a hostile peer, a strange network and a fickle application do.
#[derive(Clone, Debug)]
enum Step {
    /// Near the next numbers: sequence, acknowledgement, flags, window, length, SACK, timestamp.
    Segment(i32, i32, u16, u16, u32, Vec<(i32, i32)>, i32),
    Write(u32),
    Consume(u32),
    Close,
    Abort,
    Wait(u64),
    TooBig(i32, u16),
}

fn near() -> impl Strategy<Value = i32> {
    prop_oneof![
        4 => Just(0i32),
        4 => -3000i32..3000,
        1 => -100_000i32..100_000,
        1 => any::<i32>(),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let flags = prop_oneof![
        20 => Just(0x10u16),
        2 => Just(0x11u16),
        2 => 0u16..0x200,
    ];
    let blocks = prop::collection::vec((near(), near()), 0..4);
    let length = prop_oneof![3 => Just(0u32), 3 => 0u32..3000, 1 => any::<u32>()];
    let segment = (near(), near(), flags, any::<u16>(), length, blocks, near()).prop_map(
        |(sequence, acknowledgement, flags, window, length, blocks, stamp)| {
            Step::Segment(
                sequence,
                acknowledgement,
                flags,
                window,
                length,
                blocks,
                stamp,
            )
        },
    );
    prop_oneof![
        20 => segment,
        4 => (0u32..20_000).prop_map(Step::Write),
        4 => (0u32..20_000).prop_map(Step::Consume),
        1 => Just(Step::Close),
        1 => Just(Step::Abort),
        8 => prop_oneof![0u64..5 * MS, 0u64..3000 * MS, any::<u64>()].prop_map(Step::Wait),
        1 => (near(), any::<u16>()).prop_map(|(at, mtu)| Step::TooBig(at, mtu)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// No input panics or makes it send without end; bytes are placed once, within the ring;
    /// what is sent was written; the edge of the window stays.
    #[test]
    fn nothing_shakes_it(
        steps in prop::collection::vec(step(), 1..120),
        sack in any::<bool>(),
        timestamps in any::<bool>(),
        ecn in any::<bool>(),
        fixed in any::<bool>(),
        is_scaled in any::<bool>(),
        most_bytes in prop_oneof![Just(0u32), 0u32..70_000, any::<u32>()],
    ) {
        let control = match fixed {
            true => Controller::FixedRate { bytes_per_s: 1_000_000.try_into().unwrap() },
            false => Controller::Cubic,
        };
        let keep_alive = fixed.then_some(KeepAlive {
            idle_ns: 5000 * MS,
            interval_ns: 700 * MS,
            probes: 3,
        });
        let ring: u32 = if is_scaled { 1 << 18 } else { 1 << 15 };
        let shift = if is_scaled { 3 } else { 0 };
        let config = Config {
            sack,
            timestamps,
            ecn,
            control,
            keep_alive,
            window_scaling: is_scaled,
            receive_bytes: ring,
            ..plain()
        };
        let mut script = Script::connecting(config);
        let mut held = vec![false; ring as usize];
        let mut edge: Option<TcpSequence> = None;
        for step in steps {
            let hot = script.connection.hot;
            let offset = |number: TcpSequence, by: i32| number.wrapping_add(by as u32);
            match step {
                Step::Segment(sequence, acknowledgement, flags, window, length, blocks, stamp) => {
                    let mut arrived = Segment {
                        sequence: offset(hot.rcv_nxt, sequence),
                        acknowledgement: offset(hot.nxt, acknowledgement),
                        flags: TcpFlags::from_bits_truncate(flags),
                        window,
                        length,
                        is_marked: window & 1 == 0,
                        ..Segment::default()
                    };
                    if script.connection.state() == State::SynSent {
                        arrived.flags |= TcpFlags::SYN;
                        arrived.options.sack_permitted = sack;
                        arrived.options.window_scale = Some(3);
                    }
                    for (left, right) in blocks {
                        arrived.options.sack.push(SackBlock {
                            left: offset(hot.una, left),
                            right: offset(hot.nxt, right),
                        });
                    }
                    if timestamps {
                        let value = hot.ts_recent.wrapping_add(stamp as u32);
                        arrived.options.timestamps = Some(Timestamps { value, echo: 900 });
                    }
                    let begins = script.connection.state() == State::SynSent;
                    let delivery = script.give(arrived);
                    if begins {
                        edge = None;
                    }
                    if let Some(place) = delivery.place {
                        let consumed = script.connection.read_position();
                        let end = place.at.wrapping_add(place.length).wrapping_sub(consumed);
                        prop_assert!(end <= ring);
                        prop_assert!(place.from.checked_add(place.length).unwrap() <= length);
                        for index in 0..place.length {
                            let slot = (place.at.wrapping_add(index) & (ring - 1)) as usize;
                            prop_assert!(!core::mem::replace(&mut held[slot], true), "twice");
                        }
                    }
                }
                Step::Write(bytes) => {
                    let writable = script.connection.writable();
                    prop_assert_eq!(script.connection.write(bytes), bytes.min(writable));
                }
                Step::Consume(bytes) => {
                    let position = script.connection.read_position();
                    for index in 0..bytes.min(script.connection.readable()) {
                        let slot = (position.wrapping_add(index) & (ring - 1)) as usize;
                        prop_assert!(core::mem::replace(&mut held[slot], false));
                    }
                    script.connection.consume(bytes);
                }
                Step::Close => script.connection.close(),
                Step::Abort => script.connection.abort(),
                Step::Wait(ns) => {
                    script.now_ns = script.now_ns.saturating_add(ns).min(1 << 60);
                    script.events |= script.connection.on_timer(script.now_ns, &config);
                }
                Step::TooBig(at, mtu) => {
                    script.connection.on_too_big(offset(hot.una, at), mtu, &config);
                }
            }
            let mut count = 0;
            while let Some(out) = script.connection.poll(script.now_ns, &config, most_bytes) {
                count += 1;
                prop_assert!(count < 1000, "sends without end");
                prop_assert!(out.repr(1, 2).length() <= 60);
                let kept = script.connection.position(script.connection.first_kept());
                let written = script.connection.write_position().wrapping_sub(kept);
                if out.payload.length > 0 {
                    let from = out.payload.at.wrapping_sub(kept);
                    prop_assert!(from.checked_add(out.payload.length).unwrap() <= written);
                }
                let is_bare = !out.flags.intersects(TcpFlags::SYN | TcpFlags::RST);
                if is_bare && out.flags.contains(TcpFlags::ACK) {
                    let window = u32::from(out.window) << shift;
                    let right = out.acknowledgement.wrapping_add(window);
                    // But for the part of a unit that the field cannot say.
                    let back = edge.map_or(0, |edge| edge.diff(right));
                    prop_assert!(back < 1 << shift, "drawn back");
                    if back <= 0 {
                        edge = Some(right);
                    }
                }
            }
            prop_assert!(script.connection.readable() <= ring);
            prop_assert!(script.connection.unacknowledged() <= config.send_bytes);
            let is_closed = script.connection.state() == State::Closed;
            if script.connection.unacknowledged() > 0 && !is_closed {
                prop_assert!(script.connection.timeout_ns().is_some(), "nothing will ever happen");
            }
            if script.connection.state() == State::Closed {
                prop_assert_eq!(script.connection.timeout_ns(), None);
                prop_assert!(script.connection.cause().is_some());
            }
        }
    }
}
