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
