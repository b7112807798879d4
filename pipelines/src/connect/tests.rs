//! Both ends of every language against what the programs said, each other, and nonsense.

use super::own::{self, Agreement, Feature, Offer, Service, Wish};
use super::perftest::{Direction, Hello, Results, Role, Session, Tool};
use super::{Conversation, Error, Listener, perftest, pingpong};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};
use warpwire_protocols::wire::{Gid, PKey, Psn, Qpn};

const LIMIT: Duration = Duration::from_secs(20);

/// What one end of a capture said, and how it goes on.
struct Said {
    is_client: bool,
    bytes: Vec<u8>,
}

/// The bytes of a capture's TCP connection, by segment, in order.
fn capture(file: &str) -> Vec<Said> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let bytes = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut all: Vec<Said> = Vec::new();
    let mut seen = std::collections::HashSet::new();
    let mut at = 24;
    while at + 16 <= bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let frame = &bytes[at + 16..at + 16 + length];
        at += 16 + length;
        if frame[12..14] != [8, 0] || frame[23] != 6 {
            continue;
        }
        let total = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
        let segment = &frame[34..14 + total];
        let payload = &segment[usize::from(segment[12] >> 4) * 4..];
        let is_client = u16::from_be_bytes([segment[2], segment[3]]) == perftest::PORT;
        let sequence: [u8; 4] = segment[4..8].try_into().unwrap();
        if !payload.is_empty() && seen.insert((is_client, sequence)) {
            let bytes = payload.to_vec();
            all.push(Said { is_client, bytes });
        }
    }
    assert!(all.len() > 2, "{file} is too short");
    all
}

/// Plays one end of a capture on a socket, and checks that the other says what the capture has.
fn play(mut stream: TcpStream, capture: &[Said], plays_client: bool) {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    for (index, said) in capture.iter().enumerate() {
        if said.is_client == plays_client {
            stream.write_all(&said.bytes).unwrap();
        } else {
            let mut heard = vec![0; said.bytes.len()];
            stream.read_exact(&mut heard).unwrap();
            let texts = [&heard, &said.bytes].map(|bytes| String::from_utf8_lossy(bytes));
            assert_eq!(texts[0], texts[1], "message {index}");
        }
    }
    let mut rest = Vec::new();
    assert_eq!(
        stream.read_to_end(&mut rest).unwrap_or(0),
        0,
        "more than that: {rest:?}"
    );
}

/// Runs our end against a recorded one.
fn against<T>(file: &str, role: Role, end: impl FnOnce(Conversation) -> T) -> T {
    let capture = capture(file);
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    std::thread::scope(|scope| match role {
        Role::Server => {
            let peer = scope.spawn(|| play(TcpStream::connect(&address).unwrap(), &capture, true));
            let outcome = end(listener.accept(LIMIT, LIMIT).unwrap());
            peer.join().unwrap();
            outcome
        }
        Role::Client => {
            let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let address = socket.local_addr().unwrap().to_string();
            let capture = &capture;
            let peer = scope.spawn(move || play(socket.accept().unwrap().0, capture, false));
            let outcome = end(Conversation::dial(&address, LIMIT).unwrap());
            peer.join().unwrap();
            outcome
        }
    })
}

/// What an end of a capture says in messages of a length.
fn said(file: &str, role: Role, length: usize) -> Vec<Vec<u8>> {
    let own = |said: &Said| said.is_client == (role == Role::Client) && said.bytes.len() == length;
    let all = capture(file).into_iter().filter(own);
    all.map(|said| said.bytes).collect()
}

/// The hexadecimal number in a field of a text.
fn field(bytes: &[u8], index: usize) -> u128 {
    let text = String::from_utf8_lossy(bytes);
    let field = text
        .trim_end_matches('\0')
        .split(':')
        .nth(index)
        .unwrap()
        .to_owned();
    u128::from_str_radix(&field, 16).unwrap()
}

/// Both ends of a conversation of ours, each on a thread.
fn pair<C: Send, S: Send>(
    client: impl FnOnce(Conversation) -> C + Send,
    server: impl FnOnce(Conversation) -> S + Send,
) -> (C, S) {
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    std::thread::scope(|scope| {
        let client = scope.spawn(move || client(Conversation::dial(&address, LIMIT).unwrap()));
        let served = server(listener.accept(LIMIT, LIMIT).unwrap());
        (client.join().unwrap(), served)
    })
}

