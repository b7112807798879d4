//! AF_XDP over a veth pair: our queues under device code against DPDK's `testpmd` with net_af_xdp,
//! on the same topology, in one interleaved run. Needs root and dpdk-testpmd.
//!
//! `cargo bench -p warpwire-bench --bench xdp -- [receive|transmit|swap]... [rounds=N] [seconds=S]
//! [patience=S] [urgent]`
//!
//! A pair of runs counts if others used little of the machine meanwhile, or if `urgent` put the
//! measured threads before them.
#![expect(
    unsafe_code,
    reason = "plays device code over a NIC's queues, pins threads"
)]

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warpwire_device::{Place, Receiver, Scalar, ScalarHost, Sender, Simt};
use warpwire_nic::xdp::live::{LiveFrames, Way};
use warpwire_nic::{Nic, NicSpec, interfaces, namespace, xdp};
use warpwire_protocols::parse::{Extent, Fast, Window, parse_fast};
use warpwire_ring::Post;
use warpwire_ring::memory::Quad;
use warpwire_ring::xdp::{RxQueue, TxQueue};

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Task {
    Receive,
    Transmit,
    Swap,
}

impl Task {
    const ALL: [(&str, Task, f64); 3] = [
        ("receive", Task::Receive, 1.2),
        ("transmit", Task::Transmit, 1.15),
        ("swap", Task::Swap, 1.1),
    ];

    fn testpmd_mode(self) -> &'static str {
        match self {
            Self::Receive => "rxonly",
            Self::Transmit => "txonly",
            Self::Swap => "macswap",
        }
    }
}

/// The two ends: the generator or sink on one core, the measured side on the other.
const NEAR_CORE: usize = 0;
const FAR_CORE: usize = 1;
const BATCH: u32 = 64;
/// Processors that others may use during a run that counts.
const QUIET: f64 = 0.5;

struct Topology {
    near: String,
    far: String,
}

fn run(words: &str) {
    let mut parts = words.split_whitespace();
    let status = Command::new(parts.next().unwrap_or("true"))
        .args(parts)
        .status();
    assert!(status.is_ok_and(|status| status.success()), "{words}");
}

impl Topology {
    fn new() -> Self {
        let base = format!("wwx{}", std::process::id());
        let topology = Self {
            near: format!("{base}bn"),
            far: format!("{base}bf"),
        };
        let (near, far) = (&topology.near, &topology.far);
        for space in [near, far] {
            run(&format!("ip netns add {space}"));
        }
        let one = "numtxqueues 1 numrxqueues 1";
        run(&format!(
            "ip link add v0 netns {near} address 02:00:00:00:00:01 {one} type veth \
             peer name v1 netns {far} address 02:00:00:00:00:02 {one}"
        ));
        for (space, link) in [(near, "v0"), (far, "v1")] {
            let off = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1";
            run(&format!("ip netns exec {space} sysctl -qw {off}"));
            run(&format!("ip -n {space} link set {link} up"));
        }
        topology
    }

    /// Frames that Linux at the near end has received.
    fn near_received(&self) -> u64 {
        let read = || fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
        let text = namespace::within(&self.near, read).expect("namespace");
        let line = text.lines().find(|line| line.trim().starts_with("v0:"));
        let mut fields = line.expect("v0").split_whitespace();
        fields.nth(2).and_then(|n| n.parse().ok()).expect("packets")
    }

    fn near_index(&self) -> u32 {
        let all = namespace::within(&self.near, interfaces::interfaces);
        let all = all.expect("namespace").expect("interfaces");
        let v0 = all.iter().find(|one| one.name == "v0");
        v0.expect("v0").index
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", space]).status();
        }
    }
}

fn pin(core: usize) {
    // SAFETY: an empty set of cores is all zero bits.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the core's number is below the size of the set.
    unsafe { libc::CPU_SET(core, &mut set) };
    // SAFETY: the set is live and as long as said.
    let moved = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
    assert_eq!(moved, 0, "core {core}");
}

