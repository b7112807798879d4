//! One suite for all that carries streams.

use std::time::{Duration, Instant};

use warpwire_nic::soft::Impairments;

use super::scene::{By, LIMIT, Scene, Sizes, text};
use super::*;

/// Makes a test of each check for each carrier.
macro_rules! suite {
    ($($check:ident),* $(,)?) => {
        suite!(@ tcp Tcp $($check)*);
        suite!(@ tcp_of_two_queues Queues $($check)*);
        suite!(@ tcp_by_kernel Sliced $($check)*);
        suite!(@ tcp_of_two_warps Pair $($check)*);
        suite!(@ tcp_by_kernel_of_four_warps Crews $($check)*);
        suite!(@ messages Fused $($check)*);
        suite!(@ messages_by_kernel Kernel $($check)*);
        suite!(@ messages_by_nic Nic $($check)*);
    };
    (@ $name:ident $by:ident $($check:ident)*) => {
        mod $name {
            use crate::streaming::scene::By;

            $(
                #[test]
                fn $check() {
                    super::$check(By::$by);
                }
            )*
        }
    };
}

suite! {
    bytes_go_there_and_back,
    bytes_survive_a_bad_link,
    who_does_not_listen_refuses,
    addresses_are_taken_and_given_back,
    who_gives_up_is_noticed,
    what_was_written_arrives_after_a_drop,
    bytes_that_nobody_reads_are_told,
    a_writer_waits_for_its_reader,
    silence_is_a_cause,
    places_are_used_again_and_news_name_them,
}

fn scene(by: By) -> Scene {
    Scene::of(by, Impairments::default(), &Sizes::default())
}

