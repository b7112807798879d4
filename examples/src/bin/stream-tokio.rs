//! Streams for tasks of tokio: a server of echoes and its clients, each end a device of its own.
//! The NIC is shared memory between them (`memif:`), so that it runs anywhere, without root;
//! `xdp:IFACE` in its place is an interface of this machine.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use warpwire::pipelines::streaming::{AsyncListener, Reactor, StreamConfig, StreamDevice};
use warpwire_examples::Outcome;

const BYTES: usize = 1 << 20;
const CLIENTS: u8 = 4;
const SERVER: &str = "10.9.0.2:7";

fn main() -> Outcome<()> {
    let folder = std::env::temp_dir().join(format!("warpwire-tokio-{}", std::process::id()));
    std::fs::create_dir_all(&folder)?;
    let outcome = both(&format!("memif:{}", folder.join("ww").display()));
    std::fs::remove_dir_all(&folder)?;
    outcome
}

fn both(nic: &str) -> Outcome<()> {
    // Each waits until the other is there.
    let (server, client) = std::thread::scope(|scope| {
        let server = scope.spawn(|| open(&format!("{nic},role=server"), "10.9.0.2/24"));
        let client = open(nic, "10.9.0.1/24");
        (server.join().expect("does not panic"), client)
    });
    // A thread each steps the engine and wakes tasks.
    let server = Reactor::start(Arc::new(server?))?;
    let client = Reactor::start(Arc::new(client?))?;
    let listener = server.listen(SERVER.parse()?, PATIENCE)?;
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let serving = tokio::spawn(serve(listener));
        let mut asking = Vec::new();
        for number in 0..CLIENTS {
            let stream = client.connect(SERVER.parse()?, PATIENCE).await?;
            asking.push(tokio::spawn(async move {
                let (mut reading, mut writing) = tokio::io::split(stream);
                let sent = vec![number; BYTES];
                let all = sent.clone();
                let writes = tokio::spawn(async move {
                    writing.write_all(&all).await?;
                    writing.shutdown().await
                });
                let mut back = Vec::new();
                reading.read_to_end(&mut back).await?;
                writes.await.expect("does not panic")?;
                assert!(back == sent, "{} other bytes came back", back.len());
                Ok::<_, std::io::Error>(())
            }));
        }
        for task in asking {
            task.await??;
        }
        let served = serving.await??;
        println!(
            "stream-tokio: {served} bytes of {CLIENTS} connections came back, every one right"
        );
        Ok(())
    })
}

fn open(nic: &str, own: &str) -> Result<StreamDevice, String> {
    let own = own
        .parse()
        .map_err(|_| "an address and its prefix".to_owned())?;
    let config = StreamConfig::new(vec![own]);
    StreamDevice::open(nic, &config, PATIENCE).map_err(|error| error.to_string())
}

/// Sends back what comes of each client, up to its end: how many bytes that were.
async fn serve(mut listener: AsyncListener) -> Result<u64, std::io::Error> {
    let mut echoes = Vec::new();
    for _ in 0..CLIENTS {
        let stream = listener.accept().await?;
        echoes.push(tokio::spawn(async move {
            let (mut reading, mut writing) = tokio::io::split(stream);
            let bytes = tokio::io::copy(&mut reading, &mut writing).await?;
            writing.shutdown().await?;
            Ok::<_, std::io::Error>(bytes)
        }));
    }
    let mut total = 0;
    for task in echoes {
        total += task.await??;
    }
    Ok(total)
}

/// How long anything here may take.
const PATIENCE: Duration = Duration::from_secs(60);
