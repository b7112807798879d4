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
        gid_index: 0,
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
        gid_index: 0,
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

/// One end of a capture of `-R`: it gives what the other end sent in order, and checks what it is
/// given.
struct Recorded {
    messages: std::vec::IntoIter<Said>,
    role: Role,
}

impl Channel for Recorded {
    fn peer(&self) -> &str {
        "capture"
    }

    fn extend(&mut self, _: Duration) {}

    fn send(&mut self, step: &'static str, bytes: &[u8]) -> Result<(), Error> {
        let mut said = self.messages.next().expect("no more is said");
        assert_eq!(said.is_client, self.role == Role::Client, "{step}");
        if bytes.len() == 56 {
            // A gap that perftest does not fill.
            said.bytes[20..24].fill(0);
        }
        assert_eq!(bytes, said.bytes, "{step}");
        Ok(())
    }

    fn receive(&mut self, step: &'static str, room: &mut [u8]) -> Result<(), Error> {
        let said = self.messages.next().expect("no more is said");
        assert_eq!(said.is_client, self.role == Role::Server, "{step}");
        room.copy_from_slice(&said.bytes);
        Ok(())
    }
}

/// The SENDs of the capture of `-R`, which are all on its first connection.
fn sends() -> Vec<Said> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocols/testdata/rxe/ib_write_bw_cm.pcap");
    let bytes = std::fs::read(path).unwrap();
    let (mut all, mut at) = (Vec::new(), 24);
    while at + 16 <= bytes.len() {
        let length = u32::from_le_bytes(bytes[at + 8..at + 12].try_into().unwrap()) as usize;
        let frame = &bytes[at + 16..at + 16 + length];
        at += 16 + length;
        let is_send = frame[12..14] == [8, 0] && frame[23] == 17 && frame[42] == 0x04;
        if is_send {
            let pad = usize::from(frame[43] >> 4 & 3);
            all.push(Said {
                is_client: frame[29] == 3,
                bytes: frame[54..length - 4 - pad].to_vec(),
            });
        }
    }
    all
}

#[test]
fn both_ends_of_the_capture_over_cm() {
    let of = |qp, psn, rkey, address, last| Destination {
        lid: 0,
        reads: 1,
        qp: Qpn::new(qp),
        psn: Psn::new(psn),
        rkey,
        address,
        gid: Gid::of([10, 77, 0, last].into()),
        srq: 0,
        gid_index: 1,
    };
    let client = of(0x3a, 0x2_a391, 0x3499, 0x55e5_282f_b000, 3);
    let server = of(0x39, 0x43_9d91, 0x2e6c, 0x5556_01ac_0000, 2);
    for (role, own, theirs) in [
        (Role::Client, client, server),
        (Role::Server, server, client),
    ] {
        let numbers: Vec<u64> = sends()
            .into_iter()
            .filter(|said| said.bytes.len() == 8 && said.is_client == (role == Role::Client))
            .map(|said| u64::from_be_bytes(said.bytes.try_into().unwrap()))
            .collect();
        let results = Results {
            size: numbers[0],
            iterations: numbers[1],
            peak: f64::from_bits(numbers[2]),
            average: f64::from_bits(numbers[3]),
            message_rate: f64::from_bits(numbers[4]),
        };
        let messages = sends().into_iter();
        let channel = Recorded { messages, role };
        let rounds = Tool::WriteBandwidth.rounds(Direction::One).over_cm();
        let mut session = Session::greet(channel, role, rounds, &Hello::new(3)).unwrap();
        // The second connection is made between these.
        session.blank().unwrap();
        session.blank().unwrap();
        assert_eq!(session.exchange(&[own]).unwrap(), [theirs]);
        session.begin().unwrap();
        let heard = session.end(&results).unwrap();
        assert_eq!(
            heard.map(|heard| heard.iterations),
            (role == Role::Server).then_some(5)
        );
        assert!(session.channel().messages.next().is_none(), "more is said");
    }
}

#[test]
fn nonsense_over_cm_is_named() {
    let check = |message: usize, byte: usize, field: &str| {
        let mut all = sends();
        let of_server = all
            .iter_mut()
            .filter(|it| !it.is_client && it.bytes.len() == 56);
        of_server.skip(message).for_each(|it| it.bytes[byte] = 0x7f);
        // Only what the server says matters here.
        let channel = Deaf(all.into_iter().filter(|said| !said.is_client).collect());
        let rounds = Tool::WriteBandwidth.rounds(Direction::One).over_cm();
        let own = all_of_write_bw();
        let mut session = Session::greet(channel, Role::Client, rounds, &Hello::new(3)).unwrap();
        let run = session
            .blank()
            .and_then(|()| session.blank())
            .and_then(|()| session.exchange(&[own]).map(drop))
            .and_then(|()| session.begin());
        let error = run.unwrap_err();
        let Error::Field { field: found, .. } = &error else {
            panic!("{field}: {error}");
        };
        assert_eq!(*found, field, "{error}");
    };
    check(0, 55, "address");
    check(1, 0, "address");
    check(2, 0, "LID");
    check(2, 4, "outstanding reads");
    check(2, 8, "QPN");
    check(2, 12, "PSN");
    check(3, 19, "address");
}

fn all_of_write_bw() -> Destination {
    all(
        "../protocols/testdata/rxe/ib_write_bw.pcap",
        Role::Client,
        1,
    )
    .remove(0)
}

/// Gives what the other end says, and hears nothing.
struct Deaf(std::collections::VecDeque<Said>);

impl Channel for Deaf {
    fn peer(&self) -> &str {
        "capture"
    }

    fn extend(&mut self, _: Duration) {}

    fn send(&mut self, _: &'static str, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }

    fn receive(&mut self, _: &'static str, room: &mut [u8]) -> Result<(), Error> {
        room.copy_from_slice(&self.0.pop_front().expect("no more is said").bytes);
        Ok(())
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
