//! memif against DPDK's testpmd, both roles, every forwarding mode: no frame is lost uncounted.
#![expect(unsafe_code, reason = "drives queues and signals its own child")]

mod port;
mod testpmd;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use port::Port;
use testpmd::{Setup, Testpmd};
use warpwire_nic::memif::Memif;
use warpwire_nic::{Error, Nic, NicSpec};
use warpwire_ring::memif::{ClientRx, ClientTx, ServerRx, ServerTx};
use warpwire_ring::{Receive, Transmit};

/// Two processes and their polling threads share two cores: one test at a time.
static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());

/// What happens on the wire, whoever drives it.
trait Scenario {
    /// testpmd's forwarding mode.
    const MODE: &'static str;
    const QUEUES: u32 = 1;

    /// Drives the ports while testpmd runs.
    fn run<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]);

    /// Takes what is still in the rings after testpmd ended, and compares all counts.
    fn settle<R: Receive, T: Transmit>(ports: &mut [Port<R, T>], totals: testpmd::Totals);
}

fn against_testpmd<S: Scenario>(name: &str) {
    if !warpwire_skip::has_program("dpdk-testpmd") {
        return warpwire_skip::installable("dpdk-testpmd is not installed (package dpdk-dev)");
    }
    if !warpwire_skip::is_root() {
        return warpwire_skip::installable("dpdk-testpmd needs root");
    }
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    as_client::<S>(name);
    as_server::<S>(name);
}

fn as_client<S: Scenario>(name: &str) {
    let socket = socket(name, "client");
    let testpmd = Testpmd::start(socket.clone(), setup::<S>("server"));
    let nic = open(&socket, S::QUEUES, "client");
    drive::<S, ClientRx, ClientTx>(nic, testpmd);
}

fn as_server<S: Scenario>(name: &str) {
    let socket = socket(name, "server");
    // The client of testpmd tries once when it starts, so we listen first.
    let (nic, testpmd) = std::thread::scope(|scope| {
        let nic = scope.spawn(|| open(&socket, S::QUEUES, "server"));
        while !socket.exists() && !nic.is_finished() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let testpmd = Testpmd::start(socket.clone(), setup::<S>("client"));
        (nic.join().expect("no panic"), testpmd)
    });
    drive::<S, ServerRx, ServerTx>(nic, testpmd);
}

fn setup<S: Scenario>(role: &'static str) -> Setup<'static> {
    Setup {
        role,
        mode: S::MODE,
        queues: S::QUEUES,
    }
}

fn socket(name: &str, role: &str) -> PathBuf {
    std::env::temp_dir().join(format!("wwmemif-{}-{name}-{role}", std::process::id()))
}

fn open(socket: &std::path::Path, queues: u32, role: &str) -> Memif {
    let words = format!(
        "memif:{},role={role},queues={queues},wait_ms=60000",
        socket.display()
    );
    let spec: NicSpec = words.parse().expect("parses");
    // On a busy machine testpmd refuses for longer than a client puts up with.
    let deadline = Instant::now() + PATIENCE;
    loop {
        match Memif::open(&spec) {
            Err(Error::Peer { .. }) if Instant::now() < deadline => {}
            opened => return opened.expect("opens"),
        }
    }
}

fn drive<S: Scenario, R: Receive, T: Transmit>(nic: Memif, testpmd: Testpmd) {
    let mut ports: Vec<Port<R, T>> = nic.queues().iter().map(Port::attach).collect();
    S::run(&mut ports);
    let totals = testpmd.finish();
    assert!(!nic.is_connected(), "testpmd has ended");
    S::settle(&mut ports, totals);
    ports.iter_mut().for_each(Port::save);
    let counters = nic.counters();
    let sums = |count: fn(&Port<R, T>) -> u64| ports.iter().map(count).sum::<u64>();
    assert_eq!(counters.rx_frames, sums(Port::received));
    assert_eq!(counters.tx_frames, sums(Port::sent));
    assert_eq!(counters.kicks, 0, "both ends poll");
    assert_eq!(counters.dropped(), 0, "testpmd took all that we sent");
}

/// Frames that a test of ours sends.
const FRAMES: u64 = 200_000;

/// How long testpmd may send, where it is the one that does.
const FLOW: Duration = Duration::from_millis(700);

const PATIENCE: Duration = Duration::from_secs(120);

/// Calls `step` until it says that it is done.
fn until(what: &str, mut step: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !step() {
        assert!(Instant::now() < deadline, "{what} takes too long");
    }
}

fn only<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]) -> &mut Port<R, T> {
    let [port] = ports else { panic!("one port") };
    port
}

