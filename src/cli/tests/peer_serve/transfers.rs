//! `warpwire stream`: files to and from a warpwire, and Linux.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use warpwire_nic::namespace;

use crate::scene::{OURS, OURS_6, Scene, text};
use crate::veth::run;

/// A folder of the test's own, which goes with it.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wws{}{name}", std::process::id()));
        std::fs::create_dir_all(&path).expect("is made");
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> String {
        self.0.join(name).to_string_lossy().into_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Starts `warpwire stream`.
pub(crate) fn stream(words: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_warpwire"))
        .arg("stream")
        .args(words.split_whitespace())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command can be started")
}

/// Its end: whether all went well, and what it said.
pub(crate) fn ended(child: Child) -> (bool, String) {
    let output = child.wait_with_output().expect("ends");
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).expect("is text");
    (output.status.success(), said)
}

#[test]
fn files_go_from_one_warpwire_to_another() {
    let folder = Folder::new("two");
    for bytes in [0, 1, 3_000_001] {
        let (from, to) = (folder.file("from"), folder.file("to"));
        std::fs::write(&from, text(bytes)).expect("is written");
        let socket = folder.file(&format!("{bytes}.sock"));
        let receiver = stream(&format!(
            "recv {to} --nic memif:{socket},role=server --addr 10.78.0.2/24 --wait 30"
        ));
        let sender = stream(&format!(
            "send {from} --nic memif:{socket} --addr 10.78.0.1/24 --to 10.78.0.2:5300 --wait 30"
        ));
        let (sent, received) = (ended(sender), ended(receiver));
        for ((well, said), verb) in [(&sent, "sent"), (&received, "received")] {
            let words = format!("{verb} {bytes} bytes");
            assert!(*well && said.contains(&words), "{sent:?}, {received:?}");
        }
        assert!(
            std::fs::read(&to).expect("is there") == text(bytes),
            "{bytes}"
        );
    }
}

