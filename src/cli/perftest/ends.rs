//! How the two ends find each other: by TCP, or by RDMA-CM.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

use warpwire_pipelines::connect::cm::{
    Connection, DatagramListener, Listener, Manager, Messages, Offer,
};
use warpwire_pipelines::connect::perftest::{Destination, Session};
use warpwire_pipelines::connect::{self, Channel as _, Conversation, Error};
use warpwire_pipelines::messaging::{
    self, Device, DeviceConfig, EndpointConfig, Pair, PairConfig, connect_all,
};
use warpwire_protocols::rdma::{Attributes, Mtu, Service, Start};
use warpwire_protocols::wire::bth::Psn;
use warpwire_protocols::wire::cm::DATAGRAM_QKEY;

use super::datagrams::Side;
use super::{Bench, Failure, Json, Plan, READS, part};
use crate::cli::capture;
use crate::cli::chance::chance;
use crate::cli::meet::meet;
use crate::cli::signals::Heed;

impl Plan<'_> {
    /// The tools' exchange by TCP.
    pub(super) fn over_tcp(&self, json: Json) -> Result<(), Failure> {
        let patience = self.options.patience();
        let host = self.options.host.as_deref();
        // What is wrong with an own address is told before anybody waits for anybody.
        let early = self.options.own_address.filter(|_| !self.options.fused);
        let early = early.map(|own| Device::at(Some(own), &self.config()));
        let early = early.transpose()?;
        let (mut conversation, _) = meet(host, self.options.port, patience)?;
        let mut device = match early {
            Some(device) => device,
            None => self.device(conversation.peer_address())?,
        };
        if self.options.fused {
            // The peer may need the engine while this end waits for its words.
            conversation.meanwhile(device.endpoint().idle());
        }
        let outcome = self.by_tcp(&device, conversation, json);
        capture::end(&mut device, outcome)
    }

    fn by_tcp(
        &self,
        device: &Device,
        conversation: Conversation,
        json: Json,
    ) -> Result<(), Failure> {
        let patience = self.options.patience();
        let mut bench = Bench::new(self, device)?;
        let mut conversation = conversation;
        conversation.extend(patience + self.preparation());
        let rounds = self.tool.rounds(self.direction);
        let mut session = Session::greet(conversation, self.role, rounds, &bench.hello())?;
        let own = bench.destinations(std::iter::repeat_with(|| Psn::new(chance() as u32)));
        let theirs = session.exchange(&own)?.to_vec();
        bench.mtu = Mtu::from_code(session.mtu()).unwrap_or(bench.mtu);
        bench.connect(&own, &theirs)?;
        connect::Channel::extend(session.channel(), patience);
        bench.measure(&mut session, &own, &theirs, json)
    }

    /// The same over a connection by RDMA-CM, and further connections for the traffic.
    pub(super) fn over_cm(&self, json: Json) -> Result<(), Failure> {
        let server = self.options.host.as_deref();
        let server = server.map(|host| self.resolve(host)).transpose()?;
        let mut device = match server {
            Some(server) => self.device(server.ip())?,
            None => Device::at(self.options.own_address, &self.config())?,
        };
        let outcome = self.by_cm(&device, server, json);
        capture::end(&mut device, outcome)
    }

    fn by_cm(
        &self,
        device: &Device,
        server: Option<SocketAddr>,
        json: Json,
    ) -> Result<(), Failure> {
        let patience = self.options.patience();
        let manager = Manager::start(device)?;
        let port = self.options.port;
        let ends = match server {
            Some(server) => Ends::Client { manager, server },
            None => {
                let (address, listener) = (device.address(), manager.listen(port)?);
                let datagrams = match self.service {
                    Service::Ud => Some(manager.listen_datagrams(port)?),
                    _ => None,
                };
                eprintln!("waiting for a client at {address}, port {port} of RDMA-CM");
                let heed = Heed::begin()?;
                Ends::Server {
                    listener,
                    datagrams,
                    heed,
                }
            }
        };
        let mut bench = Bench::new(self, device)?;
        let pair = device.endpoint().pair(PairConfig::default())?;
        let words = u64::from(self.options.pairs) * 2 * u64::from(part(self.longest()));
        let mut messages = Messages::new(device, pair, words, patience)?;
        let offer = self.offer(bench.mtu);
        // Words are carried reliably, whatever is measured.
        let reliable = Offer {
            service: Service::Rc,
            ..offer.clone()
        };
        let connection = ends.connect(device, messages.pair(), &reliable, self, None)?;
        let client = connection.terms().map(|terms| terms.there.address());
        let there = connection.terms().map(|terms| terms.there);
        messages.connected(connection);
        connect::Channel::extend(&mut messages, patience);
        let rounds = self.tool.rounds(self.direction).over_cm();
        let mut session = Session::greet(messages, self.role, rounds, &bench.hello())?;
        session.blank()?;
        if let (Some(there), Some(side)) = (there, ends.side(self.service)) {
            bench.mtu = Mtu::from_code(session.mtu()).unwrap_or(bench.mtu);
            let (found, psns) = bench.acquaint(&side, there)?;
            session.blank()?;
            let own = bench.destinations(psns);
            let theirs = session.exchange(&own)?.to_vec();
            bench.compare(&found, &theirs)?;
            return bench.measure(&mut session, &own, &theirs, json);
        }
        let mut connections = Vec::new();
        for pair in &mut bench.pairs {
            connections.push(ends.connect(device, pair, &offer, self, client)?);
        }
        session.blank()?;
        let terms: Vec<_> = connections.iter().filter_map(Connection::terms).collect();
        if let Some(terms) = terms.first() {
            bench.mtu = Mtu::from_code(terms.mtu.value()).unwrap_or(bench.mtu);
        }
        let psns: Vec<Psn> = terms.iter().map(|terms| terms.send_psn).collect();
        let own = bench.destinations(psns);
        let theirs = session.exchange(&own)?.to_vec();
        bench.measure(&mut session, &own, &theirs, json)
    }

    /// How much longer the peer may take to make its memory ready than to answer.
    fn preparation(&self) -> Duration {
        let bytes = 2 * u64::from(part(self.longest())) * u64::from(self.options.pairs);
        Duration::from_secs(bytes >> 26)
    }

    fn config(&self) -> DeviceConfig {
        let options = self.options;
        let log = |depth: u32| 32 - depth.max(2).next_power_of_two().leading_zeros();
        let pairs = options.pairs + 2 * u32::from(options.by_cm);
        let endpoint = EndpointConfig {
            warps: options.warps,
            pairs: pairs.next_power_of_two(),
            management: options.by_cm,
            log_send: log(options.tx_depth * self.slots()).clamp(5, 15),
            log_receive: log(options.rx_depth).clamp(5, 15),
            // Above all numbers that so many queue pairs need.
            first_number: 0x4000 | chance() as u32 & 0x00ff_ffff,
            ..EndpointConfig::default()
        };
        let bytes = 2 * part(self.longest()) as usize * options.pairs as usize;
        DeviceConfig {
            nic: options.nic.clone(),
            fused: options.fused,
            capture: options.capture.clone(),
            bytes: bytes + Messages::BYTES as usize,
            memory: Vec::new(),
            endpoint,
            patience: options.patience(),
            chance: chance(),
        }
    }

    /// The device that leads to a peer, or has the own address that is wanted.
    fn device(&self, peer: IpAddr) -> Result<Device, Failure> {
        let config = self.config();
        let own = match self.options.gid_index {
            Some(number) => {
                let nic = self.options.nic.as_deref();
                Some(messaging::own_address(peer, nic, number)?)
            }
            None => self.options.own_address,
        };
        Ok(match own {
            Some(own) => Device::at(Some(own), &config)?,
            None => Device::open(peer, &config)?,
        })
    }

    fn resolve(&self, host: &str) -> Result<SocketAddr, Failure> {
        let unknown = |problem: String| Failure::Bench(format!("{host}: {problem}"));
        let addresses = (host, self.options.port).to_socket_addrs();
        let mut addresses = addresses.map_err(|error| unknown(error.to_string()))?;
        addresses
            .next()
            .ok_or_else(|| unknown("has no address".to_owned()))
    }

    /// The path MTU on a link: that of the link, or what was asked for if it fits.
    pub(super) fn mtu_on(&self, device: &Device) -> Result<Mtu, Failure> {
        let link = device.mtu().unwrap_or(Mtu::M256);
        let most = link.bytes();
        if self.service == Service::Ud && self.longest() > most {
            let size = self.longest();
            return Err(Failure::Bench(format!(
                "-s {size}: a datagram of this link has at most {most} bytes; write -s {most}"
            )));
        }
        match self.mtu {
            Some(mtu) if mtu > link => Err(Failure::Bench(format!(
                "-m {}: the link has room for {most}",
                mtu.bytes()
            ))),
            mtu => Ok(mtu.unwrap_or(link)),
        }
    }

    /// The key of both ends' queue pairs, unless the peer tells another.
    pub(super) const fn qkey(&self) -> u32 {
        match self.options.by_cm {
            true => DATAGRAM_QKEY,
            false => QKEY,
        }
    }

    fn offer(&self, mtu: Mtu) -> Offer {
        Offer {
            service: self.service,
            reads: READS as u8,
            reads_served: READS as u8,
            mtu: Some(mtu),
            ack_timeout: self.options.timeout,
            ..Offer::default()
        }
    }
}