/// A UDP frame of `bytes` that carries its number.
fn numbered(number: u64, bytes: usize) -> Vec<u8> {
    let mut frame = vec![0; bytes];
    frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    let length = (bytes - 14) as u16;
    frame[14..34].copy_from_slice(&ipv4(17, length));
    frame[34..38].copy_from_slice(&[0x23, 0x28, 0x23, 0x29]);
    frame[38..40].copy_from_slice(&(length - 20).to_be_bytes());
    frame[42..50].copy_from_slice(&number.to_be_bytes());
    for (offset, byte) in frame.iter_mut().enumerate().skip(50) {
        *byte = (number as u8).wrapping_add(offset as u8);
    }
    frame
}

fn ipv4(protocol: u8, length: u16) -> [u8; 20] {
    let mut header = [0; 20];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[8] = 64;
    header[9] = protocol;
    header[12..16].copy_from_slice(&[10, 78, 0, 1]);
    header[16..20].copy_from_slice(&[10, 78, 0, 2]);
    let sum = !internet_sum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header
}

fn internet_sum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        let low = pair.get(1).copied().unwrap_or(0);
        sum += u32::from(u16::from_be_bytes([pair[0], low]));
    }
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    sum as u16
}

/// We send; testpmd counts.
struct RxOnly;

impl Scenario for RxOnly {
    const MODE: &'static str = "rxonly";

    fn run<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]) {
        let port = only(ports);
        let frames = vec![numbered(1, 64); 32];
        until("sending", || {
            let left = (FRAMES - port.sent()).min(32) as usize;
            port.send(&frames[..left]);
            port.sent() == FRAMES
        });
        until("taking", || port.is_drained());
    }

    fn settle<R: Receive, T: Transmit>(ports: &mut [Port<R, T>], totals: testpmd::Totals) {
        assert_eq!(only(ports).sent(), totals.rx_packets + totals.rx_dropped);
        assert_eq!(only(ports).received(), totals.tx_packets);
    }
}

#[test]
fn rxonly_counts_what_we_send() {
    against_testpmd::<RxOnly>("rxonly");
}

/// testpmd sends; we count.
struct TxOnly;

impl Scenario for TxOnly {
    const MODE: &'static str = "txonly";

    fn run<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]) {
        let port = only(ports);
        let start = Instant::now();
        until("receiving", || {
            port.receive(32, |frame| assert_eq!(frame.len(), 64));
            start.elapsed() > FLOW && port.received() >= 1000
        });
    }

    fn settle<R: Receive, T: Transmit>(ports: &mut [Port<R, T>], totals: testpmd::Totals) {
        let port = only(ports);
        while port.receive(32, |frame| assert_eq!(frame.len(), 64)) != 0 {}
        assert_eq!(port.received(), totals.tx_packets);
    }
}

#[test]
fn txonly_sends_what_we_count() {
    against_testpmd::<TxOnly>("txonly");
}

/// What we send in a test with numbered frames.
struct Numbered {
    frames: u64,
    bytes: usize,
    /// Frames that may be on their way at once.
    window: u64,
}

