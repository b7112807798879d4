//! A wire between two ends that keeps what goes over it, and what a frame says on it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use warpwire_gpu::executor::Clock;
use warpwire_nic::soft::{Impairments, Uplink};

use crate::ends::Stage;

/// A frame on the wire. Read by offsets, not by the parsers that the engines have.
#[derive(Clone)]
pub(crate) struct Frame {
    /// The end that sent it.
    pub(crate) from: usize,
    /// When it left the sender.
    pub(crate) at_ns: u64,
    pub(crate) bytes: Vec<u8>,
}

/// The frames that went over a wire, in their order.
#[derive(Clone, Default)]
pub(crate) struct Wire(Arc<Mutex<Vec<Frame>>>);

type Lane = Arc<Mutex<VecDeque<Vec<u8>>>>;

/// One end of the wire.
struct Plug {
    from: usize,
    wire: Wire,
    clock: Clock,
    out: Lane,
    back: Lane,
}

impl Wire {
    /// Takes the place of the cable between both ends.
    pub(crate) fn between(stage: &Stage) -> Self {
        let wire = Self::default();
        let lanes = [(); 2].map(|()| Lane::default());
        for (from, nic) in stage.nics.iter().enumerate() {
            let plug = Plug {
                from,
                wire: wire.clone(),
                clock: stage.executor.clock(),
                out: Arc::clone(&lanes[from]),
                back: Arc::clone(&lanes[1 - from]),
            };
            let port = stage.fabric.attach(Box::new(plug), Impairments::default());
            stage.fabric.cable(nic.port(), port);
        }
        wire
    }

    /// What went over it since this was asked last.
    pub(crate) fn take(&self) -> Vec<Frame> {
        std::mem::take(&mut self.0.lock().expect("whole"))
    }
}

impl Uplink for Plug {
    fn name(&self) -> &str {
        "wire"
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        self.wire.0.lock().expect("whole").push(Frame {
            from: self.from,
            at_ns: self.clock.now_ns(),
            bytes: frame.to_vec(),
        });
        self.out.lock().expect("whole").push_back(frame.to_vec());
        true
    }

    fn receive(&mut self, into: &mut [u8], _now_ns: u64) -> Option<usize> {
        let frame = self.back.lock().expect("whole").pop_front()?;
        into.get_mut(..frame.len())?.copy_from_slice(&frame);
        Some(frame.len())
    }
}

impl Frame {
    pub(crate) fn half(&self, at: usize) -> u16 {
        u16::from_be_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    /// Priority and number of the VLAN, if there is a tag.
    pub(crate) fn tag(&self) -> Option<u16> {
        (self.half(12) == 0x8100).then(|| self.half(14))
    }

    /// Where the IP header begins.
    pub(crate) fn network(&self) -> usize {
        14 + 4 * usize::from(self.tag().is_some())
    }

    /// Where the UDP header begins.
    fn datagram(&self) -> usize {
        let network = self.network();
        network
            + match self.bytes[network] >> 4 {
                4 => 20,
                _ => 40,
            }
    }

    pub(crate) fn source_port(&self) -> u16 {
        self.half(self.datagram())
    }

    /// From the base transport header on.
    pub(crate) fn transport(&self) -> &[u8] {
        &self.bytes[self.datagram() + 8..]
    }

    pub(crate) fn opcode(&self) -> u8 {
        self.transport()[0]
    }

    pub(crate) fn is_solicited(&self) -> bool {
        self.transport()[1] & 0x80 != 0
    }

    pub(crate) fn pkey(&self) -> u16 {
        u16::from_be_bytes([self.transport()[2], self.transport()[3]])
    }

    /// The queue pair that it goes to.
    pub(crate) fn queue_pair(&self) -> u32 {
        let transport = self.transport();
        u32::from_be_bytes([0, transport[5], transport[6], transport[7]])
    }

    /// Of an acknowledgement: its syndrome.
    pub(crate) fn syndrome(&self) -> u8 {
        self.transport()[12]
    }
}
