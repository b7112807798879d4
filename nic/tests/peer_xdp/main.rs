//! The `xdp` NIC against Linux, over veth pairs in namespaces of its own. Needs root.

mod driver;
mod packet;
mod topology;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use driver::Port;
use packet::{Sum, UDP_AT, payload_to, udp_to_near};
use topology::{
    FAR_HOST, FAR_MAC, NEAR, NEAR_MAC, OURS, Shape, THIRD, Topology, attempt, run, turn,
};
use warpwire_nic::interfaces::interfaces;
use warpwire_nic::xdp::live::{LiveFrames, Way};
use warpwire_nic::{Features, Nic, NicSpec, namespace, xdp};

const PORT: u16 = 4000;

/// Both ways of attaching the program.
const MODES: [&str; 2] = ["native", "generic"];

fn payload(seed: usize, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|at| (at * 7 + seed * 13) as u8).collect();
    let head = (seed as u32).to_be_bytes();
    bytes
        .iter_mut()
        .zip(head)
        .for_each(|(byte, head)| *byte = head);
    bytes
}

fn expect_datagram(socket: &UdpSocket, port: &mut Port) -> Option<Vec<u8>> {
    socket.set_nonblocking(true).expect("socket");
    let until = Instant::now() + Duration::from_millis(700);
    let mut bytes = vec![0; 65536];
    while Instant::now() < until {
        port.serve();
        if let Ok(length) = socket.recv(&mut bytes) {
            bytes.truncate(length);
            return Some(bytes);
        }
    }
    None
}

#[test]
fn frames_arrive_with_the_right_bytes_and_are_counted() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let topology = Topology::new("r", Shape::default());
        let mut port = Port::open(&topology.spec(&format!("address={OURS},mode={mode}")));
        let socket = topology.near_socket(1000);
        for round in 0..100 {
            let lengths = [4, 18, 100, 1472];
            for (seed, length) in lengths.into_iter().enumerate() {
                let sent = payload(seed + round, length);
                socket.send_to(&sent, (OURS, PORT)).expect("sends");
            }
            let frames = port.collect(|frames| frames.len() >= lengths.len());
            assert_eq!(frames.len(), lengths.len(), "{mode} round {round}");
            for (seed, (frame, _)) in frames.iter().enumerate() {
                assert_eq!((&frame[..6], &frame[6..12]), (&FAR_MAC[..], &NEAR_MAC[..]));
                let want = payload(seed + round, lengths[seed]);
                assert_eq!(
                    payload_to(frame, PORT),
                    Some(&want[..]),
                    "{mode} round {round}"
                );
            }
        }
        assert_eq!(
            port.nic.counters().dropped(),
            0,
            "{mode}: {:?}",
            port.nic.counters()
        );
        assert!(
            port.nic
                .caps()
                .features
                .contains(Features::RX_PARTIAL_CHECKSUM)
        );
        let choices = port.nic.choices().join("\n");
        assert!(choices.contains(&format!("XDP mode: {mode}")), "{choices}");
    }
}

#[test]
fn frames_are_sent_and_linux_accepts_them() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let topology = Topology::new("t", Shape::default());
        let mut port = Port::open(&topology.spec(&format!("address={OURS},mode={mode}")));
        let socket = topology.near_socket(PORT);
        for round in 0..200 {
            let sent = payload(round, 10 + round * 7);
            let frame = udp_to_near(PORT, &sent, Sum::Full);
            assert!(port.queues[0].send(&frame, None));
            assert_eq!(
                expect_datagram(&socket, &mut port).as_ref(),
                Some(&sent),
                "{mode} {round}"
            );
        }
        let counters = port.nic.counters();
        assert!(counters.kicks >= 200, "{mode}: {counters:?}");
        assert_eq!(port.queues[0].calls, 200, "each batch asked for a call");
        assert_eq!(counters.dropped(), 0, "{mode}: {counters:?}");
    }
}

