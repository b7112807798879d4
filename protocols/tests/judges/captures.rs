//! Reads Ethernet frames out of pcap and pcapng files.

use std::path::{Path, PathBuf};

/// A captured frame: the bytes kept, and the length that it had.
pub(crate) struct Frame {
    pub(crate) bytes: Vec<u8>,
    pub(crate) length: u32,
}

/// The committed captures of a kind, and those of the folder shared beside the repository where it
/// is there; says aloud when it is not.
pub(crate) fn files(kind: &str) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = listed(&root.join("testdata").join(kind)).expect("committed captures");
    files.extend(listed(&root.join("../bench/testdata/captures").join(kind)).unwrap_or_default());
    assert!(!files.is_empty());
    match listed(&root.join("../../shared/pcaps").join(kind)) {
        Some(shared) => files.extend(shared),
        None => warpwire_skip::unobtainable(format!("../shared/pcaps/{kind} is not there")),
    }
    files
}

/// The Ethernet frames of a capture.
pub(crate) fn frames(path: &Path) -> Vec<Frame> {
    let file = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let frames = match file.get(..4) {
        Some([0x0a, 0x0d, 0x0d, 0x0a]) => next_generation(&file),
        Some([0xd4 | 0x4d, 0xc3 | 0x3c, 0xb2, 0xa1]) => classic(&file, u32::from_le_bytes),
        Some([0xa1, 0xb2, 0xc3 | 0x3c, 0xd4 | 0x4d]) => classic(&file, u32::from_be_bytes),
        _ => None,
    };
    frames.unwrap_or_else(|| panic!("{}: not a capture", path.display()))
}

fn listed(folder: &Path) -> Option<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).ok()?;
    let paths = entries.map(|entry| entry.expect("a folder entry").path());
    let is_capture = |path: &PathBuf| {
        path.extension()
            .is_some_and(|extension| extension == "pcap" || extension == "pcapng")
    };
    let mut files: Vec<_> = paths.filter(is_capture).collect();
    files.sort();
    Some(files)
}

type Word = fn([u8; 4]) -> u32;

fn word(file: &[u8], at: usize, read: Word) -> Option<u32> {
    Some(read(*file.get(at..)?.first_chunk()?))
}

/// A pcap file; a record that is cut short ends it. The upper half of the link type holds flags.
fn classic(file: &[u8], read: Word) -> Option<Vec<Frame>> {
    let mut frames = Vec::new();
    if word(file, 20, read)? & 0xffff != ETHERNET {
        return Some(frames);
    }
    let mut at = 24;
    while let Some(length) = word(file, at + 12, read) {
        let kept = word(file, at + 8, read)? as usize;
        let Some(bytes) = file.get(at + 16..at + 16 + kept) else {
            break;
        };
        frames.push(Frame {
            bytes: bytes.to_vec(),
            length,
        });
        at += 16 + kept;
    }
    Some(frames)
}

/// A pcapng file: the packets of its Ethernet interfaces; a block that is cut short ends it.
fn next_generation(file: &[u8]) -> Option<Vec<Frame>> {
    let (mut frames, mut is_ethernet) = (Vec::new(), Vec::new());
    let mut read: Word = u32::from_le_bytes;
    let mut at = 0;
    while at + 12 <= file.len() {
        if file.get(at..at + 4) == Some(&[0x0a, 0x0d, 0x0d, 0x0a]) {
            is_ethernet.clear();
            let is_little = word(file, at + 8, u32::from_le_bytes)? == 0x1a2b_3c4d;
            read = if is_little {
                u32::from_le_bytes
            } else {
                u32::from_be_bytes
            };
        }
        let (kind, length) = (word(file, at, read)?, word(file, at + 4, read)? as usize);
        let Some(block) = file.get(at..at + length).filter(|block| block.len() >= 12) else {
            break;
        };
        let (interface, data) = match kind {
            INTERFACE => {
                let link = file.get(at + 8..at + 10)?;
                is_ethernet.push(link == [1, 0] || link == [0, 1]);
                (usize::MAX, None)
            }
            ENHANCED_PACKET => {
                let kept = word(block, 20, read)? as usize;
                let data = block.get(28..28 + kept).zip(word(block, 24, read));
                (word(block, 8, read)? as usize, data)
            }
            SIMPLE_PACKET => {
                let length = word(block, 8, read)?;
                let kept = (length as usize).min(block.len() - 16);
                (0, block.get(12..12 + kept).zip(Some(length)))
            }
            _ => (usize::MAX, None),
        };
        if let (Some(true), Some((bytes, length))) = (is_ethernet.get(interface), data) {
            frames.push(Frame {
                bytes: bytes.to_vec(),
                length,
            });
        }
        at += length;
    }
    Some(frames)
}

const ETHERNET: u32 = 1;
const INTERFACE: u32 = 1;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;

#[test]
fn captures_are_read_whole() {
    for (file, expected) in [
        ("rxe/ud.pcap", 18),
        ("tcpdump/802.1ad_QinQ.pcap", 2),
        ("tcpdump/dns_udp.pcap", 2),
    ] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("testdata")
            .join(file);
        assert_eq!(frames(&path).len(), expected, "{file}");
    }
    let path = "testdata/tcpdump/icmp-cksum-oobr-3.pcapng";
    assert_eq!(
        frames(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).len(),
        1
    );
}
