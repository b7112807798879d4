//! A host-side loop over the verbs: what device code does, as plainly as possible.
#![expect(unsafe_code, reason = "plays device code over a NIC's queues")]

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use warpwire_gpu::Service;
use warpwire_nic::{Nic, NicSpec, QueuePair, xdp};
use warpwire_ring::memory::{copy_in, copy_out};
use warpwire_ring::verbs::{Receive, Transmit};
use warpwire_ring::xdp::{RxQueue, TxQueue};
use warpwire_ring::{Post, PostFlags, Trigger};

use crate::packet::partial_sum;

/// A NIC with its queues driven from the test's thread.
pub(crate) struct Port {
    pub(crate) nic: xdp::XdpNic,
    services: Vec<Box<dyn Service>>,
    pub(crate) queues: Vec<Queue>,
}

/// One queue pair and where its driver stands.
pub(crate) struct Queue {
    rx: RxQueue,
    tx: TxQueue,
    head: u64,
    reserved: u64,
    completed: u64,
    /// Frames received here.
    pub(crate) frames: u64,
    /// Triggers that were system calls.
    pub(crate) calls: u64,
}

impl Queue {
    fn new(pair: &QueuePair) -> Self {
        // SAFETY: the port keeps the NIC, and with it the memory; nobody else drives the queue.
        let rx = unsafe { RxQueue::attach(&pair.receive) }.expect("receive block");
        // SAFETY: as above.
        let tx = unsafe { TxQueue::attach(&pair.transmit) }.expect("transmit block");
        Self {
            rx,
            tx,
            head: 0,
            reserved: 0,
            completed: 0,
            frames: 0,
            calls: 0,
        }
    }

    /// The slots of the next whole frame.
    fn next(&self) -> Option<std::ops::Range<u64>> {
        let upto = self.rx.produced(self.head);
        (self.head..upto)
            .find(|&slot| !self.rx.segment(slot, 0).more())
            .map(|last| self.head..last + 1)
    }

    fn give_back(&mut self, slots: std::ops::Range<u64>) {
        slots.clone().for_each(|slot| self.rx.refill(slot));
        self.head = slots.end;
        if self.rx.release(self.head) == Trigger::SystemCall {
            self.calls += 1;
        }
        self.frames += 1;
    }

    /// The next frame's bytes and how many slots it took.
    pub(crate) fn receive(&mut self) -> Option<(Vec<u8>, usize)> {
        let slots = self.next()?;
        let mut frame = Vec::new();
        for slot in slots.clone() {
            let segment = self.rx.segment(slot, 0);
            assert!(!segment.fault(), "slot {slot}");
            let mut piece = vec![0; segment.length as usize];
            // SAFETY: the segment was bounds-checked and the slot is ours.
            unsafe { copy_out(segment.address, &mut piece) }
            frame.extend(piece);
        }
        let pieces = (slots.end - slots.start) as usize;
        self.give_back(slots);
        Some((frame, pieces))
    }

    fn harvest(&mut self) {
        let upto = self.tx.completions(self.completed);
        (self.completed..upto).for_each(|entry| self.tx.recycle(entry));
        self.tx.retire(upto);
        self.completed = upto;
    }

    fn credits(&self) -> u64 {
        u64::from(self.tx.depth()) - (self.reserved - self.completed)
    }

    fn ring(&mut self) {
        self.tx.publish(self.reserved);
        if self.tx.ring(self.reserved) == Trigger::SystemCall {
            self.calls += 1;
        }
    }

    /// Posts a frame from the slots' own buffers. Says no without room.
    pub(crate) fn send(&mut self, frame: &[u8], checksum: Option<(u16, u16)>) -> bool {
        self.harvest();
        let capacity = self.tx.buffer(self.reserved).capacity as usize;
        let parts = frame.len().div_ceil(capacity) as u32;
        if u64::from(parts) > self.credits() {
            return false;
        }
        let (checksum_start, checksum_offset) = checksum.unwrap_or((0, 0));
        for (part, bytes) in frame.chunks(capacity).enumerate() {
            let slot = self.reserved + part as u64;
            let address = self.tx.buffer(slot).address;
            // SAFETY: a free slot's buffer is ours and as long as its capacity.
            unsafe { copy_in(bytes, address) }
            let post = Post {
                address,
                length: bytes.len() as u32,
                part: part as u32,
                parts,
                flags: match checksum {
                    Some(_) => PostFlags::OFFLOAD_L4,
                    None => PostFlags::empty(),
                },
                checksum_start,
                checksum_offset,
                reserved: 0,
            };
            self.tx.write(slot, &post).expect("fits");
        }
        self.reserved += u64::from(parts);
        self.ring();
        true
    }

