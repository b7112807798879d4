//! What came of the set-up: abilities, and choices with their reasons.

use warpwire_ring::{Format, Trigger};

use super::attach::Attached;
use super::bind::{Bound, Share};
use super::open::{Setup, frame_bytes};
use super::queue::MAX_PARTS;
use crate::interfaces::Interface;
use crate::{Caps, Features};

impl Setup<'_> {
    pub(super) fn caps(&self, interface: &Interface, bound: &Bound, queues: u32) -> Caps {
        let mut features = Features::ZERO_COPY_FORWARD;
        let driver_checksum = interface
            .native
            .is_some_and(|native| native.transmit_checksum);
        let checksum = bound.metadata && (!bound.zero_copy || driver_checksum);
        features.set(Features::RX_SEGMENTS, bound.multi_buffer);
        features.set(Features::TX_SEGMENTS, bound.multi_buffer);
        features.set(Features::TX_L4_CHECKSUM, checksum);
        features.set(Features::SPREAD, queues > 1);
        features.set(Features::RX_PARTIAL_CHECKSUM, is_virtual(interface));
        let parts = if bound.multi_buffer { MAX_PARTS } else { 1 };
        Caps {
            format: Format::Xdp,
            queues,
            rx_depth: self.options.depth,
            tx_depth: self.options.depth,
            slot_bytes: self.piece_bytes(),
            max_frame_bytes: frame_bytes(interface).min(self.piece_bytes() * parts),
            trigger: Trigger::SystemCall,
            features,
        }
    }

    pub(super) fn choices(
        &self,
        interface: &Interface,
        attached: &Attached,
        bound: &Bound,
        queues: u32,
        share: &Share<'_>,
    ) -> Vec<String> {
        let Attached { mode, why, .. } = attached;
        let arena = &share.memory.arena;
        let yes_no = |yes| if yes { "yes" } else { "no" };
        let mut lines = vec![
            format!("XDP mode: {}: {why}", format!("{mode:?}").to_lowercase()),
            match bound.zero_copy {
                true => "frames: the driver shares our memory".to_owned(),
                false => "frames: copied by the kernel".to_owned(),
            },
            format!(
                "frames of several pieces: {} (Linux 6.6)",
                yes_no(bound.multi_buffer)
            ),
            format!("checksum requests: {} (Linux 6.11)", yes_no(bound.metadata)),
            match bound.budget {
                Some(frames) => format!("frames per system call: {frames}"),
                None => "frames per system call: 32 (more needs Linux 6.17)".to_owned(),
            },
            format!(
                "memory: {} KiB, {:?}, {:?} pages",
                arena.whole().length / 1024,
                arena.location(),
                arena.paging()
            ),
        ];
        if share.owner.is_some() {
            lines.push("memory: shared with the NIC that was opened first".to_owned());
        }
        let there = interface.receive_queues;
        if queues < there {
            lines.push(format!(
                "queues: {queues} of {there}: frames that arrive on the others pass to the host"
            ));
        }
        if let Some(hint) = interface.checksum_hint() {
            lines.push(format!("checksums: {hint}"));
        }
        lines
    }
}

/// Whether packets may come from a stack of this machine, with sums left to be filled in.
fn is_virtual(interface: &Interface) -> bool {
    matches!(interface.driver.as_str(), "veth" | "bridge" | "tun" | "") || interface.mac == [0; 6]
}
