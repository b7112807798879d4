//! Captures of Linux's rdma_rxe on both ends. Each end is played in turn by a table of ours: it is
//! given what that end was given, its user does what that end's user did, and every message that it
//! sends must be that end's, byte for byte. Only what is random there is given to it: names, queue
//! pairs, sequence numbers, GUIDs, ports, flow labels and transactions.

use crate::captures;
use crate::end::{End, gid};
use std::path::Path;
use warpwire_protocols::cm::{Ask, Cause, DatagramAnswer, DatagramAsk, Event, Grant, Settings};
use warpwire_protocols::parse::{Kind, parse_bytes};
use warpwire_protocols::wire::cm::req::{self, Transport};
use warpwire_protocols::wire::cm::{Bits, CommId, Datagram, Message, ip, rej, sidr_rep};
use warpwire_protocols::wire::{Gid, Guid, Qpn, TrafficClass, bth, deth, udp};

#[derive(Clone, Copy)]
struct Sent {
    from: Gid,
    to: Gid,
    bytes: [u8; 256],
    datagram: Datagram,
}

/// The messages of connection management in a capture.
fn messages(file: &str) -> Vec<Sent> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("testdata/rxe").join(file);
    let mut all = Vec::new();
    for frame in captures::frames(&path) {
        let headers = parse_bytes(&frame.bytes, frame.length).expect("a whole frame");
        if headers.kind != Kind::RoceV2 || headers.destination_qp != Qpn::GSI {
            continue;
        }
        let start = usize::from(headers.l4)
            + udp::Header::LENGTH
            + bth::Header::LENGTH
            + deth::Header::LENGTH;
        let end = headers.end() as usize - bth::ICRC_LENGTH;
        let bytes: [u8; 256] = frame.bytes[start..end].try_into().expect("a datagram");
        let (from, to) = match headers.ip_version {
            4 => {
                let (from, to) = headers.ipv4_addresses(&frame.bytes).unwrap();
                (Gid::of(from.into()), Gid::of(to.into()))
            }
            _ => {
                let (from, to) = headers.ipv6_addresses(&frame.bytes).unwrap();
                (Gid::of(from.into()), Gid::of(to.into()))
            }
        };
        let datagram = Datagram::parse(&bytes).unwrap();
        all.push(Sent {
            from,
            to,
            bytes,
            datagram,
        });
    }
    all
}

/// The names that a message gives: its sender's, and its receiver's.
fn ids(message: &Message) -> [CommId; 2] {
    match message {
        Message::Req(it) => [it.local_id, CommId(0)],
        Message::Rep(it) => [it.local_id, it.remote_id],
        Message::Rtu(it) => [it.local_id, it.remote_id],
        Message::Rej(it) => [it.local_id, it.remote_id],
        Message::Dreq(it) => [it.local_id, it.remote_id],
        Message::Drep(it) => [it.local_id, it.remote_id],
        Message::SidrReq(it) => [it.request, CommId(0)],
        Message::SidrRep(it) => [CommId(0), it.request],
        other => panic!("{other} is in no capture"),
    }
}

/// The first port of an address that a request tells.
fn source_port(private: &[u8]) -> u16 {
    let (header, _) = ip::Header::split(private).unwrap();
    header.source_port.get()
}

/// One end of a connection, played by us.
struct Player {
    end: End,
    handle: Option<warpwire_protocols::cm::Handle>,
    answer: Option<Datagram>,
}

impl Player {
    fn new(all: &[Sent], side: Gid) -> Self {
        let own: Vec<&Sent> = all.iter().filter(|sent| sent.from == side).collect();
        // The first connection of a table is named 0x10000, hidden by the secret.
        let id = own.iter().map(|sent| ids(&sent.datagram.message)[0].0);
        let id = id.into_iter().find(|id| *id != 0).unwrap_or(0);
        let adapter = own.iter().find_map(|sent| match &sent.datagram.message {
            Message::Req(request) => Some(request.adapter),
            Message::Rep(reply) => Some(reply.adapter),
            _ => None,
        });
        let settings = Settings::new(adapter.unwrap_or(Guid(0)), id ^ 0x1_0000);
        let mut end = End::with(side, 4, settings);
        for sent in all {
            match &sent.datagram.message {
                // Nobody listens where a request is refused.
                Message::Req(request) if !refuses(all) => {
                    end.table.listen(request.service).unwrap();
                }
                Message::Req(request) => end.table.close(request.service),
                _ => {}
            }
        }
        Self {
            end,
            handle: None,
            answer: None,
        }
    }

