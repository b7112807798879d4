//! The invariant CRC at the end of a RoCEv2 packet. InfiniBand Architecture Specification volume 1,
//! section 7.8.1 and annex A17.3.3.
//!
//! A CRC-32 over eight bytes of ones, the network header, the UDP header, the base transport
//! header, extended headers, payload and pad. What may change on the way counts as ones:
//! ```text
//! IPv4                    IPv6                            UDP            BTH
//! TOS, TTL, checksum      class, flow label, hop limit    checksum       byte 4
//! ```
//! It is sent in little-endian order, which nothing else in the packet is.
//!
//! A CRC is begun here over the masked headers; the caller feeds what follows the base transport
//! header, in pieces or as lane partials, and compares or sends [`field`].

use super::crc32::{Crc32, Engine, MOST_HEADER_WORDS, Narrow};
use crate::DropReason;
use crate::parse::{Tail, Window};
use crate::wire::{IpProtocol, bth, ipv4, ipv6, udp};

/// The bytes of the invariant CRC.
#[inline(always)]
pub const fn field(crc: Crc32) -> [u8; bth::ICRC_LENGTH] {
    crc.finish().to_le_bytes()
}

/// Begins with the headers of an IPv4 packet without options: bytes 14 to 53 of the window. What
/// follows is fed from byte 54 of the frame on.
#[inline(always)]
pub const fn begin_ipv4(window: &Window) -> Crc32 {
    let w = &window.0;
    Narrow::new()
        .remove(START.state() ^ (joined(w[3], w[4]) | 0x0000_ff00))
        .remove(joined(w[4], w[5]))
        .remove(joined(w[5], w[6]) | 0xffff_00ff)
        .remove(joined(w[6], w[7]))
        .remove(joined(w[7], w[8]))
        .remove(joined(w[8], w[9]))
        .remove(joined(w[9], w[10]) | 0xffff_0000)
        .finish([
            joined(w[10], w[11]),
            joined(w[11], w[12]) | 0x0000_00ff,
            joined(w[12], w[13]),
        ])
}

/// Begins with the headers of an IPv6 packet without extension headers: bytes 14 to 73 of the
/// frame. What follows is fed from byte 74 on.
#[inline(always)]
pub const fn begin_ipv6(window: &Window, tail: &Tail) -> Crc32 {
    let (w, t) = (&window.0, &tail.0);
    Narrow::new()
        .remove(START.state() ^ (joined(w[3], w[4]) | 0xffff_ff0f))
        .remove(joined(w[4], w[5]) | 0xff00_0000)
        .remove(joined(w[5], w[6]))
        .remove(joined(w[6], w[7]))
        .remove(joined(w[7], w[8]))
        .remove(joined(w[8], w[9]))
        .remove(joined(w[9], w[10]))
        .remove(joined(w[10], w[11]))
        .remove(joined(w[11], w[12]))
        .remove(joined(w[12], w[13]))
        .remove(joined(w[13], w[14]))
        .remove(joined(w[14], w[15]) | 0xffff_0000)
        .finish([
            joined(w[15], t[0]),
            joined(t[0], t[1]) | 0x0000_00ff,
            joined(t[1], t[2]),
        ])
}

/// Begins with the headers of any RoCEv2 packet; `datagram` starts with its IP header. Also gives
/// how many bytes were taken: what follows the base transport header is next.
///
/// # Errors
/// [`DropReason::IpVersion`], [`DropReason::Ipv4HeaderLength`], [`DropReason::BthLength`]; IPv6
/// extension headers are refused as [`DropReason::ExtensionCount`].
pub fn begin<E: Engine>(datagram: &[u8]) -> Result<(Crc32, usize), DropReason> {
    let first = datagram.first().copied().unwrap_or_default();
    let (network, masks) = match first >> 4 {
        4 => (usize::from(first & 0x0f) * 4, MASKS_IPV4),
        6 => (ipv6::Header::LENGTH, MASKS_IPV6),
        _ => return Err(DropReason::IpVersion),
    };
    if network < ipv4::Header::LENGTH {
        return Err(DropReason::Ipv4HeaderLength);
    }
    let length = network + udp::Header::LENGTH + bth::Header::LENGTH;
    let headers = datagram.get(..length).ok_or(DropReason::BthLength)?;
    if first >> 4 == 6 && headers.get(6) != Some(&IpProtocol::UDP.0) {
        return Err(DropReason::ExtensionCount);
    }
    let (words, _) = headers.as_chunks::<4>();
    let masked = |index: usize| {
        let word = words.get(index).map_or(0, |word| u32::from_le_bytes(*word));
        word | ones(index, network / 4, masks)
    };
    Ok((E::update_headers(START, words.len(), masked), length))
}