#[test]
fn checksum_requests_are_honoured_and_partial_sums_alone_are_refused() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let topology = Topology::new("c", Shape::default());
        let mut port = Port::open(&topology.spec(&format!("address={OURS},mode={mode}")));
        if !port.nic.caps().features.contains(Features::TX_L4_CHECKSUM) {
            return warpwire_skip::unobtainable("checksum requests need Linux 6.11");
        }
        let socket = topology.near_socket(PORT);
        for length in [1, 2, 99, 1400] {
            let sent = payload(length, length);
            let frame = udp_to_near(PORT, &sent, Sum::Partial);
            assert!(port.queues[0].send(&frame, Some((UDP_AT as u16, 6))));
            assert_eq!(
                expect_datagram(&socket, &mut port).as_ref(),
                Some(&sent),
                "{mode}"
            );
            assert!(port.queues[0].send(&frame, None));
            assert_eq!(
                expect_datagram(&socket, &mut port),
                None,
                "{mode}: no request, no sum"
            );
        }
    }
}

#[test]
fn jumbo_frames_pass_in_pieces_both_ways() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let shape = Shape {
            mtu: 9000,
            ..Shape::default()
        };
        let topology = Topology::new("j", shape);
        let mut port = Port::open(&topology.spec(&format!("address={OURS},mode={mode}")));
        if !port.nic.caps().features.contains(Features::RX_SEGMENTS) {
            return warpwire_skip::unobtainable("frames of several pieces need Linux 6.6");
        }
        assert_eq!(port.nic.caps().max_frame_bytes, 9022);
        let socket = topology.near_socket(PORT);
        for length in [1750, 1751, 4000, 5000, 8972] {
            let sent = payload(length, length);
            socket.send_to(&sent, (OURS, PORT)).expect("sends");
            let frames = port.collect(|frames| !frames.is_empty());
            let (frame, pieces) = frames.front().expect("arrives");
            assert_eq!(payload_to(frame, PORT), Some(&sent[..]), "{mode} {length}");
            assert_eq!(*pieces, (length + 42).div_ceil(1792), "{mode} {length}");
            let frame = udp_to_near(PORT, &sent, Sum::Full);
            assert!(port.queues[0].send(&frame, None));
            assert_eq!(
                expect_datagram(&socket, &mut port).as_ref(),
                Some(&sent),
                "{mode} {length}"
            );
        }
        assert_eq!(port.nic.counters().dropped(), 0, "{mode}");
    }
}

#[test]
fn frames_go_back_from_the_buffers_they_came_in() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let shape = Shape {
            mtu: 9000,
            ..Shape::default()
        };
        let topology = Topology::new("s", shape);
        let near = format!("xdp:v0,netns={},all,mode={mode},depth=64", topology.near);
        let mut near = Port::open(&near);
        let mut far = Port::open(&topology.spec(&format!("all,mode={mode},depth=64")));
        for round in 0..300 {
            let sent = payload(round, 60 + (round * 97) % 5000);
            let frame = udp_to_near(PORT, &sent, Sum::Full);
            assert!(near.queues[0].send(&frame, None), "{mode} {round}");
            near.serve();
            assert_eq!(far.swap(1), 1, "{mode} {round}");
            let frames = near.collect(|frames| !frames.is_empty());
            let mut want = frame.clone();
            want[..12].rotate_left(6);
            let got = frames.front().map(|(frame, _)| frame.as_slice());
            assert_eq!(got, Some(&want[..]), "{mode} {round}");
        }
        for port in [&near, &far] {
            assert_eq!(
                port.nic.counters().dropped(),
                0,
                "{mode}: {:?}",
                port.nic.counters()
            );
            assert_eq!(port.counter("fill_ring_invalid"), 0);
        }
    }
}

