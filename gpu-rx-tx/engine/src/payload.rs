//! The payload of a packet that leaves: bytes of a request, or of memory that the peer reads.
#![expect(
    unsafe_code,
    reason = "reads queues by the addresses that the host gave"
)]

use warpwire_ring::mlx5::serve::{Bytes, Entry, Walk};
use warpwire_ring::{Cause, DeviceAddress};

use crate::job::{Job, Source};
use crate::tables::PairBlock;

/// Goes over the bytes of a payload, as they lie one behind the other.
pub(crate) struct Payload<'a> {
    block: &'a PairBlock,
    /// The request, and what it says; `None` of memory.
    request: u64,
    entry: Option<Entry>,
    walk: Walk,
    /// Bytes of the request that other packets have.
    skip: u32,
    /// The rest of the bytes that lie together.
    run: Bytes,
}

impl<'a> Payload<'a> {
    /// The payload of a packet of this queue pair.
    ///
    /// # Errors
    /// [`Cause::LocalQpOperation`] if the application changed the request meanwhile.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(crate) fn of(block: &'a PairBlock, job: &Job, is_datagram: bool) -> Result<Self, Cause> {
        let mut payload = Self {
            block,
            request: job.at,
            entry: None,
            walk: Walk::default(),
            skip: 0,
            run: Bytes {
                address: DeviceAddress::NULL,
                length: 0,
                key: 0,
                is_inline: false,
            },
        };
        match job.source() {
            Source::None => {}
            Source::Memory => {
                payload.run.address = DeviceAddress::new(job.at);
                payload.run.length = job.payload;
            }
            Source::Request => {
                let posted = block.head.wrapping_sub(job.at);
                // SAFETY: live by the engine's promise; the request is posted.
                let entry = unsafe { block.send.entry(job.at, posted, is_datagram) };
                payload.entry = Some(entry.map_err(|_| Cause::LocalQpOperation)?);
                payload.skip = job.offset;
            }
        }
        Ok(payload)
    }

    /// The next bytes, at most `most` of them, that lie one behind the other; `None` if there are
    /// no more.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    #[cfg_attr(not(target_arch = "nvptx64"), inline)]
    pub(crate) fn next(&mut self, most: u32) -> Option<Bytes> {
        while self.run.length == 0 {
            let entry = self.entry.as_ref()?;
            // SAFETY: live by the engine's promise; the request is posted.
            let bytes = unsafe { self.block.send.bytes(self.request, entry, &mut self.walk) };
            let bytes = bytes.ok()??;
            let skip = self.skip.min(bytes.length);
            self.skip -= skip;
            self.run = Bytes {
                address: bytes.address.offset(u64::from(skip)),
                length: bytes.length - skip,
                ..bytes
            };
        }
        let length = self.run.length.min(most);
        let bytes = Bytes { length, ..self.run };
        self.run.address = self.run.address.offset(u64::from(length));
        self.run.length -= length;
        Some(bytes)
    }
}