/// Begins with all headers of a packet, as words in the order of the host: a network header of
/// `network` words, UDP's, the base transport header, extended headers; at most
/// [`MOST_HEADER_WORDS`](super::MOST_HEADER_WORDS). What follows is fed next.
pub fn begin_words<E: Engine>(words: &[u32], network: usize) -> Crc32 {
    let masks = match words.first().is_some_and(|word| word >> 28 == 6) {
        true => MASKS_IPV6,
        false => MASKS_IPV4,
    };
    if E::BY_WORDS {
        let masked = |index: usize| {
            let word = words.get(index).copied().unwrap_or(0);
            word.swap_bytes() | ones(index, network, masks)
        };
        return E::update_headers(START, words.len(), masked);
    }
    let mut bytes = [0; MOST_HEADER_WORDS * 4];
    let (chunks, _) = bytes.as_chunks_mut::<4>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        *chunk = word.to_be_bytes();
    }
    for index in [0, 1, 2, network + 1, network + 3] {
        if let Some(chunk) = chunks.get_mut(index) {
            *chunk = (u32::from_le_bytes(*chunk) | ones(index, network, masks)).to_le_bytes();
        }
    }
    let length = words.len().min(MOST_HEADER_WORDS) * 4;
    E::update(START, bytes.get(..length).unwrap_or(&[]))
}

/// What counts as ones in a word of the headers, of which the network header takes `network`.
#[inline(always)]
const fn ones(index: usize, network: usize, masks: [u32; 3]) -> u32 {
    let [first, second, third] = masks;
    match index {
        0 => first,
        1 => second,
        2 => third,
        _ if index == network + 1 => MASK_UDP,
        _ if index == network + 3 => MASK_BTH,
        _ => 0,
    }
}

/// Checks a RoCEv2 packet that lies in one piece, from its IP header to its invariant CRC.
///
/// # Errors
/// [`DropReason::Icrc`] if it does not hold; what [`begin`] refuses.
pub fn verify<E: Engine>(datagram: &[u8]) -> Result<(), DropReason> {
    let (covered, icrc) = datagram.split_last_chunk().ok_or(DropReason::BthLength)?;
    if of_packet::<E>(covered)? == *icrc {
        Ok(())
    } else {
        Err(DropReason::Icrc)
    }
}

/// The invariant CRC of a RoCEv2 packet that lies in one piece, from its IP header to its pad.
///
/// # Errors
/// What [`begin`] refuses.
pub fn of_packet<E: Engine>(packet: &[u8]) -> Result<[u8; bth::ICRC_LENGTH], DropReason> {
    let (crc, taken) = begin::<E>(packet)?;
    Ok(field(E::update(crc, packet.get(taken..).unwrap_or(&[]))))
}

/// Four bytes that begin in the middle of a word of the window.
#[inline(always)]
const fn joined(word: u32, next: u32) -> u32 {
    word >> 16 | next << 16
}

/// The CRC over the eight bytes of ones that stand for the link header.
const START: Crc32 = Crc32::new().update_word(u32::MAX).update_word(u32::MAX);

/// What counts as ones in the first three words of a network header, in the second of UDP's and in
/// the second of the base transport header's, as little-endian loads give them.
const MASKS_IPV4: [u32; 3] = [0x0000_ff00, 0, 0xffff_00ff];
const MASKS_IPV6: [u32; 3] = [0xffff_ff0f, 0xff00_0000, 0];
const MASK_UDP: u32 = 0xffff_0000;
const MASK_BTH: u32 = 0x0000_00ff;

