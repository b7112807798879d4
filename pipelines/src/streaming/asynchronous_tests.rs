use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::streaming::tests::{LIMIT, Scene, at, text};

#[test]
fn tasks_read_and_write() {
    let scene = Scene::new(warpwire_nic::soft::Impairments::default(), |_| {});
    let (ends, _nics) = scene.parts();
    let [client, server] = ends.map(Arc::new);
    let reactors = [&client, &server].map(|end| {
        let reactor = Reactor::start(Arc::clone(end));
        reactor.expect("starts")
    });
    let again = Reactor::start(Arc::clone(&client))
        .err()
        .expect("there is one");
    assert!(again.to_string().contains("the only one"), "{again}");
    let listener = server.listen(at("10.9.0.2:7"), LIMIT).expect("listens");
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
        let streams = (0..count).map(|_| {
            let stream = client.connect(at("10.9.0.2:7"), LIMIT).expect("connects");
            reactors[0].stream(stream)
        });
        let asking: Vec<_> = streams
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
    let scene = Scene::new(warpwire_nic::soft::Impairments::default(), |_| {});
    let (ends, _nics) = scene.parts();
    let [client, server] = ends.map(Arc::new);
    let reactors = [&client, &server].map(|end| {
        let reactor = Reactor::start(Arc::clone(end));
        reactor.expect("starts")
    });
    let refused = client.connect(at("10.9.0.2:7"), LIMIT).err();
    let refused = io::Error::from(refused.expect("nobody listens"));
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    let listener = server.listen(at("10.9.0.2:7"), LIMIT).expect("listens");
    let stream = client.connect(at("10.9.0.2:7"), LIMIT).expect("connects");
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