/// We send numbered frames; testpmd swaps their addresses and returns them.
fn send_and_check<R: Receive, T: Transmit>(port: &mut Port<R, T>, numbers: Numbered) {
    let Numbered {
        frames,
        bytes,
        window,
    } = numbers;
    let mut next = 0;
    let mut check = |frame: &[u8]| {
        let number = u64::from_be_bytes(frame[42..50].try_into().expect("eight bytes"));
        let length = frame.len();
        assert!(number >= next, "{number} after {next}, {length} bytes");
        next = number + 1;
        let mut want = numbered(number, bytes);
        want[..12].rotate_left(6);
        let differs = frame.iter().zip(&want).position(|(got, want)| got != want);
        assert_eq!((frame.len(), differs), (bytes, None), "frame {number}");
    };
    until("sending", || {
        let sent = port.sent();
        let upto = frames
            .min(sent + 32)
            .min(port.received().saturating_add(window));
        let batch: Vec<_> = (sent..upto).map(|number| numbered(number, bytes)).collect();
        port.send(&batch);
        port.receive(64, &mut check);
        port.sent() == frames && port.is_drained()
    });
    // The last ones are on their way back.
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(100) {
        port.receive(64, &mut check);
    }
}

/// testpmd returned or counted as dropped all that it got, and we got all that it returned.
fn check_returned<R: Receive, T: Transmit>(port: &Port<R, T>, totals: testpmd::Totals) {
    assert_eq!(port.sent(), totals.rx_packets + totals.rx_dropped);
    assert_eq!(totals.rx_packets, totals.tx_packets + totals.tx_dropped);
    assert_eq!(port.received(), totals.tx_packets);
    assert!(port.received() > 0);
}

struct MacSwap;

impl Scenario for MacSwap {
    const MODE: &'static str = "macswap";

    fn run<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]) {
        let numbers = Numbered {
            frames: FRAMES,
            bytes: 64,
            window: u64::MAX,
        };
        send_and_check(only(ports), numbers);
    }

    fn settle<R: Receive, T: Transmit>(ports: &mut [Port<R, T>], totals: testpmd::Totals) {
        check_returned(only(ports), totals);
    }
}

#[test]
fn macswap_returns_our_frames_with_their_addresses_swapped() {
    against_testpmd::<MacSwap>("macswap");
}

/// Frames of several buffers, chained both ways.
struct Jumbo;

impl Scenario for Jumbo {
    const MODE: &'static str = "macswap";

    fn run<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]) {
        // Never a full ring: a chain that meets its end makes DPDK 22.11 run past it, over frames
        // that were not taken yet. 256 frames take three quarters of the slots.
        let numbers = Numbered {
            frames: FRAMES / 10,
            bytes: 5042,
            window: 256,
        };
        send_and_check(only(ports), numbers);
    }

    fn settle<R: Receive, T: Transmit>(ports: &mut [Port<R, T>], totals: testpmd::Totals) {
        check_returned(only(ports), totals);
    }
}

#[test]
fn chained_frames_pass_both_ways() {
    against_testpmd::<Jumbo>("jumbo");
}

/// testpmd sends flows; we swap their addresses and return them.
struct FlowGen;

impl Scenario for FlowGen {
    const MODE: &'static str = "flowgen";

    fn run<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]) {
        let port = only(ports);
        let start = Instant::now();
        until("forwarding", || {
            port.swap_addresses(32);
            start.elapsed() > FLOW && port.sent() >= 1000
        });
        assert_eq!(port.sent(), port.received());
        until("taking", || port.is_drained());
    }

    fn settle<R: Receive, T: Transmit>(ports: &mut [Port<R, T>], totals: testpmd::Totals) {
        let port = only(ports);
        assert_eq!(port.sent(), totals.rx_packets + totals.rx_dropped);
        while port.receive(32, |_| ()) != 0 {}
        assert_eq!(port.received(), totals.tx_packets);
    }
}

#[test]
fn flowgen_gets_its_flows_back() {
    against_testpmd::<FlowGen>("flowgen");
}

/// We ask for echoes; testpmd answers them.
struct IcmpEcho;

fn echo(kind: u8, number: u64) -> Vec<u8> {
    let mut frame = numbered(number, 98);
    frame[14..34].copy_from_slice(&ipv4(1, 84));
    frame[34..42].copy_from_slice(&[kind, 0, 0, 0, 0, 7, 0, 9]);
    let sum = !internet_sum(&frame[34..]);
    frame[36..38].copy_from_slice(&sum.to_be_bytes());
    frame
}

