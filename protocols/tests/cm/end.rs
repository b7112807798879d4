//! An end: a table, what it has to send, and what it told.

use std::net::IpAddr;
use warpwire_protocols::cm::{
    Ask, Connection, DatagramAnswer, DatagramAsk, Event, Grant, Handle, Reaction, Settings, Table,
};
use warpwire_protocols::wire::cm::req::Transport;
use warpwire_protocols::wire::cm::{Bits, Datagram, Message, PortSpace, ServiceId, sidr_rep};
use warpwire_protocols::wire::{FlowLabel, Gid, Guid, Psn, Qpn, TrafficClass};

pub(crate) const SERVICE: ServiceId = ServiceId::of_port(PortSpace::Tcp, 7174);
pub(crate) const DATAGRAMS: ServiceId = ServiceId::of_port(PortSpace::Udp, 7174);

/// A response timeout of 4.3 s.
pub(crate) const RESPONSE_NS: u64 = 4096 << 20;

pub(crate) struct End {
    pub(crate) address: Gid,
    pub(crate) table: Table<'static>,
    pub(crate) events: Vec<(Handle, Event)>,
    pub(crate) sent: Vec<Datagram>,
}

pub(crate) fn gid(text: &str) -> Gid {
    Gid::of(text.parse::<IpAddr>().expect("an address"))
}

impl End {
    pub(crate) fn new(address: &str, slots: usize) -> Self {
        let address = gid(address);
        let adapter = u64::from_be_bytes(*address.0.last_chunk().unwrap());
        let settings = Settings::new(Guid(adapter), 0x5a5a_1234 ^ adapter as u32);
        Self::with(address, slots, settings)
    }

    pub(crate) fn with(address: Gid, slots: usize, settings: Settings) -> Self {
        let slots = vec![Connection::FREE; slots].leak();
        let services = vec![None; 4].leak();
        let mut table = Table::new(settings, slots, services);
        table.listen(SERVICE).unwrap();
        table.listen(DATAGRAMS).unwrap();
        Self {
            address,
            table,
            events: Vec::new(),
            sent: Vec::new(),
        }
    }

    pub(crate) fn ask(&self, there: Gid) -> Ask<'static> {
        Ask {
            service: SERVICE,
            source_port: Some(40_000),
            transport: Transport::Reliable,
            here: self.address,
            there,
            local_qp: Qpn::new(0x11),
            receive_psn: Psn::new(0xa000),
            responder_resources: 4,
            initiator_depth: 8,
            mtu: Bits::new(3).unwrap(),
            ack_timeout: Bits::new(19).unwrap(),
            retries: Bits::MAX,
            rnr_retries: Bits::MAX,
            has_shared_receives: false,
            traffic_class: TrafficClass(0x68),
            hop_limit: 64,
            flow_label: FlowLabel::new(0x2b04b).unwrap(),
            transaction: 0x2_0000_0001,
            private: b"hello",
        }
    }

    pub(crate) fn datagram_ask(&self, there: Gid) -> DatagramAsk<'static> {
        DatagramAsk {
            service: DATAGRAMS,
            source_port: Some(40_000),
            here: self.address,
            there,
            traffic_class: TrafficClass(0),
            hop_limit: 64,
            transaction: 0x2_0000_0002,
            private: b"who",
        }
    }

    /// Hands over a datagram, keeps its event, and gives what came of it.
    pub(crate) fn hear(&mut self, now_ns: u64, there: Gid, datagram: &Datagram) -> Reaction {
        let mut bytes = [0; 256];
        datagram.emit(&mut bytes).unwrap();
        let reaction = self.table.on_datagram(now_ns, there, self.address, &bytes);
        self.events.extend(reaction.event);
        reaction
    }

    /// All that is to be sent now by itself.
    pub(crate) fn poll(&mut self) -> Vec<Datagram> {
        let mut all = Vec::new();
        while let Some(transmit) = self.table.poll() {
            assert_eq!(transmit.here, self.address);
            all.push(transmit.datagram);
        }
        self.sent.extend(&all);
        all
    }

    /// The timer rings, if it is time.
    pub(crate) fn ring(&mut self, now_ns: u64) {
        while let Some(event) = self.table.on_timer(now_ns) {
            self.events.push(event);
        }
    }

    /// The only event since the last time.
    pub(crate) fn event(&mut self) -> (Handle, Event) {
        assert_eq!(self.events.len(), 1, "{:?}", self.events);
        self.events.remove(0)
    }
}

pub(crate) fn grant() -> Grant<'static> {
    Grant {
        local_qp: Qpn::new(0x22),
        receive_psn: Psn::new(0xb000),
        responder_resources: 16,
        initiator_depth: 2,
        ack_delay: Bits::new(15).unwrap(),
        rnr_retries: Bits::new(3).unwrap(),
        has_shared_receives: false,
        transaction: 0x3_0000_0001,
        private: b"welcome",
    }
}

pub(crate) fn told() -> DatagramAnswer<'static> {
    DatagramAnswer {
        status: sidr_rep::Status::SUCCESS,
        qp: Qpn::new(0x33),
        qkey: 0x0123_4567,
        private: b"me",
    }
}

/// Carries messages between two ends until none is left, without loss.
pub(crate) fn settle(now_ns: u64, left: &mut End, right: &mut End) {
    for _ in 0..100 {
        let mut is_quiet = true;
        for _ in 0..2 {
            let mut to_right = left.poll();
            for datagram in std::mem::take(&mut to_right) {
                is_quiet = false;
                let reaction = right.hear(now_ns, left.address, &datagram);
                if let Some(answer) = reaction.answer {
                    right.sent.push(answer.datagram);
                    let again = left.hear(now_ns, right.address, &answer.datagram);
                    assert_eq!(again.answer, None, "an answer to an answer");
                }
            }
            std::mem::swap(left, right);
        }
        if is_quiet {
            return;
        }
    }
    panic!("they talk for ever");
}

/// The message of a name, for tables of names.
pub(crate) fn names(sent: &[Datagram]) -> Vec<&'static str> {
    sent.iter()
        .map(|datagram| datagram.message.name())
        .collect()
}

/// Two ends, and the handles of a connection that stands between them.
pub(crate) fn connected() -> (End, Handle, End, Handle) {
    let (mut left, mut right) = (End::new("10.0.0.1", 4), End::new("10.0.0.2", 4));
    let active = left.table.connect(0, &left.ask(right.address)).unwrap();
    settle(0, &mut left, &mut right);
    let (passive, event) = right.event();
    assert!(matches!(event, Event::Asked(_)));
    right.table.accept(0, passive, &grant()).unwrap();
    settle(0, &mut left, &mut right);
    assert!(matches!(left.event(), (handle, Event::Agreed(_)) if handle == active));
    left.table.ready(active, b"go").unwrap();
    settle(0, &mut left, &mut right);
    assert!(matches!(right.event(), (handle, Event::Established(_)) if handle == passive));
    (left, active, right, passive)
}

/// A refusal's reason.
pub(crate) fn reason(datagram: &Datagram) -> u16 {
    match &datagram.message {
        Message::Rej(refusal) => refusal.reason.0,
        other => panic!("{other} is no refusal"),
    }
}
