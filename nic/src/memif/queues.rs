//! Memory and queue blocks of both roles, and the host's view of a transmit ring.
#![expect(
    unsafe_code,
    reason = "formats rings before a kernel sees them and looks at their indices after"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use warpwire_gpu::Arena;
use warpwire_gpu::arena::ArenaError;
use warpwire_ring::block::ABI;
use warpwire_ring::memif::{
    CLIENT_LAYOUT, ClientBody, ClientRx, Descriptor, RegionPlan, RingFlags, RingHeader, RingKind,
    Role, SERVER_LAYOUT, ServerBody, ring_bytes, server_rx_cursor, server_tx_cursor,
};
use warpwire_ring::{
    Cause, DeviceAddress, Direction, Format, Location, Provenance, QueueBlock, Receive, Region,
    RxCursor, Scope, TxCursor, memory,
};

use crate::QueuePair;
use crate::memif::server::{ClientRegion, ClientRing};

/// The queues of a connection with all the memory that they need.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) pairs: Vec<QueuePair>,
    /// The host's view of each pair's transmit ring.
    pub(super) watches: Vec<Watch>,
    /// A word that is 0 while the peer is there, then the number of a [`Cause`].
    pub(super) link: DeviceAddress,
    /// Our own memory, which no peer sees.
    pub(super) private: Arc<Arena>,
}

/// Why queues cannot be built.
#[derive(Debug)]
pub(super) enum BuildError {
    Memory(ArenaError),
    Ring(Cause),
}

impl From<ArenaError> for BuildError {
    fn from(error: ArenaError) -> Self {
        Self::Memory(error)
    }
}

impl Queues {
    /// The client's: rings and buffers in `region`, which no peer knows yet. No buffer is offered.
    pub(super) fn client(plan: &RegionPlan, region: &Arc<Arena>) -> Result<Self, BuildError> {
        let count = plan.to_server.min(plan.to_client);
        let mut build = Builder::new(count, plan.depth, 0)?;
        build.memory.push(region.clone());
        for index in 0..count {
            let receive = build.client_half(plan, region, RingKind::ServerToClient, index)?;
            let transmit = build.client_half(plan, region, RingKind::ClientToServer, index)?;
            build.pair(Role::Client, receive, transmit);
        }
        Ok(build.finish())
    }

    /// Offers every receive buffer to the server, as client. Servers may reset the indices when
    /// they connect, so this comes after the handshake.
    pub(super) fn offer(&self) -> Result<(), Cause> {
        for pair in &self.pairs {
            // SAFETY: the block is ours and complete, and no kernel has seen it.
            let receive = unsafe { ClientRx::attach(&pair.receive) }?;
            receive.release(0);
        }
        Ok(())
    }

    /// The server's: rings and buffers lie in the client's regions.
    pub(super) fn server(
        regions: &[ClientRegion],
        to_server: &[ClientRing],
        to_client: &[ClientRing],
        slot_bytes: u32,
    ) -> Result<Self, BuildError> {
        let rings = to_server.iter().chain(to_client);
        let deepest = rings.map(|ring| ring.depth).max().unwrap_or(2);
        let mut build = Builder::new(to_server.len() as u32, deepest, regions.len() as u32)?;
        let arenas = regions.iter().map(|region| region.arena.clone());
        build.memory.extend(arenas);
        let table = build.region_table(regions)?;
        for (up, down) in to_server.iter().zip(to_client) {
            let body = |ring: &ClientRing, kick, written| ServerBody {
                ring: ring.address,
                regions: table,
                region_count: regions.len() as u64,
                kick,
                written,
            };
            let shape = |ring: &ClientRing, direction| Shape {
                role: Role::Server,
                direction,
                depth: ring.depth,
                slot_bytes,
            };
            up.mask_interrupts();
            let cursor = build.private.place(server_rx_cursor(up.tail()))?;
            let words = body(up, DeviceAddress::NULL, DeviceAddress::NULL).words();
            let receive = build.block(shape(up, Direction::Receive), cursor, words)?;
            let cursor =
                server_tx_cursor(down.head(), down.tail(), down.depth).map_err(BuildError::Ring)?;
            let cursor = build.private.place(cursor)?;
            let written = build.private.allocate(u64::from(down.depth) * 4, LINE)?;
            let words = body(down, build.line()?, written.address).words();
            let transmit = build.block(shape(down, Direction::Transmit), cursor, words)?;
            build.pair(Role::Server, receive, transmit);
        }
        Ok(build.finish())
    }
}