/// A server that says bytes and goes, or stays silent.
fn with_peer<T>(bytes: &[u8], stays: bool, client: impl FnOnce(Conversation) -> T) -> T {
    let socket = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = socket.local_addr().unwrap().to_string();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut stream, _) = socket.accept().unwrap();
            // The client may have heard enough before it is all said.
            let _ = stream.write_all(bytes);
            if !stays {
                let _ = stream.shutdown(std::net::Shutdown::Write);
            }
            stream.set_read_timeout(Some(LIMIT)).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        });
        client(Conversation::dial(&address, LIMIT).unwrap())
    })
}

mod pingpong_ends {
    use super::*;

    fn own(file: &str, role: Role) -> pingpong::Destination {
        let bytes = said(file, role, 52).remove(0);
        pingpong::Destination {
            lid: 0,
            qp: Qpn::new(field(&bytes, 1) as u32),
            psn: Psn::new(field(&bytes, 2) as u32),
            gid: Gid(field(&bytes, 3).to_be_bytes()),
        }
    }

    #[test]
    fn both_ends_of_every_capture() {
        for service in ["rc", "uc", "ud"] {
            let file = format!("../protocols/testdata/rxe/ibv_{service}_pingpong.pcap");
            let (client, server) = (own(&file, Role::Client), own(&file, Role::Server));
            let found = against(&file, Role::Client, |mut conversation| {
                let theirs = pingpong::ask(&mut conversation, &[client]).unwrap();
                pingpong::ready(&mut conversation).unwrap();
                theirs
            });
            assert_eq!(found, [server]);
            let found = against(&file, Role::Server, |mut conversation| {
                let theirs = pingpong::hear(&mut conversation, 1).unwrap();
                pingpong::answer(&mut conversation, &[server]).unwrap();
                theirs
            });
            assert_eq!(found, [client]);
        }
        let file = "../protocols/testdata/rxe/ibv_rc_pingpong.pcap";
        assert_eq!(
            own(file, Role::Client).to_string(),
            "LID 0x0000, QPN 0x000030, PSN 0x958586, GID ::ffff:10.77.0.3"
        );
    }

    #[test]
    fn our_ends_with_each_other() {
        let of = |number: u32| pingpong::Destination {
            lid: 0xffff,
            qp: Qpn::new(number),
            psn: Psn::new(0xff_ffff),
            gid: Gid([0xff; 16]),
        };
        let (clients, servers) = ([of(1), of(2)], [of(3), of(4)]);
        let (from_server, from_client) = pair(
            move |mut conversation| {
                let theirs = pingpong::ask(&mut conversation, &clients).unwrap();
                pingpong::ready(&mut conversation).unwrap();
                theirs
            },
            move |mut conversation| {
                let theirs = pingpong::hear(&mut conversation, 2).unwrap();
                pingpong::answer(&mut conversation, &servers).unwrap();
                theirs
            },
        );
        assert_eq!(
            (from_client, from_server),
            (clients.to_vec(), servers.to_vec())
        );
    }

    #[test]
    fn nonsense_is_named() {
        let gid = "0".repeat(32);
        let check = |text: &str, field: &str| {
            let mut bytes = text.as_bytes().to_vec();
            bytes.resize(52, 0);
            let error = with_peer(&bytes, true, |mut conversation| {
                pingpong::hear(&mut conversation, 1).unwrap_err()
            });
            let Error::Field { field: found, .. } = &error else {
                panic!("{text}: {error}");
            };
            assert_eq!(*found, field, "{text}: {error}");
        };
        check(&format!("000g:000001:000002:{gid}"), "LID");
        check(&format!("+000:000001:000002:{gid}"), "LID");
        check(&format!("0000:00001:000002:{gid}"), "QPN");
        check(&format!("0000:0000001:00002:{gid}"), "QPN");
        check(&format!("0000:000001:-00002:{gid}"), "PSN");
        check("0000:000001:000002:0123", "GID");
        check("0000:000001:000002", "GID");
        check("", "LID");
        check(&format!("0000:000001:000002:{}:", &gid[1..]), "GID");
        // No zero behind, and bytes behind the zero.
        check(&format!("0000:000001:000002:{gid}x"), "address");
        check("0000:000001\u{0}:000002", "address");
        check("0000:00000\u{e9}:000002", "address");
    }