/// An end of connections by RDMA-CM.
enum Ends {
    Client {
        manager: Manager,
        server: SocketAddr,
    },
    Server {
        listener: Listener,
        datagrams: Option<DatagramListener>,
        heed: Heed,
    },
}

impl Ends {
    /// How datagrams find their way; connections need no other.
    fn side(&self, service: Service) -> Option<Side<'_>> {
        match self {
            Self::Client { manager, server } if service == Service::Ud => Some(Side::Client {
                manager,
                server: *server,
            }),
            Self::Server {
                datagrams: Some(listener),
                ..
            } => Some(Side::Server { listener }),
            _ => None,
        }
    }

    /// A connection. A server waits for anybody, or no longer than its patience for one client;
    /// then it rejects all others.
    fn connect(
        &self,
        device: &Device,
        pair: &mut Pair,
        offer: &Offer,
        plan: &Plan<'_>,
        client: Option<IpAddr>,
    ) -> Result<Connection, Failure> {
        let started = Instant::now();
        let patience = plan.options.patience();
        let is_over = || client.is_some() && started.elapsed() >= patience;
        Ok(match self {
            // perftest's server begins to listen for the second connection after the first one
            // has said that it may be asked for.
            Self::Client { manager, server } => {
                let deadline = Instant::now() + patience;
                loop {
                    match manager.connect(device, pair, *server, offer, patience) {
                        Err(error) if error.is_unheard() && Instant::now() < deadline => {
                            std::thread::sleep(AGAIN);
                        }
                        outcome => break outcome?,
                    }
                }
            }
            Self::Server { listener, heed, .. } => loop {
                match listener.accept(LOOK) {
                    // It is rejected as it goes.
                    Ok(call) if client.is_some() && call.peer() != client => drop(call),
                    Ok(call) => {
                        heed.end();
                        break call.accept(device, pair, offer, patience)?;
                    }
                    Err(Error::NoCall { .. }) if heed.is_stopped() => {
                        return Err(Failure::Interrupted);
                    }
                    Err(Error::NoCall { port, .. }) if is_over() => {
                        let waited = patience;
                        return Err(Error::NoCall { port, waited }.into());
                    }
                    Err(Error::NoCall { .. }) => device.look()?,
                    Err(error) => return Err(error.into()),
                }
            },
        })
    }
}

impl Bench<'_> {
    /// Makes all queue pairs ready, by what was exchanged.
    pub(super) fn connect(
        &mut self,
        own: &[Destination],
        theirs: &[Destination],
    ) -> Result<(), Failure> {
        let mut wishes = Vec::new();
        for (own, peer) in own.iter().zip(theirs) {
            let attributes = Attributes {
                service: self.plan.service,
                mtu: self.mtu,
                timeout: self.plan.options.timeout,
                reads: peer.reads.clamp(1, READS) as u8,
                remote_qp: peer.qp,
                qkey: QKEY,
                ..Attributes::default()
            };
            let start = Start {
                send: own.psn,
                receive: peer.psn,
            };
            let (number, other) = (own.qp.value(), peer.qp.value());
            let path = self.device.path(&peer.gid.0, number, other, 0)?;
            wishes.push((attributes, start, path));
        }
        Ok(connect_all(&mut self.pairs, &wishes)?)
    }
}

/// How often a waiting server looks whether it is to end.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// How soon a server is asked again that does not listen yet.
pub(super) const AGAIN: Duration = Duration::from_millis(50);
/// The key of perftest's datagrams.
const QKEY: u32 = 0x1111_1111;