/// The host's view of a ring that we transmit on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Watch {
    role: Role,
    ring: DeviceAddress,
    kick: DeviceAddress,
    depth: u32,
}

impl Watch {
    /// The word that the kernel writes when the peer wants an interrupt.
    pub(super) fn kick(&self) -> u64 {
        // SAFETY: the queue's kick word, in memory that lives as long as its watch.
        unsafe { memory::load_acquire_u64(self.kick) }
    }

    /// How far our frames are published.
    pub(super) fn published(&self) -> u16 {
        match self.role {
            Role::Client => load(self.ring, HEAD),
            Role::Server => load(self.ring, TAIL),
        }
    }

    /// Whether the peer polls.
    pub(super) fn masked(&self) -> bool {
        load(self.ring, FLAGS) & RingFlags::MASK_INTERRUPT.bits() != 0
    }

    /// Frames that we published and the peer did not take, as client. A server cannot know: a
    /// client only says which buffers it offers again.
    pub(super) fn untaken(&self) -> u64 {
        if self.role == Role::Server {
            return 0;
        }
        let (head, tail) = (load(self.ring, HEAD), load(self.ring, TAIL));
        let slots = u32::from(head.wrapping_sub(tail)).min(self.depth);
        let ends_frame = |slot: u32| {
            let index = u32::from(tail).wrapping_add(slot) & (self.depth - 1);
            // SAFETY: the flags of a descriptor of a live ring.
            let flags = unsafe { memory::load_u16(self.ring.offset(ring_bytes(index))) };
            let descriptor = Descriptor {
                flags,
                ..Descriptor::default()
            };
            !descriptor.next()
        };
        (0..slots).filter(|slot| ends_frame(*slot)).count() as u64
    }
}

impl ClientRing {
    fn head(&self) -> u16 {
        load(self.address, HEAD)
    }

    fn tail(&self) -> u16 {
        load(self.address, TAIL)
    }

    /// Says that we poll the ring.
    fn mask_interrupts(&self) {
        let flags = self.address.offset(FLAGS);
        // SAFETY: the flags of a ring that was found within a mapped region.
        unsafe { memory::store_release_u16(flags, RingFlags::MASK_INTERRUPT.bits()) }
    }
}

/// What differs from one queue block to the next.
struct Shape {
    role: Role,
    direction: Direction,
    depth: u32,
    slot_bytes: u32,
}

/// Queues while their private memory is being cut up.
struct Builder {
    private: Arc<Arena>,
    link: DeviceAddress,
    memory: Vec<Arc<Arena>>,
    pairs: Vec<QueuePair>,
    watches: Vec<Watch>,
}

impl Builder {
    fn new(pairs: u32, depth: u32, regions: u32) -> Result<Self, ArenaError> {
        let depth = u64::from(depth);
        // Cursor, provenance, kick; one bit and one table word a slot; all on lines of their own.
        let queue = 4 * LINE + depth.div_ceil(8).next_multiple_of(LINE) + 4 * depth + LINE;
        let table = u64::from(regions) * size_of::<Region>() as u64;
        let bytes = 2 * u64::from(pairs) * queue + table + 3 * LINE;
        let private = Arc::new(Arena::new(bytes as usize, Location::PageableHost)?);
        let link = private.allocate(LINE, LINE)?.address;
        Ok(Self {
            memory: vec![private.clone()],
            private,
            link,
            pairs: Vec::new(),
            watches: Vec::new(),
        })
    }

    fn finish(self) -> Queues {
        Queues {
            pairs: self.pairs,
            watches: self.watches,
            link: self.link,
            private: self.private,
        }
    }

    /// A zeroed line of its own.
    fn line(&self) -> Result<DeviceAddress, ArenaError> {
        Ok(self.private.allocate(LINE, LINE)?.address)
    }

