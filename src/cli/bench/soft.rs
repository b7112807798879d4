//! The soft NIC with its device model on the other processor, and what any hand-off of payload
//! between two processors could do at best.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

use warpwire_gpu::executor::Placement;
use warpwire_nic::Nic;
use warpwire_nic::soft::{AdapterConfig, Clock, Fabric, FabricConfig, Impairments, Offloads};
use warpwire_pipelines::runtime::{Generation, Measurement, Plain};

use super::error::Error;
use super::machine;
use super::row::{Sample, Side};
use super::setting::{FAR, JOIN, NEAR, Setting, sample, traffic};

/// Our kernels over the device model, or bare rings.
pub(super) fn soft(setting: &Setting, side: Side) -> Result<Sample, Error> {
    match side {
        Side::Ours => model(setting),
        Side::Peer => hand_off(setting),
    }
}

/// Generator and count on one processor, on a NIC that is plugged into itself; on the other one the
/// model, which copies every frame.
fn model(setting: &Setting) -> Result<Sample, Error> {
    let fabric = Fabric::new(FabricConfig::default(), Clock::system());
    let config = AdapterConfig {
        offloads: Offloads {
            checksum: false,
            hash: false,
            vlan_strip: false,
        },
        ..AdapterConfig::default()
    };
    let nic = fabric.plug("soft".parse()?, config, Impairments::default())?;
    fabric.cable(nic.port(), nic.port());
    let executor = setting.executor(&[NEAR, FAR])?;
    let service = executor.add_service(Box::new(fabric.service()), Placement::Thread(1))?;
    let count = Plain::ReceiveCount;
    let count = Measurement::start(&executor, count, &nic, 0, Placement::Thread(0))?;
    let entry = traffic(nic.mac(), nic.mac());
    let generator = Generation::start(&executor, &entry, &nic, Placement::Thread(0))?;
    let value = setting.rate(&[], || count.counters().received)?;
    let sent = generator.finish(JOIN)?;
    setting.settle(|| count.counters().received)?;
    let counters = count.finish(JOIN)?;
    service.stop(JOIN)?;
    executor.shutdown(JOIN)?;
    match counters.malformed {
        0 => sample(
            setting,
            "receive_count",
            value,
            sent,
            sent.saturating_sub(counters.received),
        ),
        count => Err(Error::Malformed {
            what: "soft",
            count,
        }),
    }
}

/// Rings written by hand: a descriptor and 64 bytes of payload written on one processor and read on
/// the other, and the buffer handed back.
fn hand_off(setting: &Setting) -> Result<Sample, Error> {
    let rings = Rings::new();
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let producer = scope.spawn(|| {
            machine::pin(NEAR)?;
            let mut producer = Producer {
                rings: &rings,
                sent: 0,
                free: 0,
            };
            while !over.load(Ordering::Relaxed) {
                producer.turn();
            }
            Ok(producer.sent)
        });
        let consumer = scope.spawn(|| {
            machine::pin(FAR)?;
            let mut consumer = Consumer {
                rings: &rings,
                taken: 0,
                known: 0,
                wrong: 0,
            };
            while !over.load(Ordering::Relaxed) {
                consumer.turn();
            }
            Ok(consumer.wrong)
        });
        let value = setting.rate(&[], || rings.consumed.0.load(Ordering::Relaxed));
        over.store(true, Ordering::Relaxed);
        let sent: Result<u64, Error> = producer.join().unwrap_or_else(resume);
        let wrong: Result<u64, Error> = consumer.join().unwrap_or_else(resume);
        let (value, sent, count) = (value?, sent?, wrong?);
        match count {
            0 => sample(setting, "the bare ring", value, sent, 0),
            count => Err(Error::Malformed {
                what: "the bare ring",
                count,
            }),
        }
    })
}

fn resume<T>(panic: Box<dyn std::any::Any + Send>) -> T {
    std::panic::resume_unwind(panic)
}

/// What both processors share.
struct Rings {
    descriptors: Vec<[AtomicU64; 2]>,
    buffers: Vec<Buffer>,
    produced: Line,
    consumed: Line,
}

/// A buffer of which a frame takes the first 64 bytes, as far from the next as those of a NIC.
#[derive(Default)]
#[repr(C, align(2048))]
struct Buffer([AtomicU64; 8]);

/// A word that has its line, and the next, which processors fetch with it, for itself.
#[derive(Default)]
#[repr(align(128))]
struct Line(AtomicU64);

impl Rings {
    fn new() -> Self {
        Self {
            descriptors: (0..SLOTS).map(|_| Default::default()).collect(),
            buffers: (0..SLOTS).map(|_| Buffer::default()).collect(),
            produced: Line::default(),
            consumed: Line::default(),
        }
    }

    fn slot(&self, index: u64) -> Option<(&[AtomicU64; 2], &Buffer)> {
        let place = (index % SLOTS) as usize;
        Some((self.descriptors.get(place)?, self.buffers.get(place)?))
    }
}

struct Producer<'r> {
    rings: &'r Rings,
    sent: u64,
    free: u64,
}

impl Producer<'_> {
    fn turn(&mut self) {
        if self.sent + BATCH - self.free > SLOTS {
            // pairs with: the release of the consumer
            self.free = self.rings.consumed.0.load(Ordering::Acquire);
            return;
        }
        for index in self.sent..self.sent + BATCH {
            let Some((descriptor, buffer)) = self.rings.slot(index) else {
                return;
            };
            for (place, word) in (0..).zip(&buffer.0) {
                word.store(index ^ place, Ordering::Relaxed);
            }
            descriptor[0].store(index % SLOTS, Ordering::Relaxed);
            descriptor[1].store(64, Ordering::Relaxed);
        }
        self.sent += BATCH;
        // pairs with: the acquire of the consumer
        self.rings.produced.0.store(self.sent, Ordering::Release);
    }
}

struct Consumer<'r> {
    rings: &'r Rings,
    taken: u64,
    known: u64,
    wrong: u64,
}

impl Consumer<'_> {
    fn turn(&mut self) {
        if self.known == self.taken {
            // pairs with: the release of the producer
            self.known = self.rings.produced.0.load(Ordering::Acquire);
        }
        let upto = self.known.min(self.taken + BATCH);
        for index in self.taken..upto {
            let Some((descriptor, _)) = self.rings.slot(index) else {
                return;
            };
            // The buffer is the one that the descriptor names.
            let Some((_, buffer)) = self.rings.slot(descriptor[0].load(Ordering::Relaxed)) else {
                return;
            };
            let length = descriptor[1].load(Ordering::Relaxed);
            let words = buffer.0.iter().map(|word| word.load(Ordering::Relaxed));
            // Each is the number of the frame with the word's place in it.
            let all = words.fold(0, |all, word| all | (word ^ index));
            self.wrong += u64::from(all > 7 || length != 64);
        }
        if upto > self.taken {
            self.taken = upto;
            // pairs with: the acquire of the producer
            self.rings.consumed.0.store(self.taken, Ordering::Release);
        }
    }
}

const SLOTS: u64 = 1024;
const BATCH: u64 = 32;