impl Scenario for IcmpEcho {
    const MODE: &'static str = "icmpecho";

    fn run<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]) {
        let port = only(ports);
        let frames = FRAMES / 4;
        let mut next = 0;
        until("echoing", || {
            // A window that always finds room on its way back: every request has its answer.
            let upto = frames.min(port.received() + 256);
            let batch: Vec<_> = (port.sent()..upto).map(|number| echo(8, number)).collect();
            port.send(&batch);
            port.receive(64, |frame| {
                let mut want = echo(0, next);
                want[..12].rotate_left(6);
                want[26..34].rotate_left(4);
                assert_eq!(internet_sum(&frame[34..]), 0xFFFF);
                assert_eq!(frame[..36], want[..36]);
                assert_eq!(frame[38..], want[38..]);
                next += 1;
            });
            port.received() == frames
        });
    }

    fn settle<R: Receive, T: Transmit>(ports: &mut [Port<R, T>], totals: testpmd::Totals) {
        check_returned(only(ports), totals);
        assert_eq!((totals.tx_dropped, totals.rx_dropped), (0, 0));
    }
}

#[test]
fn icmpecho_answers_every_request() {
    against_testpmd::<IcmpEcho>("icmpecho");
}

/// Two rings each way, served by one testpmd core.
struct TwoQueues;

impl Scenario for TwoQueues {
    const MODE: &'static str = "macswap";
    const QUEUES: u32 = 2;

    fn run<R: Receive, T: Transmit>(ports: &mut [Port<R, T>]) {
        for port in ports {
            let numbers = Numbered {
                frames: FRAMES / 4,
                bytes: 128,
                window: u64::MAX,
            };
            send_and_check(port, numbers);
        }
    }

    fn settle<R: Receive, T: Transmit>(ports: &mut [Port<R, T>], totals: testpmd::Totals) {
        let sent: u64 = ports.iter().map(Port::sent).sum();
        let received: u64 = ports.iter().map(Port::received).sum();
        assert_eq!(sent, FRAMES / 2);
        assert_eq!(sent, totals.rx_packets + totals.rx_dropped);
        assert_eq!(received, totals.tx_packets);
        assert!(ports.iter().all(|port| port.received() > 0));
    }
}

#[test]
fn two_queues_keep_their_frames_apart() {
    against_testpmd::<TwoQueues>("queues");
}

/// testpmd dies by SIGKILL in the middle of traffic: we notice, go on, and can reconnect.
#[test]
fn a_killed_testpmd_does_no_harm() {
    if !warpwire_skip::has_program("dpdk-testpmd") {
        return warpwire_skip::installable("dpdk-testpmd is not installed (package dpdk-dev)");
    }
    if !warpwire_skip::is_root() {
        return warpwire_skip::installable("dpdk-testpmd needs root");
    }
    let _turn = TURN
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
    let socket = socket("killed", "client");
    let testpmd = Testpmd::start(socket.clone(), setup::<TxOnly>("server"));
    let mut nic = open(&socket, 1, "client");
    let mut services = nic.take_services();
    let mut port: Port<ClientRx, ClientTx> = Port::attach(&nic.queues()[0]);
    until("receiving", || port.receive(32, |_| ()) > 0);
    testpmd.kill();
    until("noticing", || {
        services.iter_mut().for_each(|service| {
            service.run(1);
        });
        port.receive(32, |_| ());
        nic.disconnect_cause().is_some()
    });
    while port.receive(32, |_| ()) != 0 {}
    // Nobody takes these any more: the ring fills up, and no more is lost than what it holds.
    while port.send(&[numbered(0, 64)]) == 1 {}
    assert!(port.sent() <= 1024);
    let _ = std::fs::remove_file(&socket);
    let testpmd = Testpmd::start(socket.clone(), setup::<RxOnly>("server"));
    nic.reconnect().expect("reconnects");
    let mut ports = [Port::<ClientRx, ClientTx>::attach(&nic.queues()[0])];
    RxOnly::run(&mut ports);
    RxOnly::settle(&mut ports, testpmd.finish());
}
