//! Ours: `warpwire serve` as the far end, and an endpoint over memif as the near one.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use warpwire_pipelines::streaming::{self, Stream, StreamConfig, StreamDevice};
use warpwire_ptx::process::{Running, Show};

use super::super::error::Error;
use super::super::machine::pin;
use super::super::ours::finish;
use super::super::row::Sample;
use super::super::setting::{FAR, NEAR, Setting};
use super::count::{self, Task};
use super::link::FAR_ADDRESS;
use super::{QUESTION, RING_BYTES, What};

/// `warpwire serve`, a process on the far processor.
pub(super) struct Server(Running);

impl Server {
    /// Starts it at [`FAR_ADDRESS`].
    pub(super) fn start(setting: &Setting, what: What, nic: &str, mtu: u16) -> Result<Self, Error> {
        let own = std::env::current_exe().map_err(|source| Error::System {
            action: "finding this program".to_owned(),
            source,
            cure: "mount /proc",
        })?;
        let mut command = setting.on(FAR);
        command
            .arg(own)
            .args(["serve", what.service(), "--nic", nic])
            .args(["--addr", &format!("{}/24", FAR_ADDRESS.ip())])
            .args(["--port", &FAR_ADDRESS.port().to_string()])
            .args(["--mtu", &mtu.to_string()])
            .args(["--ring", &RING_BYTES.to_string()]);
        Ok(Self(Running::start(&mut command, Show::Nothing)?))
    }

    /// Waits until it serves.
    pub(super) fn serves(&mut self, setting: &Setting) -> Result<(), Error> {
        let begun = self.0.wait_until(PATIENCE, |out, _| out.contains("MTU "));
        setting.check()?;
        Ok(begun?)
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The thread that serves.
    pub(super) fn task(&self) -> Task {
        Task::first_of(self.0.id())
    }

    /// Ends it, and takes a bad end for an error with its words.
    pub(super) fn end(self, setting: &Setting) -> Result<(), Error> {
        warpwire_ptx::process::signal("-INT", &[self.0.id()]);
        finish(setting, self.0).map(drop)
    }
}

/// Between two processes over memif: this one, and a server.
pub(super) fn over_memif(setting: &Setting, mtu: u16, what: What) -> Result<Sample, Error> {
    let socket = setting.socket();
    let nic = |role: &str| {
        let buffer = buffer_bytes(mtu);
        let socket = socket.display();
        format!("memif:{socket},role={role},buffer={buffer},depth=1024")
    };
    let mut server = Server::start(setting, what, &nic("server"), mtu)?;
    let sample = std::thread::scope(|scope| {
        let server = &mut server;
        let near = scope.spawn(|| {
            pin(NEAR)?;
            let device = StreamDevice::open(&nic("client"), &config(1, mtu, RING_BYTES), PATIENCE)?;
            server.serves(setting)?;
            let _first = setting.first(&[server.id()])?;
            call(setting, &device, what, &[Task::own(), server.task()])
        });
        let near = near.join();
        near.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })?;
    server.end(setting)?;
    Ok(sample)
}

/// An end of ours whose address ends in this number, with so many bytes a ring.
pub(super) fn config(number: u8, mtu: u16, ring_bytes: u32) -> StreamConfig {
    let own = streaming::InterfaceAddress {
        address: [10, 94, 0, number].into(),
        prefix: 24,
    };
    StreamConfig {
        mtu,
        connections: 64,
        open: 16,
        ring_bytes,
        ..StreamConfig::new(vec![own])
    }
}

/// Bytes of buffers for frames of an MTU: a power of two, with room for headers.
pub(super) fn buffer_bytes(mtu: u16) -> u32 {
    (u32::from(mtu) + HEADERS).next_power_of_two()
}

fn call(
    setting: &Setting,
    device: &StreamDevice,
    what: What,
    tasks: &[Task],
) -> Result<Sample, Error> {
    let to: SocketAddr = FAR_ADDRESS;
    let endpoint = device.endpoint();
    let mut stream = endpoint.connect(to, PATIENCE)?;
    let bytes = vec![7; RING_BYTES as usize];
    match what {
        What::Send => Ok(count::goodput(count::count(setting, tasks, || {
            endpoint.step();
            take_all(&mut stream)
        })?)),
        What::Receive | What::Greet => Ok(count::goodput(count::count(setting, tasks, || {
            let count = match is_worth_writing(&stream, RING_BYTES)? {
                true => stream.write(&bytes)? as u64,
                false => 0,
            };
            endpoint.step();
            Ok(count)
        })?)),
        What::Ask => count::times(setting, || {
            stream.write(&[7; QUESTION])?;
            let started = Instant::now();
            let mut came = 0;
            while came < QUESTION as u64 {
                endpoint.step();
                came += take_all(&mut stream)?;
                if started.elapsed() > PATIENCE {
                    return Err(Error::Silent {
                        what: "an answer over memif",
                        seconds: PATIENCE.as_secs_f64(),
                    });
                }
            }
            Ok(())
        }),
    }
}

/// Takes what came, where it lies.
pub(super) fn take_all(stream: &mut Stream) -> Result<u64, Error> {
    let count = stream.peek()?.iter().map(|piece| piece.len()).sum();
    if count > 0 {
        stream.consume(count)?;
    }
    Ok(count as u64)
}

/// Whether a ring of so many bytes has room for more than a few segments: less is not worth the
/// engine's attention.
pub(super) fn is_worth_writing(stream: &Stream, ring_bytes: u32) -> Result<bool, Error> {
    Ok(stream.unacknowledged()? <= ring_bytes / 4 * 3)
}

/// Bytes in front of an IP packet at most.
const HEADERS: u32 = 22;
/// How long something may take to begin.
const PATIENCE: Duration = Duration::from_secs(60);
