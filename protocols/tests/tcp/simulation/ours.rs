//! Our end, with headers written and read as on the wire.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use warpwire_protocols::checksum::{Fill, Sum, pseudo_ipv4};
use warpwire_protocols::tcp::{
    Answer, Cause, Config, Connection, Initial, Listener, Outgoing, Secret, Segment, State,
    Statistics, Tuple, answer_unknown,
};
use warpwire_protocols::wire::IpProtocol;
use warpwire_protocols::wire::tcp::{Repr, TcpFlags, TcpSequence};

use super::{Packet, Side};
use crate::end::End;

/// One end.
pub(crate) struct Ours {
    pub(crate) end: Option<End>,
    config: Config,
    listener: Option<Listener>,
    /// This address and the other.
    addresses: [Ipv4Addr; 2],
    ports: [u16; 2],
    offload: u32,
    ready: VecDeque<Packet>,
    is_settled: bool,
    /// A segment to which what follows it is joined, as a NIC does.
    joined: Option<(Segment, Vec<u8>)>,
}

pub(crate) const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 7, 0, 1), Ipv4Addr::new(10, 7, 0, 2)];
pub(crate) const PORTS: [u16; 2] = [40_000, 80];

impl Ours {
    fn new(at: usize, config: Config, offload: u32) -> Self {
        Self {
            end: None,
            config,
            listener: None,
            addresses: [ADDRESSES[at], ADDRESSES[1 - at]],
            ports: [PORTS[at], PORTS[1 - at]],
            offload,
            ready: VecDeque::new(),
            is_settled: false,
            joined: None,
        }
    }

    /// An end that opens.
    pub(crate) fn connecting(at: usize, config: Config, offload: u32, seed: u64) -> Self {
        let mut side = Self::new(at, config, offload);
        let initial = Initial::new(&Secret([seed, 1]), &side.tuple(), START_NS);
        let connection = Connection::connect(&config, initial, START_NS);
        side.end = Some(End::new(connection, config));
        side
    }

    /// An end that listens.
    pub(crate) fn listening(
        at: usize,
        config: Config,
        offload: u32,
        seed: u64,
        backlog: u32,
    ) -> Self {
        let mut side = Self::new(at, config, offload);
        side.listener = Some(Listener::new(Secret([seed, 2]), backlog));
        side
    }

    fn tuple(&self) -> Tuple {
        let [local, remote] = self.addresses;
        let [local_port, remote_port] = self.ports;
        Tuple::new(local.into(), local_port, remote.into(), remote_port)
    }

    fn emit(&mut self, out: &Outgoing, payload: &[u8]) {
        let [local, remote] = self.ports;
        let repr = out.repr(local, remote);
        let mut bytes = vec![0; repr.length()];
        let length = bytes.len() + payload.len();
        let [source, destination] = self.addresses;
        let pseudo = pseudo_ipv4(source, destination, IpProtocol::TCP, length as u16);
        let fill = Fill::Compute {
            payload: Sum::of(payload),
        };
        repr.emit(&mut bytes, pseudo, fill).expect("fits");
        bytes.extend_from_slice(payload);
        self.ready.push_back(Packet {
            bytes,
            is_capable: out.is_capable,
            is_marked: false,
        });
    }

    fn listen(&mut self, now_ns: u64, segment: &Segment, payload: &[u8]) {
        let (config, tuple) = (self.config, self.tuple());
        let listener = self.listener.as_mut().expect("listens");
        match listener.on_segment(now_ns, &tuple, segment, &config) {
            Answer::Nothing => {}
            Answer::Reset(out) | Answer::Cookie(out) => self.emit(&out, &[]),
            Answer::Connection(initial) => {
                let connection = Connection::answer(&config, initial, segment, now_ns);
                let mut end = End::new(connection, config);
                end.hear(segment);
                self.end = Some(end);
            }
            Answer::Established(known) => {
                let connection = Connection::established(&config, &known, now_ns);
                let mut end = End::new(connection, config);
                let scale = 32 - (config.receive_bytes >> 16).leading_zeros();
                let scales = [known.window_scale.map(|_| scale as u8), known.window_scale];
                end.knows(known.initial.sequence, known.peer, scales);
                end.take(now_ns, segment, payload);
                self.end = Some(end);
            }
        }
    }

    fn deliver(&mut self, now_ns: u64, segment: &Segment, payload: &[u8]) {
        if self.is_live() {
            self.end
                .as_mut()
                .expect("is live")
                .take(now_ns, segment, payload);
        } else if self.end.is_none() && self.listener.is_some() {
            self.listen(now_ns, segment, payload);
        } else if let Some(out) = answer_unknown(segment) {
            self.emit(&out, &[]);
        }
        let state = self.end.as_ref().map(|end| end.connection.state());
        if let Some(listener) = &mut self.listener
            && !self.is_settled
            && state.is_some_and(|state| state != State::SynReceived)
        {
            listener.settled();
            self.is_settled = true;
            assert_eq!(listener.embryonic(), 0);
        }
    }