#[test]
fn several_queues_share_the_flows() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let shape = Shape {
            queues: 4,
            ..Shape::default()
        };
        let topology = Topology::new("q", shape);
        let mut port = Port::open(&topology.spec(&format!("address={OURS},mode={mode},depth=256")));
        assert_eq!(port.queues.len(), 4);
        let sockets: Vec<_> = (0..64).map(|n| topology.near_socket(2000 + n)).collect();
        let mut got = 0;
        for round in 0..10 {
            for socket in &sockets {
                socket
                    .send_to(&payload(round, 64), (OURS, PORT))
                    .expect("sends");
            }
            got += port.collect(|frames| frames.len() >= sockets.len()).len();
        }
        assert_eq!(got, 640, "{mode}: nothing slips past a queue");
        let busy = port.queues.iter().filter(|queue| queue.frames > 0).count();
        assert!(busy >= 2, "{mode}: flows spread over {busy} queues");
        let socket = topology.near_socket(PORT);
        for number in 0..4 {
            let sent = payload(number, 80);
            assert!(port.queues[number].send(&udp_to_near(PORT, &sent, Sum::Full), None));
            assert_eq!(
                expect_datagram(&socket, &mut port).as_ref(),
                Some(&sent),
                "{mode} {number}"
            );
        }
    }
}

#[test]
fn what_is_not_declared_reaches_the_host() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let topology = Topology::new("u", Shape::default());
        let mut port = Port::open(&topology.spec(&format!("address={OURS},mode={mode}")));
        let near = &topology.near;
        run(&format!(
            "ip netns exec {near} ping -q -c 20 -i 0.01 -W 1 {FAR_HOST}"
        ));
        assert_eq!(
            port.collect(|_| true).len(),
            0,
            "{mode}: none of it is ours"
        );
        run(&format!("ip -n {near} neigh del {OURS} dev v0"));
        let lost = attempt(&format!("ip netns exec {near} ping -q -c 1 -W 1 {OURS}"));
        assert!(!lost.status.success(), "{mode}: nobody answers for us");
        let frames = port.collect(|frames| !frames.is_empty());
        let (frame, _) = frames.front().expect("the question for our address");
        assert_eq!(frame[12..14], [8, 6], "{mode}: ARP");
        assert_eq!(frame[38..42], [10, 78, 0, 3]);
    }
}

#[test]
fn a_killed_owner_leaves_nothing_behind() {
    if let Some(words) = std::env::var_os("WARPWIRE_TEST_HOLD") {
        let _port = Port::open(&words.to_string_lossy());
        println!("holding");
        std::thread::sleep(Duration::from_secs(60));
        return;
    }
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let topology = Topology::new("k", Shape::default());
        let words = topology.spec(&format!("address={OURS},mode={mode}"));
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args([
                "--exact",
                "a_killed_owner_leaves_nothing_behind",
                "--nocapture",
            ])
            .env("WARPWIRE_TEST_HOLD", &words)
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let mut output = child.stdout.take().expect("piped");
        let mut said = Vec::new();
        let mut byte = [0];
        while !String::from_utf8_lossy(&said).contains("holding") {
            let got = output.read(&mut byte).expect("reads");
            assert_eq!(
                got,
                1,
                "the child ended early: {}",
                String::from_utf8_lossy(&said)
            );
            said.push(byte[0]);
        }
        let link = format!("ip -n {} link show dev v1", topology.far);
        assert!(run(&link).contains("xdp"), "{mode}: attached");
        let busy = Port::try_open(&words)
            .err()
            .expect("one owner only")
            .to_string();
        assert!(busy.contains("xdp off"), "{busy}");
        child.kill().expect("SIGKILL");
        child.wait().expect("ends");
        let until = Instant::now() + Duration::from_secs(2);
        while run(&link).contains("xdp") && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!run(&link).contains("xdp"), "{mode}: {}", run(&link));
        let mut port = Port::open(&words);
        let socket = topology.near_socket(1000);
        socket
            .send_to(&payload(1, 64), (OURS, PORT))
            .expect("sends");
        assert_eq!(port.collect(|frames| !frames.is_empty()).len(), 1, "{mode}");
    }
}

#[test]
fn closing_gives_the_queue_back_at_once() {
    let Some(_turn) = turn() else { return };
    let topology = Topology::new("e", Shape::default());
    for round in 0..5 {
        let port = Port::open(&topology.spec(&format!("address={OURS}")));
        let Port { nic, .. } = port;
        Box::new(nic)
            .close()
            .unwrap_or_else(|error| panic!("round {round}: {error}"));
        let link = run(&format!("ip -n {} link show dev v1", topology.far));
        assert!(!link.contains("xdp"), "{link}");
    }
}

