//! How two ends that send datagrams find each other by RDMA-CM: the client asks for the server's
//! queue pairs, and tells its own by a datagram where the server has to send, too.

use std::net::SocketAddr;
use std::time::Instant;

use warpwire_pipelines::connect::Error;
use warpwire_pipelines::connect::cm::{
    DatagramListener, Inquiry, Manager, Service, take_datagrams,
};
use warpwire_pipelines::connect::perftest::{Destination, Direction, Tool};
use warpwire_pipelines::messaging::{Completed, Work};
use warpwire_protocols::rdma::ROUTE_HEADER_BYTES;
use warpwire_protocols::wire::Gid;
use warpwire_protocols::wire::bth::{Psn, Qpn};
use warpwire_protocols::wire::cm::DATAGRAM_QKEY;
use warpwire_protocols::wire::cm::sidr_rep::Status;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::{Order, Payload};

use super::ends::{AGAIN, LOOK};
use super::{Bench, Failure, Plan};

/// Who asks, and who is asked.
pub(super) enum Side<'a> {
    Client {
        manager: &'a Manager,
        server: SocketAddr,
    },
    Server {
        listener: &'a DatagramListener,
    },
}

impl Plan<'_> {
    /// Whether the server sends, and has to be told where to.
    fn has_hello(&self) -> bool {
        self.tool == Tool::SendLatency || self.direction == Direction::Both
    }
}

