//! Streams over several queues of AF_XDP with Linux as their peer, over a veth pair in namespaces
//! of the test's own, which does not say which queue segments come to. Needs root.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use warpwire_nic::namespace;
use warpwire_pipelines::streaming::{StreamConfig, StreamDevice};

const LIMIT: Duration = Duration::from_secs(30);
const COUNT: usize = 12;
const OURS: &str = "10.77.0.2:7";
const THEIRS: &str = "10.77.0.1:7";

/// Two namespaces with a veth pair of two queues between them; the near one is Linux's.
struct Scene {
    near: String,
    far: String,
}

impl Scene {
    fn new() -> Option<Self> {
        if !warpwire_skip::is_root() {
            warpwire_skip::installable("network namespaces need root");
            return None;
        }
        if !warpwire_skip::has_program("ip") {
            warpwire_skip::installable("`ip` is not there");
            return None;
        }
        let base = format!("wwcrw{}", std::process::id());
        let scene = Self {
            near: format!("{base}n"),
            far: format!("{base}f"),
        };
        let Self { near, far } = &scene;
        ip(&format!("netns add {near}"));
        ip(&format!("netns add {far}"));
        let queues = "numtxqueues 2 numrxqueues 2";
        ip(&format!(
            "link add v0 netns {near} {queues} type veth peer name v1 netns {far} {queues}"
        ));
        ip(&format!("-n {near} addr add 10.77.0.1/24 dev v0"));
        for (space, link) in [(near, "v0"), (far, "v1")] {
            ip(&format!("-n {space} link set lo up"));
            ip(&format!("-n {space} link set {link} up"));
        }
        Some(scene)
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        for space in [&self.near, &self.far] {
            let _ = Command::new("ip").args(["netns", "del", space]).output();
        }
    }
}

fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.expect("is there");
    let wrong = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {wrong}");
}

fn bytes(number: usize) -> Vec<u8> {
    (0..50_000 + number * 7)
        .map(|at| (at * 7 + at / 251 + number) as u8)
        .collect()
}

/// Says so when a side is over, however that came.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn connections_both_ways_over_two_queues() {
    let Some(scene) = Scene::new() else {
        return;
    };
    let config = StreamConfig::new(vec!["10.77.0.2/24".parse().expect("is one")]);
    let words = format!("xdp:v1,netns={}", scene.far);
    let device = StreamDevice::open(&words, &config, LIMIT).expect("opens");
    accepts(&scene, &device);
    opens(&scene, &device);
    let counters = device.endpoint().counters();
    assert_eq!(counters.connected, 2 * COUNT as u64, "{counters:?}");
    assert_eq!(counters.failed, 0, "{counters:?}");
    // Half of what we open is answered to the other queue.
    assert!(counters.handed > 0, "{counters:?}");
    assert_eq!(counters.handed, counters.taken, "{counters:?}");
}

/// Linux connects, writes and reads back.
fn accepts(scene: &Scene, device: &StreamDevice) {
    let endpoint = device.endpoint();
    let listener = endpoint.listen(OURS.parse().expect("is one"), LIMIT);
    let listener = listener.expect("listens");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Ended(&over);
            let to: SocketAddr = OURS.parse().expect("is one");
            let connect = |_| {
                let stream = namespace::within(&scene.near, || TcpStream::connect(to));
                stream.expect("namespace").expect("connects")
            };
            let mut streams: Vec<TcpStream> = (0..COUNT).map(connect).collect();
            for (number, stream) in streams.iter_mut().enumerate() {
                stream.set_read_timeout(Some(LIMIT)).expect("is set");
                stream.write_all(&bytes(number)).expect("goes out");
                stream.shutdown(Shutdown::Write).expect("closes");
            }
            for (number, stream) in streams.iter_mut().enumerate() {
                let mut back = Vec::new();
                stream.read_to_end(&mut back).expect("comes back");
                assert!(back == bytes(number), "{number}: {}", back.len());
            }
        });
        let mut streams = Vec::new();
        while !over.load(Ordering::Relaxed) {
            let mut moved = endpoint.step();
            while let Some(stream) = listener.try_accept().expect("has words") {
                streams.push(stream);
            }
            for stream in &mut streams {
                moved |= stream.reflect().expect("goes on") > 0;
                if stream.is_at_end().expect("has words") {
                    stream.close().expect("closes");
                }
            }
            streams.retain(|stream| !stream.is_over().expect("has words"));
            if !moved {
                std::thread::yield_now();
            }
        }
    });
}

/// Linux listens, and sends back what it reads.
fn opens(scene: &Scene, device: &StreamDevice) {
    let endpoint = device.endpoint();
    let to: SocketAddr = THEIRS.parse().expect("is one");
    let listener = namespace::within(&scene.near, || TcpListener::bind(to));
    let listener = listener.expect("namespace").expect("binds");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..COUNT {
                let (mut stream, _) = listener.accept().expect("somebody comes");
                scope.spawn(move || {
                    let mut came = Vec::new();
                    stream.read_to_end(&mut came).expect("comes");
                    stream.write_all(&came).expect("goes out");
                });
            }
        });
        let connect = |_| endpoint.connect(to, LIMIT).expect("connects");
        let mut streams: Vec<_> = (0..COUNT).map(connect).collect();
        for (number, stream) in streams.iter_mut().enumerate() {
            stream.write_all(&bytes(number), LIMIT).expect("goes on");
            stream.close().expect("closes");
        }
        for (number, stream) in streams.iter_mut().enumerate() {
            let (mut back, mut piece) = (Vec::<u8>::new(), vec![0; 10_000]);
            loop {
                match stream.read(&mut piece, LIMIT) {
                    Ok(0) => break,
                    Ok(count) => back.extend(&piece[..count]),
                    Err(error) => panic!("{number}: {error}"),
                }
            }
            assert!(back == bytes(number), "{number}: {}", back.len());
        }
    });
}