    #[test]
    fn a_client_that_is_not_ready() {
        let (_, error) = pair(
            |mut conversation| {
                conversation.send("nonsense", b"gone\0").unwrap();
                let _: Result<[u8; 52], Error> = conversation.receive_array("address");
            },
            |mut conversation| pingpong::answer(&mut conversation, &[]).unwrap_err(),
        );
        assert!(
            error.to_string().contains("readiness: said \"gone\\0\""),
            "{error}"
        );
    }
}

mod perftest_ends {
    use super::*;
    use perftest::Destination;

    fn all(file: &str, role: Role, count: usize) -> Vec<Destination> {
        let of = |bytes: &Vec<u8>| Destination {
            lid: field(bytes, 0) as u16,
            reads: field(bytes, 1) as u16,
            qp: Qpn::new(field(bytes, 2) as u32),
            psn: Psn::new(field(bytes, 3) as u32),
            rkey: field(bytes, 4) as u32,
            address: field(bytes, 5) as u64,
            gid: Gid(std::array::from_fn(|index| field(bytes, 6 + index) as u8)),
            srq: field(bytes, 22) as u32,
        };
        said(file, role, 108).iter().take(count).map(of).collect()
    }

    /// The results that an end of a capture told; those of a server that does not measure as well.
    fn results(file: &str, role: Role) -> Results {
        let numbers = said(file, role, 8);
        let number = |index: usize| match numbers.get(index) {
            Some(bytes) => u64::from_be_bytes(bytes.as_slice().try_into().unwrap()),
            None => 0,
        };
        Results {
            size: number(0),
            iterations: number(1),
            peak: f64::from_bits(number(2)),
            average: f64::from_bits(number(3)),
            message_rate: f64::from_bits(number(4)),
        }
    }

    struct Run {
        file: &'static str,
        tool: Tool,
        direction: Direction,
        pairs: usize,
        sizes: usize,
        mtus: (u8, u8),
    }

    const fn run(file: &'static str, tool: Tool) -> Run {
        Run {
            file,
            tool,
            direction: Direction::One,
            pairs: 1,
            sizes: 1,
            mtus: (3, 3),
        }
    }

    fn converse(
        conversation: Conversation,
        role: Role,
        run: &Run,
        own: &[Destination],
        results: &Results,
    ) -> (u8, Vec<Destination>, Option<Results>) {
        let mtu = match role {
            Role::Client => run.mtus.0,
            Role::Server => run.mtus.1,
        };
        let rounds = run.tool.rounds(run.direction);
        let hello = Hello::new(mtu);
        let mut session = Session::greet(conversation, role, rounds, &hello).unwrap();
        assert_eq!(session.version(), "6.06");
        assert_eq!(session.layout(), (4096, 64));
        let theirs = session.exchange(own).unwrap().to_vec();
        session.begin().unwrap();
        for _ in 1..run.sizes {
            session.between().unwrap();
        }
        if run.sizes > 1 {
            session.after_sizes().unwrap();
        }
        let heard = session.end(results).unwrap();
        (session.mtu(), theirs, heard)
    }