/// Puts all threads of a process, or with 0 the calling thread, before all others of the
/// machine, or back among them.
fn set_urgent(process: u32, urgent: bool) {
    let threads: Vec<libc::pid_t> = match process {
        0 => vec![0],
        process => fs::read_dir(format!("/proc/{process}/task"))
            .into_iter()
            .flatten()
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
            .collect(),
    };
    let (policy, sched_priority) = if urgent {
        (libc::SCHED_RR, 1)
    } else {
        (libc::SCHED_OTHER, 0)
    };
    let parameters = libc::sched_param { sched_priority };
    for thread in threads {
        // SAFETY: the parameters are live.
        unsafe { libc::sched_setscheduler(thread, policy, &parameters) };
    }
}

/// UDP from 10.78.0.1 to 10.78.0.2, 64 bytes.
fn frame(to: [u8; 6], from: [u8; 6]) -> [u8; 64] {
    let mut frame = [0; 64];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from);
    frame[12..24].copy_from_slice(&[8, 0, 0x45, 0, 0, 50, 0, 0, 0, 0, 64, 17]);
    frame[26..34].copy_from_slice(&[10, 78, 0, 1, 10, 78, 0, 2]);
    let sum: u32 = frame[14..34]
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1]))
        .sum();
    let check = !((sum & 0xffff) + (sum >> 16)) as u16;
    frame[24..26].copy_from_slice(&check.to_be_bytes());
    frame[34..42].copy_from_slice(&[0x23, 0x28, 0x23, 0x29, 0, 30, 0, 0]);
    frame
}

struct Host(Instant);

impl ScalarHost for Host {
    fn place(&self) -> Place {
        Place {
            warps: 1,
            blocks: 1,
            ..Place::default()
        }
    }
    fn now_ns(&self) -> u64 {
        self.0.elapsed().as_nanos() as u64
    }
    fn pause(&self) {
        (0..64).for_each(|_| std::hint::spin_loop());
    }
    fn sync_block(&self) {}
}

/// The measured side, ours: runs until told to stop, says how many frames passed.
fn ours(topology: &Topology, task: Task, stop: &AtomicBool, ready: &AtomicBool) -> u64 {
    pin(FAR_CORE);
    let frame = frame([2, 0, 0, 0, 0, 0x99], [2, 0, 0, 0, 0, 2]);
    let words = format!("xdp:v1,netns={},all,mac=any", topology.far);
    with_side(&words, &frame, |side, serve| {
        ready.store(true, Ordering::Release);
        let mut passed = 0;
        while !stop.load(Ordering::Relaxed) {
            let now = match task {
                Task::Receive => side.receive(),
                Task::Transmit => side.transmit(),
                Task::Swap => side.swap(),
            };
            passed += now;
            serve();
            if now == 0 {
                // The other thread may be the twin of this core: do not take its cycles.
                side.simt.pause();
            }
        }
        if task != Task::Transmit {
            assert_eq!(side.parsed, passed, "every frame is well-formed UDP");
        }
        passed
    })
}

/// Opens a NIC and runs `work` over its first queue pair; `serve` is what the host does beside it.
fn with_side<T>(
    words: &str,
    frame: &[u8; 64],
    work: impl FnOnce(&mut Side<'_>, &mut dyn FnMut()) -> T,
) -> T {
    let spec: NicSpec = words.parse().expect("spec");
    let mut nic = xdp::open(&spec).unwrap_or_else(|error| panic!("{error}"));
    let mut services = nic.take_services();
    let pair = &nic.queues()[0];
    // SAFETY: the NIC and its memory outlive the loop, and nobody else drives the queues.
    let rx: Receiver<RxQueue> = unsafe { Receiver::attach(&pair.receive) }.expect("receive");
    // SAFETY: as above.
    let tx: Sender<TxQueue> = unsafe { Sender::attach(&pair.transmit) }.expect("transmit");
    let host = Host(Instant::now());
    let mut side = Side {
        simt: Scalar::new(&host),
        rx,
        tx,
        frame: *frame,
        parsed: 0,
    };
    let mut serve = || {
        for service in &mut services {
            service.run(256);
        }
    };
    let result = work(&mut side, &mut serve);
    if std::env::var_os("VERBOSE").is_some() {
        eprintln!("    {words}: {:?}", nic.counters());
    }
    result
}

struct Side<'a> {
    simt: Scalar<'a>,
    rx: Receiver<RxQueue>,
    tx: Sender<TxQueue>,
    /// What `transmit` sends.
    frame: [u8; 64],
    parsed: u64,
}

