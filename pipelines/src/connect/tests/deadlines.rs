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
