//! What streams over TCP alone do.

use std::time::Duration;

use warpwire_nic::soft::Impairments;

use super::scene::{LIMIT, Scene, at, text};
use super::slow::NoWay;
use super::*;

#[test]
fn bytes_go_there_and_back() {
    for (to, any) in [("10.9.0.2:7", "0.0.0.0:7"), ("[fd09::2]:7", "[::]:7")] {
        let scene = Scene::new(Impairments::default(), |_| {});
        scene.run(
            |end| {
                let mut stream = end.connect(at(to), LIMIT).expect("connects");
                assert_eq!(stream.peer(), at(to));
                let sent = text(500_000);
                let (mut rest, mut back) = (&sent[..], Vec::<u8>::new());
                let mut bytes = vec![0; 10_000];
                while back.len() < sent.len() {
                    let count = stream.write(rest).expect("is open");
                    rest = &rest[count..];
                    if rest.is_empty() && !stream.is_over().expect("has words") {
                        stream.close().expect("closes");
                    }
                    let count = match stream.read(&mut bytes, Duration::from_millis(1)) {
                        Ok(0) => panic!("ended after {} bytes", back.len()),
                        Ok(count) => count,
                        Err(Error::Deadline { .. }) => 0,
                        Err(error) => panic!("{error}"),
                    };
                    back.extend(&bytes[..count]);
                    if rest.is_empty() {
                        break;
                    }
                }
                while let count @ 1.. = stream.read(&mut bytes, LIMIT).expect("goes on") {
                    back.extend(&bytes[..count]);
                }
                assert!(back == sent, "{} of {} bytes", back.len(), sent.len());
                assert!(stream.is_at_end().expect("has words"));
                let refused = stream.write(b"more").expect_err("is closed");
                assert!(matches!(refused, Error::Closed { .. } | Error::Over { .. }));
                assert!(stream.figures().expect("has words").srtt_us > 0);
            },
            |end| {
                let listener = end.listen(at(any), LIMIT).expect("listens");
                let mut stream = listener.accept(LIMIT).expect("somebody comes");
                assert_eq!(stream.local(), at(to));
                let mut total = 0;
                while !stream.is_at_end().expect("has words") {
                    total += stream.reflect().expect("goes on");
                    end.step();
                }
                assert_eq!(total, 500_000);
                stream.finish(LIMIT).expect("is acknowledged");
            },
        );
    }
}

#[test]
fn who_does_not_listen_refuses_and_who_is_not_there_is_silent() {
    let scene = Scene::new(Impairments::default(), |_| {});
    scene.run(
        |end| {
            let refused = end
                .connect(at("10.9.0.2:7"), LIMIT)
                .err()
                .expect("nobody listens");
            let cause = match &refused {
                Error::Over { cause, .. } => Some(*cause),
                _ => None,
            };
            assert_eq!(cause, Some(Cause::Refused), "{refused}");
            let silent = end
                .connect(at("10.9.0.3:7"), LIMIT)
                .err()
                .expect("nobody is there");
            let is_silent = matches!(silent, Error::NoWay(NoWay::Silent { .. }));
            assert!(is_silent, "{silent}");
            let nowhere = end
                .connect(at("10.8.0.3:7"), LIMIT)
                .err()
                .expect("has no route");
            assert!(
                matches!(nowhere, Error::NoWay(NoWay::NoRoute { .. })),
                "{nowhere}"
            );
        },
        |_| {},
    );
}

#[test]
fn ports_are_taken_and_given_back() {
    let scene = Scene::new(Impairments::default(), |config| config.listeners = 2);
    let end = &scene.ends[1];
    let one = end.listen(at("10.9.0.2:7"), LIMIT).expect("listens");
    let again = end.listen(at("10.9.0.2:7"), LIMIT).err().expect("is taken");
    assert!(matches!(again, Error::Taken { .. }), "{again}");
    let other = end
        .listen(at("[::]:7"), LIMIT)
        .expect("is of another family");
    let third = end
        .listen(at("10.9.0.2:8"), LIMIT)
        .err()
        .expect("there are two");
    assert!(matches!(third, Error::Full { .. }), "{third}");
    let waited = one
        .accept(Duration::from_millis(5))
        .err()
        .expect("nobody comes");
    assert!(matches!(waited, Error::Deadline { .. }), "{waited}");
    drop((one, other));
    end.listen(at("10.9.0.2:7"), LIMIT).expect("listens again");
}

#[test]
fn a_full_backlog_is_answered_by_cookies() {
    // While a handshake is under way, the others' first segments arrive.
    let link = Impairments {
        delay_ns: 5_000_000,
        ..Impairments::default()
    };
    let scene = Scene::new(link, |config| config.backlog = 2);
    let count = 4;
    scene.run(
        |end| {
            std::thread::scope(|scope| {
                for _ in 0..count {
                    scope.spawn(|| {
                        let mut stream = end.connect(at("10.9.0.2:7"), LIMIT).expect("connects");
                        stream.write_all(b"hello", LIMIT).expect("goes on");
                        stream.flush(LIMIT).expect("is acknowledged");
                    });
                }
            });
        },
        |end| {
            let listener = end.listen(at("10.9.0.2:7"), LIMIT).expect("listens");
            let mut streams = Vec::new();
            for _ in 0..count {
                let mut stream = listener.accept(LIMIT).expect("somebody comes");
                let mut bytes = [0; 64];
                let length = stream.read(&mut bytes, LIMIT).expect("goes on");
                assert_eq!(&bytes[..length], b"hello");
                streams.push(stream);
            }
        },
    );
    let counters = scene.ends[1].counters();
    assert!(counters.cookies > 0, "{counters:?}");
}

#[test]
fn wrong_settings_are_named() {
    let good = StreamConfig::new(vec!["10.9.0.1/24".parse().expect("is one")]);
    type Change = fn(&mut StreamConfig);
    let cases: [(&str, Change); 8] = [
        ("connections", |config| config.connections = 0),
        ("open", |config| config.open = config.connections + 1),
        ("ring_bytes", |config| config.ring_bytes = 3000),
        ("listeners", |config| config.listeners = 5000),
        ("backlog", |config| config.backlog = 3),
        ("share", |config| config.share = 0),
        ("warps", |config| config.warps = 0),
        ("warps", |config| config.warps = 33),
    ];
    assert!(good.check().is_ok());
    for (field, change) in cases {
        let mut config = good.clone();
        change(&mut config);
        let said = config.check().expect_err(field).to_string();
        assert!(said.starts_with(field), "{said}");
    }
}
