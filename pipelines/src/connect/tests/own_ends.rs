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
        let text = format!("{}agree\n", offer().to_lines());
        assert!(text.contains(from), "{from}");
        let text = text.replace(from, to);
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

#[test]
fn selective_repetition_is_agreed_on_by_both_or_not_at_all() {
    use warpwire_protocols::rdma::Mtu;
    let both = [Feature::Selective, Feature::Rate];
    let cases = [
        (&both[..], &both[..], Service::Rc, true),
        (&both[..1], &both[..], Service::Rc, true),
        (&both[..], &both[1..], Service::Rc, false),
        (&both[..], &[], Service::Rc, false),
        (&both[..], &both[..], Service::Uc, false),
    ];
    for (ours, others, service, want) in cases {
        let client = Offer {
            features: ours.to_vec(),
            service,
            ..offer()
        };
        let mut server = Offer {
            features: others.to_vec(),
            mtu: 1024,
            reads: 3,
            max_message: 1 << 23,
            ..client.clone()
        };
        server.queue_pairs[0].qp = Qpn::new(0x22);
        server.queue_pairs[0].psn = Psn::new(7);
        let (mine, theirs) = negotiate(&client, &server);
        let (mine, theirs) = (mine.unwrap(), theirs.unwrap());
        let (one, from) = mine.attributes(0).unwrap();
        let (other, to) = theirs.attributes(0).unwrap();
        assert_eq!(
            (one.selective, other.selective),
            (want, want),
            "{ours:?} {others:?}"
        );
        assert_eq!((from.send, from.receive), (to.receive, to.send));
        assert_eq!(
            (one.local_qp, one.remote_qp),
            (other.remote_qp, other.local_qp)
        );
        assert_eq!((one.mtu, other.mtu), (Mtu::M1024, Mtu::M1024));
        assert_eq!(
            (one.reads, one.reads_served),
            (other.reads_served, other.reads)
        );
        assert_eq!((one.reads, one.max_message), (4, 1 << 23));
        assert_eq!(mine.attributes(1), None, "there is one");
    }
}