    fn is_live(&self) -> bool {
        let state = self.end.as_ref().map(|end| end.connection.state());
        state.is_some_and(|state| state != State::Closed)
    }
}

impl Side for Ours {
    fn poll(&mut self, now_ns: u64) -> Option<Packet> {
        if let Some(packet) = self.ready.pop_front() {
            return Some(packet);
        }
        let (_, pieces) = self.end.as_mut()?.poll(now_ns, self.offload)?;
        for (piece, payload) in pieces {
            self.emit(&piece, &payload);
        }
        self.ready.pop_front()
    }

    fn take(&mut self, now_ns: u64, packet: &Packet) {
        let [local, remote] = self.addresses;
        let length = packet.bytes.len() as u16;
        let pseudo = pseudo_ipv4(remote, local, IpProtocol::TCP, length);
        if !pseudo.plus(Sum::of(&packet.bytes)).holds() {
            return;
        }
        let Ok((repr, payload)) = Repr::parse(&packet.bytes) else {
            panic!("a segment with a good checksum cannot be read");
        };
        let segment = Segment::new(&repr, payload.len() as u32, packet.is_marked);
        if let Some((before, bytes)) = &mut self.joined
            && follows(before, &segment)
        {
            before.length += segment.length;
            before.flags |= segment.flags;
            bytes.extend_from_slice(payload);
            return;
        }
        self.settle(now_ns);
        self.joined = Some((segment, payload.to_vec()));
    }

    fn settle(&mut self, now_ns: u64) {
        if let Some((segment, payload)) = self.joined.take() {
            self.deliver(now_ns, &segment, &payload);
        }
    }

    fn timeout_ns(&mut self, _now_ns: u64) -> Option<u64> {
        self.end.as_ref()?.connection.timeout_ns()
    }

    fn on_timer(&mut self, now_ns: u64) {
        let due = self.timeout_ns(now_ns).is_some_and(|at_ns| at_ns <= now_ns);
        if let (Some(end), true) = (&mut self.end, due) {
            end.on_timer(now_ns);
        }
    }

    fn has_begun(&self) -> bool {
        let state = self.end.as_ref().map(|end| end.connection.state());
        state.is_some_and(|state| !matches!(state, State::SynSent | State::SynReceived))
    }

    fn write(&mut self, bytes: &[u8]) -> usize {
        match &mut self.end {
            Some(end) if !bytes.is_empty() => end.write(bytes) as usize,
            _ => 0,
        }
    }

    fn read(&mut self, most: usize) -> Vec<u8> {
        match &mut self.end {
            Some(end) => end.read(most.min(1 << 30) as u32),
            None => Vec::new(),
        }
    }

    fn close(&mut self) {
        if let Some(end) = &mut self.end {
            end.connection.close();
        }
    }

    fn abort(&mut self) {
        if let Some(end) = &mut self.end {
            end.connection.abort();
        }
    }

    fn too_big(&mut self, sequence: u32, mtu: u16) {
        if let Some(end) = &mut self.end {
            let config = end.config;
            end.connection
                .on_too_big(TcpSequence(sequence), mtu, &config);
        }
    }

    fn is_at_end(&self) -> bool {
        self.end
            .as_ref()
            .is_some_and(|end| end.connection.is_peer_closed() && end.connection.readable() == 0)
    }

    fn is_over(&self) -> Option<Result<(), String>> {
        let end = self.end.as_ref()?;
        let is_over = end.connection.state() == State::Closed && self.ready.is_empty();
        match end.connection.cause() {
            _ if !is_over => None,
            Some(Cause::Finished) if end.connection.readable() > 0 => None,
            Some(Cause::Finished) => Some(Ok(())),
            cause => Some(Err(format!("{cause:?}"))),
        }
    }

    fn figures(&self) -> Option<Statistics> {
        Some(self.end.as_ref()?.connection.statistics())
    }

    fn tell(&self) -> String {
        match &self.end {
            None => "ours, not begun".to_owned(),
            Some(end) => format!(
                "ours in {:?}: {:?} of {:?}",
                end.connection.state(),
                end.connection.statistics(),
                end.config
            ),
        }
    }
}

/// Whether a segment can be joined to the one before.
fn follows(before: &Segment, segment: &Segment) -> bool {
    let plain = TcpFlags::ACK | TcpFlags::PSH;
    before.sequence.wrapping_add(before.length) == segment.sequence
        && before.acknowledgement == segment.acknowledgement
        && before.window == segment.window
        && before.options == segment.options
        && before.is_marked == segment.is_marked
        && before.flags == TcpFlags::ACK
        && plain.contains(segment.flags)
        && before.length > 0
        && segment.length > 0
        && before.length + segment.length < 65_000
}

const START_NS: u64 = 1_000_000_000;