#[test]
fn no_loss_is_uncounted() {
    let Some(_turn) = turn() else { return };
    for mode in MODES {
        let topology = Topology::new("l", Shape::default());
        let mut port = Port::open(&topology.spec(&format!("address={OURS},mode={mode},depth=64")));
        let socket = topology.near_socket(1000);
        for round in 0..500 {
            socket
                .send_to(&payload(round, 64), (OURS, PORT))
                .expect("sends");
        }
        std::thread::sleep(Duration::from_millis(50));
        let got = port.collect(|frames| !frames.is_empty()).len() as u64;
        let counters = port.nic.counters();
        assert_eq!(got, 64, "{mode}: a full ring");
        assert_eq!(got + counters.dropped(), 500, "{mode}: {counters:?}");
        socket
            .send_to(&payload(1, 64), (OURS, PORT))
            .expect("sends");
        assert_eq!(
            port.collect(|frames| !frames.is_empty()).len(),
            1,
            "{mode}: goes on"
        );
    }
}

#[test]
fn refusals_name_what_and_cure() {
    let Some(_turn) = turn() else { return };
    let topology = Topology::new("f", Shape::default());
    let far = &topology.far;
    run(&format!("ip -n {far} link add d0 type bridge"));
    let refuse = |link: &str, options: &str, words: &[&str]| {
        let spec = format!("xdp:{link},netns={far},{options}");
        let error = Port::try_open(&spec).err().expect(&spec).to_string();
        for word in words {
            assert!(error.contains(word), "{spec}: `{word}` is not in: {error}");
        }
    };
    refuse("v9", "all", &["no interface v9", "choose one of", "v1"]);
    refuse("d0", "all", &["d0 is down", "ip link set d0 up"]);
    refuse("v1", "all,queues=2", &["queues", "v1 has 1"]);
    refuse("v1", "", &["nothing is declared", "flow=udp/4791"]);
    run(&format!("ip -n {far} link set d0 up"));
    refuse("d0", "all,mode=native", &["no native XDP", "mode=generic"]);
    let (few, more) = ("numtxqueues 1 numrxqueues 1", "numtxqueues 2 numrxqueues 1");
    run(&format!(
        "ip -n {far} link add w1 {few} type veth peer name w0 {more}"
    ));
    run(&format!("ip -n {far} link set w1 up"));
    let queues = ["as many receive queues", "w1 has 1", "ethtool -L w1 rx N"];
    refuse("w1", "all,mode=native", &queues);
    run(&format!("ip -n {far} route add default via {NEAR} dev v1"));
    refuse(
        "v1",
        &format!("address={OURS}"),
        &["v1 carries the default route", "exclusive"],
    );
    let port = Port::open(&topology.spec(&format!("address={OURS},exclusive")));
    drop(port);
    let error = Port::try_open("xdp:v1,netns=wwx-nowhere,all")
        .err()
        .expect("no namespace");
    assert!(
        error.to_string().contains("ip netns add wwx-nowhere"),
        "{error}"
    );
}

#[test]
fn without_rights_the_refusal_names_them() {
    use std::os::unix::process::CommandExt;
    if std::env::var_os("WARPWIRE_TEST_POOR").is_some() {
        let error = Port::try_open("xdp:lo,all")
            .err()
            .expect("no rights")
            .to_string();
        assert!(
            error.contains("CAP_NET_RAW") && error.contains("run as root"),
            "{error}"
        );
        return;
    }
    let Some(_turn) = turn() else { return };
    let status = Command::new("/proc/self/exe")
        .args(["--exact", "without_rights_the_refusal_names_them"])
        .env("WARPWIRE_TEST_POOR", "1")
        .uid(65534)
        .gid(65534)
        .stdout(Stdio::null())
        .status()
        .expect("starts");
    assert!(status.success());
}

