//! Captures: written and read back, of both formats, byte orders and resolutions; and spoiled.

use std::io::Cursor;

use super::*;
use crate::soft::Uplink;

fn frames() -> Vec<(u64, Vec<u8>)> {
    (0..5u8)
        .map(|n| {
            (
                1_700_000_000_123_456_789 + u64::from(n) * 1_000,
                vec![n; 60 + usize::from(n)],
            )
        })
        .collect()
}

fn written(format: Format) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, format).expect("writes");
    for (time, frame) in frames() {
        writer.write(time, &frame).expect("writes");
    }
    file
}

fn read(file: &[u8]) -> Result<Vec<(u64, Vec<u8>)>, CaptureError> {
    let mut reader = Reader::new(Cursor::new(file))?;
    let mut frames = Vec::new();
    while let Some(record) = reader.next_record()? {
        frames.push((record.timestamp_ns, record.bytes.to_vec()));
    }
    Ok(frames)
}

#[test]
fn what_is_written_is_read_back() {
    for format in [Format::Pcap, Format::Pcapng] {
        assert_eq!(
            read(&written(format)).expect("reads"),
            frames(),
            "{format:?}"
        );
    }
}

/// A pcapng file, big-endian, with a resolution and an offset.
fn foreign(resolution: u8, stamp: u64) -> Vec<u8> {
    let be = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_be_bytes()).collect() };
    let mut file = be(&[
        0x0a0d_0d0a,
        28,
        0x1a2b_3c4d,
        1 << 16,
        u32::MAX,
        u32::MAX,
        28,
    ]);
    let option = u32::from(resolution) << 24;
    file.extend(be(&[
        1,
        44,
        1 << 16,
        0,
        9 << 16 | 1,
        option,
        14 << 16 | 8,
        0,
        5,
        0,
        44,
    ]));
    // A block of no known kind in between.
    file.extend(be(&[0xbad, 16, 7, 16]));
    let (high, low) = ((stamp >> 32) as u32, stamp as u32);
    file.extend(be(&[6, 36, 0, high, low, 4, 99, 0x0102_0304, 36]));
    // A simple packet, which has no time.
    file.extend(be(&[3, 20, 4, 0x0506_0708, 20]));
    file
}

#[test]
fn resolutions_offsets_and_byte_orders_are_heeded() {
    let cases = [
        (6, 1_000_001, 6_000_001_000),
        (9, 1_000_000_001, 6_000_000_001),
        (3, 1_500, 6_500_000_000),
        (0x80 | 10, 512, 5_500_000_000),
    ];
    for (resolution, stamp, time) in cases {
        let frames = read(&foreign(resolution, stamp)).expect("reads");
        let want = [(time, vec![1, 2, 3, 4]), (0, vec![5, 6, 7, 8])];
        assert_eq!(frames, want, "resolution {resolution:#x}");
    }
}

#[test]
fn spoiled_files_are_refused_with_place_and_reason() {
    let good = written(Format::Pcapng);
    let mut lengths_differ = good.clone();
    lengths_differ[24] = 32;
    let mut no_interface = foreign(6, 0);
    no_interface[99] = 9;
    let mut cooked = written(Format::Pcap);
    cooked[20] = 113;
    let mut huge = written(Format::Pcap);
    huge[34] = 0xff;
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("empty", Vec::new(), "byte 0"),
        ("text", b"hello".to_vec(), "neither pcap nor pcapng"),
        ("cut", good[..good.len() - 1].to_vec(), "the file was cut"),
        ("lengths", lengths_differ, "lengths differ"),
        ("cooked", cooked, "link type 113"),
        ("interface", no_interface, "was not described"),
        ("huge", huge, "longer than any frame"),
        ("resolution", foreign(99, 0), "resolution"),
    ];
    for (name, file, reason) in cases {
        let error = read(&file).expect_err(name).to_string();
        assert!(error.contains(reason), "{name}: {error}");
    }
}

