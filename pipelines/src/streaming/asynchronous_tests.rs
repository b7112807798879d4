use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::streaming::scene::{By, LIMIT, Scene, Sizes, text};

const CARRIERS: [By; 7] = [
    By::Tcp,
    By::Queues,
    By::Sliced,
    By::Crews,
    By::Fused,
    By::Kernel,
    By::Nic,
];

fn scene(by: By) -> Scene {
    Scene::of(
        by,
        warpwire_nic::soft::Impairments::default(),
        &Sizes::default(),
    )
}

/// A reactor for each end.
fn started(ends: [&Arc<StreamEndpoint>; 2]) -> [Reactor; 2] {
    ends.map(|end| Reactor::start(Arc::clone(end)).expect("starts"))
}

#[test]
fn tasks_read_and_write() {
    CARRIERS.into_iter().for_each(tasks_copy);
}

fn tasks_copy(by: By) {
    let scene = scene(by);
    let listener = scene.listen();
    let to = listener.address();
    let (ends, _rest) = scene.parts();
    let [client, server] = ends.map(Arc::new);
    let reactors = started([&client, &server]);
    let again = Reactor::start(Arc::clone(&client))
        .err()
        .expect("there is one");
    assert!(again.to_string().contains("the only one"), "{again}");
    let mut listener = reactors[1].listener(listener);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.expect("is built");
    let count = 20;
    runtime.block_on(async {
        let serving = tokio::spawn(async move {
            let mut tasks = Vec::new();
            for _ in 0..count {
                let stream = listener.accept().await.expect("somebody comes");
                tasks.push(tokio::spawn(async move {
                    let (mut reading, mut writing) = tokio::io::split(stream);
                    let copied = tokio::io::copy(&mut reading, &mut writing).await;
                    writing.shutdown().await.expect("closes");
                    copied.expect("goes on")
                }));
            }
            let mut total = 0;
            for task in tasks {
                total += task.await.expect("ends");
            }
            total
        });
        let mut streams = Vec::new();
        for number in 0..count {
            streams.push(match number % 2 {
                0 => reactors[0].connect(to, LIMIT).await.expect("connects"),
                _ => reactors[0].stream(client.connect(to, LIMIT).expect("connects")),
            });
        }
        let asking: Vec<_> = streams
            .into_iter()
            .map(|stream| {
                tokio::spawn(async move {
                    let sent = text(200_000);
                    let (mut reading, mut writing) = tokio::io::split(stream);
                    let all = sent.clone();
                    let writes = tokio::spawn(async move {
                        writing.write_all(&all).await.expect("goes on");
                        writing.flush().await.expect("is acknowledged");
                        writing.shutdown().await.expect("closes");
                    });
                    let mut back = Vec::new();
                    reading.read_to_end(&mut back).await.expect("goes on");
                    writes.await.expect("ends");
                    assert!(back == sent, "{} bytes", back.len());
                })
            })
            .collect();
        for task in asking {
            task.await.expect("ends");
        }
        assert_eq!(serving.await.expect("ends"), count * 200_000);
    });
    drop(reactors);
}

#[test]
fn what_breaks_is_an_error_of_io() {
    CARRIERS.into_iter().for_each(breaks);
}

fn breaks(by: By) {
    let scene = scene(by);
    let deaf = scene.deaf();
    let listener = scene.listen();
    let to = listener.address();
    let (ends, _rest) = scene.parts();
    let [client, server] = ends.map(Arc::new);
    let reactors = started([&client, &server]);
    let refused = match by {
        // There is one port, and somebody listens at it.
        _ if by.is_tcp() => {
            let at = std::net::SocketAddr::new(deaf.ip(), 9);
            client.connect(at, LIMIT).err()
        }
        _ => client.connect(deaf, LIMIT).err(),
    };
    let refused = io::Error::from(refused.expect("nobody listens"));
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let stream = client.connect(to, LIMIT).expect("connects");
    let mut stream = reactors[0].stream(stream);
    listener
        .accept(LIMIT)
        .expect("somebody comes")
        .abort()
        .expect("has words");
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let broken = runtime.expect("is built").block_on(stream.read_u8());
    assert_eq!(
        broken.expect_err("was reset").kind(),
        io::ErrorKind::ConnectionReset
    );
}

#[test]
fn an_engine_that_ends_wakes_who_waits() {
    let (tell, told) = std::sync::mpsc::channel();
    let waiting = std::thread::spawn(move || {
        wait_for_what_ends();
        let _ = tell.send(());
    });
    // Tasks that nobody wakes would wait for ever.
    told.recv_timeout(LIMIT).expect("all is over");
    waiting.join().expect("does not panic");
}

fn wait_for_what_ends() {
    // Kernels run these engines: they end with the executor.
    let scene = scene(By::Sliced);
    let listener = scene.listen();
    let to = listener.address();
    let (ends, rest) = scene.parts();
    let [client, server] = ends.map(Arc::new);
    let reactors = started([&client, &server]);
    let mut listener = reactors[1].listener(listener);
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("is built").block_on(async {
        let mut stream = reactors[0].connect(to, LIMIT).await.expect("connects");
        let _other = listener.accept().await.expect("somebody comes");
        let reading = tokio::spawn(async move { stream.read_u8().await });
        let accepting = tokio::spawn(async move { listener.accept().await.map(drop) });
        tokio::task::yield_now().await;
        drop(rest);
        let broken = reading.await.expect("ends");
        broken.expect_err("nothing comes any more");
        let ended = accepting.await.expect("ends").expect_err("nor anybody");
        assert!(matches!(ended, Error::Ended { .. }), "{ended}");
    });
}