    #[test]
    fn both_ends_of_every_capture() {
        let runs = [
            run(
                "../protocols/testdata/rxe/ib_send_bw.pcap",
                Tool::SendBandwidth,
            ),
            run(
                "../protocols/testdata/rxe/ib_send_bw_ud.pcap",
                Tool::SendBandwidth,
            ),
            run(
                "../protocols/testdata/rxe/ib_write_bw.pcap",
                Tool::WriteBandwidth,
            ),
            run(
                "../protocols/testdata/rxe/ib_write_lat.pcap",
                Tool::WriteLatency,
            ),
            run(
                "../protocols/testdata/rxe/ib_read_lat.pcap",
                Tool::ReadLatency,
            ),
            run(
                "../protocols/testdata/rxe/ib_atomic_lat.pcap",
                Tool::AtomicLatency,
            ),
            run("testdata/perftest/send_lat.pcap", Tool::SendLatency),
            run("testdata/perftest/read_bw.pcap", Tool::ReadBandwidth),
            run("testdata/perftest/atomic_bw.pcap", Tool::AtomicBandwidth),
            Run {
                pairs: 2,
                ..run("testdata/perftest/send_bw_q2.pcap", Tool::SendBandwidth)
            },
            Run {
                pairs: 2,
                ..run("testdata/perftest/write_bw_q2.pcap", Tool::WriteBandwidth)
            },
            Run {
                sizes: 23,
                ..run("testdata/perftest/send_bw_a.pcap", Tool::SendBandwidth)
            },
            Run {
                sizes: 23,
                ..run("testdata/perftest/send_lat_a.pcap", Tool::SendLatency)
            },
            Run {
                direction: Direction::Both,
                ..run("testdata/perftest/send_bw_b.pcap", Tool::SendBandwidth)
            },
            Run {
                direction: Direction::Both,
                ..run("testdata/perftest/write_bw_b.pcap", Tool::WriteBandwidth)
            },
            Run {
                mtus: (3, 1),
                ..run("testdata/perftest/mtu_differs.pcap", Tool::SendBandwidth)
            },
        ];
        for run in &runs {
            let file = run.file;
            let [clients, servers] =
                [Role::Client, Role::Server].map(|role| all(file, role, run.pairs));
            let [asked, answered] = [Role::Client, Role::Server].map(|role| results(file, role));
            let (mtu, theirs, heard) = against(file, Role::Client, |conversation| {
                converse(conversation, Role::Client, run, &clients, &asked)
            });
            assert_eq!(
                (mtu, &theirs),
                (run.mtus.0.min(run.mtus.1), &servers),
                "{file}"
            );
            let is_told = run.direction == Direction::Both;
            assert_eq!(heard, is_told.then_some(answered), "{file}");
            let (_, theirs, heard) = against(file, Role::Server, |conversation| {
                converse(conversation, Role::Server, run, &servers, &answered)
            });
            assert_eq!(theirs, clients, "{file}");
            assert_eq!(heard.unwrap_or_default(), asked, "{file}");
        }
    }

    #[test]
    fn our_ends_with_each_other() {
        let tools = [
            Tool::SendBandwidth,
            Tool::WriteBandwidth,
            Tool::ReadBandwidth,
            Tool::AtomicBandwidth,
            Tool::SendLatency,
            Tool::WriteLatency,
            Tool::ReadLatency,
            Tool::AtomicLatency,
        ];
        let of = |number: u32| Destination {
            lid: 0xffff,
            reads: 0xffff,
            qp: Qpn::new(0xff_ff00 + number),
            psn: Psn::new(0xff_ffff),
            rkey: u32::MAX,
            address: u64::MAX,
            gid: Gid([0xff; 16]),
            srq: u32::MAX,
        };
        let (clients, servers) = ([of(1), of(2), of(3)], [of(4), of(5), of(6)]);
        let results = Results {
            size: 8,
            iterations: 5,
            peak: 2.5,
            average: 1.5,
            message_rate: 0.5,
        };
        for tool in tools {
            for direction in [Direction::One, Direction::Both] {
                let run = Run {
                    pairs: 3,
                    sizes: 4,
                    direction,
                    ..run("", tool)
                };
                let run = &run;
                let (client, server) = pair(
                    |conversation| converse(conversation, Role::Client, run, &clients, &results),
                    |conversation| converse(conversation, Role::Server, run, &servers, &results),
                );
                assert_eq!(client.1, servers, "{tool:?}");
                assert_eq!(server.1, clients, "{tool:?}");
                let told = match run.tool.rounds(direction).results {
                    perftest::Exchange::None => (None, None),
                    perftest::Exchange::Client => (None, Some(results)),
                    perftest::Exchange::Both => (Some(results), Some(results)),
                };
                assert_eq!((client.2, server.2), told, "{tool:?}");
            }
        }
    }

    /// What a server of perftest says, changed, and the field that our client blames.
    fn check(change: fn(&mut Vec<Vec<u8>>), field: &str) {
        let file = "../protocols/testdata/rxe/ib_write_bw.pcap";
        let capture = capture(file);
        let own = capture.into_iter().filter(|said| !said.is_client);
        let mut messages: Vec<Vec<u8>> = own.map(|said| said.bytes).collect();
        change(&mut messages);
        let error = with_peer(&messages.concat(), true, |conversation| {
            let rounds = Tool::WriteBandwidth.rounds(Direction::One);
            let own = all(file, Role::Client, 1);
            let mut session = Session::greet(conversation, Role::Client, rounds, &Hello::new(3))?;
            session.exchange(&own)?;
            session.begin()?;
            session.end(&Results::default())
        })
        .unwrap_err();
        let Error::Field { field: found, .. } = &error else {
            panic!("{field}: {error}");
        };
        assert_eq!(*found, field, "{error}");
    }