#[test]
fn files_go_to_linux_and_come_from_there() {
    let Some(scene) = Scene::new("f") else { return };
    let folder = Folder::new("linux");
    let (from, to) = (folder.file("from"), folder.file("to"));
    std::fs::write(&from, text(5_000_000)).expect("is written");
    let own = format!(
        "--nic xdp:v1,netns={} --addr {OURS}/24 --addr {OURS_6}/64 --wait 30",
        scene.far
    );
    for near in ["10.79.0.1:5300", "[fd79::1]:5300"] {
        let listener = namespace::within(&scene.near, || std::net::TcpListener::bind(near));
        let listener = listener.expect("namespace").expect("listens");
        let sender = stream(&format!("send {from} --to {near} {own}"));
        let mut came = Vec::new();
        let (mut linux, _) = listener.accept().expect("somebody comes");
        linux.read_to_end(&mut came).expect("goes on");
        assert!(came == text(5_000_000), "{} bytes", came.len());
        drop(linux);
        let (well, said) = ended(sender);
        assert!(well && said.contains("sent 5000000 bytes to "), "{said}");
    }
    for far in [OURS, OURS_6] {
        let (receiver, mut linux) = receiver(&scene, &format!("recv {to} {own}"), far);
        linux.write_all(&text(5_000_000)).expect("goes on");
        linux.shutdown(Shutdown::Write).expect("closes");
        assert_eq!(linux.read(&mut [0]).expect("ends"), 0);
        let (well, said) = ended(receiver);
        assert!(
            well && said.contains("received 5000000 bytes from "),
            "{said}"
        );
        assert!(std::fs::read(&to).expect("is there") == text(5_000_000));
    }
    // What is not all says so.
    let (receiver, mut linux) = receiver(&scene, &format!("recv {to} --patience 1 {own}"), OURS);
    linux.write_all(b"a part").expect("goes on");
    let (well, said) = ended(receiver);
    let want = format!("nothing came within 1s; {to} has the first 6 bytes, not all");
    assert!(!well && said.contains(&want), "{said}");
    let listener = namespace::within(&scene.near, || {
        std::net::TcpListener::bind("10.79.0.1:5300")
    });
    let listener = listener.expect("namespace").expect("listens");
    let sender = stream(&format!(
        "send {from} --to 10.79.0.1:5300 --patience 5 {own}"
    ));
    let (mut linux, _) = listener.accept().expect("somebody comes");
    linux.read_exact(&mut [0; 1000]).expect("comes");
    // With bytes unread, Linux resets.
    drop(linux);
    let (well, said) = ended(sender);
    assert!(!well && said.contains("bytes, not all"), "{said}");
    // A part of a file does not look like all of it to a peer either.
    let sender = stream(&format!("send {from} --to 10.79.0.1:5300 {own}"));
    let (mut linux, _) = listener.accept().expect("somebody comes");
    linux.read_exact(&mut [0; 1000]).expect("comes");
    run(&format!("kill -INT {}", sender.id()));
    let (well, said) = ended(sender);
    assert!(!well && said.contains("interrupted"), "{said}");
    let broken = linux.read_to_end(&mut Vec::new()).expect_err("was reset");
    assert_eq!(broken.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn transfers_that_cannot_go_on_say_why() {
    let Some(scene) = Scene::new("c") else { return };
    let folder = Folder::new("cut");
    let from = folder.file("from");
    let own = format!(
        "--nic xdp:v1,netns={} --addr {OURS}/24 --addr {OURS_6}/64 --wait 30",
        scene.far
    );
    // The disk is full.
    let (full, mut linux) = receiver(&scene, &format!("recv /dev/full {own}"), OURS);
    linux.write_all(&text(1000)).expect("goes on");
    let (well, said) = ended(full);
    assert!(!well && said.contains("No space left on device"), "{said}");
    assert!(said.contains("/dev/full"), "{said}");
    // The file is cut.
    let listener = namespace::within(&scene.near, || {
        std::net::TcpListener::bind("10.79.0.1:5300")
    });
    let listener = listener.expect("namespace").expect("listens");
    std::fs::write(&from, text(50_000_000)).expect("is written");
    let sender = stream(&format!("send {from} --to 10.79.0.1:5300 {own}"));
    let (mut linux, _) = listener.accept().expect("somebody comes");
    linux.read_exact(&mut [0; 1000]).expect("comes");
    std::fs::write(&from, "").expect("is cut");
    let broken = linux.read_to_end(&mut Vec::new()).expect_err("was reset");
    assert_eq!(broken.kind(), std::io::ErrorKind::ConnectionReset);
    let (well, said) = ended(sender);
    assert!(!well, "{said}");
    assert!(said.contains("it had 50000000 bytes at first"), "{said}");
    // Bytes come all the time, so that nothing is ever waited for.
    let words = format!("recv {} --live=50ms {own}", folder.file("much"));
    let (much, mut linux) = receiver(&scene, &words, OURS);
    let id = much.id();
    let giving = std::thread::spawn(move || {
        let block = text(1 << 20);
        while linux.write_all(&block).is_ok() {}
    });
    std::thread::sleep(Duration::from_millis(300));
    run(&format!("kill -INT {id}"));
    let (well, said) = ended(much);
    giving.join().expect("ends");
    assert!(!well && said.contains("interrupted; "), "{said}");
    // It told of the connection while that lasted.
    let live = said.lines().filter(|line| line.contains(" Established: "));
    assert!(live.count() >= 2, "{said}");
    // Nobody listens.
    drop(listener);
    let sender = stream(&format!(
        "send {from} --to 10.79.0.1:5300 --wait 1 --nic xdp:v1,netns={} --addr {OURS}/24",
        scene.far
    ));
    let (well, said) = ended(sender);
    let want = "the peer refused the connection, for 1s; start who receives there";
    assert!(!well && said.contains(want), "{said}");
}

/// Starts a receiver, and connects to it once it waits at both own addresses.
pub(crate) fn receiver(scene: &Scene, words: &str, to: &str) -> (Child, TcpStream) {
    let mut child = stream(words);
    let mut out = child.stdout.take().expect("is a pipe");
    let mut said = Vec::new();
    while said.iter().filter(|byte| **byte == b'\n').count() < 2 {
        let mut byte = [0];
        assert_eq!(
            out.read(&mut byte).expect("is text"),
            1,
            "the command ended"
        );
        said.push(byte[0]);
    }
    child.stdout = Some(out);
    (child, scene.connect(to, 5300))
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let sender = stream("send /nothing/here --nic xdp:x --addr 10.0.0.1/24 --to 10.0.0.2:5300");
    let (well, said) = ended(sender);
    assert!(!well && said.contains("/nothing/here"), "{said}");
}
