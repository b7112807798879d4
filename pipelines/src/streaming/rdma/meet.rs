//! How two ends of a stream agree: queue pairs as ever, and what the carrier needs besides.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicBool;

use warpwire_core::messaging::Remote;
use warpwire_protocols::rdma::Access;
use warpwire_protocols::stream::credits::{Inbox, Terms};
use warpwire_protocols::tcp::Tuple;
use warpwire_protocols::wire::{Gid, PKey, Psn, Qpn};

use super::seats::{Agreed, Core};
use crate::connect::cm::chance;
use crate::connect::own::{self, Destination, Feature, Offer, Service, Wish};
use crate::connect::perftest::Role;
use crate::connect::{Channel as _, Conversation, Error as MeetError};
use crate::messaging::Pair;
use crate::streaming::endpoint::lock;
use crate::streaming::error::Error;

impl Core {
    /// Agrees with a peer, and begins a stream: its place and number. `None` if the listener ended
    /// meanwhile.
    pub(super) fn meet(
        &self,
        conversation: &mut Conversation,
        role: Role,
        (listener, stop): (u32, &AtomicBool),
    ) -> Result<Option<(u32, u32)>, Error> {
        let (place, mut pair) = self.take()?;
        match self.agree(conversation, role, (place, &mut pair)) {
            Ok(agreed) => {
                let number = self.begin(place, pair, &agreed, (listener, stop))?;
                Ok(number.map(|number| (place, number)))
            }
            Err(error) => {
                self.give_back(place, pair);
                Err(error)
            }
        }
    }

    fn agree(
        &self,
        conversation: &mut Conversation,
        role: Role,
        (place, pair): (u32, &mut Pair),
    ) -> Result<Agreed, Error> {
        let offer = self.offer(place, pair);
        let agreement = own::negotiate(conversation, role, &offer)?;
        let there = agreement.theirs.queue_pairs.first();
        let (Some(there), Some((attributes, start))) = (there, agreement.attributes(0)) else {
            return Err(conversation.wrong("qp", "there is none").into());
        };
        let terms = self.terms(conversation, there)?;
        let receives = terms.receives();
        if receives > pair.free_receives() {
            return Err(Error::Setting {
                field: "log_receive",
                value: u64::from(pair.free_receives()),
                must: "enough for `RdmaConfig::receives` of both ends",
            });
        }
        let attributes = warpwire_protocols::rdma::Attributes {
            access: Access::REMOTE_WRITE,
            domain: place + 1,
            // Nobody sends what there is no receive for: who does breaks the rules.
            rnr_retries: 0,
            ..attributes
        };
        let to = agreement.theirs.gid.0;
        let numbers = (pair.number(), there.qp.value());
        let path = lock(&self.ground).path(&to, numbers.0, numbers.1)?;
        pair.connect(attributes, start, path)?;
        // Before the peer may send.
        for _ in 0..receives {
            pair.receive(&[])?;
        }
        own::ready(conversation)?;
        Ok(Agreed {
            remote: Remote::new(there.address, there.rkey),
            terms,
            tuple: tuple(conversation.ends()?),
        })
    }

    fn offer(&self, place: u32, pair: &Pair) -> Offer {
        let ground = lock(&self.ground);
        let ring = self.rings.get(place as usize).map(|rings| rings[1]);
        Offer {
            service: Service::Rc,
            gid: Gid(ground.gid()),
            mtu: ground.mtu().bytes() as u16,
            traffic_class: Wish::Any,
            hop_limit: Wish::Just(64),
            pkey: PKey::DEFAULT,
            reads: 1,
            reads_served: 1,
            max_message: MOST_WRITE,
            features: vec![Feature::Selective],
            queue_pairs: vec![Destination {
                qp: Qpn::new(pair.number()),
                psn: Psn::new(chance() as u32),
                rkey: ring.map_or(0, |ring| ring.key),
                address: ring.map_or(0, |ring| ring.address),
                length: ring.map_or(0, |ring| ring.length),
            }],
        }
    }

    /// Tells how many words may be under way here, and hears the same.
    fn terms(
        &self,
        conversation: &mut Conversation,
        there: &Destination,
    ) -> Result<Terms, MeetError> {
        let (bytes, words) = (self.config.ring_bytes, self.config.words);
        conversation.send("stream", format!("{GREETING}{words}\n").as_bytes())?;
        let said = conversation.receive_line("stream", MOST_LINE)?;
        let theirs = said
            .strip_prefix(GREETING)
            .and_then(|rest| rest.parse().ok());
        let Some(theirs) = theirs else {
            let problem = format!("{said:?} is not how a stream begins");
            return Err(conversation.wrong("stream", problem));
        };
        let peer = Inbox {
            bytes: u32::try_from(there.length).unwrap_or(0),
            words: theirs,
        };
        let terms = Terms {
            send_bytes: bytes,
            own: Inbox { bytes, words },
            peer,
            write_bytes: (bytes.min(peer.bytes) / 4).clamp(1, MOST_WRITE),
        };
        match terms.check() {
            Ok(()) => Ok(terms),
            Err(illegal) => Err(conversation.wrong("stream", format!("{illegal:?}"))),
        }
    }
}

/// Both ends, as applications know them: where they met.
fn tuple([own, peer]: [SocketAddr; 2]) -> Tuple {
    let sixteen = |end: SocketAddr| match end.ip() {
        IpAddr::V4(four) => four.to_ipv6_mapped().octets(),
        IpAddr::V6(six) => six.octets(),
    };
    Tuple {
        local: sixteen(own),
        remote: sixteen(peer),
        local_port: own.port(),
        remote_port: peer.port(),
    }
}

/// What both say, before the number of their words.
const GREETING: &str = "stream 1 words=";
/// Bytes of a line at most.
const MOST_LINE: usize = 64;
/// The most bytes of a message.
const MOST_WRITE: u32 = 1 << 18;
