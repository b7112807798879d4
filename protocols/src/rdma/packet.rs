//! Packets of the transport: what came in, read from its header words, and what goes out, as header
//! words and the name of its payload.

use crate::DropReason;
use crate::wire::aeth::{self, Msn, Syndrome};
use crate::wire::bth::{self, Psn};
use crate::wire::opcode::{ExtendedHeaders, Opcode};

/// Words of 32 bits that the extended headers of any packet take at most.
pub const EXTENDED_WORDS: usize = 7;

/// Words of the base header and the extended headers together.
pub const HEADER_WORDS: usize = 3 + EXTENDED_WORDS;

/// Fields of all extended headers; those that a packet does not have are zero.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Extended {
    /// RETH, AtomicETH: address in the responder's memory.
    pub address: u64,
    /// RETH, AtomicETH: key of the responder's region.
    pub key: u32,
    /// RETH: bytes of the message.
    pub length: u32,
    /// AtomicETH: what is added, or what replaces. AtomicAckETH: what was there before.
    pub value: u64,
    /// AtomicETH: what must be there for a replacement.
    pub compare: u64,
    /// AETH, as it lies on the wire.
    pub aeth: u32,
    /// ImmDt: the immediate. IETH: the key to invalidate.
    pub immediate: u32,
    /// DETH: the key of the datagram.
    pub qkey: u32,
    /// DETH: who sent it.
    pub source_qp: u32,
}

impl Extended {
    /// Reads the extended headers that `headers` names from the words behind the base header.
    fn read(headers: ExtendedHeaders, words: &[u32; EXTENDED_WORDS]) -> Self {
        let mut rest = Words { words, at: 0 };
        let mut fields = Self::default();
        if headers.contains(ExtendedHeaders::DETH) {
            fields.qkey = rest.next();
            fields.source_qp = rest.next() & 0x00ff_ffff;
        }
        if headers.contains(ExtendedHeaders::FETH) {
            rest.next();
        }
        if headers.contains(ExtendedHeaders::RETH) {
            fields.address = rest.next_two();
            fields.key = rest.next();
            fields.length = rest.next();
        }
        if headers.contains(ExtendedHeaders::ATOMIC_ETH) {
            fields.address = rest.next_two();
            fields.key = rest.next();
            fields.value = rest.next_two();
            fields.compare = rest.next_two();
        }
        if headers.contains(ExtendedHeaders::AETH) {
            fields.aeth = rest.next();
        }
        if headers.contains(ExtendedHeaders::ATOMIC_ACK_ETH) {
            fields.value = rest.next_two();
        }
        if headers.intersects(ExtendedHeaders::IMM_DT.union(ExtendedHeaders::IETH)) {
            fields.immediate = rest.next();
        }
        fields
    }

    /// Writes the extended headers that `headers` names. Returns how many words they are.
    fn write(&self, headers: ExtendedHeaders, words: &mut [u32]) -> usize {
        let mut rest = WordsMut { words, at: 0 };
        if headers.contains(ExtendedHeaders::DETH) {
            rest.put(self.qkey);
            rest.put(self.source_qp & 0x00ff_ffff);
        }
        if headers.contains(ExtendedHeaders::RETH) {
            rest.put_two(self.address);
            rest.put(self.key);
            rest.put(self.length);
        }
        if headers.contains(ExtendedHeaders::ATOMIC_ETH) {
            rest.put_two(self.address);
            rest.put(self.key);
            rest.put_two(self.value);
            rest.put_two(self.compare);
        }
        if headers.contains(ExtendedHeaders::AETH) {
            rest.put(self.aeth);
        }
        if headers.contains(ExtendedHeaders::ATOMIC_ACK_ETH) {
            rest.put_two(self.value);
        }
        if headers.intersects(ExtendedHeaders::IMM_DT.union(ExtendedHeaders::IETH)) {
            rest.put(self.immediate);
        }
        rest.at
    }
}

/// A packet that came in, whose checksum, partition and addresses were found right.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Incoming {
    /// What it is.
    pub opcode: Opcode,
    /// Its sequence number.
    pub psn: Psn,
    /// An acknowledgement is wanted.
    pub acknowledge: bool,
    /// The receiver's completion shall raise an event.
    pub solicited: bool,
    /// Bytes of payload, without the pad.
    pub payload: u32,
    /// Its extended headers.
    pub extended: Extended,
}