    #[test]
    fn nonsense_is_named() {
        check(|said| said[0] = b"HTTP/1.1 400 Bad".to_vec(), "version");
        check(|said| said[0] = vec![0; 16], "version");
        check(|said| said[3] = b"6\0".to_vec(), "MTU");
        check(|said| said[3] = b"0\0".to_vec(), "MTU");
        check(|said| said[3] = b"33".to_vec(), "MTU");
        check(|said| said[4][0] = b' ', "LID");
        check(|said| said[4][5] = b'x', "outstanding reads");
        check(|said| said[4][10] = b'-', "QPN");
        check(|said| said[4][17] = b'.', "PSN");
        check(|said| said[4][24] = b'g', "RKey");
        check(|said| said[4][33] = b'z', "VAddr");
        check(|said| said[4][50] = b'G', "GID");
        check(|said| said[4][98] = b'S', "SRQN");
        check(|said| said[4][107] = b'7', "address");
        // Another queue pair in a later round.
        check(|said| said[5][13] = b'7', "address");
        check(
            |said| *said.last_mut().unwrap() = b"dine\0".to_vec(),
            "farewell",
        );
    }
}

mod own_ends {
    use super::*;

    fn offer() -> Offer {
        Offer {
            service: Service::Rc,
            gid: Gid::of([10, 0, 0, 1].into()),
            mtu: 4096,
            traffic_class: Wish::Any,
            hop_limit: Wish::Any,
            pkey: PKey::DEFAULT,
            reads: 16,
            reads_served: 4,
            max_message: 1 << 30,
            features: vec![Feature::Selective, Feature::Rate],
            queue_pairs: vec![own::Destination {
                qp: Qpn::new(0x11),
                psn: Psn::new(0x5c_01a7),
                rkey: 0x0b3d_1f08,
                address: 0x7f00_0000_0000,
                length: 65536,
            }],
        }
    }

    fn negotiate(
        client: &Offer,
        server: &Offer,
    ) -> (Result<Agreement, Error>, Result<Agreement, Error>) {
        pair(
            |mut it| own::negotiate(&mut it, Role::Client, client),
            |mut it| own::negotiate(&mut it, Role::Server, server),
        )
    }

    #[test]
    fn what_two_ends_agree_on() {
        let client = Offer {
            traffic_class: Wish::Just(0x68),
            ..offer()
        };
        let server = Offer {
            gid: Gid::of([10, 0, 0, 2].into()),
            mtu: 1024,
            hop_limit: Wish::Just(9),
            pkey: PKey(0x7fff),
            reads: 3,
            reads_served: 8,
            max_message: 1 << 23,
            features: vec![Feature::Rate],
            ..offer()
        };
        let (mine, theirs) = negotiate(&client, &server);
        let (mine, theirs) = (mine.unwrap(), theirs.unwrap());
        assert_eq!((&mine.own, &mine.theirs), (&client, &server));
        assert_eq!((&theirs.own, &theirs.theirs), (&server, &client));
        let expected = Offer {
            mtu: 1024,
            traffic_class: Wish::Just(0x68),
            hop_limit: Wish::Just(9),
            reads: 8,
            reads_served: 3,
            max_message: 1 << 23,
            features: vec![Feature::Rate],
            ..offer()
        };
        assert_eq!(mine.agreed, expected);
        let expected = Offer {
            gid: server.gid,
            pkey: PKey(0x7fff),
            reads: 3,
            reads_served: 8,
            ..expected
        };
        assert_eq!(theirs.agreed, expected);
        let table = mine.to_string();
        for row in [
            "mtu            4096                                     1024",
            "traffic_class  104                                      any",
            "qp             000011 psn 5c01a7",
        ] {
            assert!(
                table.lines().any(|line| line.starts_with(row)),
                "{row}\n{table}"
            );
        }
    }

