//! What a peer must not say in the handshake, message by message, on both sides.

use super::*;

/// A memory file of a test's own.
fn memory_file(bytes: u64, sealed: bool) -> OwnedFd {
    let flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"wwmemif".as_ptr(), flags) };
    assert!(fd >= 0);
    // SAFETY: a new descriptor that nobody else owns.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(bytes).expect("grows");
    if sealed {
        // SAFETY: plain integers.
        let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, libc::F_SEAL_SHRINK) };
        assert_eq!(done, 0);
    }
    file.into()
}

fn good_init() -> Message {
    Message::Init(Init {
        version: VERSION,
        id: 0,
        mode: MODE_ETHERNET,
        secret: [0; 24],
        name: Text::new("fake"),
    })
}

fn region(size: u64) -> Message {
    Message::AddRegion { index: 0, size }
}

fn ring(change: impl FnOnce(&mut AddRing)) -> Message {
    let mut ring = AddRing {
        to_server: true,
        index: 0,
        region: 0,
        offset: 0,
        log2_depth: 3,
        private_header: 0,
    };
    change(&mut ring);
    Message::AddRing(ring)
}

/// A packet of a script, with a descriptor or without.
type Said = (Vec<u8>, Option<OwnedFd>);

/// A fake client sends messages one after the other, whatever the answers; what does the server
/// say?
fn server_says(options: &str, script: &[Said]) -> Error {
    let (ours, theirs) = Socket::pair().expect("pair");
    for (bytes, file) in script {
        ours.send(bytes, file.as_ref().map(AsFd::as_fd))
            .expect("sends");
    }
    let limit = Duration::from_millis(100);
    let channel = Channel::new(theirs, "memif:test");
    let result = admit(
        channel,
        &config(options),
        Deadline::after(limit, Patience::default()),
    );
    result.expect_err("a script that must fail")
}

#[test]
fn a_server_refuses_what_a_client_must_not_say() {
    let file = |bytes| Some(memory_file(bytes, true));
    let event = || Some(OwnedFd::from(eventfd().expect("eventfd")));
    let say = |message: Message, file| (message.emit().to_vec(), file);
    let init = || say(good_init(), None);
    let page = || say(region(4096), file(4096));
    let connect = || {
        say(
            Message::Connect {
                name: Text::new("x"),
            },
            None,
        )
    };
    let wrong_init = |change: fn(&mut Init)| {
        let Message::Init(mut init) = good_init() else {
            unreachable!("as built above")
        };
        change(&mut init);
        say(Message::Init(init), None)
    };
    let with_ring = |change: fn(&mut AddRing)| vec![init(), page(), say(ring(change), event())];
    let cases: Vec<(Vec<Said>, &str)> = vec![
        (vec![], "waiting for init"),
        (vec![(vec![], None)], "closed"),
        (vec![(vec![1], None)], "without a type"),
        (vec![(vec![99, 0, 0], None)], "unknown type 99"),
        (
            vec![(good_init().emit()[..20].to_vec(), None)],
            "20 bytes where type 3 needs at least 33",
        ),
        (vec![(vec![3; 129], None)], "too long"),
        (vec![say(Message::Ack, None)], "sent ack where init was due"),
        (
            vec![say(
                Message::Disconnect {
                    code: 3,
                    reason: Text::new("b\x1bye"),
                },
                None,
            )],
            "b?ye (code 3)",
        ),
        (
            vec![wrong_init(|init| init.version = 0x0100)],
            "speaks memif 0x0100",
        ),
        (vec![wrong_init(|init| init.mode = 1)], "mode 1"),
        (vec![init(), init()], "sent init where"),
        (vec![init(), say(region(4096), None)], "no memory file"),
        (
            vec![init(), say(region(4097), file(4096))],
            "4097 bytes for region 0 whose file has 4096",
        ),
        (
            vec![init(), say(region(0), file(4096))],
            "announced 0 bytes",
        ),
        (
            vec![init(), say(region(u64::MAX), file(4096))],
            "whose file has 4096",
        ),
        (vec![init(), say(region(4096), file(9 << 30))], "more than"),
        (
            vec![init(), say(region(4096), Some(memory_file(4096, false)))],
            "not sealed",
        ),
        (vec![init(), say(region(4096), event())], "not sealed"),
        (vec![init(), page(), page()], "region 1 was due"),
        (vec![init(), say(ring(|_| ()), event())], "outside"),
        (vec![init(), page(), say(ring(|_| ()), None)], "no eventfd"),
        (with_ring(|ring| ring.index = 1), "ring 0 was due"),
        (with_ring(|ring| ring.index = u16::MAX), "ring 0 was due"),
        (
            with_ring(|ring| ring.region = 1),
            "region 1, which is outside",
        ),
        (with_ring(|ring| ring.offset = 8), "not aligned"),
        (with_ring(|ring| ring.offset = 4096 - 128), "outside"),
        (with_ring(|ring| ring.offset = u32::MAX - 15), "outside"),
        (with_ring(|ring| ring.log2_depth = 8), "outside"),
        (with_ring(|ring| ring.log2_depth = 15), "2^15"),
        (with_ring(|ring| ring.log2_depth = 255), "2^255"),
        (with_ring(|ring| ring.log2_depth = 0), "2^0"),
        (with_ring(|ring| ring.private_header = 4), "private headers"),
        (vec![init(), connect()], "brought 0 rings"),
        (
            vec![
                init(),
                page(),
                say(ring(|_| ()), event()),
                say(ring(|ring| ring.to_server = false), event()),
                connect(),
            ],
            "without the memif cookie",
        ),
    ];
    for (script, want) in cases {
        let said = server_says("", &script).to_string();
        assert!(said.contains(want), "want `{want}`, got `{said}`");
    }
}

