//! memif: our kernels and testpmd on either end of rings in shared memory.

use std::path::Path;
use std::thread;

use warpwire_gpu::CpuExecutor;
use warpwire_gpu::executor::Placement;
use warpwire_nic::memif::Memif;
use warpwire_nic::{Nic, NicSpec};
use warpwire_pipelines::runtime::{Generation, Measurement, Plain};

use super::error::Error;
use super::row::{Sample, Side};
use super::setting::{FAR, JOIN, NEAR, Setting, sample, traffic};
use super::testpmd::{self, Plan, Testpmd};

/// Who fills the ring of a testpmd that only receives.
pub(super) fn transmit(setting: &Setting, side: Side) -> Result<Sample, Error> {
    match side {
        Side::Ours => to_testpmd(setting),
        Side::Peer => between_testpmds(setting),
    }
}

/// Who receives what our generator sends.
pub(super) fn receive(setting: &Setting, side: Side) -> Result<Sample, Error> {
    match side {
        Side::Ours => {
            let (client, server) = joined(setting)?;
            let executor = setting.executor(&[NEAR, FAR])?;
            let there = Plain::ReceiveCount;
            let there = Measurement::start(&executor, there, &server, 0, Placement::Thread(1))?;
            let generator = generate(&executor, &client)?;
            let value = setting.rate(&[], || there.counters().received)?;
            let sent = generator.finish(JOIN)?;
            setting.settle(|| there.counters().received)?;
            let counters = there.finish(JOIN)?;
            executor.shutdown(JOIN)?;
            well_formed(counters.malformed)?;
            sample(
                setting,
                "receive_count",
                value,
                sent,
                sent.saturating_sub(counters.received),
            )
        }
        Side::Peer => to_testpmd(setting),
    }
}

/// Who sends our generator's frames around a testpmd that swaps addresses.
pub(super) fn round_trip(setting: &Setting, side: Side) -> Result<Sample, Error> {
    match side {
        Side::Ours => around_testpmd(setting),
        Side::Peer => flowgen(setting),
    }
}

/// Who swaps the addresses of what our generator sends and takes back.
pub(super) fn swap(setting: &Setting, side: Side) -> Result<Sample, Error> {
    match side {
        Side::Ours => {
            let (client, server) = joined(setting)?;
            let executor = setting.executor(&[NEAR, FAR])?;
            let there =
                Measurement::start(&executor, Plain::MacSwap, &server, 0, Placement::Thread(1))?;
            around(setting, &executor, &client, &[], || {
                let counters = there.finish(JOIN)?;
                well_formed(counters.malformed)?;
                Ok(counters.not_sent)
            })
        }
        Side::Peer => around_testpmd(setting),
    }
}

/// Our generator to testpmd rxonly.
fn to_testpmd(setting: &Setting) -> Result<Sample, Error> {
    let socket = setting.socket();
    let mut sink = peer(setting, "server", &socket, FAR, "rxonly")?;
    let nic = client(&socket)?;
    let executor = setting.executor(&[NEAR])?;
    let generator = generate(&executor, &nic)?;
    let value = sink.rate(&[])?.received;
    let sent = generator.finish(JOIN)?;
    sink.settle()?;
    let totals = sink.stop()?;
    sink.finish()?;
    executor.shutdown(JOIN)?;
    sample(
        setting,
        "testpmd rxonly",
        value,
        sent,
        sent.saturating_sub(totals.received),
    )
}

/// testpmd txonly to testpmd rxonly.
fn between_testpmds(setting: &Setting) -> Result<Sample, Error> {
    let socket = setting.socket();
    let mut sink = peer(setting, "server", &socket, FAR, "rxonly")?;
    let mut source = peer(setting, "client", &socket, NEAR, "txonly")?;
    let value = sink.rate(&[source.id()])?.received;
    let sent = source.stop()?.sent;
    sink.settle()?;
    let totals = sink.stop()?;
    source.finish()?;
    sink.finish()?;
    sample(
        setting,
        "testpmd rxonly",
        value,
        sent,
        sent.saturating_sub(totals.received),
    )
}

/// Our generator, testpmd macswap, our count.
fn around_testpmd(setting: &Setting) -> Result<Sample, Error> {
    let socket = setting.socket();
    let mut there = peer(setting, "server", &socket, FAR, "macswap")?;
    let nic = client(&socket)?;
    let executor = setting.executor(&[NEAR])?;
    let id = there.id();
    around(setting, &executor, &nic, &[id], || {
        let totals = there.stop()?;
        there.finish()?;
        Ok(totals.unsent)
    })
}

/// Generator and count on the first thread of the executor; `end` ends who sends the frames back
/// and says how many of them found no room.
fn around(
    setting: &Setting,
    executor: &CpuExecutor,
    nic: &Memif,
    peers: &[u32],
    end: impl FnOnce() -> Result<u64, Error>,
) -> Result<Sample, Error> {
    let back = Plain::ReceiveCount;
    let back = Measurement::start(executor, back, nic, 0, Placement::Thread(0))?;
    let generator = generate(executor, nic)?;
    let value = setting.rate(peers, || back.counters().received)?;
    let sent = generator.finish(JOIN)?;
    setting.settle(|| back.counters().received)?;
    let dropped = end()?;
    let counters = back.finish(JOIN)?;
    well_formed(counters.malformed)?;
    sample(setting, "receive_count", value, sent, dropped)
}

/// testpmd flowgen, testpmd macswap.
fn flowgen(setting: &Setting) -> Result<Sample, Error> {
    let socket = setting.socket();
    let mut there = peer(setting, "server", &socket, FAR, "macswap")?;
    let mut source = peer(setting, "client", &socket, NEAR, "flowgen")?;
    let value = source.rate(&[there.id()])?.received;
    let sent = source.stop()?.sent;
    let totals = there.stop()?;
    source.finish()?;
    there.finish()?;
    sample(setting, "testpmd flowgen", value, sent, totals.unsent)
}

fn peer<'s>(
    setting: &'s Setting,
    role: &str,
    socket: &Path,
    core: usize,
    mode: &str,
) -> Result<Testpmd<'s>, Error> {
    let device = testpmd::memif(role, socket);
    let plan = Plan {
        namespace: None,
        device: &device,
        core,
        mode,
    };
    Testpmd::start(setting, plan)
}

fn generate(executor: &CpuExecutor, nic: &Memif) -> Result<Generation, Error> {
    let entry = traffic(nic.mac(), PEER_MAC);
    Ok(Generation::start(
        executor,
        &entry,
        nic,
        Placement::Thread(0),
    )?)
}

fn client(socket: &Path) -> Result<Memif, Error> {
    open(socket, "client")
}

/// Both ends of one interface, in this process.
fn joined(setting: &Setting) -> Result<(Memif, Memif), Error> {
    let socket = setting.socket();
    let (client, server) = thread::scope(|scope| {
        let server = scope.spawn(|| open(&socket, "server"));
        let client = client(&socket);
        let server = server.join();
        (
            client,
            server.unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        )
    });
    Ok((client?, server?))
}

/// Opens our end. Its service stays unused: the peer polls, and its end is ours to know.
fn open(socket: &Path, role: &str) -> Result<Memif, Error> {
    let words = format!("memif:{},role={role}", socket.display());
    let spec: NicSpec = words.parse()?;
    Ok(Memif::open(&spec)?)
}

fn well_formed(malformed: u64) -> Result<(), Error> {
    match malformed {
        0 => Ok(()),
        count => Err(Error::Malformed {
            what: "memif",
            count,
        }),
    }
}

/// Any address does: memif has none.
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 0x99];
