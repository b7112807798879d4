//! Parsing against etherparse, and CRC-32 against crc32fast: time per packet on one core, sides
//! interleaved round by round, in one run.
//!
//! `cargo bench -p warpwire-bench --bench wire -- [rounds=N]`

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use etherparse::{SlicedPacket, TransportSlice};
use warpwire_protocols::checksum::{Arithmetic, Crc32, Engine, Host};
use warpwire_protocols::parse::{Extent, Fast, Headers, Tail, Window, parse_fast_with, parse_slow};

/// Packets that a round goes over: more than a branch predictor learns by heart.
const PACKETS: usize = 1024;
/// How often a round goes over them.
const PASSES: usize = 20;
/// Frames of the golden data that are parsed, by the start of their names, and whether they take
/// the fast path.
const FRAMES: [(&str, bool); 10] = [
    ("arp request", true),
    ("udp over ipv4", true),
    ("tcp syn over ipv4", true),
    ("icmp echo", true),
    ("roce 0a over ipv4", true),
    ("udp over ipv6", true),
    ("tcp over ipv6", true),
    ("roce 0a over ipv6", true),
    ("one tag", false),
    ("ipv6 extensions", false),
];
/// What parsing may take of etherparse's time.
const TARGET: f64 = 0.5;
const LENGTHS: [usize; 5] = [64, 256, 1024, 4096, 9000];

fn main() {
    let rounds = rounds();
    println!("commit {}, {}, {rounds} rounds", commit(), processor());
    println!("ns per packet: median [10 %..90 %]\n");
    parse(rounds);
    println!();
    crc(rounds);
}

/// A frame as a ring's slot holds it: words to be loaded, and the same bytes.
struct Slot {
    words: [u32; 32],
    bytes: Vec<u8>,
}

fn parse(rounds: usize) {
    let plain: Vec<Vec<u8>> = FRAMES
        .iter()
        .filter(|(_, is_fast)| *is_fast)
        .map(|(name, _)| golden(name))
        .collect();
    let mixed = (0..PACKETS).map(|index| &plain[scattered(index) % plain.len()]);
    compare_parsers(
        "all of the fast path, mixed",
        mixed.map(|bytes| slot(bytes)).collect(),
        rounds,
    );
    for (name, is_fast) in FRAMES {
        let bytes = golden(name);
        let window = Window::from_bytes(&bytes);
        let fast = parse_fast_with(&window, Extent::whole(bytes.len() as u32), || {
            Some(Tail::from_bytes(&bytes))
        });
        assert_eq!(fast != Fast::Slow, is_fast, "{name}");
        compare_parsers(name, (0..PACKETS).map(|_| slot(&bytes)).collect(), rounds);
    }
}

fn compare_parsers(name: &str, slots: Vec<Slot>, rounds: usize) {
    let sides = interleaved(
        rounds,
        PACKETS * PASSES,
        &mut [
            &mut || each(&slots, |slot| digest(&ours(slot))),
            &mut || each(&slots, |slot| theirs(&slot.bytes)),
        ],
    );
    let [ours, theirs] = [&sides[0], &sides[1]];
    let ratio = middle(ours) / middle(theirs);
    let verdict = if ratio <= TARGET { "reached" } else { "missed" };
    println!(
        "{name:28} ours {}   etherparse {}   ratio {ratio:.2}, target {TARGET}: {verdict}",
        spread(ours),
        spread(theirs)
    );
}

fn ours(slot: &Slot) -> Option<Headers> {
    let (window, rest) = slot.words.split_first_chunk::<16>().expect("32 words");
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
    match &packet.transport {
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
    (0..PASSES).fold(0, |sum, _| {
        black_box(slots)
            .iter()
            .fold(sum, |sum, slot| sum.wrapping_add(parse(slot)))
    })
}

fn crc(rounds: usize) {
    let bytes: Vec<u8> = (0..9000_usize)
        .map(|index| scattered(index) as u8)
        .collect();
    for length in LENGTHS {
        let data = &bytes[..length];
        let sides = interleaved(
            rounds,
            PACKETS,
            &mut [&mut || repeated::<Arithmetic>(data), &mut || {
                repeated::<Host>(data)
            }],
        );
        let [ours, theirs] = [&sides[0], &sides[1]];
        println!(
            "CRC-32 of {length:5} bytes   arithmetic {} ({:.2} GB/s)   crc32fast {} ({:.2} GB/s)   \
             ratio {:.2}",
            spread(ours),
            length as f64 / middle(ours),
            spread(theirs),
            length as f64 / middle(theirs),
            middle(ours) / middle(theirs)
        );
    }
}

fn repeated<E: Engine>(data: &[u8]) -> u64 {
    let crc = (0..PACKETS).fold(Crc32::new(), |crc, _| E::update(crc, black_box(data)));
    u64::from(crc.finish())
}

/// Runs the sides in turn, `rounds` times; gives each side's nanoseconds per item, sorted.
fn interleaved(
    rounds: usize,
    items: usize,
    sides: &mut [&mut dyn FnMut() -> u64],
) -> Vec<Vec<f64>> {
    let mut times = vec![Vec::new(); sides.len()];
    for _ in 0..rounds {
        for (side, times) in sides.iter_mut().zip(&mut times) {
            let start = Instant::now();
            black_box(side());
            times.push(start.elapsed().as_nanos() as f64 / items as f64);
        }
    }
    for times in &mut times {
        times.sort_by(f64::total_cmp);
    }
    times
}

fn middle(sorted: &[f64]) -> f64 {
    sorted[sorted.len() / 2]
}

fn spread(sorted: &[f64]) -> String {
    let at = |percent: usize| sorted[(sorted.len() - 1) * percent / 100];
    format!("{:.2} [{:.2}..{:.2}]", middle(sorted), at(10), at(90))
}

/// A frame of the golden data, padded to the 60 bytes that a NIC delivers.
fn golden(name: &str) -> Vec<u8> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../protocols/testdata/scapy.txt");
    let text = std::fs::read_to_string(path).expect("protocols/testdata/scapy.txt");
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .expect("a golden frame");
    let digits = line.rsplit(" | ").next().expect("a last column");
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits");
    let mut frame: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn slot(bytes: &[u8]) -> Slot {
    let mut words = [0; 32];
    for (word, piece) in words.iter_mut().zip(bytes.chunks(4)) {
        let mut padded = [0; 4];
        padded[..piece.len()].copy_from_slice(piece);
        *word = u32::from_le_bytes(padded);
    }
    Slot {
        words,
        bytes: bytes.to_vec(),
    }
}

/// An order without a pattern, the same in every run.
fn scattered(index: usize) -> usize {
    index.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40
}

fn rounds() -> usize {
    let given =
        std::env::args().find_map(|argument| argument.strip_prefix("rounds=")?.parse().ok());
    given.unwrap_or(31).max(5)
}

fn commit() -> String {
    let output = Command::new("git")
        .args(["rev-parse", "--short", "HEAD"])
        .output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.ok()
        .filter(|text| !text.is_empty())
        .unwrap_or_else(|| "unknown".to_owned())
}

fn processor() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let name = line.and_then(|line| line.split_once(':'));
    name.map_or_else(
        || "an unknown processor".to_owned(),
        |(_, name)| name.trim().to_owned(),
    )
}
