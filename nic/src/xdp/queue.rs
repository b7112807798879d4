//! Queues: their words in the arena, and the blocks that kernels get.

use std::sync::Arc;

use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_ring::xdp::{METADATA_BYTES, RxBody, TxBody};
use warpwire_ring::{DeviceAddress, Provenance, QueueBlock, Region, RxCursor, TxCursor};

use super::bind::{Bound, Memory, Share};
use super::open::Setup;
use super::socket::Socket;
use super::{Queue, Tally};
use crate::{Error, QueuePair};

/// Memory of one queue.
struct Pieces {
    receive_cursor: Region,
    transmit_cursor: Region,
    receive_provenance: Region,
    transmit_provenance: Region,
    done: Region,
    free: Region,
    kick_receive: Region,
    kick_transmit: Region,
}

impl Setup<'_> {
    pub(super) fn queue(
        &self,
        index: u32,
        socket: Socket,
        share: &Share<'_>,
        bound: &Bound,
    ) -> Result<(QueuePair, Queue), Error> {
        let Memory { arena, umem } = share.memory;
        let pieces = self
            .pieces(arena)
            .map_err(|source| self.memory_error(source))?;
        let depth = self.options.depth as usize;
        for (slot, chunk) in self.chunks(share, index).skip(depth).enumerate() {
            let address = pieces.free.address.offset(slot as u64 * 8);
            arena
                .write(address, &chunk.to_ne_bytes())
                .map_err(|source| self.memory_error(source))?;
        }
        let receive = RxBody {
            umem: *umem,
            receive: socket.receive,
            fill: socket.fill,
            kick: pieces.kick_receive.address,
            primed: u64::from(self.options.depth),
        };
        let transmit = TxBody {
            umem: *umem,
            transmit: socket.transmit,
            completion: socket.completion,
            free: pieces.free.address,
            kick: pieces.kick_transmit.address,
            headroom: TRANSMIT_HEADROOM,
            metadata_bytes: if bound.metadata { METADATA_BYTES } else { 0 },
            max_parts: if bound.multi_buffer { MAX_PARTS } else { 1 },
            reserved: 0,
        };
        let location = arena.location() as u32;
        let mut memory = vec![Arc::clone(arena)];
        memory.extend(socket.mappings.iter().cloned());
        let pair = QueuePair {
            index,
            receive: QueueBlock {
                cursor: pieces.receive_cursor.address,
                provenance: pieces.receive_provenance.address,
                done: pieces.done.address,
                location,
                ..receive.block()
            },
            transmit: QueueBlock {
                cursor: pieces.transmit_cursor.address,
                provenance: pieces.transmit_provenance.address,
                done: DeviceAddress::NULL,
                location,
                ..transmit.block()
            },
            memory,
        };
        let queue = Queue {
            socket,
            kick_receive: pieces.kick_receive.address,
            kick_transmit: pieces.kick_transmit.address,
            receive_cursor: pieces.receive_cursor.address,
            transmit_cursor: pieces.transmit_cursor.address,
            tally: Tally::default(),
        };
        Ok((pair, queue))
    }

    fn pieces(&self, arena: &Arena) -> Result<Pieces, ArenaError> {
        let depth = u64::from(self.options.depth);
        let line = |bytes: usize| arena.allocate(bytes as u64, 128);
        Ok(Pieces {
            receive_cursor: line(size_of::<RxCursor>())?,
            transmit_cursor: line(size_of::<TxCursor>())?,
            receive_provenance: line(size_of::<Provenance>())?,
            transmit_provenance: line(size_of::<Provenance>())?,
            done: arena.allocate(depth / 8, 128)?,
            free: arena.allocate(depth * 8, 128)?,
            kick_receive: line(128)?,
            kick_transmit: line(128)?,
        })
    }
}

/// A cache line before each packet that is sent; holds the request.
const TRANSMIT_HEADROOM: u32 = 64;
/// Pieces that the kernel sends as one frame: its `MAX_SKB_FRAGS`.
pub(super) const MAX_PARTS: u32 = 17;
