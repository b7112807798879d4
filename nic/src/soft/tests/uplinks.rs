//! Ways out: memif in the same process, a capture, the kernel behind a tap.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use warpwire_gpu::Service;

use super::attach;
use super::frames::{Build, packet, plain};
use crate::host_port::{HostPort, SendOptions};
use crate::memif::Memif;
use crate::pcap::{Format, Reader, Writer};
use crate::soft::{AdapterConfig, Fabric, FabricService, Impairments, NicUplink, SoftNic};
use crate::{Nic, QueuePair};

fn path(name: &str) -> String {
    let name = format!("warpwire-uplink-{}-{name}", std::process::id());
    std::env::temp_dir().join(name).display().to_string()
}

/// A soft NIC with its service and its host.
struct Station {
    nic: SoftNic,
    service: FabricService,
    host: HostPort,
}

impl Station {
    fn open(words: &str) -> Result<Self, crate::Error> {
        let nic = crate::soft::open(&words.parse()?)?;
        let service = nic.fabric().service();
        let host = attach(&nic).remove(0);
        Ok(Self { nic, service, host })
    }

    fn send(&mut self, frame: &[u8]) {
        self.host.send(frame, SendOptions::default()).expect("room");
        self.host.kick().expect("rings");
    }

    /// The next frame that arrives within two seconds and for which `wanted` says yes.
    fn receive(&mut self, wanted: impl Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
        let mut buffer = [0; 4096];
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(2) {
            self.service.run(32);
            let received = self.host.receive(&mut buffer).expect("the ring holds");
            match received {
                Some((length, _)) if wanted(&buffer[..length]) => {
                    return Some(buffer[..length].to_vec());
                }
                Some(_) => {}
                None => std::thread::yield_now(),
            }
        }
        None
    }
}

/// The peer's side of a memif, driven by the host.
fn drive(pair: &QueuePair) -> HostPort {
    // SAFETY: this is the only driver, and the test keeps the NIC beside it.
    unsafe { HostPort::attach(pair) }.expect("attaches")
}

#[test]
fn a_memif_peer_is_reached_through_the_fabric() {
    let socket = path("memif.sock");
    let mac = "02:00:00:00:00:09";
    let server = format!("soft,uplink=memif:{socket}+role=server+wait_ms=5000+mac={mac}");
    let (mut station, peer) = std::thread::scope(|scope| {
        let station = scope.spawn(|| Station::open(&server));
        let words = format!("memif:{socket},wait_ms=5000")
            .parse()
            .expect("words");
        let peer = Memif::open(&words).expect("connects");
        (station.join().expect("no panic").expect("opens"), peer)
    });
    assert!(
        station
            .nic
            .choices()
            .iter()
            .any(|line| line.contains("memif:"))
    );
    // Else an uplink that looks at addresses would pass in nothing for it.
    assert_eq!(station.nic.mac(), [2, 0, 0, 0, 0, 9]);
    let mut host = drive(&peer.queues()[0]);
    for number in 0..200u8 {
        let frame = plain([2; 6], [4; 6], &vec![number; 46 + usize::from(number)]);
        station.send(&frame);
        station.service.run(32);
        station.service.run(32);
        let mut buffer = [0; 4096];
        let (length, _) = host.receive(&mut buffer).expect("holds").expect("arrives");
        assert_eq!(&buffer[..length], frame, "out {number}");
        host.send(&frame, SendOptions::default()).expect("room");
        host.kick().expect("rings");
        assert_eq!(station.receive(|_| true), Some(frame), "in {number}");
    }
    let counters = station.nic.counters();
    assert_eq!((counters.tx_frames, counters.rx_frames), (200, 200));
    assert_eq!(counters.dropped(), 0);
}

#[test]
fn uplinks_are_checked_before_they_are_opened() {
    let cases = [
        ("soft,uplink=soft", "memif:SOCKET"),
        ("soft,uplink=eth0", "write one of"),
        ("soft,peer=loop,uplink=tap:x", "leave one of the two out"),
        ("soft,uplink=memif:/x+role=king", "role"),
        ("soft,uplink=tap:far-too-long-a-name", "1 to 15 letters"),
        ("soft,uplink=pcap:/no/such/file", "/no/such/file"),
    ];
    for (words, cure) in cases {
        let error = Station::open(words).err().expect(words).to_string();
        assert!(error.contains(cure), "{words}: {error}");
    }
}

#[test]
fn a_capture_comes_in_whole_and_what_goes_out_is_recorded() {
    let (play, record) = (path("in.pcapng"), path("out.pcap"));
    let frames: Vec<Vec<u8>> = (0..500u16)
        .map(|n| plain([2; 6], [4; 6], &n.to_be_bytes().repeat(30)))
        .collect();
    let mut file = Vec::new();
    let mut writer = Writer::new(&mut file, Format::Pcapng).expect("writes");
    for (frame, time) in frames.iter().zip(0..) {
        writer.write(time, frame).expect("writes");
    }
    std::fs::write(&play, file).expect("writes");
    // Eight slots for 500 frames: the capture waits, and none is lost.
    let words = format!("soft,depth=8,uplink=pcap:{play}+record={record}");
    let mut station = Station::open(&words).expect("opens");
    for frame in &frames {
        let got = station.receive(|_| true).expect("arrives");
        assert_eq!(got, *frame);
        station.send(&got);
    }
    station.service.run(32);
    station.service.run(32);
    assert_eq!(station.nic.counters().dropped(), 0);
    drop(station.host);
    Box::new(station.nic).close().expect("closes");
    let recorded = std::fs::read(&record).expect("there");
    let mut reader = Reader::new(&recorded[..]).expect("a capture");
    for frame in &frames {
        assert_eq!(
            reader.next_record().expect("reads").expect("there").bytes,
            *frame
        );
    }
    std::fs::remove_file(play).expect("removes");
    std::fs::remove_file(record).expect("removes");
}

