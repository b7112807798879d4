//! Kernels over one port, written once for every width.
#![expect(
    unsafe_code,
    reason = "kernels get an address and promise to know what is there"
)]

use warpwire_device::{Area, Frame, KernelRow, Lockstep, Receiver, Scalar, Sender};
use warpwire_device::{SharedCounters, Simt};
use warpwire_ring::{
    Cause, DeviceAddress, Post, QueueBlock, Receive, Region, Transmit, layout_hash,
};

/// What every kernel here gets.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Work {
    pub(crate) rx: QueueBlock,
    pub(crate) tx: QueueBlock,
    /// Where payload goes.
    pub(crate) area: Region,
    /// [`SUMS`] counters.
    pub(crate) sums: DeviceAddress,
    /// How often the kernel looks.
    pub(crate) rounds: u64,
    /// Slots of a batch at most.
    pub(crate) batch: u64,
    /// Decides what is dropped and what fails.
    pub(crate) salt: u64,
}

pub(crate) const SUMS: u32 = 8;
pub(crate) const LAYOUT: u64 = layout_hash!(Work {
    rx,
    tx,
    area,
    sums,
    rounds,
    batch,
    salt
});

/// The port of a kernel.
pub(crate) struct Port<R, T> {
    pub(crate) rx: Receiver<R>,
    pub(crate) tx: Sender<T>,
    pub(crate) area: Area,
    pub(crate) sums: SharedCounters,
    pub(crate) work: Work,
}

/// A frame in figures.
fn words(frame: Frame<'_>) -> (u64, u32, u32, u64, u32) {
    let (first, slots, length) = (frame.first(), frame.slots(), frame.length());
    let address = frame.head().address().value();
    (first, slots, length, address, frame.available())
}

/// Passes on what is not dropped, as much as there are credits for.
pub(crate) fn forward<S: Simt, R: Receive, T: Transmit>(
    simt: &S,
    port: &mut Port<R, T>,
) -> Result<(), Cause> {
    let Port { rx, tx, work, .. } = port;
    for _ in 0..work.rounds {
        let credits = tx.credits(simt, work.batch as u32)?;
        let batch = rx.peek(simt, credits)?;
        let room = tx.credits(simt, batch.slots())?;
        tx.reserve(simt, room)?;
        let mut base = 0;
        while base < batch.slots() {
            let frame = rx.frame(&batch, base + simt.lane());
            // Found when the batch was taken, or now: it is the same.
            let own = rx.lane_frame(simt, &batch, base);
            assert_eq!(own.map(words), frame.map(words));
            let wanted = frame.filter(|frame| !is_dropped(frame, work.salt));
            let parts = wanted.map_or(0, |frame| tx.parts_for(rx.reader(), &frame));
            let claim = tx.claim(simt, parts);
            if let (Some(claim), Some(frame)) = (claim, wanted) {
                let _ = tx.pass(rx.reader(), frame, &claim);
                tx.count_headers(1);
            }
            base += S::WIDTH;
        }
        tx.publish(simt)?;
        tx.ring(simt);
        rx.release(simt, batch);
    }
    Ok(())
}

/// Splits batches into leases that go back in an order of their own, and adds up what was seen.
pub(crate) fn lend<S: Simt, R: Receive, T: Transmit>(
    simt: &S,
    port: &mut Port<R, T>,
) -> Result<(), Cause> {
    let Port { rx, work, sums, .. } = port;
    for _ in 0..work.rounds {
        let batch = rx.peek(simt, work.batch as u32)?;
        let lent = rx.lend(simt, batch);
        // Odd slots first: nothing goes back before the even ones do.
        for odd in [1, 0] {
            let mut base = 0;
            while base < lent.slots() {
                let i = base + simt.lane();
                let lease = lent.lease(i).filter(|lease| lease.first() % 2 == odd);
                if let Some(lease) = lease {
                    if let Some(frame) = rx.reader().leased(&lease) {
                        add(simt, sums, 0, checksum(rx, &frame));
                    }
                    rx.reader().give_back(lease);
                }
                base += S::WIDTH;
            }
            simt.sync_warp();
        }
        rx.collect(simt);
    }
    Ok(())
}

/// Sends frames of one to three parts; every fifth batch has one that cannot be sent.
pub(crate) fn send<S: Simt, R: Receive, T: Transmit>(
    simt: &S,
    port: &mut Port<R, T>,
) -> Result<(), Cause> {
    let Port { tx, work, sums, .. } = port;
    for round in 0..work.rounds {
        let frames = work.batch as u32;
        let room = tx.credits(simt, frames * 2)?;
        tx.reserve(simt, room)?;
        let seed = work.salt ^ round;
        let bad = if seed % 5 == 4 {
            seed as u32 % frames
        } else {
            u32::MAX
        };
        let mut base = 0;
        while base < frames {
            let i = base + simt.lane();
            let number = seed.wrapping_mul(64) + u64::from(i);
            let parts = if i < frames {
                (number % 3) as u32 + 1
            } else {
                0
            };
            if let Some(claim) = tx.claim(simt, parts) {
                for part in 0..claim.parts() {
                    let length = 60 + (number as u32 + part) % 30;
                    let Some(slot) = tx.slot(&claim, part) else {
                        continue;
                    };
                    for at in 0..length {
                        slot.set_byte(at, (number as u32 + part * 31 + at) as u8);
                    }
                    let address = if i == bad {
                        DeviceAddress::new(64)
                    } else {
                        slot.address()
                    };
                    let post = Post {
                        address,
                        length,
                        part,
                        ..Post::default()
                    };
                    if tx.write(&claim, &post).is_err() {
                        break;
                    }
                }
            }
            base += S::WIDTH;
        }
        if tx.publish(simt).is_err() && simt.is_leader() {
            add(simt, sums, 1, 1);
        }
        tx.ring(simt);
    }
    Ok(())
}

