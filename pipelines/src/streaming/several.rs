//! Several engines, over as many queues of a NIC or of several warps: connections are where their
//! segments come to.

use std::collections::BTreeSet;
use std::time::Instant;

use warpwire_nic::soft::Impairments;

use super::scene::{LIMIT, Scene, Ways, at, text};

/// Streams between ends with so many queues each, every one with bytes of its own both ways.
fn check(ways: Ways, link: Impairments) {
    let scene = Scene::over(ways, link, |_| {});
    let count = 24usize;
    let engines = ways.queues * (ways.warps - 1).max(1);
    let bytes = |number: usize| text(40_000 + number * 7)[number..].to_vec();
    let listener = scene.ends[1].listen(at("10.9.0.2:7"), LIMIT);
    let listener = listener.expect("listens");
    scene.run(
        |end| {
            let mut streams: Vec<_> = (0..count)
                .map(|_| end.connect(at("10.9.0.2:7"), LIMIT).expect("connects"))
                .collect();
            let blocks: BTreeSet<u32> = streams.iter().map(|one| one.number() / 64).collect();
            assert_eq!(blocks.len() as u32, engines, "all open some: {blocks:?}");
            for (number, stream) in streams.iter_mut().enumerate() {
                stream.write_all(&bytes(number), LIMIT).expect("goes on");
                stream.close().expect("closes");
            }
            let mut came = vec![0; 100_000];
            for (number, stream) in streams.iter_mut().enumerate() {
                let mut back: Vec<u8> = Vec::new();
                while let length @ 1.. = stream.read(&mut came, LIMIT).expect("goes on") {
                    back.extend(&came[..length]);
                }
                assert!(back == bytes(number), "{number}: {} bytes", back.len());
            }
        },
        |end| {
            let mut streams = Vec::new();
            let mut blocks = BTreeSet::new();
            let mut left = count;
            while left > 0 {
                while let Some(stream) = listener.try_accept().expect("has words") {
                    blocks.insert(stream.number() / 64);
                    streams.push(Some(stream));
                }
                let mut moved = end.step();
                for slot in &mut streams {
                    let Some(stream) = slot else { continue };
                    moved |= stream.reflect().expect("goes on") > 0;
                    if stream.is_at_end().expect("has words") {
                        stream.close().expect("closes");
                        *slot = None;
                        left -= 1;
                    }
                }
                if !moved {
                    std::thread::yield_now();
                }
            }
            // Whose each is was chance.
            let most = blocks.len() as u32 > engines / 2;
            assert!(most, "most accept some: {blocks:?}");
        },
    );
    for end in &scene.ends {
        let counters = end.counters();
        // None was reset where it came in. Where threads had to wait, segments that are repeated
        // may come when all is over, and are reset then.
        let ended = (counters.connected, counters.failed);
        assert_eq!(ended, (count as u64, 0), "{counters:?}");
    }
    // The end that opened knows where segments come to, or learns it.
    let counters = scene.ends[0].counters();
    // Between warps of a block nothing has to be handed over.
    assert_eq!(counters.handed > 0, ways.is_blind, "{counters:?}");
    assert_eq!(counters.taken > 0, ways.is_blind, "{counters:?}");
}

#[test]
fn ports_are_chosen_by_where_segments_come_to() {
    for queues in [2, 4] {
        let ways = Ways {
            queues,
            ..Ways::default()
        };
        check(ways, Impairments::default());
    }
}

#[test]
fn segments_of_other_engines_are_handed_to_them() {
    for (queues, loss_ppm) in [(2, 0), (4, 0), (2, 10_000)] {
        let ways = Ways {
            queues,
            is_blind: true,
            ..Ways::default()
        };
        let link = Impairments {
            loss_ppm,
            ..Impairments::default()
        };
        check(ways, link);
    }
}

#[test]
fn a_kernel_hands_segments_over_too() {
    let ways = Ways {
        queues: 2,
        is_blind: true,
        in_kernel: true,
        ..Ways::default()
    };
    check(ways, Impairments::default());
}

/// Warps of a crew, with and without loss.
fn crew(queues: u32, warps: u32, is_blind: bool, in_kernel: bool) {
    let ways = Ways {
        queues,
        warps,
        is_blind,
        in_kernel,
    };
    check(ways, Impairments::default());
    let link = Impairments {
        loss_ppm: 10_000,
        reorder_ppm: 10_000,
        reorder_ns: 200_000,
        ..Impairments::default()
    };
    check(ways, link);
}

#[test]
fn warps_of_a_queue_own_connections() {
    crew(1, 2, false, false);
    crew(1, 4, false, false);
}

#[test]
fn warps_of_two_queues_own_connections() {
    crew(2, 3, false, false);
    crew(2, 3, true, false);
}

#[test]
fn warps_of_a_kernel_own_connections() {
    crew(1, 4, false, true);
}

#[test]
fn warps_of_kernels_hand_segments_over() {
    crew(2, 3, true, true);
}

#[test]
fn ten_thousand_connections_at_a_time() {
    let count = 10_000u32;
    let ways = Ways {
        queues: 2,
        warps: 4,
        in_kernel: true,
        ..Ways::default()
    };
    // As many more than a sixth as chance may want.
    let each = 2048;
    let scene = Scene::over(ways, Impairments::default(), |config| {
        config.connections = each;
        config.open = each;
        config.ring_bytes = 1024;
    });
    let listener = scene.ends[1].listen(at("10.9.0.2:7"), LIMIT);
    let listener = listener.expect("listens");
    scene.run(
        |end| {
            let connect = |_| end.connect(at("10.9.0.2:7"), LIMIT).expect("connects");
            let mut streams: Vec<_> = (0..count).map(connect).collect();
            for (number, stream) in (0..).zip(&mut streams) {
                let said = u32::to_be_bytes(number);
                stream.write_all(&said, LIMIT).expect("goes on");
            }
            for (number, stream) in (0..).zip(&mut streams) {
                let mut back = [0; 4];
                let length = stream.read(&mut back, LIMIT).expect("is answered");
                assert_eq!(length, 4, "of one segment");
                assert_eq!(u32::from_be_bytes(back), number);
            }
            let mut engines = [0; 6];
            streams
                .iter()
                .for_each(|one| engines[(one.number() / each) as usize] += 1);
            assert!(engines.iter().all(|had| *had >= count / 6), "{engines:?}");
        },
        |end| {
            let news = end.news().expect("is the first");
            let mut streams: Vec<_> = (0..6 * each).map(|_| None).collect();
            let (mut accepted, mut answered) = (0, 0);
            let until = Instant::now() + LIMIT * 6;
            while answered < count * 4 {
                assert!(Instant::now() < until, "{accepted} came, {answered} bytes");
                let mut told = Vec::new();
                news.drain(|number| told.push(number));
                while let Some(stream) = listener.try_accept().expect("has words") {
                    told.push(stream.number());
                    let place = stream.number() as usize;
                    streams[place] = Some(stream);
                    accepted += 1;
                }
                for place in told {
                    if let Some(Some(stream)) = streams.get_mut(place as usize) {
                        answered += stream.reflect().expect("goes on") as u32;
                    }
                }
                if !end.step() {
                    std::thread::yield_now();
                }
            }
            assert_eq!(accepted, count);
            let counters = end.counters();
            assert_eq!((counters.connected, counters.closed), (count.into(), 0));
        },
    );
}