#[test]
fn no_bytes_make_the_reader_panic() {
    let mut dice = crate::soft::Dice::new(11);
    for file in [
        written(Format::Pcap),
        written(Format::Pcapng),
        foreign(9, 77),
    ] {
        for _ in 0..2000 {
            let mut spoiled = file.clone();
            for _ in 0..1 + dice.below(4) {
                let at = dice.below(spoiled.len() as u64) as usize;
                spoiled[at] = dice.roll() as u8;
            }
            spoiled.truncate(1 + dice.below(spoiled.len() as u64) as usize);
            let _ = read(&spoiled);
        }
    }
}

#[test]
fn a_port_plays_and_records() {
    let folder = std::env::temp_dir().join(format!("warpwire-pcap-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("folder");
    let (play, record) = (folder.join("in.pcapng"), folder.join("out.pcap"));
    std::fs::write(&play, written(Format::Pcapng)).expect("writes");
    let mut port = CapturePort::open(Some(&play), Some(&record), Pace::AsCaptured)
        .expect("opens")
        .starting_at(1_000);
    let mut buffer = [0; 128];
    assert_eq!(port.receive(&mut buffer, 500), Some(60));
    assert_eq!(
        port.receive(&mut buffer, 1_499),
        None,
        "not before its time"
    );
    assert_eq!(port.next_due_ns(), Some(1_500));
    assert_eq!(port.receive(&mut buffer, 1_500), Some(61));
    assert_eq!(port.receive(&mut [0; 8], 9_999), None, "does not fit");
    port.round(42);
    assert!(port.send(&[7; 60]));
    port.close().expect("closes");
    let recorded = read(&std::fs::read(&record).expect("there")).expect("reads");
    assert_eq!(recorded, [(1_042, vec![7; 60])]);
    let error = CapturePort::open(Some(&folder.join("none")), None, Pace::AsTaken);
    assert!(error.is_err_and(|error| error.to_string().contains("none")));
    std::fs::remove_dir_all(&folder).expect("removes");
}

/// A folder of the test's own, gone with the value.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("warpwire-pcap-{}-{name}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left is the system's to clean.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_capture_that_is_damaged_is_played_up_to_there_and_told() {
    let folder = Folder::new("cut");
    let play = folder.0.join("cut.pcap");
    let mut file = written(Format::Pcap);
    file.truncate(file.len() - 1);
    std::fs::write(&play, file).expect("writes");
    let mut port = CapturePort::open(Some(&play), None, Pace::AsTaken).expect("opens");
    assert!(port.troubles().is_empty());
    let mut buffer = [0; 128];
    let played = std::iter::from_fn(|| port.receive(&mut buffer, 0)).count();
    assert_eq!(played, frames().len() - 1);
    let [trouble] = <[_; 1]>::try_from(port.troubles()).expect("one trouble");
    assert_eq!(trouble.severity, crate::Severity::Failure);
    let words = trouble.error.to_string();
    for part in [
        "cut.pcap",
        "the record at byte",
        "the file was cut",
        "repair",
    ] {
        assert!(words.contains(part), "{part}: {words}");
    }
    let closed = port.close().expect_err("is told at the end as well");
    assert_eq!(closed.to_string(), words);
}

#[test]
fn only_regular_files_are_opened_and_nothing_blocks() {
    let folder = Folder::new("kinds");
    let pipe = folder.0.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo is there").success());
    let cases: [(&std::path::Path, &str); 4] = [
        (&pipe, "is a pipe"),
        (&folder.0, "is a folder"),
        ("/dev/full".as_ref(), "is a device"),
        ("/dev/null".as_ref(), "is a device"),
    ];
    for (path, reason) in cases {
        for opened in [open_file(path), create_file(path)] {
            let error = opened.expect_err(reason).to_string();
            assert!(error.contains(reason), "{}: {error}", path.display());
        }
    }
    let kept = folder.0.join("kept");
    std::fs::write(&kept, "old").expect("writes");
    assert!(create_file(&kept).is_ok());
    assert_eq!(std::fs::read(&kept).expect("reads"), b"", "is emptied");
}
