//! Frames that arrive while the lanes of a warp look: what counts is a prefix without a gap.
#![expect(unsafe_code, reason = "wraps the promise of the queue within")]

use std::sync::Mutex;

use warpwire_gpu::executor::Backend;
use warpwire_ring::{
    Cause, DeviceAddress, Format, Meta, Phase, QueueBlock, Receive, Segment, Transmit, Trigger,
};

use crate::kernels::{Kernel, Port, row};
use crate::stage::Stage;
use crate::wires::{Memif, Mlx5, Server, Wire, rx_cursor};

type Arrivals = Box<dyn FnMut() + std::marker::Send>;

/// What happens at every look of every lane; one test at a time.
static ARRIVALS: Mutex<Option<Arrivals>> = Mutex::new(None);

fn arrive() {
    if let Some(arrivals) = ARRIVALS.lock().expect("no panic within").as_mut() {
        arrivals();
    }
}

/// A queue where something may arrive just before each look.
#[derive(Clone, Copy)]
struct Live<R>(R);

impl<R: Receive> Receive for Live<R> {
    const FORMAT: Format = R::FORMAT;
    const PHASED: bool = R::PHASED;
    const REFILLS: bool = R::REFILLS;
    const SCATTER: bool = R::SCATTER;

    unsafe fn attach(block: &QueueBlock) -> Result<Self, Cause> {
        // SAFETY: passed on.
        unsafe { R::attach(block) }.map(Self)
    }

    fn produced(&self, near: u64) -> u64 {
        arrive();
        self.0.produced(near)
    }

    fn owned(&self, index: u64) -> Phase {
        arrive();
        self.0.owned(index)
    }

    fn first_segment(&self, index: u64, word: u32) -> Segment {
        self.0.first_segment(index, word)
    }

    fn depth(&self) -> u32 {
        self.0.depth()
    }

    fn pool(&self) -> u64 {
        self.0.pool()
    }

    fn observe(&self) {
        self.0.observe();
    }

    fn segment(&self, index: u64, part: u32) -> Segment {
        self.0.segment(index, part)
    }

    fn meta(&self, index: u64) -> Meta {
        self.0.meta(index)
    }

    fn fault(&self, index: u64) -> Cause {
        self.0.fault(index)
    }

    fn exchange(&self, index: u64, buffer: DeviceAddress) {
        self.0.exchange(index, buffer);
    }

    fn refill(&self, index: u64) {
        self.0.refill(index);
    }

    fn release(&self, upto: u64) -> Trigger {
        self.0.release(upto)
    }
}

/// Looks all the time; every frame carries the number of its slot.
struct Count;

impl<R: Receive, T: Transmit> Kernel<R, T> for Count {
    fn run<S: warpwire_device::Simt>(simt: &S, port: &mut Port<R, T>) -> Result<(), Cause> {
        let Port { rx, sums, work, .. } = port;
        for _ in 0..work.rounds {
            let batch = rx.peek(simt, work.batch as u32)?;
            let mut base = 0;
            while base < batch.slots() {
                let i = base + simt.lane();
                if i < batch.slots() {
                    let frame = rx.frame(&batch, i);
                    let number = frame.and_then(|frame| frame.head().be32(4));
                    let right = number == Some((batch.first() + u64::from(i)) as u32);
                    if let Some(counter) = sums.at(u32::from(!right)) {
                        simt.add(counter, 1);
                    }
                }
                base += S::WIDTH;
            }
            rx.release(simt, batch);
        }
        Ok(())
    }
}

/// The block of a wire is the same for the wrapped queue: `attach` passes it on.
fn check<W: Wire + std::marker::Send + 'static>(name: &str, least: u32) {
    for seed in 0..24 {
        let wire = W::new(128, 0);
        let blocks = (wire.rx_block(), wire.tx_block());
        let stage = Stage::new(Backend::Lockstep { seed });
        let shared = std::sync::Arc::new(Mutex::new((wire, 0_u32)));
        let arriving = std::sync::Arc::clone(&shared);
        let mut dice = seed;
        let arrivals = move || {
            dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let (wire, number) = &mut *arriving.lock().expect("no panic within");
            // Now one, now none, now a burst: lanes see different queues.
            for _ in 0..[0, 0, 1, 3][(dice >> 40) as usize % 4] {
                let mut frame = [0; 64];
                frame[4..8].copy_from_slice(&number.to_be_bytes());
                if wire.deliver(&frame) {
                    *number += 1;
                }
            }
        };
        *ARRIVALS.lock().expect("no panic within") = Some(Box::new(arrivals));
        let busy = row::<Count, Live<W::Rx>, W::Tx>();
        assert_eq!(stage.run(&busy, blocks, (60, 64, 0)), 0);
        ARRIVALS.lock().expect("no panic within").take();
        // Nothing arrives any more: what is left is taken.
        let quiet = row::<Count, W::Rx, W::Tx>();
        assert_eq!(stage.run(&quiet, blocks, (20, 64, 0)), 0);
        let (wire, number) = &*shared.lock().expect("no panic within");
        let sums = stage.sums();
        assert_eq!(sums[1], 0, "{name} seed {seed}: a frame out of its place");
        assert_eq!(sums[0], u64::from(*number), "{name} seed {seed}: all, once");
        assert!(*number > least, "{name} seed {seed}: only {number} arrived");
        let cursor = rx_cursor(wire);
        assert_eq!((cursor.frames, cursor.head), (sums[0], cursor.released));
    }
}

#[test]
fn a_batch_has_no_gap_while_frames_arrive() {
    // One after the other: there is one place for arrivals.
    check::<Mlx5<1>>("mlx5", 300);
    check::<Memif<Server>>("memif server", 40);
}