impl Bench<'_> {
    /// Makes all queue pairs ready and acquaints them with those of the peer at `there`: the
    /// peer's, as far as this end knows them, and the sequence numbers of ours.
    pub(super) fn acquaint(
        &mut self,
        side: &Side<'_>,
        there: Gid,
    ) -> Result<(Vec<Option<Qpn>>, Vec<Psn>), Failure> {
        let pairs = self.pairs.iter_mut();
        let psns = pairs.map(|pair| take_datagrams(self.device, pair, there, DATAGRAM_QKEY));
        let psns = psns.collect::<Result<Vec<Psn>, _>>()?;
        let mut peers = Vec::new();
        for place in 0..psns.len() {
            peers.push(match side {
                Side::Client { manager, server } => {
                    let found = self.ask(manager, *server)?;
                    if let Some(qkey) = self.qkeys.get_mut(place) {
                        *qkey = found.1;
                    }
                    Some(found.0)
                }
                Side::Server { listener } => {
                    if self.plan.has_hello() {
                        self.expect_hello(place)?;
                    }
                    self.answer(place, listener, there)?;
                    None
                }
            });
        }
        if self.plan.has_hello() {
            for (place, peer) in peers.iter_mut().enumerate() {
                match peer {
                    Some(peer) => self.say_hello(place, *peer, there)?,
                    None => *peer = Some(self.hear_hello(place, there)?),
                }
            }
        }
        Ok((peers, psns))
    }

    /// The server's queue pair, and its key.
    fn ask(&self, manager: &Manager, server: SocketAddr) -> Result<(Qpn, u32), Failure> {
        let patience = self.plan.options.patience();
        let deadline = Instant::now() + patience;
        // perftest's server begins to listen after the connection has said that it may be asked.
        loop {
            match manager.resolve(self.device, server, &Inquiry::default(), patience) {
                Err(error) if error.is_unheard() && Instant::now() < deadline => {
                    std::thread::sleep(AGAIN);
                }
                Err(error) if error.is_unheard() => {
                    let seconds = patience.as_secs();
                    return Err(Failure::Bench(format!(
                        "{server}: has no datagram service at this port within {seconds} s; does \
                         the server run with -c UD?"
                    )));
                }
                outcome => {
                    let found = outcome?;
                    return Ok((found.qp, found.qkey));
                }
            }
        }
    }

    /// Tells the client a queue pair of ours; nobody else is told.
    fn answer(&self, place: usize, listener: &DatagramListener, there: Gid) -> Result<(), Failure> {
        let number = self.pairs.get(place).map_or(0, |pair| pair.number());
        let waited = self.plan.options.patience();
        let deadline = Instant::now() + waited;
        loop {
            match listener.accept(LOOK) {
                Ok(call) if call.asked().is_some_and(|asked| asked.there == there) => {
                    let service = Service {
                        qp: Qpn::new(number),
                        qkey: DATAGRAM_QKEY,
                        private: Vec::new(),
                    };
                    return Ok(call.accept(&service)?);
                }
                Ok(call) => call.reject(Status::REJECTED, &[])?,
                Err(Error::NoQuestion { port, .. }) => {
                    if Instant::now() >= deadline {
                        return Err(Error::NoQuestion { port, waited }.into());
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Posts a receive for the peer's first datagram.
    fn expect_hello(&mut self, place: usize) -> Result<(), Failure> {
        let at = self.plan.target(place as u64) - u64::from(ROUTE_HEADER_BYTES);
        let piece = self.device.region().gather(at, ROUTE_HEADER_BYTES + HELLO);
        if let Some(pair) = self.pairs.get_mut(place) {
            pair.receive(&[piece])?;
        }
        Ok(())
    }

    /// Who sent the peer's first datagram, which says so itself.
    fn hear_hello(&mut self, place: usize, there: Gid) -> Result<Qpn, Failure> {
        let patience = self.plan.options.patience();
        let Some(pair) = self.pairs.get_mut(place) else {
            return Ok(Qpn::new(0));
        };
        // Nobody sends it again if it is lost.
        let completed = pair.wait(patience).map_err(|error| {
            Failure::Traffic(format!(
                "the first datagram, which tells of a queue pair: {error}"
            ))
        })?;
        match completed {
            Completed::Received(message) if message.immediate == Some(message.source_qp) => {
                Ok(Qpn::new(message.source_qp))
            }
            Completed::Received(message) => Err(wrong(
                there,
                format!(
                    "its first datagram comes from {:#x} and says {:#x?}",
                    message.source_qp, message.immediate
                ),
            )),
            other => Err(Failure::Traffic(format!(
                "the peer's first datagram: {other:?}"
            ))),
        }
    }

    /// Tells the peer which queue pair of ours it is to send to.
    fn say_hello(&mut self, place: usize, peer: Qpn, there: Gid) -> Result<(), Failure> {
        let qkey = self.qkeys.get(place).copied().unwrap_or_default();
        let Some(pair) = self.pairs.get_mut(place) else {
            return Ok(());
        };
        let (own, other) = (pair.number(), peer.value());
        let path = self.device.path(&there.0, own, other, 0)?;
        let order = Order {
            immediate: own,
            datagram: Some(path.datagram(other, qkey, there.0)),
            ..Order::new(Opcode::SEND_IMM)
        };
        let payload = Payload::Inline(&[0; HELLO as usize]);
        pair.post(&[Work { order, payload }])?;
        match pair.wait(self.plan.options.patience())? {
            Completed::Sent { .. } => Ok(()),
            other => Err(Failure::Traffic(format!("our first datagram: {other:?}"))),
        }
    }

    /// Whether the peer tells of the queue pairs that were found.
    pub(super) fn compare(
        &self,
        found: &[Option<Qpn>],
        told: &[Destination],
    ) -> Result<(), Failure> {
        for (found, told) in found.iter().zip(told) {
            if let Some(found) = found.filter(|found| *found != told.qp) {
                let (found, said) = (found.value(), told.qp.value());
                let words = format!("tells of {said:#x}, and RDMA-CM found {found:#x}");
                return Err(wrong(told.gid, words));
            }
        }
        Ok(())
    }
}

/// The peer's words do not fit together.
fn wrong(there: Gid, problem: String) -> Failure {
    let peer = there.address().to_string();
    let field = "queue pair";
    Error::Field {
        peer,
        field,
        problem,
    }
    .into()
}

/// Bytes of the first datagram: its immediate says it all.
const HELLO: u32 = 4;