impl Side<'_> {
    fn receive(&mut self) -> u64 {
        let batch = self.rx.peek(&self.simt, BATCH).expect("ring");
        for i in 0..batch.slots() {
            if let Some(frame) = self.rx.frame(&batch, i) {
                self.parsed += u64::from(parse(&frame));
            }
        }
        let frames = u64::from(batch.slots());
        self.rx.release(&self.simt, batch);
        frames
    }

    fn transmit(&mut self) -> u64 {
        let free = self.tx.credits(&self.simt, BATCH).expect("ring");
        if free == 0 || self.tx.reserve(&self.simt, free).is_err() {
            return 0;
        }
        for _ in 0..free {
            let claim = self.tx.claim(&self.simt, 1).expect("reserved");
            let slot = self.tx.slot(&claim, 0).expect("buffer");
            slot.copy_in(0, &self.frame);
            let post = Post {
                address: slot.address(),
                length: 64,
                parts: 1,
                ..Post::default()
            };
            self.tx.write(&claim, &post).expect("fits");
        }
        let sent = self.tx.publish(&self.simt).expect("written");
        self.tx.ring(&self.simt);
        u64::from(sent)
    }

    fn swap(&mut self) -> u64 {
        let free = self.tx.credits(&self.simt, BATCH).expect("ring");
        let batch = self.rx.peek(&self.simt, free).expect("ring");
        let frames = u64::from(batch.slots());
        if frames == 0 || self.tx.reserve(&self.simt, batch.slots()).is_err() {
            self.rx.release(&self.simt, batch);
            return 0;
        }
        for i in 0..batch.slots() {
            let Some(frame) = self.rx.frame(&batch, i) else {
                continue;
            };
            self.parsed += u64::from(parse(&frame));
            let head = frame.head();
            if let Some(Quad([a, b, c, d])) = head.quad(0) {
                // Destination a, low b; source high b, c: six bytes each.
                let swapped = Quad([b >> 16 | c << 16, c >> 16 | a << 16, a >> 16 | b << 16, d]);
                head.set_quad(0, swapped);
            }
            let claim = self.tx.claim(&self.simt, 1).expect("reserved");
            self.tx
                .pass(self.rx.reader(), frame, &claim)
                .expect("one memory");
        }
        self.tx.publish(&self.simt).expect("written");
        self.tx.ring(&self.simt);
        self.rx.release(&self.simt, batch);
        frames
    }
}

fn parse(frame: &warpwire_device::Frame<'_>) -> bool {
    let extent = Extent {
        length: frame.length(),
        available: frame.available(),
    };
    let Some(words) = frame.window() else {
        return false;
    };
    matches!(parse_fast(&Window(words), extent), Fast::Parsed(_))
}

/// The measured side, testpmd.
struct Testpmd(Child);

impl Testpmd {
    fn start(topology: &Topology, task: Task) -> Self {
        let core = FAR_CORE;
        let words = format!(
            "netns exec {} stdbuf -oL dpdk-testpmd --lcores 0@{core},1@{core} --no-pci --no-huge \
             -m 256 --no-telemetry --file-prefix wwx{} --vdev net_af_xdp0,iface=v1,busy_budget=0 \
             -- --no-mlockall --total-num-mbufs=8192 --txpkts=64 --eth-peer=0,02:00:00:00:00:99 \
             --forward-mode={}",
            topology.far,
            std::process::id(),
            task.testpmd_mode()
        );
        let child = Command::new("ip")
            .args(words.split_whitespace())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("testpmd starts");
        let mut testpmd = Self(child);
        testpmd.until("Press enter to exit");
        thread::sleep(Duration::from_millis(300));
        testpmd
    }