/// Words of memif for a peer which, like a local kernel, may leave checksums to be completed.
#[test]
fn partial_checksums_are_completed_where_a_peer_may_leave_them() {
    for build in [
        Build::default(),
        Build {
            tcp: true,
            v6: true,
            tags: 1,
            ..Build::default()
        },
    ] {
        let right = packet(build);
        let mut partial = right.bytes.clone();
        let sum = pseudo_sum(&right.bytes, right.network_at, right.transport_at, build);
        partial[right.checksum_at..right.checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
        let mut frame = partial.clone();
        assert!(crate::soft::foreign::complete(&mut frame), "{build:?}");
        assert_eq!(frame, right.bytes, "{build:?}");
        let mut whole = right.bytes.clone();
        assert!(!crate::soft::foreign::complete(&mut whole), "{build:?}");
        let mut wrong = right.bytes;
        wrong[right.checksum_at] ^= 1;
        assert!(
            !crate::soft::foreign::complete(&mut wrong),
            "wrong is not partial: {build:?}"
        );
    }
}

/// The folded sum of the pseudo-header, word by word.
fn pseudo_sum(frame: &[u8], network: usize, transport: usize, build: Build) -> u16 {
    let addresses = if build.v6 {
        network + 8..network + 40
    } else {
        network + 12..network + 20
    };
    let protocol = if build.tcp { 6 } else { 17 };
    let mut sum = protocol + (frame.len() - transport) as u32;
    for pair in frame[addresses].chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(pair[1]);
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn links_of_an_uplink_hold_both_ways() {
    let fabric = Fabric::new(Default::default(), crate::soft::Clock::system());
    let socket = path("both.sock");
    let peer = Mutex::new(None);
    let uplink = std::thread::scope(|scope| {
        scope.spawn(|| {
            let words = format!("memif:{socket},wait_ms=5000")
                .parse()
                .expect("words");
            *peer.lock().expect("no panic") = Some(Memif::open(&words).expect("connects"));
        });
        let words = format!("memif:{socket},role=server,wait_ms=5000")
            .parse()
            .expect("words");
        NicUplink::new(Box::new(Memif::open(&words).expect("opens"))).expect("attaches")
    });
    let spec = "soft".parse().expect("words");
    let nic = fabric
        .plug(spec, AdapterConfig::default(), Impairments::default())
        .expect("opens");
    let lossy = Impairments {
        loss_ppm: 1_000_000,
        ..Impairments::default()
    };
    let port = fabric.attach(Box::new(uplink), lossy);
    fabric.cable(nic.port(), port);
    let mut host = attach(&nic).remove(0);
    host.send(&[7; 60], SendOptions::default()).expect("room");
    host.kick().expect("rings");
    fabric.service().run(32);
    assert_eq!(fabric.port_counts(port).drops, [("lost on the link", 1)]);
}

#[test]
fn the_kernel_answers_behind_a_tap() {
    if !warpwire_skip::is_root() {
        return warpwire_skip::installable("tap interfaces need root");
    }
    // A thread of its own in a namespace of its own: both end with the test.
    let thread = std::thread::spawn(|| {
        // SAFETY: a plain integer; only this thread moves.
        if unsafe { libc::unshare(libc::CLONE_NEWNET) } != 0 {
            return warpwire_skip::unobtainable("no new network namespace here");
        }
        if !std::path::Path::new("/dev/net/tun").exists() {
            return warpwire_skip::unobtainable("no /dev/net/tun here");
        }
        arp_over_tap();
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

fn arp_over_tap() {
    let mut station = Station::open("soft,uplink=tap:wwtap0").expect("opens");
    let words = ["addr", "add", "10.79.0.1/24", "dev", "wwtap0"];
    let added = std::process::Command::new("ip")
        .args(words)
        .status()
        .expect("ip runs");
    assert!(added.success());
    let mac = station.nic.mac();
    // Who has 10.79.0.1? Tell 10.79.0.2.
    let request = [
        &[0xff; 6][..],
        &mac,
        &[0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1],
        &mac,
        &[10, 79, 0, 2],
        &[0; 6],
        &[10, 79, 0, 1],
    ]
    .concat();
    station.send(&request);
    let is_reply = |frame: &[u8]| frame.get(12..22) == Some(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    let reply = station.receive(is_reply).expect("the kernel answers");
    assert_eq!(reply[..6], mac);
    assert_eq!(reply[28..32], [10, 79, 0, 1]);
    let counters = station.nic.counters();
    let sent = counters
        .other
        .iter()
        .find(|(name, _)| *name == "frames to the kernel");
    assert_eq!(sent, Some(&("frames to the kernel", 1)));
}
