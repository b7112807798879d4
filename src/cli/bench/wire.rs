//! Parsing against etherparse, and the invariant CRC against crc32fast: time per packet on one
//! processor.

use std::hint::black_box;
use std::net::{IpAddr, Ipv6Addr};
use std::thread;
use std::time::{Duration, Instant};

use etherparse::{SlicedPacket, TransportSlice};
use warpwire_pipelines::traffic::{Kind, Recipe};
use warpwire_protocols::checksum::{Arithmetic, Engine, Host, icrc};
use warpwire_protocols::parse::{Extent, Fast, Headers, Tail, Window, parse_fast_with, parse_slow};

use super::error::Error;
use super::machine;
use super::row::{Beside, Sample, Side};
use super::setting::{FAR, FRAME_BYTES, Setting};

/// Frames that take the fast path, in an order without a pattern.
pub(super) fn parse_mixed(setting: &Setting, side: Side) -> Result<Sample, Error> {
    let mut kinds = Vec::new();
    for kind in [Kind::Arp, Kind::Udp, Kind::Tcp, Kind::Ping, Kind::Roce] {
        kinds.push(frame(kind, false, None));
    }
    for kind in [Kind::Udp, Kind::Tcp, Kind::Roce] {
        kinds.push(frame(kind, true, None));
    }
    parse(setting, side, &kinds)
}

/// Frames with one VLAN tag.
pub(super) fn parse_tag(setting: &Setting, side: Side) -> Result<Sample, Error> {
    parse(setting, side, &[frame(Kind::Udp, false, Some(100))])
}

/// IPv6 with a hop-by-hop and a destination options header.
pub(super) fn parse_extensions(setting: &Setting, side: Side) -> Result<Sample, Error> {
    parse(setting, side, &[extended()])
}

/// The invariant CRC of a packet of so many bytes as device code takes it, or CRC-32 of as many.
pub(super) fn icrc_device<const LENGTH: u32>(
    setting: &Setting,
    side: Side,
) -> Result<Sample, Error> {
    crc::<Arithmetic>(setting, side, LENGTH)
}

/// The same as the host takes it.
pub(super) fn icrc_host<const LENGTH: u32>(setting: &Setting, side: Side) -> Result<Sample, Error> {
    crc::<Host>(setting, side, LENGTH)
}

/// A frame as a ring's slot holds it: words to be loaded, and the same bytes.
struct Slot {
    words: [u32; 32],
    bytes: Vec<u8>,
}

impl Slot {
    fn new(bytes: &[u8]) -> Self {
        let mut words = [0; 32];
        for (word, piece) in words.iter_mut().zip(bytes.chunks(4)) {
            let mut padded = [0; 4];
            for (to, from) in padded.iter_mut().zip(piece) {
                *to = *from;
            }
            *word = u32::from_le_bytes(padded);
        }
        Self {
            words,
            bytes: bytes.to_vec(),
        }
    }
}

fn parse(setting: &Setting, side: Side, kinds: &[Vec<u8>]) -> Result<Sample, Error> {
    let picked = (0..PACKETS).filter_map(|index| kinds.get(scattered(index) % kinds.len()));
    let slots: Vec<Slot> = picked.map(|bytes| Slot::new(bytes)).collect();
    match side {
        // All that was read is made, whether or not somebody looks at it.
        Side::Ours => timed(setting, || {
            each(&slots, |slot| digest(black_box(&ours(slot))))
        }),
        Side::Peer => timed(setting, || each(&slots, |slot| theirs(&slot.bytes))),
    }
}

fn ours(slot: &Slot) -> Option<Headers> {
    let (window, rest) = slot.words.split_first_chunk::<16>()?;
    let tail = || rest.first_chunk::<4>().map(|words| Tail(*words));
    let length = slot.bytes.len() as u32;
    match parse_fast_with(&Window(*window), Extent::whole(length), tail) {
        Fast::Parsed(headers) => Some(headers),
        Fast::Slow => parse_slow(&slot.bytes, length).ok(),
    }
}

/// Something that hangs on the fields which a consumer reads.
fn digest(headers: &Option<Headers>) -> u64 {
    headers.map_or(0, |headers| {
        u64::from(headers.l4_start)
            + u64::from(headers.payload_length)
            + u64::from(headers.bth_opcode)
            + headers.kind as u64
    })
}

fn theirs(bytes: &[u8]) -> u64 {
    let Ok(packet) = SlicedPacket::from_ethernet(bytes) else {
        return 0;
    };
    match &black_box(&packet).transport {
        Some(TransportSlice::Udp(udp)) => {
            u64::from(udp.destination_port()) + udp.payload().len() as u64
        }
        Some(TransportSlice::Tcp(tcp)) => {
            u64::from(tcp.destination_port()) + tcp.payload().len() as u64
        }
        Some(TransportSlice::Icmpv4(icmp)) => u64::from(icmp.type_u8()),
        Some(TransportSlice::Icmpv6(icmp)) => u64::from(icmp.type_u8()),
        None => 1,
    }
}

fn each(slots: &[Slot], parse: impl Fn(&Slot) -> u64) -> u64 {
    let slots = black_box(slots).iter();
    slots.fold(0, |sum, slot| sum.wrapping_add(parse(slot)))
}