fn bytes_go_there_and_back(by: By) {
    let scene = scene(by);
    let listener = scene.listen();
    let to = listener.address();
    scene.run(
        |end| {
            let mut stream = end.connect(to, LIMIT).expect("connects");
            assert_eq!(stream.peer(), to);
            let sent = text(500_000);
            let (mut rest, mut back) = (&sent[..], Vec::<u8>::new());
            let mut bytes = vec![0; 10_000];
            while !rest.is_empty() {
                let count = stream.write(rest).expect("is open");
                rest = &rest[count..];
                match stream.read(&mut bytes, Duration::from_millis(1)) {
                    Ok(0) => panic!("ended after {} bytes", back.len()),
                    Ok(count) => back.extend(&bytes[..count]),
                    Err(Error::Deadline { .. }) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            stream.close().expect("closes");
            while let count @ 1.. = stream.read(&mut bytes, LIMIT).expect("goes on") {
                back.extend(&bytes[..count]);
            }
            assert!(back == sent, "{} of {} bytes", back.len(), sent.len());
            assert!(stream.is_at_end().expect("has words"));
            let refused = stream.write(b"more").expect_err("is closed");
            assert!(matches!(refused, Error::Closed { .. } | Error::Over { .. }));
        },
        |end| {
            let mut stream = listener.accept(LIMIT).expect("somebody comes");
            assert_eq!(stream.local(), to);
            let mut total = 0;
            while !stream.is_at_end().expect("has words") {
                total += stream.reflect().expect("goes on");
                end.step();
            }
            assert_eq!(total, 500_000);
            stream.finish(LIMIT).expect("is acknowledged");
            assert!(stream.is_flushed().expect("has words"));
        },
    );
    for end in &scene.ends {
        let counters = end.counters();
        assert_eq!((counters.connected, counters.failed), (1, 0), "{by:?}");
        assert!(counters.placed_bytes >= 500_000, "{counters:?}");
    }
}

fn bytes_survive_a_bad_link(by: By) {
    let link = Impairments {
        loss_ppm: 20_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        reorder_ns: 200_000,
        corrupt_ppm: 5_000,
        ..Impairments::default()
    };
    let scene = Scene::of(by, link, &Sizes::default());
    let sent = text(1 << 20);
    let listener = scene.listen();
    let to = listener.address();
    scene.run(
        |end| {
            let mut stream = end.connect(to, LIMIT).expect("connects");
            stream.write_all(&sent, LIMIT).expect("goes on");
            stream.finish(LIMIT).expect("is acknowledged");
        },
        |_| {
            let mut stream = listener.accept(LIMIT).expect("somebody comes");
            let mut came: Vec<u8> = Vec::new();
            let mut bytes = vec![0; 10_000];
            while let count @ 1.. = stream.read(&mut bytes, LIMIT).expect("goes on") {
                came.extend(&bytes[..count]);
            }
            assert!(came == text(1 << 20), "{} bytes", came.len());
        },
    );
}

fn who_does_not_listen_refuses(by: By) {
    let scene = scene(by);
    let to = scene.deaf();
    scene.run(
        |end| {
            let refused = end.connect(to, LIMIT).err().expect("nobody listens");
            let is_refused = matches!(
                refused,
                Error::Over {
                    cause: Cause::Refused,
                    ..
                }
            );
            assert!(is_refused, "{refused}");
        },
        |_| {},
    );
}

fn addresses_are_taken_and_given_back(by: By) {
    let sizes = Sizes {
        listeners: 1,
        ..Sizes::default()
    };
    let scene = Scene::of(by, Impairments::default(), &sizes);
    let other = Scene::of(by, Impairments::default(), &sizes);
    let end = &scene.ends[1];
    let one = scene.listen();
    let at = one.address();
    let full = end.listen(at, LIMIT).err().expect("there is one");
    assert!(matches!(full, Error::Full { .. }), "{full}");
    if !by.is_tcp() {
        // All endpoints of the machine share its addresses.
        let taken = other.ends[1].listen(at, LIMIT).err().expect("is taken");
        assert!(matches!(taken, Error::Taken { .. }), "{taken}");
    }
    let waited = one.accept(Duration::from_millis(5)).err();
    let waited = waited.expect("nobody comes");
    assert!(matches!(waited, Error::Deadline { .. }), "{waited}");
    drop(one);
    end.listen(at, LIMIT).expect("listens again");
}

fn who_gives_up_is_noticed(by: By) {
    let scene = scene(by);
    let listener = scene.listen();
    let to = listener.address();
    scene.run(
        |end| {
            let mut stream = end.connect(to, LIMIT).expect("connects");
            stream.write_all(b"unfinished", LIMIT).expect("goes on");
            stream.flush(LIMIT).expect("is acknowledged");
            stream.abort().expect("has words");
        },
        |_| {
            let mut stream = listener.accept(LIMIT).expect("somebody comes");
            let mut bytes = [0; 64];
            let count = stream.read(&mut bytes, LIMIT).expect("came before");
            assert_eq!(&bytes[..count], b"unfinished");
            is_reset(&stream.read(&mut bytes, LIMIT).expect_err("was reset"));
        },
    );
}

fn is_reset(error: &Error) {
    let is_reset = matches!(
        error,
        Error::Over {
            cause: Cause::Reset,
            ..
        }
    );
    assert!(is_reset, "{error}");
}

fn what_was_written_arrives_after_a_drop(by: By) {
    let scene = scene(by);
    let listener = scene.listen();
    let to = listener.address();
    let sent = text(50_000);
    scene.run(
        |end| {
            let mut stream = end.connect(to, LIMIT).expect("connects");
            stream.write_all(&sent, LIMIT).expect("goes on");
            drop(stream);
        },
        |_| {
            let mut stream = listener.accept(LIMIT).expect("somebody comes");
            let mut came: Vec<u8> = Vec::new();
            let mut bytes = vec![0; 10_000];
            while let count @ 1.. = stream.read(&mut bytes, LIMIT).expect("goes on") {
                came.extend(&bytes[..count]);
            }
            assert!(came == sent, "{} bytes", came.len());
            stream.finish(LIMIT).expect("is acknowledged");
        },
    );
}

fn bytes_that_nobody_reads_are_told(by: By) {
    let scene = scene(by);
    let listener = scene.listen();
    let to = listener.address();
    scene.run(
        |end| {
            let mut stream = end.connect(to, LIMIT).expect("connects");
            stream.write_all(b"in vain", LIMIT).expect("goes on");
            let broken = stream.read(&mut [0; 8], LIMIT).expect_err("was reset");
            is_reset(&broken);
        },
        |end| {
            let stream = listener.accept(LIMIT).expect("somebody comes");
            let until = Instant::now() + LIMIT;
            while stream.peek().expect("is open")[0].is_empty() && Instant::now() < until {
                end.step();
            }
            drop(stream);
        },
    );
}

fn a_writer_waits_for_its_reader(by: By) {
    let scene = scene(by);
    let listener = scene.listen();
    let to = listener.address();
    let ring = Sizes::default().ring_bytes as usize;
    let is_full = std::sync::atomic::AtomicBool::new(false);
    use std::sync::atomic::Ordering;
    scene.run(
        |end| {
            let mut stream = end.connect(to, LIMIT).expect("connects");
            let sent = text(ring * 4);
            let mut count = 0;
            let mut last = Instant::now();
            while last.elapsed() < Duration::from_millis(200) {
                let more = stream.write(&sent[count..]).expect("is open");
                count += more;
                if more > 0 {
                    last = Instant::now();
                }
                end.step();
            }
            // Both rings are full, and nothing else holds any byte.
            assert!(count <= 2 * ring, "{count}");
            assert!(count > ring, "{count}");
            is_full.store(true, Ordering::Release);
            stream.write_all(&sent[count..], LIMIT).expect("goes on");
            stream.finish(LIMIT).expect("is acknowledged");
        },
        |end| {
            let mut stream = listener.accept(LIMIT).expect("somebody comes");
            while !is_full.load(Ordering::Acquire) {
                end.step();
                std::thread::yield_now();
            }
            let mut came: Vec<u8> = Vec::new();
            // Odd pieces: credit comes back late.
            let mut bytes = vec![0; 777];
            while let count @ 1.. = stream.read(&mut bytes, LIMIT).expect("goes on") {
                came.extend(&bytes[..count]);
            }
            assert!(came == text(ring * 4), "{} bytes", came.len());
        },
    );
}

fn silence_is_a_cause(by: By) {
    if by.is_tcp() {
        // A minute and more, which is tested in virtual time.
        return;
    }
    let scene = scene(by);
    let listener = scene.listen();
    let to = listener.address();
    scene.run(
        |end| {
            let mut stream = end.connect(to, LIMIT).expect("connects");
            scene.rest.cut();
            stream.write_all(b"nobody hears", LIMIT).expect("has room");
            let broken = stream.flush(LIMIT).expect_err("nobody answers");
            let is_silence = matches!(
                broken,
                Error::Over {
                    cause: Cause::TimedOut,
                    ..
                }
            );
            assert!(is_silence, "{broken}");
            assert_eq!(
                stream.beneath().expect("has words"),
                Some(warpwire_ring::Cause::RetryExceeded)
            );
        },
        |_| {
            listener.accept(LIMIT).expect("somebody comes");
        },
    );
}

fn places_are_used_again_and_news_name_them(by: By) {
    let sizes = Sizes {
        connections: 4,
        linger: Duration::from_millis(1),
        ..Sizes::default()
    };
    let scene = Scene::of(by, Impairments::default(), &sizes);
    let count = 24;
    let listener = scene.listen();
    let to = listener.address();
    scene.run(
        |end| {
            for number in 0..count {
                let stream = end.connect(to, LIMIT);
                let mut stream = stream.unwrap_or_else(|error| panic!("{number}: {error}"));
                let bytes = [number as u8; 100];
                stream.write_all(&bytes, LIMIT).expect("goes on");
                stream.close().expect("closes");
                let mut bytes = [0; 200];
                while stream.read(&mut bytes, LIMIT).expect("goes on") > 0 {}
                drop(stream);
                // Its place is free once it has lingered.
                let until = Instant::now() + Duration::from_millis(10);
                while Instant::now() < until {
                    end.step();
                }
            }
        },
        |end| {
            let news = end.news().expect("is the first");
            assert!(end.news().is_none(), "there is one");
            // Places of six engines at most.
            let mut streams: Vec<Option<Stream>> = (0..24).map(|_| None).collect();
            let (mut ended, mut total) = (0, 0);
            let until = Instant::now() + LIMIT;
            while ended < count && Instant::now() < until {
                if !end.step() {
                    std::thread::yield_now();
                }
                let mut told = Vec::new();
                news.drain(|number| told.push(number));
                for number in told {
                    if number == listener.number() {
                        while let Some(stream) = listener.try_accept().expect("has words") {
                            let place = stream.number() as usize;
                            streams[place] = Some(stream);
                        }
                    }
                    for slot in &mut streams {
                        let Some(stream) = slot else { continue };
                        let came = stream.peek().expect("goes on");
                        let came: usize = came.iter().map(|piece| piece.len()).sum();
                        stream.consume(came).expect("has words");
                        total += came;
                        if stream.is_at_end().expect("has words") {
                            *slot = None;
                            ended += 1;
                        }
                    }
                }
            }
            assert_eq!((ended, total), (count, count * 100));
        },
    );
    let counters = scene.ends[1].counters();
    assert_eq!(counters.connected, count as u64, "{counters:?}");
    assert_eq!(counters.failed, 0, "{counters:?}");
}