    /// Reads lines until one holds `word`; returns it.
    fn until(&mut self, word: &str) -> String {
        let output = self.0.stdout.as_mut().expect("piped");
        let mut reader = BufReader::with_capacity(1, output);
        let mut said = String::new();
        loop {
            let mut line = String::new();
            let got = reader.read_line(&mut line).expect("reads");
            assert!(got > 0, "testpmd ended: {said}");
            if line.contains(word) {
                return line;
            }
            said += &line;
        }
    }

    /// Ends it and says how many frames it received.
    fn stop(mut self) -> u64 {
        let mut input = self.0.stdin.take().expect("piped");
        input.write_all(b"\n").expect("testpmd listens");
        let line = self.until("RX-packets");
        let received = line.split_whitespace().nth(1).and_then(|n| n.parse().ok());
        let _ = self.0.wait();
        received.expect("a number")
    }
}

/// Offers live frames for a while from the near core: `of_1024` of 1024 that the core can
/// make. Returns about how many and the seconds it took.
fn generate(topology: &Topology, seconds: f64, of_1024: u32) -> (u64, f64) {
    // Each call sets up and takes down buffers.
    const PIECE: u32 = 1 << 18;
    let frame = frame([2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 0x77]);
    let interface = topology.near_index();
    let way = match of_1024 {
        1024 => Way::Out(interface),
        of_1024 => Way::Thinned { interface, of_1024 },
    };
    // A new thread inherits how urgent its maker is.
    let work = || {
        pin(NEAR_CORE);
        let live = LiveFrames::new(way, &frame).expect("live frames");
        let (start, mut sent) = (Instant::now(), 0);
        while start.elapsed().as_secs_f64() < seconds {
            live.send(PIECE).expect("sends");
            sent += u64::from(PIECE) * u64::from(of_1024) / 1024;
        }
        (sent, start.elapsed().as_secs_f64())
    };
    namespace::within(&topology.near, work).expect("namespace")
}

/// How a run is done.
#[derive(Clone, Copy)]
struct Run {
    seconds: f64,
    /// The measured threads go before all others of the machine.
    urgent: bool,
    /// The part of the generator's frames that a swapper is offered.
    swap_of_1024: u32,
}

/// Million frames a second, and the part of the offered load that was lost.
fn measure(topology: &Topology, run: Run, task: Task, peer: bool) -> (f64, f64) {
    let seconds = run.seconds;
    let (stop, ready) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let mut testpmd = None;
        let mut side = None;
        if peer {
            testpmd = Some(Testpmd::start(topology, task));
        } else {
            side = Some(scope.spawn(|| {
                set_urgent(0, run.urgent);
                ours(topology, task, &stop, &ready)
            }));
            while !ready.load(Ordering::Acquire) {
                thread::sleep(Duration::from_millis(1));
            }
        }
        if run.urgent {
            testpmd
                .iter()
                .for_each(|peer| set_urgent(peer.0.id(), true));
            set_urgent(0, true);
        }
        let before = topology.near_received();
        let start = Instant::now();
        let (sent, mut elapsed) = match task {
            Task::Receive => generate(topology, seconds, 1024),
            Task::Swap => generate(topology, seconds, run.swap_of_1024),
            Task::Transmit => {
                thread::sleep(Duration::from_secs_f64(seconds));
                (0, 0.0)
            }
        };
        let back = topology.near_received() - before;
        if task == Task::Transmit {
            elapsed = start.elapsed().as_secs_f64();
        }
        testpmd
            .iter()
            .for_each(|peer| set_urgent(peer.0.id(), false));
        set_urgent(0, false);
        thread::sleep(Duration::from_millis(50));
        stop.store(true, Ordering::Relaxed);
        let received = match (testpmd, side) {
            (Some(testpmd), _) => testpmd.stop(),
            (_, Some(side)) => side.join().expect("runs"),
            _ => 0,
        };
        let passed = if task == Task::Receive {
            received
        } else {
            back
        };
        let lost = if sent == 0 {
            0.0
        } else {
            1.0 - passed as f64 / sent as f64
        };
        (passed as f64 / elapsed / 1e6, lost)
    })
}

