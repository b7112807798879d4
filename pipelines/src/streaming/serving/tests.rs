//! Applications over endpoints, beside whoever is at the other end of a cable.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::{Clock, IdlePolicy, Placement};
use warpwire_nic::soft::Impairments;
use warpwire_protocols::tcp::Cause;

use super::super::scene::{By, LIMIT, Scene, Sizes, at, text};
use super::*;

/// How an application runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum How {
    Fused,
    Kernel,
}

const OWN: &str = "10.9.0.2:7";

/// Serves an application at the second end while a client runs at the first one; the counters.
fn serve(
    by: By,
    how: How,
    application: Application,
    client: impl FnOnce(&StreamEndpoint),
) -> (ServeCounters, u64) {
    let scene = Scene::of(by, Impairments::default(), &Sizes::default());
    let executor = CpuExecutor::builder().idle(IdlePolicy::POLITE).build();
    let executor = executor.expect("builds");
    let is_over = AtomicBool::new(false);
    let listeners = vec![scene.ends[1].listen(at(OWN), LIMIT).expect("listens")];
    let mut served = None;
    scene.run(
        |end| {
            // Also where the client fails.
            let _over = Over(&is_over);
            client(end);
        },
        |end| {
            let mut serving = match how {
                How::Fused => Serving::start_fused(&Clock::machine(), end, listeners, application),
                How::Kernel => {
                    let any = Placement::Any;
                    Serving::start_on(&executor, end, listeners, application, any)
                }
            }
            .expect("starts");
            while !is_over.load(Ordering::Relaxed) {
                if !(serving.step().expect("goes on") | end.step()) {
                    std::thread::yield_now();
                }
                assert_eq!(serving.ended(), None);
            }
            let unspliced = serving.unspliced();
            served = Some((serving.finish().expect("ends"), unspliced));
        },
    );
    served.expect("was served")
}

/// Says so when a client is over, however that came.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Every way to run an application over every way to carry TCP.
fn ways() -> impl Iterator<Item = (By, How)> {
    let all = [By::Tcp, By::Queues, By::Sliced].into_iter();
    all.flat_map(|by| [How::Fused, How::Kernel].map(|how| (by, how)))
}