#[test]
fn a_client_refuses_what_a_server_must_not_say() {
    let hello = Hello {
        name: Text::new("fake"),
        min_version: VERSION,
        max_version: VERSION,
        max_region: 0,
        max_ring_to_server: 0,
        max_ring_to_client: 0,
        max_log2_depth: 10,
    };
    let connected = Message::Connected {
        name: Text::new("x"),
    };
    let goodbye = Message::Disconnect {
        code: 1,
        reason: Text::new("go away"),
    };
    let good = Message::Hello(hello);
    let low = Hello {
        max_version: 0x01FF,
        ..hello
    };
    let high = Hello {
        min_version: 0x0201,
        max_version: 0x0300,
        ..hello
    };
    let shallow = Hello {
        max_log2_depth: 9,
        ..hello
    };
    let acks = [Message::Ack; 4];
    let cases: Vec<(Vec<Message>, &str)> = vec![
        (vec![], "waiting for hello"),
        (vec![Message::Ack], "sent ack where hello was due"),
        (vec![Message::Hello(low)], "speaks memif"),
        (vec![Message::Hello(high)], "speaks memif"),
        (vec![Message::Hello(shallow)], "rings of 2^9 slots"),
        (vec![good], "waiting for the acknowledgement of init"),
        (
            vec![good, good],
            "sent hello where the acknowledgement of init was due",
        ),
        (vec![good, goodbye], "go away (code 1)"),
        (vec![good, Message::Ack, goodbye], "go away"),
        ([&[good], &acks[..]].concat(), "waiting for connected"),
        (
            [&[good], &acks[..], &[Message::Ack]].concat(),
            "sent ack where connected",
        ),
    ];
    let plan = config("").plan();
    let memory = memory_file(plan.bytes(), true);
    let join = |script: &[Message]| {
        let (ours, theirs) = Socket::pair().expect("pair");
        for message in script {
            theirs.send(&message.emit(), None).expect("sends");
        }
        let deadline = Deadline::after(Duration::from_millis(30), Patience::default());
        let channel = Channel::new(ours, "memif:test");
        match client::introduce(&channel, &config(""), deadline)? {
            Introduction::Welcome(hello) => {
                let memory = memory.as_fd();
                client::announce(channel, &config(""), &hello, &plan, memory, deadline)
            }
            Introduction::Refused(error) => Err(error),
        }
    };
    for (script, want) in cases {
        let said = join(&script).expect_err(want).to_string();
        assert!(said.contains(want), "want `{want}`, got `{said}`");
    }
    let joined = join(&[&[good], &acks[..], &[connected]].concat()).expect("a whole handshake");
    assert_eq!(
        (joined.peer.as_str(), joined.to_server.len()),
        ("fake (x)", 1)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_packet_makes_a_server_panic(
        packets in prop::collection::vec(
            (0_u8..10, prop::collection::vec(any::<u8>(), 0..140), any::<bool>()),
            1..6,
        ),
        polite in any::<bool>(),
    ) {
        let mut script = Vec::new();
        if polite {
            script.push((good_init().emit().to_vec(), None));
            script.push((region(4096).emit().to_vec(), Some(memory_file(4096, true))));
        }
        for (kind, body, with_file) in packets {
            let mut bytes = vec![kind, 0];
            bytes.extend(body);
            script.push((bytes, with_file.then(|| memory_file(4096, true))));
        }
        script.push((vec![9, 0], None));
        // It ends with an error and not with a panic; which one does not matter.
        let _ = server_says("", &script);
    }
}