    #[test]
    fn a_difference_is_refused_by_both_and_named() {
        let check = |change: fn(&mut Offer), field: &str| {
            let (mut client, server) = (offer(), offer());
            change(&mut client);
            let (mine, theirs) = negotiate(&client, &server);
            for error in [mine.unwrap_err(), theirs.unwrap_err()] {
                let Error::Refused { field: found, .. } = &error else {
                    panic!("{field}: {error}");
                };
                assert_eq!(found, field, "{error}");
                assert!(
                    error.to_string().contains(&format!("refused {field}: ")),
                    "{error}"
                );
            }
        };
        check(|it| it.service = Service::Ud, "service");
        check(|it| it.gid = Gid::of([0xfd; 16].into()), "gid");
        check(|it| it.pkey = PKey(0x8001), "pkey");
        check(|it| it.hop_limit = Wish::Just(0), "hop_limit");
        check(|it| it.queue_pairs.push(it.queue_pairs[0]), "qp");
        // Two numbers that differ.
        let (mut client, mut server) = (offer(), offer());
        (client.traffic_class, server.traffic_class) = (Wish::Just(1), Wish::Just(2));
        let (mine, theirs) = negotiate(&client, &server);
        for error in [mine.unwrap_err(), theirs.unwrap_err()] {
            assert!(
                error.to_string().contains("refused traffic_class"),
                "{error}"
            );
        }
    }

    #[test]
    fn an_offer_comes_back_from_its_lines_and_unknown_ones_are_passed_over() {
        let mut server = offer();
        server.queue_pairs = vec![server.queue_pairs[0]; 300];
        let text = server.to_lines();
        assert!(text.starts_with("warpwire 1\nservice=rc\ngid=0000"));
        let text = text.replace("features=selective,rate", "features=later,selective\nnew=1");
        let text = format!("{text}agree\n");
        let mut client = offer();
        client.queue_pairs = server.queue_pairs.clone();
        let agreement = with_peer(text.as_bytes(), true, |mut it| {
            own::negotiate(&mut it, Role::Client, &client).unwrap()
        });
        server.features = vec![Feature::Selective];
        assert_eq!(agreement.theirs, server);
        assert_eq!(agreement.agreed.features, [Feature::Selective]);
    }

    #[test]
    fn nonsense_is_named() {
        let check = |from: &str, to: &str, field: &str| {
            let text = offer().to_lines();
            assert!(text.contains(from), "{from}");
            let text = format!("{}agree\n", text.replace(from, to));
            let error = with_peer(text.as_bytes(), true, |mut it| {
                own::negotiate(&mut it, Role::Client, &offer()).unwrap_err()
            });
            let Error::Field { field: found, .. } = &error else {
                panic!("{field}: {error}");
            };
            assert_eq!(*found, field, "{error}");
        };
        check("warpwire 1\n", "warpwire 2\n", "greeting");
        check("warpwire 1\n", "\u{7f}ELF\n", "greeting");
        for field in [
            "mtu",
            "gid",
            "reads",
            "features",
            "max_message",
            "pkey",
            "service",
        ] {
            let line = offer().to_lines();
            let start = format!("\n{field}=");
            let line = line
                .lines()
                .find(|line| format!("\n{line}").starts_with(&start))
                .unwrap();
            let twice = format!("{line}\n{line}\n");
            check(&format!("{line}\n"), "", field);
            check(&format!("{line}\n"), &twice, field);
            if field != "features" {
                check(&format!("{line}\n"), &format!("{field}=x\n"), field);
            }
        }
        check("mtu=4096", "mtu=1500", "mtu");
        check("reads=16", "reads=256", "reads");
        check("pkey=ffff", "pkey=fffff", "pkey");
        check("=0000", "=+000", "gid");
        check(
            "gid=00000000000000000000ffff0a000001",
            "gid=00000000000000000000000000000000",
            "gid",
        );
        check("qp=000011", "qp=0000011", "qp");
        check(" length=65536", "", "qp");
        check("length=65536", "length=65536 more=1", "qp");
        check("end\n", &format!("{}\n", "a=".repeat(600)), "offer");
        check("end\nagree", "end\nperhaps", "verdict");
        let no_pair = offer().queue_pairs[0].to_string() + "\n";
        check(&no_pair, "", "qp");
        check(&no_pair, "what\n", "offer");
        check("end\n", &"a=1\n".repeat(5000), "offer");
        let many = no_pair.repeat(Offer::MAX_QUEUE_PAIRS + 1);
        check(&no_pair, &many, "qp");
    }