fn crc<E: Engine>(setting: &Setting, side: Side, length: u32) -> Result<Sample, Error> {
    let recipe = Recipe {
        kind: Kind::Roce,
        destination_port: Kind::Roce.port(),
        length: length + ETHERNET,
        ..Recipe::default()
    };
    let frame = recipe.build().bytes;
    let packet = frame.get(ETHERNET as usize..).unwrap_or(&[]);
    let packet = packet.get(..packet.len() - ICRC).unwrap_or(&[]);
    match side {
        Side::Ours => timed(setting, || {
            repeated(packet, |packet| {
                icrc::of_packet::<E>(packet).map_or(0, u32::from_le_bytes)
            })
        }),
        Side::Peer => timed(setting, || repeated(packet, crc32fast::hash)),
    }
}

fn repeated(packet: &[u8], crc: impl Fn(&[u8]) -> u32) -> u64 {
    let crcs = (0..PACKETS).map(|_| u64::from(crc(black_box(packet))));
    crcs.fold(0, u64::wrapping_add)
}

/// Nanoseconds a packet of work over [`PACKETS`]: the median of many times, for a tenth of the time
/// that rows with a NIC have.
fn timed(setting: &Setting, work: impl Fn() -> u64 + Sync) -> Result<Sample, Error> {
    setting.check()?;
    let length = Duration::from_secs_f64(setting.seconds / 10.0);
    let times = thread::scope(|scope| {
        let worker = scope.spawn(|| -> Result<Vec<f64>, Error> {
            machine::pin(FAR)?;
            let begin = Instant::now();
            let mut times = Vec::new();
            while begin.elapsed() < length || times.is_empty() {
                let start = Instant::now();
                black_box(work());
                times.push(start.elapsed().as_nanos() as f64 / PACKETS as f64);
            }
            Ok(times)
        });
        let result = worker.join();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    let offered = (times.len() * PACKETS) as u64;
    Ok(Sample {
        value: super::rounds::Spread::of(times).median,
        dropped: 0,
        offered,
        beside: Beside::default(),
    })
}

fn frame(kind: Kind, is_v6: bool, vlan: Option<u16>) -> Vec<u8> {
    let address = |last| IpAddr::V6(Ipv6Addr::new(0xfd77, 0, 0, 0, 0, 0, 0, last));
    let default = Recipe::default();
    let (source, destination) = match is_v6 {
        true => (address(1), address(2)),
        false => (default.source, default.destination),
    };
    let recipe = Recipe {
        kind,
        source,
        destination,
        destination_port: kind.port(),
        vlan,
        length: FRAME_BYTES,
        ..default
    };
    recipe.build().bytes
}

/// UDP over IPv6 with two extension headers.
fn extended() -> Vec<u8> {
    // Hop-by-hop options with a router alert, then destination options with a pad.
    const HEADERS: [u8; 16] = [60, 0, 5, 2, 0, 0, 1, 0, 17, 0, 1, 4, 0, 0, 0, 0];
    let mut frame = frame(Kind::Udp, true, None);
    let headers = ETHERNET as usize..ETHERNET as usize + 40;
    if let Some(header) = frame.get_mut(headers.clone())
        && let [_, _, _, _, high, low, next, ..] = header
    {
        let length = u16::from_be_bytes([*high, *low]) + HEADERS.len() as u16;
        [*high, *low] = length.to_be_bytes();
        *next = 0;
    }
    frame.splice(headers.end..headers.end, HEADERS);
    frame
}

/// An order without a pattern, the same in every run.
fn scattered(index: usize) -> usize {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

/// Packets that are gone over at a time: more than a branch predictor learns by heart.
const PACKETS: usize = 1024;
/// Bytes of an Ethernet header.
const ETHERNET: u32 = 14;
/// Bytes of an invariant CRC.
const ICRC: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use warpwire_protocols::parse::parse_bytes;

    #[test]
    fn both_parsers_read_the_same_from_every_frame() {
        let frames = [
            (frame(Kind::Udp, false, None), true),
            (frame(Kind::Tcp, true, None), true),
            (frame(Kind::Udp, false, Some(100)), false),
            (extended(), false),
        ];
        for (bytes, is_fast) in frames {
            let window = Window::from_bytes(&bytes);
            let fast = parse_fast_with(&window, Extent::whole(bytes.len() as u32), || {
                Some(Tail::from_bytes(&bytes))
            });
            assert_eq!(fast != Fast::Slow, is_fast, "{bytes:02x?}");
            let headers = ours(&Slot::new(&bytes)).expect("parses");
            assert_eq!(Ok(headers), parse_bytes(&bytes, bytes.len() as u32));
            let port = theirs(&bytes) - u64::from(headers.payload_length);
            assert_eq!(port, u64::from(Kind::Udp.port()), "{bytes:02x?}");
        }
    }

    #[test]
    fn invariant_crcs_hold() {
        for length in [64, 1024, 4096] {
            let recipe = Recipe {
                kind: Kind::Roce,
                destination_port: Kind::Roce.port(),
                length: length + ETHERNET,
                ..Recipe::default()
            };
            let frame = recipe.build().bytes;
            assert_eq!(frame.len() as u32, length + ETHERNET);
            let packet = frame.get(ETHERNET as usize..).expect("a packet");
            assert_eq!(icrc::verify::<Arithmetic>(packet), Ok(()), "{length}");
            assert_eq!(icrc::verify::<Host>(packet), Ok(()), "{length}");
        }
    }
}