    /// Does what leads to a message, and gives it.
    fn say(&mut self, sent: &Sent, own_transaction: u64) -> Datagram {
        let table = &mut self.end.table;
        let handle = self.handle;
        let transaction = sent.datagram.transaction;
        match &sent.datagram.message {
            Message::Req(request) => {
                self.handle = Some(table.connect(0, &wish(sent, request)).unwrap());
            }
            Message::Rep(reply) => {
                let grant = Grant {
                    local_qp: reply.local_qp,
                    receive_psn: reply.starting_psn,
                    responder_resources: reply.responder_resources,
                    initiator_depth: reply.initiator_depth,
                    ack_delay: Bits::new(15).unwrap(),
                    rnr_retries: Bits::MAX,
                    has_shared_receives: false,
                    transaction: own_transaction,
                    private: &[],
                };
                let terms = table.accept(0, handle.unwrap(), &grant).unwrap();
                assert_eq!(terms.receive_psn, reply.starting_psn);
            }
            Message::Rtu(_) => table.ready(handle.unwrap(), &[]).unwrap(),
            Message::Dreq(_) => table.disconnect(0, handle.unwrap(), &[]).unwrap(),
            Message::SidrReq(question) => {
                let ask = DatagramAsk {
                    service: question.service,
                    source_port: Some(source_port(&question.private)),
                    here: sent.from,
                    there: sent.to,
                    traffic_class: TrafficClass(0),
                    hop_limit: 64,
                    transaction,
                    private: &[],
                };
                self.handle = Some(table.resolve(0, &ask).unwrap());
            }
            Message::SidrRep(answer) => {
                let answer = DatagramAnswer {
                    status: sidr_rep::Status::SUCCESS,
                    qp: answer.qp,
                    qkey: 0x0123_4567,
                    private: &[],
                };
                table.tell(0, handle.unwrap(), &answer).unwrap();
            }
            Message::Rej(_) | Message::Drep(_) => {
                return self.answer.take().expect("an answer");
            }
            other => panic!("{other} is in no capture"),
        }
        let sent = self.end.poll();
        assert_eq!(sent.len(), 1);
        sent[0]
    }

    fn hear(&mut self, sent: &Sent) {
        let reaction = self
            .end
            .table
            .on_datagram(0, sent.from, sent.to, &sent.bytes);
        self.answer = reaction.answer.map(|answer| answer.datagram);
        if let Some((handle, event)) = reaction.event {
            assert!(self.handle.is_none_or(|known| known == handle));
            self.handle = Some(handle);
            self.end.events.push((handle, event));
        }
    }
}

fn refuses(all: &[Sent]) -> bool {
    all.iter()
        .any(|sent| matches!(sent.datagram.message, Message::Rej(_)))
}

/// What rdma_cm asks for by itself, for what is random in a request.
fn wish(sent: &Sent, request: &req::Repr) -> Ask<'static> {
    Ask {
        service: request.service,
        source_port: Some(source_port(&request.private)),
        transport: Transport::Reliable,
        here: sent.from,
        there: sent.to,
        local_qp: request.local_qp,
        receive_psn: request.starting_psn,
        responder_resources: request.responder_resources,
        initiator_depth: request.initiator_depth,
        mtu: Bits::new(3).unwrap(),
        ack_timeout: Bits::new(19).unwrap(),
        retries: Bits::MAX,
        rnr_retries: Bits::MAX,
        has_shared_receives: false,
        traffic_class: TrafficClass(0),
        hop_limit: 64,
        flow_label: request.primary.flow_label,
        transaction: sent.datagram.transaction,
        private: &[],
    }
}

/// Plays one end of a connection; returns how many messages it sent, and what it told.
fn play(file: &str, all: &[Sent], side: Gid) -> (usize, Vec<Event>) {
    let mut player = Player::new(all, side);
    let leaving = all
        .iter()
        .find(|sent| sent.from == side && matches!(sent.datagram.message, Message::Dreq(_)));
    let own_transaction = leaving.map_or(7, |sent| sent.datagram.transaction);
    let mut count = 0;
    for sent in all {
        if sent.from == side {
            let mut bytes = [0xa5; 256];
            let ours = player.say(sent, own_transaction);
            ours.emit(&mut bytes).unwrap();
            assert_eq!(
                bytes, sent.bytes,
                "{file}: {ours}, theirs {}",
                sent.datagram
            );
            count += 1;
        } else {
            player.hear(sent);
        }
    }
    assert_eq!(player.end.poll(), [], "{file}: more than rxe said");
    let events = player.end.events.into_iter().map(|(_, event)| event);
    (count, events.collect())
}

