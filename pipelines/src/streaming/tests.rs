//! Streams between two endpoints on soft NICs with a cable between them, a thread each.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpwire_gpu::Service;
use warpwire_gpu::executor::Clock;
use warpwire_nic::soft::{
    AdapterConfig, Clock as FabricClock, Fabric, FabricConfig, Impairments, SoftNic,
};

use super::slow::NoWay;
use super::*;

pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// Two endpoints; the NICs go after them.
pub(super) struct Scene {
    ends: [StreamEndpoint; 2],
    nics: [SoftNic; 2],
}

impl Scene {
    pub(super) fn new(link: Impairments, change: impl Fn(&mut StreamConfig)) -> Self {
        let clock = Clock::machine();
        let fabric = Fabric::new(
            FabricConfig::default(),
            FabricClock::Executor(clock.clone()),
        );
        let nics = [0, 1].map(|_| {
            let spec = "soft".parse().expect("is right");
            let nic = fabric.plug(spec, AdapterConfig::default(), link);
            nic.expect("opens")
        });
        fabric.cable(nics[0].port(), nics[1].port());
        let mut service: Option<Box<dyn Service>> = Some(Box::new(fabric.service()));
        let ends = [0, 1].map(|number| {
            let own = [
                format!("10.9.0.{}/24", number + 1),
                format!("fd09::{}/64", number + 1),
            ];
            let own = own.map(|own| own.parse().expect("is one"));
            let mut config = StreamConfig {
                ring_bytes: 1 << 16,
                connections: 64,
                open: 32,
                ..StreamConfig::new(own.to_vec())
            };
            change(&mut config);
            let services = service.take().into_iter().collect();
            let end = StreamEndpoint::start_fused(clock.clone(), &nics[number], services, &config);
            end.expect("starts")
        });
        Self { ends, nics }
    }

    /// The endpoints, and the NICs that have to go after them.
    #[cfg(feature = "tokio")]
    pub(super) fn parts(self) -> ([StreamEndpoint; 2], [SoftNic; 2]) {
        (self.ends, self.nics)
    }

    /// Runs a server beside a client; both endpoints are stepped until both are over.
    fn run(
        &self,
        client: impl FnOnce(&StreamEndpoint),
        server: impl FnOnce(&StreamEndpoint) + Send,
    ) {
        let (served, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let step = |end: &StreamEndpoint, until: &AtomicBool| {
            while !until.load(Ordering::Relaxed) {
                if !end.step() {
                    std::thread::yield_now();
                }
            }
        };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let ended = Ended(&served);
                server(&self.ends[1]);
                drop(ended);
                step(&self.ends[1], &over);
            });
            let _over = Ended(&over);
            client(&self.ends[0]);
            step(&self.ends[0], &served);
        });
    }
}

/// Says so when a side is over, however that came.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

pub(super) fn text(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect()
}

pub(super) fn at(address: &str) -> SocketAddr {
    address.parse().expect("is one")
}

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
fn bytes_survive_a_bad_link() {
    let link = Impairments {
        loss_ppm: 20_000,
        duplicate_ppm: 10_000,
        reorder_ppm: 10_000,
        reorder_ns: 200_000,
        corrupt_ppm: 5_000,
        ..Impairments::default()
    };
    let scene = Scene::new(link, |_| {});
    let sent = text(1 << 20);
    scene.run(
        |end| {
            let mut stream = end.connect(at("10.9.0.2:9"), LIMIT).expect("connects");
            stream.write_all(&sent, LIMIT).expect("goes on");
            stream.finish(LIMIT).expect("is acknowledged");
        },
        |end| {
            let listener = end.listen(at("10.9.0.2:9"), LIMIT).expect("listens");
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
fn who_gives_up_is_noticed() {
    let scene = Scene::new(Impairments::default(), |_| {});
    scene.run(
        |end| {
            let mut stream = end.connect(at("10.9.0.2:7"), LIMIT).expect("connects");
            stream.write_all(b"unfinished", LIMIT).expect("goes on");
            stream.flush(LIMIT).expect("is acknowledged");
            stream.abort().expect("has words");
        },
        |end| {
            let listener = end.listen(at("10.9.0.2:7"), LIMIT).expect("listens");
            let mut stream = listener.accept(LIMIT).expect("somebody comes");
            let mut bytes = [0; 64];
            let count = stream.read(&mut bytes, LIMIT).expect("came before");
            assert_eq!(&bytes[..count], b"unfinished");
            let broken = stream.read(&mut bytes, LIMIT).expect_err("was reset");
            let is_reset = matches!(
                broken,
                Error::Over {
                    cause: Cause::Reset,
                    ..
                }
            );
            assert!(is_reset, "{broken}");
        },
    );
}

#[test]
fn places_are_used_again_and_news_name_them() {
    let scene = Scene::new(Impairments::default(), |config| {
        config.connections = 8;
        config.open = 4;
        config.tcp.time_wait_ns = 1_000_000;
    });
    let count = 100;
    scene.run(
        |end| {
            for number in 0..count {
                let stream = end.connect(at("10.9.0.2:7"), LIMIT);
                let mut stream = stream.unwrap_or_else(|error| panic!("{number}: {error}"));
                stream
                    .write_all(&[number as u8; 100], LIMIT)
                    .expect("goes on");
                stream.close().expect("closes");
                let mut bytes = [0; 200];
                while stream.read(&mut bytes, LIMIT).expect("goes on") > 0 {}
                drop(stream);
                // Its place is free once it has lingered.
                let until = std::time::Instant::now() + Duration::from_millis(5);
                while std::time::Instant::now() < until {
                    end.step();
                }
            }
        },
        |end| {
            let listener = end.listen(at("10.9.0.2:7"), LIMIT).expect("listens");
            let news = end.news().expect("is the first");
            assert!(end.news().is_none(), "there is one");
            let mut streams: Vec<Option<Stream>> = (0..8).map(|_| None).collect();
            let (mut ended, mut total) = (0, 0);
            let until = std::time::Instant::now() + LIMIT;
            while ended < count && std::time::Instant::now() < until {
                end.step();
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
                        let came: usize = stream
                            .peek()
                            .expect("goes on")
                            .iter()
                            .map(|a| a.len())
                            .sum();
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
}

#[test]
fn wrong_settings_are_named() {
    let good = StreamConfig::new(vec!["10.9.0.1/24".parse().expect("is one")]);
    type Change = fn(&mut StreamConfig);
    let cases: [(&str, Change); 6] = [
        ("connections", |config| config.connections = 0),
        ("open", |config| config.open = config.connections + 1),
        ("ring_bytes", |config| config.ring_bytes = 3000),
        ("listeners", |config| config.listeners = 5000),
        ("backlog", |config| config.backlog = 3),
        ("share", |config| config.share = 0),
    ];
    assert!(good.check().is_ok());
    for (field, change) in cases {
        let mut config = good.clone();
        change(&mut config);
        let said = config.check().expect_err(field).to_string();
        assert!(said.starts_with(field), "{said}");
    }
}
