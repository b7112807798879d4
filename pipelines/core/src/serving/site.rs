//! The files of a site, in memory.
#![expect(
    unsafe_code,
    reason = "reads tables by the addresses that the host gave"
)]

use core::cmp::Ordering;

use warpwire_device::Area;
use warpwire_ring::{DeviceAddress, Location, Region};

use super::block::{FileEntry, SiteBlock};

/// The files of a site.
#[derive(Clone, Copy, Debug)]
pub(super) struct Site {
    files: DeviceAddress,
    count: u32,
}

/// A file.
#[derive(Clone, Copy, Debug)]
pub(super) struct File<'a> {
    pub(super) media: &'a [u8],
    pub(super) content: DeviceAddress,
    pub(super) bytes: u64,
}

impl Site {
    /// The site of a block; `None` for null and for what is none.
    ///
    /// # Safety
    /// *The site's promise*: at an aligned address lies a [`SiteBlock`]; it, its entries, and
    /// everything that they name is live memory that nobody changes as long as the value is used.
    pub(super) unsafe fn attach(block: DeviceAddress) -> Option<Self> {
        if block.is_null() || !block.is_aligned(align_of::<SiteBlock>() as u64) {
            return None;
        }
        // SAFETY: such a block, by the promise.
        let block = unsafe { &*(block.value() as *const SiteBlock) };
        Some(Self {
            files: block.files,
            count: block.file_count,
        })
    }

    /// The number of the file of a path.
    pub(super) fn find(&self, path: &[u8]) -> Option<u32> {
        let (mut low, mut high) = (0, self.count);
        while low < high {
            let middle = low + (high - low) / 2;
            let entry = self.entry(middle)?;
            // SAFETY: as many bytes as the entry says, by the site's promise.
            let own = unsafe { bytes(entry.path, entry.path_bytes) };
            match order(own, path) {
                Ordering::Equal => return Some(middle),
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
            }
        }
        None
    }

    /// A file by its number.
    pub(super) fn file(&self, number: u32) -> Option<File<'_>> {
        let entry = self.entry(number)?;
        Some(File {
            // SAFETY: as many bytes as the entry says, by the site's promise.
            media: unsafe { bytes(entry.media, entry.media_bytes) },
            content: entry.content,
            bytes: entry.content_bytes,
        })
    }

    /// `length` bytes of a content.
    pub(super) const fn content(&self, address: DeviceAddress, length: u64) -> Area {
        let region = Region {
            address,
            length,
            key: 0,
            location: Location::Device,
        };
        // SAFETY: a part of a file that is not sent yet, live by the site's promise.
        unsafe { Area::attach(region) }
    }

    fn entry(&self, number: u32) -> Option<&FileEntry> {
        if number >= self.count {
            return None;
        }
        let offset = u64::from(number) * size_of::<FileEntry>() as u64;
        // SAFETY: one of the entries, by the site's promise.
        Some(unsafe { &*(self.files.offset(offset).value() as *const FileEntry) })
    }
}

/// # Safety
/// So many bytes lie there, which nobody changes for `'a`.
unsafe fn bytes<'a>(at: DeviceAddress, length: u32) -> &'a [u8] {
    match at.is_null() {
        true => &[],
        // SAFETY: passed on.
        false => unsafe { core::slice::from_raw_parts(at.value() as *const u8, length as usize) },
    }
}

/// The order of two paths, byte by byte.
fn order(one: &[u8], other: &[u8]) -> Ordering {
    for (one, other) in one.iter().zip(other) {
        match one.cmp(other) {
            Ordering::Equal => {}
            differs => return differs,
        }
    }
    one.len().cmp(&other.len())
}