    #[test]
    fn who_says_nonsense_is_told_so() {
        let (said, error) = pair(
            |mut it| {
                let text = offer().to_lines().replace("mtu=4096", "mtu=\u{1b}[31m");
                it.send("offer", text.as_bytes()).unwrap();
                let lines = offer().to_lines().lines().count();
                for _ in 0..lines {
                    it.receive_line("offer", 1024).unwrap();
                }
                it.receive_line("verdict", 1024).unwrap()
            },
            |mut it| own::negotiate(&mut it, Role::Server, &offer()).unwrap_err(),
        );
        assert!(said.starts_with("refuse mtu "), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
        assert!(
            matches!(error, Error::Field { field: "mtu", .. }),
            "{error}"
        );
    }

    #[test]
    fn they_keep_step_and_part() {
        let (mine, theirs) = pair(
            |mut it| own::ready(&mut it).and_then(|()| own::part(&mut it)),
            |mut it| own::ready(&mut it).and_then(|()| own::part(&mut it)),
        );
        assert!(mine.is_ok() && theirs.is_ok(), "{mine:?} {theirs:?}");
        let error = with_peer(b"bye\n", true, |mut it| own::ready(&mut it).unwrap_err());
        assert!(
            error.to_string().contains("ready: said \"bye\" instead"),
            "{error}"
        );
    }
}

mod deadlines {
    use super::*;

    const SHORT: Duration = Duration::from_millis(200);

    /// Within a deadline and well before the default one.
    fn soon(start: Instant) {
        assert!(
            start.elapsed() >= SHORT && start.elapsed() < LIMIT / 2,
            "{:?}",
            start.elapsed()
        );
    }

    #[test]
    fn a_silent_peer() {
        for bytes in [b"".as_slice(), b"6.06"] {
            let start = Instant::now();
            let error = with_peer(bytes, true, |mut conversation| {
                conversation.extend(SHORT);
                let rounds = Tool::SendLatency.rounds(Direction::One);
                let hello = Hello::new(3);
                Session::greet(conversation, Role::Client, rounds, &hello).unwrap_err()
            });
            soon(start);
            assert!(
                matches!(
                    error,
                    Error::Late {
                        step: "version",
                        ..
                    }
                ),
                "{error}"
            );
        }
    }

    #[test]
    fn a_peer_that_trickles_gets_no_more_time() {
        let start = Instant::now();
        let (_, error) = pair(
            |mut client| {
                // A byte each so often would keep a limit on each read alive for ever.
                while client.send("drip", b"x").is_ok() {
                    std::thread::sleep(SHORT / 8);
                }
            },
            |mut server| {
                server.extend(SHORT);
                server.receive_line("offer", usize::MAX).unwrap_err()
            },
        );
        soon(start);
        assert!(
            matches!(error, Error::Late { step: "offer", .. }),
            "{error}"
        );
    }

    #[test]
    fn a_peer_that_goes() {
        let error = with_peer(b"6.06", false, |mut conversation| {
            pingpong::hear(&mut conversation, 1).unwrap_err()
        });
        assert!(
            matches!(
                error,
                Error::Broken {
                    step: "address",
                    ..
                }
            ),
            "{error}"
        );
    }

    #[test]
    fn nobody_there() {
        let start = Instant::now();
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let error = listener.accept(SHORT, LIMIT).unwrap_err();
        assert!(matches!(error, Error::NoClient { .. }), "{error}");
        soon(start);
        let address = listener.address().to_string();
        drop(listener);
        let error = Conversation::dial(&address, SHORT).unwrap_err();
        assert!(matches!(error, Error::Unreachable { .. }), "{error}");
        let error = Conversation::dial("no.such.host.invalid:1", SHORT).unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{error}");
        let error = Listener::bind("192.0.2.1:1").unwrap_err();
        assert!(matches!(error, Error::Address { .. }), "{error}");
    }

    #[test]
    fn a_server_that_comes_late_is_found() {
        let listener = Listener::bind("127.0.0.1:0").unwrap();
        let address = listener.address();
        drop(listener);
        std::thread::scope(|scope| {
            let dialing = scope.spawn(move || Conversation::dial(&address.to_string(), LIMIT));
            std::thread::sleep(SHORT);
            let listener = Listener::bind(&address.to_string()).unwrap();
            let accepted = listener.accept(LIMIT, LIMIT).unwrap();
            assert!(accepted.peer().starts_with("127.0.0.1:"));
            assert_eq!(dialing.join().unwrap().unwrap().peer(), address.to_string());
        });
    }
}
