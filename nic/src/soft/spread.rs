//! Receive-side scaling: the Toeplitz hash over addresses and ports, and the queue it names.

use std::net::{IpAddr, SocketAddr};

use super::packet::{Layers, Network};

/// The key that the hash's published test vectors use.
pub(super) const DEFAULT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0,
    0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c,
    0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// What a completion says about the hash: it covers addresses.
pub(super) const HASH_ADDRESSES: u8 = 0x03;
/// What a completion says about the hash: it covers addresses and ports.
pub(super) const HASH_PORTS: u8 = 0x0f;

/// Most bytes that are hashed: two IPv6 addresses and two ports.
const MAX_INPUT: usize = 36;

/// A hash with its key worked into tables, one of 256 words for each byte of input, and the table
/// of queues that its low bits name.
#[derive(Clone)]
pub(super) struct Spread {
    tables: Box<[[u32; 256]; MAX_INPUT]>,
    queues: [u8; 128],
}

impl Spread {
    /// Spreads over `queues` queues, 1 to 255.
    pub(super) fn new(key: &[u8; 40], queues: u32) -> Self {
        let mut tables = Box::new([[0; 256]; MAX_INPUT]);
        for (position, table) in tables.iter_mut().enumerate() {
            for (value, entry) in table.iter_mut().enumerate() {
                for bit in 0..8 {
                    if value >> (7 - bit) & 1 == 1 {
                        *entry ^= window(key, position * 8 + bit);
                    }
                }
            }
        }
        let queues = std::array::from_fn(|entry| (entry as u32 % queues.clamp(1, 255)) as u8);
        Self { tables, queues }
    }

    /// The hash of the input's bytes; only the first 36 count.
    #[inline(always)]
    pub(super) fn hash(&self, input: &[u8]) -> u32 {
        let tables = self.tables.iter();
        tables
            .zip(input)
            .fold(0, |hash, (table, byte)| hash ^ table[usize::from(*byte)])
    }

    /// Hash and hash type of a packet: ports are part of it where there are any.
    #[inline(always)]
    pub(super) fn of(&self, frame: &[u8], layers: &Layers) -> Option<(u32, u8)> {
        let (start, length) = match layers.network {
            Network::V4 => (layers.network_at + 12, 8),
            Network::V6 => (layers.network_at + 8, 32),
        };
        if layers.transport.is_none() {
            return Some((self.hash(frame.get(start..start + length)?), HASH_ADDRESSES));
        }
        // Without options and extension headers, the ports follow the addresses.
        if layers.network == Network::V4 && layers.transport_at == start + length {
            let input: &[u8; 12] = frame.get(start..)?.first_chunk()?;
            return Some((self.hash(input), HASH_PORTS));
        }
        let mut input = [0; MAX_INPUT];
        let addresses = frame.get(start..start + length)?;
        input.get_mut(..length)?.copy_from_slice(addresses);
        let ports = frame.get(layers.transport_at..layers.transport_at + 4)?;
        input.get_mut(length..length + 4)?.copy_from_slice(ports);
        Some((self.hash(input.get(..length + 4)?), HASH_PORTS))
    }

    /// The queue of whole packets from an end to another one.
    pub(super) fn queue_of(&self, from: SocketAddr, to: SocketAddr) -> u32 {
        let octets = |end: SocketAddr| match end.ip() {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let ports = [from.port().to_be_bytes(), to.port().to_be_bytes()];
        let input = [octets(from), octets(to), ports.concat()].concat();
        self.queue(self.hash(&input))
    }

    /// The queue that a hash names.
    #[inline(always)]
    pub(super) fn queue(&self, hash: u32) -> u32 {
        u32::from(self.queues[hash as usize % 128])
    }
}

/// 32 bits of the key from `bit` on.
fn window(key: &[u8; 40], bit: usize) -> u32 {
    let mut bytes = [0; 8];
    for (to, from) in bytes.iter_mut().zip(key.iter().skip(bit / 8)) {
        *to = *from;
    }
    (u64::from_be_bytes(bytes) << (bit % 8) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::super::packet::locate;
    use super::*;

    /// The published verification suite of receive-side scaling, IPv4 and IPv6.
    #[test]
    fn published_vectors_hash_as_published() {
        let spread = Spread::new(&DEFAULT_KEY, 1);
        let v4 = |source: [u8; 4], target: [u8; 4], from: u16, to: u16| {
            [&source[..], &target, &from.to_be_bytes(), &to.to_be_bytes()].concat()
        };
        let cases = [
            (
                v4([66, 9, 149, 187], [161, 142, 100, 80], 2794, 1766),
                0x323e_8fc2,
                0x51cc_c178,
            ),
            (
                v4([199, 92, 111, 2], [65, 69, 140, 83], 14230, 4739),
                0xd718_262a,
                0xc626_b0ea,
            ),
            (
                v4([24, 19, 198, 95], [12, 22, 207, 184], 12898, 38024),
                0xd2d0_a5de,
                0x5c2b_394a,
            ),
        ];
        for (input, addresses, ports) in cases {
            assert_eq!(spread.hash(&input[..8]), addresses, "{input:?}");
            assert_eq!(spread.hash(&input), ports, "{input:?}");
        }
        let source: std::net::Ipv6Addr = "3ffe:2501:200:1fff::7".parse().expect("address");
        let target: std::net::Ipv6Addr = "3ffe:2501:200:3::1".parse().expect("address");
        let input = [
            &source.octets()[..],
            &target.octets(),
            &[0x0a, 0xea, 0x06, 0xe6],
        ]
        .concat();
        assert_eq!(spread.hash(&input[..32]), 0x2cc1_8cd5);
        assert_eq!(spread.hash(&input), 0x4020_7d3d);
        let spread = Spread::new(&DEFAULT_KEY, 128);
        let ends = [
            ("3ffe:2501:200:1fff::7", 2794),
            ("3ffe:2501:200:3::1", 1766),
        ];
        let [from, to] = ends.map(|(address, port)| {
            let address: IpAddr = address.parse().expect("address");
            SocketAddr::new(address, port)
        });
        assert_eq!(spread.queue_of(from, to), 0x4020_7d3d % 128);
    }

    #[test]
    fn packets_are_hashed_over_what_they_have() {
        let spread = Spread::new(&DEFAULT_KEY, 4);
        let mut frame = vec![0u8; 60];
        frame[12..16].copy_from_slice(&[8, 0, 0x45, 0]);
        frame[16..18].copy_from_slice(&46u16.to_be_bytes());
        frame[23] = 17;
        frame[26..30].copy_from_slice(&[66, 9, 149, 187]);
        frame[30..34].copy_from_slice(&[161, 142, 100, 80]);
        frame[34..38].copy_from_slice(&[0x0a, 0xea, 0x06, 0xe6]);
        let layers = locate(&frame).expect("is IPv4");
        assert_eq!(spread.of(&frame, &layers), Some((0x51cc_c178, HASH_PORTS)));
        frame[20] = 0x20;
        let layers = locate(&frame).expect("is a fragment");
        assert_eq!(
            spread.of(&frame, &layers),
            Some((0x323e_8fc2, HASH_ADDRESSES))
        );
        assert_eq!(spread.queue(0x51cc_c178), 0x78 % 4);
    }
}