/// Processor seconds that the whole machine has used outside of interrupts.
fn machine_seconds() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let fields = text.split_whitespace().skip(1).take(3);
    let ticks: u64 = fields.filter_map(|field| field.parse::<u64>().ok()).sum();
    ticks as f64 / 100.0
}

/// Processor seconds of this process and its children.
fn own_seconds() -> f64 {
    let of = |who| {
        // SAFETY: integers without invariants.
        let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
        // SAFETY: the block is live.
        unsafe { libc::getrusage(who, &mut usage) };
        let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 * 1e-6;
        seconds(usage.ru_utime) + seconds(usage.ru_stime)
    };
    of(libc::RUSAGE_SELF) + of(libc::RUSAGE_CHILDREN)
}

/// Waits, within bounds, until the rest of the machine is quiet.
fn wait_for_quiet(patience: f64) {
    let until = Instant::now() + Duration::from_secs_f64(patience);
    while Instant::now() < until {
        let before = machine_seconds();
        thread::sleep(Duration::from_millis(400));
        if machine_seconds() - before < 0.3 * 0.4 {
            return;
        }
        thread::sleep(Duration::from_millis(300));
    }
}

/// Runs `work` and says how many processors others used meanwhile.
fn watched<T>(patience: f64, work: impl FnOnce() -> T) -> (T, f64) {
    wait_for_quiet(patience);
    let (start, machine, own) = (Instant::now(), machine_seconds(), own_seconds());
    let result = work();
    let others = (machine_seconds() - machine) - (own_seconds() - own);
    (result, others.max(0.0) / start.elapsed().as_secs_f64())
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str, default: f64| {
        let found = words.iter().find_map(|word| word.strip_prefix(name));
        found
            .and_then(|value| value.parse().ok())
            .unwrap_or(default)
    };
    if !warpwire_skip::is_root() || !warpwire_skip::has_program("dpdk-testpmd") {
        return warpwire_skip::installable("needs root and dpdk-testpmd");
    }
    let asked = |name: &str| words.iter().any(|word| word == name);
    let rounds = number("rounds=", 5.0) as u32;
    let run = Run {
        seconds: number("seconds=", 2.0),
        urgent: asked("urgent"),
        swap_of_1024: number("offer=", 512.0) as u32,
    };
    let patience = number("patience=", 60.0);
    let any = Task::ALL.iter().any(|(name, ..)| asked(name));
    let topology = Topology::new();
    for (name, task, target) in Task::ALL {
        if any && !asked(name) {
            continue;
        }
        let (mut us, mut them) = (Vec::new(), Vec::new());
        for round in 0..rounds * 3 {
            let ((a, lost_a), busy_a) = watched(patience, || measure(&topology, run, task, false));
            let ((b, lost_b), busy_b) = watched(patience, || measure(&topology, run, task, true));
            let taken = run.urgent || busy_a.max(busy_b) < QUIET;
            println!(
                "  {name} {round}: ours {a:.3} (lost {lost_a:.3}), peer {b:.3} (lost {lost_b:.3}), \
                 others used {busy_a:.2} and {busy_b:.2} processors: {}",
                if taken { "taken" } else { "rejected" }
            );
            if taken {
                us.push(a);
                them.push(b);
            }
            if us.len() >= rounds as usize {
                break;
            }
        }
        if us.is_empty() {
            println!("{name}: the machine was never quiet");
            continue;
        }
        let (us, them) = (median(&mut us), median(&mut them));
        println!(
            "{name}: ours {us:.3} Mpps, testpmd {them:.3} Mpps, ratio {:.2}, target {target}",
            us / them
        );
    }
}