fn kinds(events: &[Event]) -> Vec<&'static str> {
    let kind = |event: &Event| match event {
        Event::Asked(_) => "asked",
        Event::Agreed(_) => "agreed",
        Event::Established(_) => "established",
        Event::AskedDatagram(_) => "asked datagram",
        Event::Resolved(_) => "resolved",
        Event::Ended(Cause::PeerLeft) => "peer left",
        Event::Ended(Cause::Left { is_heard: true }) => "left",
        Event::Ended(Cause::Rejected { .. }) => "rejected",
        Event::Ended(_) => "ended otherwise",
    };
    events.iter().map(kind).collect()
}

/// What the asking and the asked end of a connection are told.
type Told = (&'static [&'static str], &'static [&'static str]);

#[test]
fn every_end_of_every_capture_is_played() {
    const LEAVES: Told = (&["agreed", "left"], &["asked", "established", "peer left"]);
    const IS_LEFT: Told = (&["agreed", "peer left"], &["asked", "established", "left"]);
    // The name of the capture, its connections, and what the asking and the asked end are told.
    let cases: [(&str, &[Told]); 6] = [
        ("cm_rping.pcap", &[LEAVES]),
        ("cm_rping_ipv6.pcap", &[LEAVES]),
        ("cm_reject.pcap", &[(&["rejected"], &[])]),
        ("cm_rdma_client.pcap", &[LEAVES]),
        ("cm_udaddy.pcap", &[(&["resolved"], &["asked datagram"])]),
        ("ib_write_bw_cm.pcap", &[IS_LEFT, LEAVES]),
    ];
    let mut compared = 0;
    for (file, connections) in cases {
        let all = messages(file);
        let begins =
            |sent: &&Sent| matches!(sent.datagram.message, Message::Req(_) | Message::SidrReq(_));
        let first: Vec<Sent> = all.iter().filter(begins).copied().collect();
        assert_eq!(first.len(), connections.len(), "{file}");
        for (first, (asking, asked)) in first.iter().zip(connections) {
            let id = ids(&first.datagram.message)[0];
            let belongs = |sent: &&Sent| ids(&sent.datagram.message).contains(&id);
            let own: Vec<Sent> = all.iter().filter(belongs).copied().collect();
            let (sent, events) = play(file, &own, first.from);
            assert_eq!(kinds(&events), *asking, "{file}");
            let (answered, events) = play(file, &own, first.to);
            assert_eq!(kinds(&events), *asked, "{file}");
            assert_eq!(sent + answered, own.len(), "{file}");
            compared += own.len();
        }
        let others = all.len();
        let grouped: usize = first
            .iter()
            .map(|first| {
                let id = ids(&first.datagram.message)[0];
                all.iter()
                    .filter(|sent| ids(&sent.datagram.message).contains(&id))
                    .count()
            })
            .sum();
        assert_eq!(grouped, others, "{file}: messages of no connection");
    }
    assert_eq!(compared, 29);
}

#[test]
fn what_rping_agreed_on() {
    let all = messages("cm_rping.pcap");
    let (_, events) = play("cm_rping.pcap", &all, gid("10.77.0.3"));
    let Event::Agreed(agreed) = &events[0] else {
        panic!("not agreed: {events:?}");
    };
    let active = agreed.terms;
    let (_, events) = play("cm_rping.pcap", &all, gid("10.77.0.2"));
    let Event::Asked(asked) = &events[0] else {
        panic!("not asked: {events:?}");
    };
    // From the packets that followed: the client's first is 3aeb62, the server's da6144.
    assert_eq!(active.send_psn.value(), 0x3a_eb62);
    assert_eq!(active.receive_psn.value(), 0xda_6144);
    assert_eq!(asked.terms.send_psn.value(), 0xda_6144);
    assert_eq!(active.remote_qp.value(), 0x2b);
    assert_eq!((active.mtu.value(), active.ack_timeout.value()), (3, 19));
    assert_eq!((active.retries.value(), active.rnr_retries.value()), (7, 7));
    assert_eq!((active.reads, active.reads_served), (1, 1));
    let addresses = asked.addresses.unwrap();
    assert_eq!(
        addresses.to_string(),
        "from 10.77.0.3 port 34534 to 10.77.0.2"
    );
}

#[test]
fn nobody_listens() {
    let all = messages("cm_reject.pcap");
    let (_, events) = play("cm_reject.pcap", &all, gid("10.77.0.3"));
    let [Event::Ended(cause)] = events.as_slice() else {
        panic!("{events:?}");
    };
    assert!(matches!(
        cause,
        Cause::Rejected {
            reason: rej::Reason::INVALID_SERVICE_ID,
            ..
        }
    ));
    assert_eq!(
        cause.to_string(),
        "the peer rejected: invalid service id (8)"
    );
}