/// Gathers the payload of every frame, one behind the other.
pub(crate) fn gather<S: Simt, R: Receive, T: Transmit>(
    simt: &S,
    port: &mut Port<R, T>,
) -> Result<(), Cause> {
    let Port {
        rx,
        area,
        work,
        sums,
        ..
    } = port;
    let mut end = 0;
    for _ in 0..work.rounds {
        let batch = rx.peek(simt, work.batch as u32)?;
        for i in 0..batch.slots() {
            if let Some(frame) = rx.frame(&batch, i) {
                end += u64::from(rx.gather(simt, &frame, 14, area, end)?);
            }
        }
        rx.release(simt, batch);
    }
    if simt.is_leader() {
        add(simt, sums, 2, end);
    }
    Ok(())
}

fn is_dropped(frame: &Frame<'_>, salt: u64) -> bool {
    let first = frame.head().byte(0).map_or(0, u64::from);
    (first ^ salt) % 4 == 1
}

fn checksum<R: Receive>(rx: &Receiver<R>, frame: &Frame<'_>) -> u64 {
    let mut bytes = [0; 64];
    let (mut sum, mut offset) = (u64::from(frame.length()), 0);
    while let there @ 1.. = rx.copy_out(frame, offset, &mut bytes) {
        for (at, byte) in bytes.iter().take(there).enumerate() {
            sum += u64::from(*byte) * (u64::from(offset) + at as u64 + 1);
        }
        offset += there as u32;
    }
    sum
}

fn add<S: Simt>(simt: &S, sums: &SharedCounters, index: u32, value: u64) {
    if let Some(counter) = sums.at(index) {
        simt.add(counter, value);
    }
}

/// A kernel for a format, at both widths.
pub(crate) trait Kernel<R: Receive, T: Transmit> {
    fn run<S: Simt>(simt: &S, port: &mut Port<R, T>) -> Result<(), Cause>;
}

macro_rules! kernels {
    ($($name:ident: $function:ident;)*) => { $(
        pub(crate) struct $name;
        impl<R: Receive, T: Transmit> Kernel<R, T> for $name {
            fn run<S: Simt>(simt: &S, port: &mut Port<R, T>) -> Result<(), Cause> {
                $function(simt, port)
            }
        }
    )* };
}
kernels! {
    Forward: forward;
    Lend: lend;
    Send: send;
    Gather: gather;
}

pub(crate) fn row<K: Kernel<R, T>, R: Receive, T: Transmit>() -> KernelRow {
    KernelRow {
        name: "queues",
        layout: LAYOUT,
        scalar: scalar::<K, R, T>,
        lockstep: lockstep::<K, R, T>,
    }
}

/// # Safety
/// *The kernel's promise* for a [`Work`].
unsafe fn scalar<K: Kernel<R, T>, R: Receive, T: Transmit>(
    simt: &Scalar<'_>,
    block: DeviceAddress,
) -> u32 {
    // SAFETY: passed on.
    unsafe { enter::<K, R, T, _>(simt, block) }
}

/// # Safety
/// *The kernel's promise* for a [`Work`].
unsafe fn lockstep<K: Kernel<R, T>, R: Receive, T: Transmit>(
    simt: &Lockstep<'_>,
    block: DeviceAddress,
) -> u32 {
    // SAFETY: passed on.
    unsafe { enter::<K, R, T, _>(simt, block) }
}

/// # Safety
/// *The kernel's promise* for a [`Work`].
unsafe fn enter<K: Kernel<R, T>, R: Receive, T: Transmit, S: Simt>(
    simt: &S,
    block: DeviceAddress,
) -> u32 {
    // SAFETY: a block of this layout is there.
    let work = unsafe { *(block.value() as *const Work) };
    // SAFETY: the promise of the queue in the block.
    let rx = unsafe { Receiver::attach(&work.rx) };
    // SAFETY: the promise of the queue in the block.
    let tx = unsafe { Sender::attach(&work.tx) };
    let (Ok(rx), Ok(tx)) = (rx, tx) else {
        return Cause::LayoutMismatch as u32;
    };
    let mut port = Port {
        rx,
        tx,
        // SAFETY: the promise of the region in the block.
        area: unsafe { Area::attach(work.area) },
        // SAFETY: the promise of the counters in the block.
        sums: unsafe { SharedCounters::attach(work.sums, SUMS) },
        work,
    };
    let result = K::run(simt, &mut port);
    port.rx.save(simt);
    port.tx.save(simt);
    result.map_or_else(|cause| cause as u32, |()| 0)
}
