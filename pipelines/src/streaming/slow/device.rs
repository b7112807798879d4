//! The link as smoltcp sees it: one frame that came in, and a bounded queue of those to go out.

use std::collections::VecDeque;

use smoltcp::phy::{Checksum, Device, DeviceCapabilities, Medium, RxToken, TxToken};
use smoltcp::time::Instant;

/// Frames that wait to be sent at most.
pub(super) const MOST_FRAMES: usize = 64;

/// The link.
#[derive(Debug)]
pub(super) struct Port {
    next: Option<Vec<u8>>,
    out: VecDeque<Vec<u8>>,
    mtu: u16,
    /// Frames that were given to be sent, and those of them for which there was no room.
    offered: u64,
    lost: u64,
}

impl Port {
    /// A link for IP packets of up to `mtu` bytes.
    pub(super) const fn new(mtu: u16) -> Self {
        Self {
            next: None,
            out: VecDeque::new(),
            mtu,
            offered: 0,
            lost: 0,
        }
    }

    /// Puts a frame where smoltcp looks next.
    pub(super) fn receive_next(&mut self, frame: &[u8]) {
        self.next = Some(frame.to_vec());
    }

    /// Puts a frame in line, if there is room.
    pub(super) fn send(&mut self, frame: Vec<u8>) {
        self.offered += 1;
        if self.out.len() < MOST_FRAMES {
            self.out.push_back(frame);
        } else {
            self.lost += 1;
        }
    }

    /// The next frame to be sent.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        self.out.pop_front()
    }

    pub(super) const fn offered(&self) -> u64 {
        self.offered
    }

    pub(super) const fn lost(&self) -> u64 {
        self.lost
    }
}

impl Device for Port {
    type RxToken<'a> = Received;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _now: Instant) -> Option<(Received, Sending<'_>)> {
        let frame = self.next.take()?;
        Some((Received(frame), Sending(self)))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Sending<'_>> {
        Some(Sending(self))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = usize::from(self.mtu) + 14;
        capabilities.max_burst_size = Some(1);
        // Datagrams are refused only, whatever their sum; a peer on this machine may leave it out.
        capabilities.checksum.udp = Checksum::Tx;
        capabilities
    }
}

/// A frame that came in.
pub(super) struct Received(Vec<u8>);

impl RxToken for Received {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

/// A place for a frame to go out.
pub(super) struct Sending<'a>(&'a mut Port);

impl TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut frame = vec![0; length];
        let written = write(&mut frame);
        self.0.send(frame);
        written
    }
}