impl Incoming {
    /// Reads a packet: its base header, the [`EXTENDED_WORDS`] words behind it in the order of the
    /// host (zero where the packet ends before), and `length`, the bytes from the end of the base
    /// header to the start of the invariant CRC.
    ///
    /// # Errors
    /// [`DropReason::BthLength`] if the extended headers and the pad do not fit, or a packet has
    /// payload that may not have one.
    pub fn new(
        bth: &bth::Repr,
        words: &[u32; EXTENDED_WORDS],
        length: u32,
    ) -> Result<Self, DropReason> {
        let headers = bth.opcode.headers();
        let taken = headers.length() as u32 + u32::from(bth.pad.value());
        let Some(payload) = length.checked_sub(taken) else {
            return Err(DropReason::BthLength);
        };
        if payload > 0 && !bth.opcode.has_payload() {
            return Err(DropReason::BthLength);
        }
        Ok(Self {
            opcode: bth.opcode,
            psn: bth.psn,
            acknowledge: bth.acknowledge,
            solicited: bth.solicited_event,
            payload,
            extended: Extended::read(headers, words),
        })
    }

    /// What an acknowledgement or response says.
    ///
    /// # Errors
    /// [`DropReason::AethSyndrome`].
    pub fn syndrome(&self) -> Result<Syndrome, DropReason> {
        let byte = (self.extended.aeth >> 24) as u8;
        Syndrome::new(byte).ok_or(DropReason::AethSyndrome)
    }
}

/// Where the payload of a packet that goes out comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Payload {
    /// It has none.
    #[default]
    None,
    /// Bytes of a send request, gathered from its pieces.
    Request {
        /// The request, counted from the first of its queue.
        index: u64,
        /// First byte.
        offset: u32,
        /// Bytes.
        length: u32,
    },
    /// Bytes of memory that the peer may read; its key and bounds were checked just now.
    Memory {
        /// First byte.
        address: u64,
        /// Bytes.
        length: u32,
    },
}

impl Payload {
    /// Its bytes.
    pub const fn length(&self) -> u32 {
        match self {
            Self::None => 0,
            Self::Request { length, .. } | Self::Memory { length, .. } => *length,
        }
    }
}

/// A packet to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Outgoing {
    /// What it is.
    pub opcode: Opcode,
    /// Its sequence number.
    pub psn: Psn,
    /// An acknowledgement is wanted.
    pub acknowledge: bool,
    /// The receiver's completion shall raise an event.
    pub solicited: bool,
    /// Its extended headers.
    pub extended: Extended,
    /// Its payload.
    pub payload: Payload,
    /// Of a datagram: the request that names where it goes.
    pub request: u64,
}

impl Outgoing {
    /// A packet without payload and extended fields.
    pub fn new(opcode: Opcode, psn: Psn) -> Self {
        Self {
            opcode,
            psn,
            acknowledge: false,
            solicited: false,
            extended: Extended::default(),
            payload: Payload::None,
            request: 0,
        }
    }

    /// An acknowledgement.
    pub fn answer(psn: Psn, syndrome: Syndrome, msn: Msn) -> Self {
        let mut packet = Self::new(Opcode::ACKNOWLEDGE, psn);
        packet.extended.aeth = aeth::Repr { syndrome, msn }.header().syndrome_msn.get();
        packet
    }

    /// The base header.
    pub fn bth(&self, destination: bth::Qpn, pkey: bth::PKey) -> bth::Repr {
        bth::Repr {
            opcode: self.opcode,
            solicited_event: self.solicited,
            migration: false,
            pad: bth::Pad::of(self.payload.length()),
            pkey,
            forward_congestion: false,
            backward_congestion: self.opcode == Opcode::CNP,
            destination_qp: destination,
            acknowledge: self.acknowledge,
            psn: self.psn,
        }
    }

    /// Writes base and extended headers as words in the order of the host, each to be sent
    /// big-endian. Returns how many there are.
    #[inline]
    pub fn write(
        &self,
        destination: bth::Qpn,
        pkey: bth::PKey,
        words: &mut [u32; HEADER_WORDS],
    ) -> usize {
        let header = self.bth(destination, pkey).header();
        let [first, second, third, extended @ ..] = words;
        *first = u32::from(header.opcode) << 24
            | u32::from(header.flags) << 16
            | u32::from(header.pkey.get());
        *second = header.destination_qp.get();
        *third = header.psn.get();
        let count = match self.opcode {
            Opcode::CNP => {
                *extended = [0; EXTENDED_WORDS];
                NOTIFICATION_WORDS
            }
            opcode => self.extended.write(opcode.headers(), extended),
        };
        3 + count
    }

    /// [`Outgoing::write`] into words of their own, and how many there are.
    pub fn words(&self, destination: bth::Qpn, pkey: bth::PKey) -> ([u32; HEADER_WORDS], usize) {
        let mut words = [0; HEADER_WORDS];
        let count = self.write(destination, pkey, &mut words);
        (words, count)
    }
}

/// Reserved words behind the base header of a notification of congestion: zeros.
const NOTIFICATION_WORDS: usize = 4;

/// Words to be read one after the other; zero behind the end.
struct Words<'a> {
    words: &'a [u32; EXTENDED_WORDS],
    at: usize,
}