#[test]
fn interfaces_say_what_they_can() {
    let Some(_turn) = turn() else { return };
    let topology = Topology::new(
        "i",
        Shape {
            queues: 3,
            mtu: 1400,
        },
    );
    let far = &topology.far;
    let find = |name: &str| {
        let list = namespace::within(far, interfaces)
            .expect("namespace")
            .expect("lists");
        list.into_iter().find(|one| one.name == name).expect(name)
    };
    let v1 = find("v1");
    assert_eq!((v1.mac, v1.mtu, v1.receive_queues), (FAR_MAC, 1400, 3));
    assert_eq!(
        (v1.driver.as_str(), v1.xdp_mode(), v1.up),
        ("veth", "native", true)
    );
    assert!(v1.obstacles().is_empty() && v1.checksum_hint().is_some());
    run(&format!("ip -n {far} route add default via {NEAR} dev v1"));
    assert!(find("v1").default_route);
    let _port = Port::open(&topology.spec("exclusive"));
    assert!(find("v1").program.is_some());
    assert_eq!(find("v1").obstacles().len(), 2);
}

/// A local peer that leaves segmentation to its interface: in generic mode the whole super-frame
/// arrives, in native mode the kernel has cut it.
#[test]
fn super_frames_arrive_whole_or_cut_and_with_partial_sums() {
    let Some(_turn) = turn() else { return };
    for (mode, want) in [("generic", vec![5000]), ("native", vec![1000; 5])] {
        let topology = Topology::new("g", Shape::default());
        let mut port = Port::open(&topology.spec(&format!("address={OURS},mode={mode}")));
        let socket = topology.near_socket(1000);
        driver::set_segment_bytes(&socket, 1000);
        let sent = payload(3, 5000);
        socket.send_to(&sent, (OURS, PORT)).expect("sends");
        let frames = port.collect(|frames| frames.len() >= want.len());
        let payloads: Vec<_> = frames.iter().map(|(frame, _)| &frame[42..]).collect();
        let lengths: Vec<_> = payloads.iter().map(|bytes| bytes.len()).collect();
        assert_eq!(lengths, want, "{mode}");
        assert_eq!(payloads.concat(), sent, "{mode}");
        for (frame, _) in &frames {
            let sum = u16::from_be_bytes([frame[40], frame[41]]);
            let bytes = frame.len() - UDP_AT;
            let pseudo = packet::pseudo_sum(frame, if mode == "generic" { bytes } else { 1008 });
            assert_eq!(
                sum, pseudo,
                "{mode}: the field holds the pseudo-header's sum alone"
            );
        }
        assert_eq!(port.nic.counters().dropped(), 0, "{mode}");
    }
}

/// Two Linux hosts talk through us: `v1` to `w1` and back, each frame in the memory it arrived in.
#[test]
fn two_hosts_talk_through_shared_memory() {
    let Some(_turn) = turn() else { return };
    // With offloads, every TCP and UDP checksum is left to be filled in; generic mode would also
    // bring super-frames, which no interface takes.
    for (mode, offload) in [("native", false), ("native", true), ("generic", false)] {
        let shape = Shape {
            mtu: 4000,
            ..Shape::default()
        };
        let topology = Topology::new("b", shape);
        let third = topology.add_third(4000);
        if !offload {
            run(&format!(
                "ip netns exec {} ethtool -K v0 tx off",
                topology.near
            ));
            run(&format!("ip netns exec {} ethtool -K w0 tx off", third.0));
        }
        let words = |link| format!("xdp:{link},netns={},all,mode={mode}", topology.far);
        let ports = Port::open_two([words("v1"), words("w1")]);
        if !ports[0]
            .nic
            .caps()
            .features
            .contains(Features::TX_L4_CHECKSUM)
            && offload
        {
            return warpwire_skip::unobtainable("checksum requests need Linux 6.11");
        }
        let what = format!("{mode}, offload {offload}");
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let bump = scope.spawn(|| bump(ports, &stop));
            talk(&topology.near, &third.0);
            stop.store(true, Ordering::Relaxed);
            let ports = bump.join().expect("runs");
            for port in &ports {
                // A slow bump may lose frames, which TCP sends again, but no buffer.
                for name in ["fill_ring_invalid", "tx_invalid_descriptors"] {
                    assert_eq!(port.counter(name), 0, "{what}: {name}");
                }
                assert!(port.queues[0].frames > 5000, "{what}");
            }
        });
    }
}