/// Sends bytes and the end while it reads until the end.
fn exchange(end: &StreamEndpoint, sent: &[u8]) -> Vec<u8> {
    let mut stream = end.connect(at(OWN), LIMIT).expect("connects");
    let (mut rest, mut back) = (sent, Vec::<u8>::new());
    let mut bytes = vec![0; 10_000];
    let until = Instant::now() + LIMIT;
    let mut is_closed = false;
    loop {
        assert!(Instant::now() < until, "{} bytes are not sent", rest.len());
        if !rest.is_empty() {
            rest = &rest[stream.write(rest).expect("is open")..];
        } else if !is_closed {
            stream.close().expect("closes");
            is_closed = true;
        }
        match stream.read(&mut bytes, Duration::from_millis(1)) {
            Ok(0) => return back,
            Ok(count) => back.extend(&bytes[..count]),
            Err(Error::Deadline { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_comes_goes_back() {
    for (by, how) in ways() {
        let sent = text(300_000);
        let (counters, _) = serve(by, how, Application::Echo, |end| {
            for _ in 0..3 {
                assert!(exchange(end, &sent) == sent, "{by:?} {how:?}");
            }
        });
        let counted = (counters.accepted, counters.ended, counters.broken);
        assert_eq!(counted, (3, 3, 0), "{by:?} {how:?}");
        let moved = (counters.came, counters.left);
        assert_eq!(moved, (900_000, 900_000), "{by:?} {how:?}");
    }
}

#[test]
fn bytes_go_one_way() {
    for (by, how) in ways() {
        let bytes = Some(123_457);
        let (counters, _) = serve(by, how, Application::Source { bytes }, |end| {
            let came = exchange(end, b"nobody reads this");
            let want: Vec<u8> = (0..123_457u32).map(|at| (at % 251) as u8).collect();
            assert!(came == want, "{by:?} {how:?}: {} bytes", came.len());
        });
        assert_eq!(counters.left, 123_457, "{by:?} {how:?}");
        let (counters, _) = serve(by, how, Application::Discard, |end| {
            assert_eq!(exchange(end, &text(200_000)), [0; 0], "{by:?} {how:?}");
        });
        assert_eq!(
            (counters.came, counters.left),
            (200_000, 0),
            "{by:?} {how:?}"
        );
    }
}

/// A folder of the test's own, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("warpwire-serving-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(name);
        fs::create_dir_all(path.join("sub")).expect("is made");
        Self(path)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.0.join(name), bytes).expect("is written");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn files_are_answered_out_of_memory() {
    let folder = Folder::new("files");
    folder.write("a.txt", b"short");
    folder.write("big", &text(100_000));
    folder.write("sub/index.html", b"<p>here</p>");
    let site = Site::read(&folder.0, 1 << 20).expect("is read");
    assert_eq!((site.files(), site.bytes()), (3, 100_016));
    // What becomes of the folder is not seen.
    folder.write("a.txt", b"other");
    let asked = "GET /a.txt HTTP/1.1\r\nHost: a\r\n\r\n\
                 HEAD /big HTTP/1.1\r\nHost: a\r\n\r\n\
                 GET /sub/ HTTP/1.1\r\nHost: a\r\n\r\n\
                 GET /sub HTTP/1.1\r\nHost: a\r\n\r\n\
                 GET /big HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for (by, how) in ways() {
        let (counters, _) = serve(by, how, Application::Http(site.clone()), |end| {
            let back = exchange(end, asked.as_bytes());
            assert!(back.ends_with(&text(100_000)), "{by:?} {how:?}");
            let said = String::from_utf8_lossy(&back[..back.len() - 100_000]);
            let parts: Vec<&str> = said.split("HTTP/1.1 ").skip(1).collect();
            let wanted = [
                (
                    "200 OK",
                    "Content-Type: text/plain; charset=utf-8",
                    "\r\n\r\nshort",
                ),
                ("200 OK", "Content-Length: 100000", "\r\n\r\n"),
                ("200 OK", "Content-Type: text/html", "\r\n\r\n<p>here</p>"),
                ("404 Not Found", "Content-Type: text/plain", "Not Found"),
                ("200 OK", "Connection: close", "\r\n\r\n"),
            ];
            assert_eq!(parts.len(), wanted.len(), "{said}");
            for (part, (status, field, end)) in parts.iter().zip(wanted) {
                let is_right = part.starts_with(status) && part.contains(field);
                assert!(is_right && part.ends_with(end), "{by:?} {how:?}: {part}");
                assert!(part.contains("Date: "), "{part}");
            }
        });
        let counted = (counters.answers, counters.refusals, counters.broken);
        assert_eq!(counted, (5, 1, 0), "{by:?} {how:?}");
    }
}

#[test]
fn sites_that_cannot_be_had_are_named() {
    let folder = Folder::new("wrong");
    folder.write("a", &text(600));
    folder.write("sub/b", &text(600));
    let wrong = |most| {
        let error = Site::read(&folder.0, most).expect_err("is wrong");
        error.to_string()
    };
    let said = wrong(1000);
    let path = folder.0.join("sub/b").display().to_string();
    assert!(said.starts_with(&path), "{said}");
    assert!(said.contains("600 bytes are too many"), "{said}");
    assert!(
        said.contains("1000 bytes in all, and 400 are left"),
        "{said}"
    );
    assert!(Site::read(&folder.0, 1200).is_ok());
    let said = Site::read(&folder.0.join("none"), 0).expect_err("is not there");
    assert!(said.to_string().contains("none: No such file"), "{said}");
    // What is no file is left out.
    std::os::unix::fs::symlink("/dev/zero", folder.0.join("link")).expect("is made");
    assert_eq!(Site::read(&folder.0, 1200).expect("is read").files(), 2);
}

/// A target at the first end, which sends what it is given when all came to it.
fn target(listener: &Listener, end: &StreamEndpoint, answer: &[u8]) -> Vec<u8> {
    let mut stream = listener.accept(LIMIT).expect("is opened");
    let mut came = Vec::<u8>::new();
    let mut bytes = vec![0; 10_000];
    while let count @ 1.. = stream.read(&mut bytes, LIMIT).expect("goes on") {
        came.extend(&bytes[..count]);
    }
    // The end came: half of the stream is left.
    stream.write_all(answer, LIMIT).expect("is open");
    stream.close().expect("closes");
    end.step();
    came
}

#[test]
fn streams_are_spliced_and_halves_are_closed_alone() {
    for (by, how) in ways() {
        let splice = Application::Splice {
            to: at("10.9.0.1:9"),
            patience: LIMIT,
        };
        let (counters, unspliced) = serve(by, how, splice, |end| {
            let listener = end.listen(at("10.9.0.1:9"), LIMIT).expect("listens");
            for round in 0..3 {
                let mut stream = end.connect(at(OWN), LIMIT).expect("connects");
                let (there, back) = (text(50_000 + round), text(70_000 - round));
                stream.write_all(&there[..10], LIMIT).expect("is open");
                stream.write_all(&there[10..], LIMIT).expect("is open");
                stream.close().expect("closes");
                let came = target(&listener, end, &back);
                assert!(came == there, "{by:?} {how:?}: {} bytes", came.len());
                let (mut read, mut bytes) = (Vec::<u8>::new(), vec![0; 10_000]);
                while let count @ 1.. = stream.read(&mut bytes, LIMIT).expect("goes on") {
                    read.extend(&bytes[..count]);
                }
                assert!(read == back, "{by:?} {how:?}: {} bytes", read.len());
            }
        });
        assert_eq!(unspliced, 0, "{by:?} {how:?}");
        let counted = (counters.accepted, counters.broken);
        assert_eq!(counted, (3, 0), "{by:?} {how:?}");
        let moved = (counters.came, counters.left);
        assert_eq!(moved, (360_000, 360_000), "{by:?} {how:?}");
    }
}

#[test]
fn a_target_that_refuses_is_told_of() {
    let scene = Scene::of(By::Tcp, Impairments::default(), &Sizes::default());
    let listeners = vec![scene.ends[1].listen(at(OWN), LIMIT).expect("listens")];
    scene.run(
        |end| {
            let mut stream = end.connect(at(OWN), LIMIT).expect("connects");
            let count = stream.read(&mut [0; 10], LIMIT).expect("ends");
            assert_eq!(count, 0);
        },
        |end| {
            let splice = Application::Splice {
                to: at("10.9.0.1:9"),
                patience: LIMIT,
            };
            let clock = Clock::machine();
            let serving = Serving::start_fused(&clock, end, listeners, splice);
            let mut serving = serving.expect("starts");
            let until = Instant::now() + LIMIT;
            while serving.unspliced() == 0 {
                assert!(Instant::now() < until, "nobody is told of");
                if !(serving.step().expect("goes on") | end.step()) {
                    std::thread::yield_now();
                }
            }
            let told = serving.take_unspliced();
            let [one] = &told[..] else {
                panic!("{told:?}");
            };
            assert_eq!(one.peer.ip(), at("10.9.0.1:0").ip());
            let is_refused = matches!(
                one.error,
                Error::Over {
                    cause: Cause::Refused,
                    ..
                }
            );
            assert!(is_refused, "{}", one.error);
            assert_eq!(serving.finish().expect("ends").accepted, 0);
        },
    );
}

#[test]
fn one_application_has_the_streams_of_an_endpoint_and_gives_them_back() {
    let scene = Scene::of(By::Tcp, Impairments::default(), &Sizes::default());
    let listen = |port: u16| {
        let at = SocketAddr::new(at(OWN).ip(), port);
        vec![scene.ends[1].listen(at, LIMIT).expect("listens")]
    };
    let first = listen(7);
    scene.run(
        |end| {
            let mut stream = end.connect(at(OWN), LIMIT).expect("connects");
            stream.write_all(b"there", LIMIT).expect("is open");
            let mut bytes = [0; 10];
            assert_eq!(stream.read(&mut bytes, LIMIT).expect("comes back"), 5);
            // The server ends, and with it the stream.
            assert_eq!(stream.read(&mut bytes, LIMIT).expect("ends"), 0);
        },
        |end| {
            let clock = Clock::machine();
            let start = |listeners| Serving::start_fused(&clock, end, listeners, Application::Echo);
            let mut serving = start(first).expect("starts");
            let second = start(listen(8)).err().expect("is refused");
            assert!(matches!(second, Error::Used), "{second}");
            let until = Instant::now() + LIMIT;
            while serving.counters().left < 5 {
                assert!(Instant::now() < until, "nothing comes");
                if !(serving.step().expect("goes on") | end.step()) {
                    std::thread::yield_now();
                }
            }
            let glimpses = serving.glimpses().expect("are there");
            let [one] = &glimpses[..] else {
                panic!("{} streams", glimpses.len());
            };
            assert_eq!(one.moved(), (5, 5));
            assert_eq!(
                (one.local(), one.peer().ip()),
                (at(OWN), at("10.9.0.1:0").ip())
            );
            drop(glimpses);
            let counters = serving.finish().expect("ends");
            assert_eq!((counters.accepted, counters.ended), (1, 0));
        },
    );
}