impl Words<'_> {
    fn next(&mut self) -> u32 {
        let word = self.words.get(self.at).copied().unwrap_or(0);
        self.at += 1;
        word
    }

    fn next_two(&mut self) -> u64 {
        let high = u64::from(self.next());
        high << 32 | u64::from(self.next())
    }
}

/// Words to be written one after the other.
struct WordsMut<'a> {
    words: &'a mut [u32],
    at: usize,
}

impl WordsMut<'_> {
    fn put(&mut self, word: u32) {
        if let Some(slot) = self.words.get_mut(self.at) {
            *slot = word;
        }
        self.at += 1;
    }

    fn put_two(&mut self, words: u64) {
        self.put((words >> 32) as u32);
        self.put(words as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::aeth::{Credits, Nak};
    use crate::wire::bth::{PKey, Qpn};

    /// What comes out goes in.
    #[test]
    fn written_then_read() {
        let extended = Extended {
            address: 0x0102_0304_0506_0708,
            key: 0x1112_1314,
            length: 0x2122_2324,
            value: 0x3132_3334_3536_3738,
            compare: 0x4142_4344_4546_4748,
            aeth: 0x6001_0203,
            immediate: 0x5152_5354,
            qkey: 0x6162_6364,
            source_qp: 0x0072_7374,
        };
        // The queue pair has nothing to say in these.
        let others = [Opcode::FLUSH, Opcode::CNP];
        for opcode in Opcode::ALL.iter().filter(|one| !others.contains(one)) {
            let mut packet = Outgoing::new(*opcode, Psn::new(0x00ab_cdef));
            packet.acknowledge = true;
            packet.extended = extended;
            let length = if opcode.has_payload() { 5 } else { 0 };
            packet.payload = Payload::Memory { address: 0, length };
            let (words, count) = packet.words(Qpn::new(0x11), PKey::DEFAULT);
            let headers = opcode.headers().length();
            assert_eq!(count, 3 + headers / 4, "{opcode}");
            let mut bytes = [0; 12];
            for (to, word) in bytes.chunks_exact_mut(4).zip(words) {
                to.copy_from_slice(&word.to_be_bytes());
            }
            let (header, _) = bth::Header::split(&bytes).expect("whole");
            let bth = bth::Repr::parse(header).expect("legal");
            let mut rest = [0; EXTENDED_WORDS];
            rest.copy_from_slice(&words[3..]);
            let padded = headers as u32 + length + u32::from(bth.pad.value());
            let back = Incoming::new(&bth, &rest, padded).expect("legal");
            assert_eq!(back.opcode, *opcode);
            assert_eq!((back.psn.value(), back.acknowledge), (0x00ab_cdef, true));
            assert_eq!(back.payload, length, "{opcode}");
            let (again, _) = Outgoing {
                extended: back.extended,
                ..packet
            }
            .words(Qpn::new(0x11), PKey::DEFAULT);
            assert_eq!(again, words, "{opcode}");
            let short = Incoming::new(&bth, &rest, headers as u32 - u32::from(headers > 0));
            assert_eq!(
                short.is_err(),
                headers > 0 || bth.pad.value() > 0,
                "{opcode}"
            );
        }
    }

    /// As a ConnectX-4 Lx writes it.
    #[test]
    fn a_notification_has_sixteen_reserved_bytes() {
        let packet = Outgoing::new(Opcode::CNP, Psn::new(0));
        let (words, count) = packet.words(Qpn::new(0x118), PKey::DEFAULT);
        let want = [0x8100_ffff, 0x4000_0118, 0, 0, 0, 0, 0];
        assert_eq!(words.get(..count), Some(&want[..]));
    }

    #[test]
    fn payload_where_none_may_be_is_refused() {
        let packet = Outgoing::new(Opcode::READ_REQUEST, Psn::new(0));
        let bth = packet.bth(Qpn::new(1), PKey::DEFAULT);
        let words = [0; EXTENDED_WORDS];
        assert!(Incoming::new(&bth, &words, 16).is_ok());
        assert_eq!(Incoming::new(&bth, &words, 20), Err(DropReason::BthLength));
    }

    #[test]
    fn answers_say_what_they_shall() {
        let msn = Msn::new(7);
        let cases = [
            (Syndrome::Ack(Credits::UNLIMITED), 0x1f00_0007),
            (Syndrome::Nak(Nak::RemoteAccess), 0x6200_0007),
        ];
        for (syndrome, word) in cases {
            let packet = Outgoing::answer(Psn::new(9), syndrome, msn);
            assert_eq!(packet.extended.aeth, word);
            let bth = packet.bth(Qpn::new(1), PKey::DEFAULT);
            let (words, _) = packet.words(Qpn::new(1), PKey::DEFAULT);
            let mut rest = [0; EXTENDED_WORDS];
            rest.copy_from_slice(&words[3..]);
            let back = Incoming::new(&bth, &rest, 4).expect("legal");
            assert_eq!(back.syndrome(), Ok(syndrome));
        }
    }
}