fn bump(mut ports: [Port; 2], stop: &AtomicBool) -> [Port; 2] {
    while !stop.load(Ordering::Relaxed) {
        let [one, two] = &mut ports;
        while one.queues[0].forward(&mut two.queues[0]) {}
        while two.queues[0].forward(&mut one.queues[0]) {}
        ports.iter_mut().for_each(Port::serve);
    }
    ports
}

/// Pings, large and fragmented too, then a TCP connection with payload both ways.
fn talk(near: &str, third: &str) {
    for size in [56, 3900, 9000] {
        run(&format!(
            "ip netns exec {near} ping -q -c 5 -i 0.05 -W 2 -s {size} {THIRD}"
        ));
    }
    let listener = namespace::within(third, || TcpListener::bind((THIRD, PORT)));
    let listener = listener.expect("namespace").expect("binds");
    const BYTES: usize = 40 << 20;
    std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let (mut stream, _) = listener.accept().expect("accepts");
            let mut got = vec![0; BYTES];
            stream.read_exact(&mut got).expect("whole");
            stream.write_all(&got).expect("back");
            got
        });
        let stream = namespace::within(near, || TcpStream::connect((THIRD, PORT)));
        let mut stream = stream.expect("namespace").expect("connects");
        let sent = payload(1, BYTES);
        let mut reader = stream.try_clone().expect("clones");
        let back = scope.spawn(move || {
            let mut back = vec![0; BYTES];
            reader.read_exact(&mut back).expect("whole");
            back
        });
        stream.write_all(&sent).expect("sends");
        assert!(server.join().expect("serves") == sent, "there");
        assert!(back.join().expect("reads") == sent, "and back");
    });
}

#[test]
fn memory_of_one_shape_is_shared_and_of_another_is_refused() {
    let Some(_turn) = turn() else { return };
    let topology = Topology::new("m", Shape::default());
    let _third = topology.add_third(1500);
    let words = |link: &str, more: &str| {
        let spec: NicSpec = format!("xdp:{link},netns={},all{more}", topology.far)
            .parse()
            .expect("words");
        spec
    };
    let error = xdp::open_all(&[words("v1", ""), words("w1", ",slot=4096")]);
    let error = error.expect_err("two shapes").to_string();
    assert!(error.contains("slot=2048"), "{error}");
    let nics = xdp::open_all(&[words("v1", ""), words("w1", ",depth=128")]).expect("opens");
    assert!(nics[1].choices().join("\n").contains("shared with the NIC"));
}

#[test]
fn the_generator_sends_what_it_says() {
    let Some(_turn) = turn() else { return };
    let topology = Topology::new("v", Shape::default());
    let mut port = Port::open(&topology.spec("all,mode=native"));
    let near = namespace::within(&topology.near, interfaces).expect("namespace");
    let near = near.expect("lists");
    let interface = near.iter().find(|one| one.name == "v0").expect("v0").index;
    let frame = udp_to_near(PORT, &payload(1, 100), Sum::Full);
    let thinned = Way::Thinned {
        interface,
        of_1024: 512,
    };
    for (way, want) in [(Way::Out(interface), 1500..=1500), (thinned, 600..=900)] {
        let live = namespace::within(&topology.near, || {
            let live = LiveFrames::new(way, &frame).unwrap_or_else(|error| panic!("{error}"));
            live.send(1500).expect("sends");
        });
        live.expect("namespace");
        let frames = port.collect(|frames| frames.len() >= *want.end());
        assert!(want.contains(&frames.len()), "{way:?}: {}", frames.len());
        assert!(frames.iter().all(|(got, _)| *got == frame), "{way:?}");
    }
    let error = LiveFrames::new(Way::Out(interface), &[0; 13]).expect_err("too short");
    assert!(error.to_string().contains("14 to 3520"), "{error}");
}