    fn client_half(
        &self,
        plan: &RegionPlan,
        region: &Arena,
        kind: RingKind,
        index: u32,
    ) -> Result<QueueBlock, BuildError> {
        let base = region.whole().address;
        let table = self.private.allocate(u64::from(plan.depth) * 4, LINE)?;
        // SAFETY: the region has the plan's size, the table a word a slot, and neither a peer nor a
        // kernel has seen them.
        unsafe { plan.format_ring(base, table.address, kind, index, 0) };
        let (direction, cursor, kick) = match kind {
            RingKind::ServerToClient => {
                let cursor = self.private.place(RxCursor::default())?;
                (Direction::Receive, cursor, DeviceAddress::NULL)
            }
            RingKind::ClientToServer => {
                let cursor = self.private.place(TxCursor::default())?;
                (Direction::Transmit, cursor, self.line()?)
            }
        };
        let body = ClientBody {
            ring: base.offset(plan.ring_offset(kind, index)),
            buffers: table.address,
            region: base,
            region_bytes: plan.bytes(),
            pool_offset: plan.pool_offset(),
            region_number: 0,
            kick,
        };
        let shape = Shape {
            role: Role::Client,
            direction,
            depth: plan.depth,
            slot_bytes: plan.slot_bytes,
        };
        Ok(self.block(shape, cursor, body.words())?)
    }

    fn block(
        &self,
        shape: Shape,
        cursor: Region,
        body: [u64; 24],
    ) -> Result<QueueBlock, ArenaError> {
        let done = match shape.direction {
            Direction::Receive => {
                let words = u64::from(shape.depth).div_ceil(32);
                self.private.allocate(words * 4, LINE)?.address
            }
            Direction::Transmit => DeviceAddress::NULL,
        };
        let provenance = self
            .private
            .allocate(size_of::<Provenance>() as u64, LINE)?;
        Ok(QueueBlock {
            abi: ABI,
            format: Format::Memif as u32,
            direction: shape.direction as u32,
            scope: Scope::System as u32,
            layout: match shape.role {
                Role::Client => CLIENT_LAYOUT,
                Role::Server => SERVER_LAYOUT,
            },
            depth: shape.depth,
            slot_bytes: shape.slot_bytes,
            cursor: cursor.address,
            provenance: provenance.address,
            done,
            location: Location::PageableHost as u32,
            reserved: 0,
            body,
        })
    }

    fn pair(&mut self, role: Role, receive: QueueBlock, transmit: QueueBlock) {
        let (ring, kick) = match role {
            Role::Client => {
                let body = ClientBody::from_words(&transmit.body);
                (body.ring, body.kick)
            }
            Role::Server => {
                let body = ServerBody::from_words(&transmit.body);
                (body.ring, body.kick)
            }
        };
        self.watches.push(Watch {
            role,
            ring,
            kick,
            depth: transmit.depth,
        });
        self.pairs.push(QueuePair {
            index: self.pairs.len() as u32,
            receive,
            transmit,
            memory: self.memory.clone(),
        });
    }

    /// The table that the kernel checks descriptors against: what was announced, not what the files
    /// happen to hold.
    fn region_table(&self, regions: &[ClientRegion]) -> Result<DeviceAddress, ArenaError> {
        let entry_bytes = size_of::<Region>() as u64;
        let bytes = regions.len() as u64 * entry_bytes;
        let table = self.private.allocate(bytes, LINE)?.address;
        for (number, region) in regions.iter().enumerate() {
            let entry = table.offset(number as u64 * entry_bytes);
            let words = [
                (
                    core::mem::offset_of!(Region, address),
                    region.arena.whole().address.value(),
                ),
                (core::mem::offset_of!(Region, length), region.bytes),
            ];
            for (offset, value) in words {
                let word = self.private.word(entry.offset(offset as u64))?;
                word.store(value, Ordering::Relaxed);
            }
        }
        Ok(table)
    }
}

fn load(ring: DeviceAddress, offset: u64) -> u16 {
    // SAFETY: a word of the header of a live ring, 2-byte aligned.
    unsafe { memory::load_acquire_u16(ring.offset(offset)) }
}

const FLAGS: u64 = core::mem::offset_of!(RingHeader, flags) as u64;
const HEAD: u64 = core::mem::offset_of!(RingHeader, head) as u64;
const TAIL: u64 = core::mem::offset_of!(RingHeader, tail) as u64;

/// What one side writes lies on lines of its own, two of a CPU's.
const LINE: u64 = 128;