    /// Sends the next frame back from the buffers it arrived in, its Ethernet addresses exchanged.
    pub(crate) fn swap(&mut self) -> bool {
        self.harvest();
        let Some(slots) = self.next() else {
            return false;
        };
        let head = self.rx.segment(self.head, 0).address;
        let mut addresses = [0; 12];
        // SAFETY: bounds-checked, and the slot is ours.
        unsafe { copy_out(head, &mut addresses) }
        addresses.rotate_left(6);
        if slots.end - slots.start > self.credits() {
            return false;
        }
        // SAFETY: as above.
        unsafe { copy_in(&addresses, head) }
        let rx = self.rx;
        self.post_from(&rx, slots.clone());
        self.give_back(slots);
        true
    }

    /// Sends the next frame out of another queue of the same memory, as it is; if its checksum is
    /// left to be filled in, asks for that.
    pub(crate) fn forward(&mut self, to: &mut Queue) -> bool {
        to.harvest();
        let Some(slots) = self.next() else {
            return false;
        };
        if slots.end - slots.start > to.credits() {
            return false;
        }
        to.post_from(&self.rx, slots.clone());
        self.give_back(slots);
        true
    }

    /// Posts a frame of `rx` from the buffers it lies in; the slots' own buffers go there instead.
    fn post_from(&mut self, rx: &RxQueue, slots: std::ops::Range<u64>) {
        let parts = (slots.end - slots.start) as u32;
        for (part, from) in slots.enumerate() {
            let segment = rx.segment(from, 0);
            let mut head = vec![0; segment.length.min(64) as usize];
            // SAFETY: bounds-checked, and the slot is ours.
            unsafe { copy_out(segment.address, &mut head) }
            let partial = if part == 0 { partial_sum(&head) } else { None };
            let (checksum_start, checksum_offset) = partial.unwrap_or((0, 0));
            let to = self.reserved + part as u64;
            let old = self.tx.exchange(to, segment.address);
            rx.exchange(from, old);
            let post = Post {
                address: segment.address,
                length: segment.length,
                part: part as u32,
                parts,
                flags: match partial {
                    Some(_) => PostFlags::OFFLOAD_L4,
                    None => PostFlags::empty(),
                },
                checksum_start,
                checksum_offset,
                reserved: 0,
            };
            self.tx.write(to, &post).expect("the slot owns the chunk");
        }
        self.reserved += u64::from(parts);
        self.ring();
    }
}

impl Port {
    pub(crate) fn open(words: &str) -> Self {
        Self::try_open(words).unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) fn try_open(words: &str) -> Result<Self, warpwire_nic::Error> {
        Ok(Self::over(xdp::open(&words.parse()?)?))
    }

    /// Two NICs over one memory.
    pub(crate) fn open_two(words: [String; 2]) -> [Self; 2] {
        let specs = words.map(|words| words.parse::<NicSpec>().expect("words"));
        let nics = xdp::open_all(&specs).unwrap_or_else(|error| panic!("{error}"));
        let ports: Vec<Self> = nics.into_iter().map(Self::over).collect();
        ports.try_into().ok().expect("two")
    }

    fn over(mut nic: xdp::XdpNic) -> Self {
        let services = nic.take_services();
        let queues = nic.queues().iter().map(Queue::new).collect();
        Self {
            nic,
            services,
            queues,
        }
    }

    /// What the host does beside the kernel.
    pub(crate) fn serve(&mut self) {
        for service in &mut self.services {
            service.run(256);
        }
    }

    /// Collects frames until `enough` says so or a while is over.
    pub(crate) fn collect(
        &mut self,
        mut enough: impl FnMut(&VecDeque<(Vec<u8>, usize)>) -> bool,
    ) -> VecDeque<(Vec<u8>, usize)> {
        let until = Instant::now() + Duration::from_secs(5);
        let mut frames = VecDeque::new();
        while !enough(&frames) && Instant::now() < until {
            self.serve();
            for queue in &mut self.queues {
                frames.extend(std::iter::from_fn(|| queue.receive()));
            }
        }
        frames
    }

    /// Swaps until `enough` frames went back or a while is over.
    pub(crate) fn swap(&mut self, enough: usize) -> usize {
        let until = Instant::now() + Duration::from_secs(5);
        let mut done = 0;
        while done < enough && Instant::now() < until {
            for queue in &mut self.queues {
                done += usize::from(queue.swap());
            }
            self.serve();
        }
        done
    }

    /// A counter by name.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        let counters = self.nic.counters();
        let mut all = counters.drops.iter().chain(&counters.other);
        let found = all.find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no counter {name}")).1
    }
}

/// Makes the kernel cut what is sent into datagrams of so many bytes, as late as it can.
pub(crate) fn set_segment_bytes(socket: &std::net::UdpSocket, bytes: libc::c_int) {
    use std::os::fd::AsRawFd;
    const UDP_SEGMENT: libc::c_int = 103;
    let (fd, pointer) = (socket.as_raw_fd(), &raw const bytes);
    let length = size_of_val(&bytes) as libc::socklen_t;
    // SAFETY: the value is live and as long as said.
    let set = unsafe { libc::setsockopt(fd, libc::SOL_UDP, UDP_SEGMENT, pointer.cast(), length) };
    assert_eq!(set, 0, "UDP_SEGMENT");
}