#[cfg(test)]
mod tests {
    use super::super::crc32::Arithmetic;
    use super::*;
    use crate::wire::testing::hex;

    /// Checks a packet three ways: whole, from the window, and that it is not some other value.
    fn check(name: &str, text: &str, icrc: &str) {
        let packet = hex(text);
        assert_eq!(
            of_packet::<Arithmetic>(&packet),
            Ok(field_of(icrc)),
            "{name}"
        );
        let whole = [&packet[..], &hex(icrc)].concat();
        assert_eq!(verify::<Arithmetic>(&whole), Ok(()), "{name}");

        let frame = [&[0; 14], &packet[..]].concat();
        let window = Window::from_bytes(&frame);
        let (begun, payload) = match packet[0] >> 4 {
            4 => (begin_ipv4(&window), 54),
            _ => (begin_ipv6(&window, &Tail::from_bytes(&frame)), 74),
        };
        assert_eq!(
            field(begun.update(&frame[payload..])),
            field_of(icrc),
            "{name}, window"
        );

        let network = payload - 34;
        let words = packet.chunks_exact(4).take(network / 4 + 5);
        let words: Vec<u32> = words
            .map(|word| u32::from_be_bytes(word.try_into().unwrap()))
            .collect();
        let begun = begin_words::<Arithmetic>(&words, network / 4);
        assert_eq!(
            field(begun.update(&packet[payload - 14..])),
            field_of(icrc),
            "{name}, words"
        );
    }

    fn field_of(icrc: &str) -> [u8; 4] {
        hex(icrc).try_into().unwrap()
    }

    #[test]
    fn start_is_the_state_after_eight_bytes_of_ones() {
        assert_eq!(START, Crc32::new().update(&[0xff; 8]));
        assert_eq!(START.state(), 0xdebb_20e3);
    }

    #[test]
    fn golden_packets() {
        let payload = "4630818be28935d90e9a95505401be885e500000";
        let bth = format!("2460ffff000000d300cf1710 {payload}");
        check(
            "UC over IPv4",
            &format!("4501004004784000 4011b4df c0a80007c0a80007 c00012b7002c0000 {bth}"),
            "78f353f3",
        );
        check(
            "UC over IPv6",
            &format!(
                "6e21face002c11ff 20220000000000000000000000001023
                 20230000000000000000000000001024 c00012b7002c0000 {bth}"
            ),
            "3e5b743b",
        );
        check(
            "CNP of a ConnectX-4 Lx",
            "45c2003c718c4000401191610a0011010a001201 000012b700280000
             8100ffff4000011800000000 00000000000000000000000000000000",
            "82fd002a",
        );
        check(
            "RC WRITE_ONLY",
            "4502004400004000401126a50a0000010a000002c00012b700300000
             0a70ffff00000011801234560000000000001000000012340000000568656c6c6f000000",
            "cb0ee381",
        );
        check(
            "RC ACK",
            "4502003000004000401126b90a0000020a000001c00012b7001c0000
             1140ffff00000012001234561f000001",
            "2764348b",
        );
        check(
            "UD SEND_ONLY",
            "4502003800004000401126b10a0000010a000002c00012b700240000
             6440ffff0000003300000001111111110000002270696e67",
            "aa836ea1",
        );
    }

    #[test]
    fn what_is_refused() {
        for (text, reason) in [
            ("", DropReason::IpVersion),
            ("55", DropReason::IpVersion),
            ("44", DropReason::Ipv4HeaderLength),
            ("45", DropReason::BthLength),
            ("60", DropReason::BthLength),
        ] {
            assert_eq!(begin::<Arithmetic>(&hex(text)), Err(reason), "{text}");
        }
        let mut extended = [0; 60];
        extended[0] = 0x60;
        assert_eq!(
            begin::<Arithmetic>(&extended),
            Err(DropReason::ExtensionCount)
        );
        assert_eq!(verify::<Arithmetic>(&[0; 3]), Err(DropReason::BthLength));
    }
}
