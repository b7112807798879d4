//! A packet to be written by some lane, as the leader hands it over.

use warpwire_device::Simt;
use warpwire_protocols::rdma::{HEADER_WORDS, Outgoing, Payload};
use warpwire_protocols::wire::bth::{PKey, Qpn};
use warpwire_ring::mlx5::layout::DatagramSegment;

use crate::tables::Path;

/// A packet: its header words and where its payload comes from.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Job {
    /// Place of its queue pair.
    pub(crate) pair: u32,
    /// Header words that are used, below what the payload is.
    count_and_source: u32,
    words: [u32; HEADER_WORDS],
    /// Bytes of the payload.
    pub(crate) payload: u32,
    /// First byte within the request.
    pub(crate) offset: u32,
    /// Address of the payload, or the number of its request.
    pub(crate) at: u64,
    /// Of a datagram: the number of its request.
    pub(crate) request: u64,
}

/// Where a payload comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    None,
    Memory,
    Request,
}

impl Job {
    /// Makes it that of a packet of the queue pair at place `pair`.
    #[inline]
    pub(crate) fn set(&mut self, pair: u32, packet: &Outgoing, remote: Qpn, pkey: PKey) {
        let count = packet.write(remote, pkey, &mut self.words);
        let (source, at, offset) = match packet.payload {
            Payload::None => (Source::None, 0, 0),
            Payload::Memory { address, .. } => (Source::Memory, address, 0),
            Payload::Request { index, offset, .. } => (Source::Request, index, offset),
        };
        self.pair = pair;
        self.count_and_source = count as u32 | (source as u32) << 16;
        self.payload = packet.payload.length();
        self.offset = offset;
        self.at = at;
        self.request = packet.request;
    }

    /// *Collective.* The job of the leader, in every lane.
    pub(crate) fn of_leader<S: Simt>(self, simt: &S) -> Self {
        let shuffle = |word: u32| simt.shuffle(word, 0);
        Self {
            pair: shuffle(self.pair),
            count_and_source: shuffle(self.count_and_source),
            words: self.words.map(shuffle),
            payload: shuffle(self.payload),
            offset: shuffle(self.offset),
            at: simt.shuffle_u64(self.at, 0),
            request: simt.shuffle_u64(self.request, 0),
        }
    }

    /// Base and extended headers.
    pub(crate) fn words(&self) -> &[u32] {
        let count = (self.count_and_source & 0xffff) as usize;
        self.words.get(..count).unwrap_or(&[])
    }

    pub(crate) const fn source(&self) -> Source {
        match self.count_and_source >> 16 {
            1 => Source::Memory,
            2 => Source::Request,
            _ => Source::None,
        }
    }
}

impl Path {
    /// Says in a datagram's request that it takes this way to a queue pair of the peer that has
    /// this address.
    pub fn datagram(&self, number: u32, qkey: u32, gid: [u8; 16]) -> DatagramSegment {
        DatagramSegment {
            rlid: self.source_port.into(),
            rmac: self.next_hop,
            tclass: self.traffic_class,
            hop_limit: self.hop_limit,
            grh_gid_fl: (self.flow_label & 0x000f_ffff).into(),
            ..DatagramSegment::to(number, qkey, gid)
        }
    }
}

/// The way of a datagram: the queue pair's own side, and the peer that its request names.
#[inline(never)]
pub(crate) fn datagram_path(own: &Path, to: &DatagramSegment) -> Path {
    let (words, _) = to.rgid.as_chunks::<4>();
    let [a, b, c, d] = words else {
        return *own;
    };
    let words = [a, b, c, d].map(|word| u32::from_be_bytes(*word));
    let (remote, ip_version) = match words {
        [0, 0, 0xffff, address] => ([address, 0, 0, 0], 4),
        _ => (words, 6),
    };
    Path {
        remote,
        ip_version,
        next_hop: to.rmac,
        traffic_class: to.tclass,
        hop_limit: to.hop_limit,
        flow_label: to.grh_gid_fl.get() & 0x000f_ffff,
        source_port: match to.rlid.get() {
            0 => own.source_port,
            port => port,
        },
        ..*own
    }
}
