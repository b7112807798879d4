//! Arenas: memory that knows where it lies, from which rings, buffers and tables are cut.
#![expect(unsafe_code, reason = "maps memory and lends views of it")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::Mutex;

use warpwire_ring::{DeviceAddress, Location, Region};

/// Why an arena cannot be had or cannot give more.
#[derive(Debug, thiserror::Error)]
pub enum ArenaError {
    /// The operating system refused the mapping.
    #[error(
        "cannot map {bytes} bytes of {location:?} memory: {source}; free memory or ask for less"
    )]
    Map {
        /// Bytes asked for.
        bytes: usize,
        /// Where they were to lie.
        location: Location,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The arena is used up.
    #[error("arena exhausted: need {need} bytes, {have} left; make the arena larger")]
    Exhausted {
        /// Bytes asked for, alignment included.
        need: u64,
        /// Bytes left.
        have: u64,
    },
    /// The alignment is no power of two or exceeds a page.
    #[error("alignment {0} is not a power of two up to 4096")]
    Alignment(u64),
}

/// One mapping of memory. Zeroed at the start; given out in pieces, freed as a whole.
///
/// On the CPU executor device memory does not exist: such an arena is host memory and says so
/// ([`Arena::emulated`]), and records repeat it.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    bytes: usize,
    location: Location,
    emulated: bool,
    file: Option<File>,
    used: Mutex<u64>,
}

// SAFETY: the mapping is plain memory that stays until drop; all shared access goes through
// ring::memory.
unsafe impl Send for Arena {}
// SAFETY: as for Send; the cursor is behind a mutex.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `bytes` (rounded up to pages) of zeroed host memory that stands for `location`.
    ///
    /// # Errors
    /// [`ArenaError::Map`] with the system's reason.
    pub fn new(bytes: usize, location: Location) -> Result<Self, ArenaError> {
        Self::map(bytes, location, None)
    }

    /// Like [`Arena::new`], but over a memory file that other processes can map: see
    /// [`Arena::file`]. The file is sealed against shrinking and growing.
    ///
    /// # Errors
    /// [`ArenaError::Map`] with the system's reason.
    pub fn shared(bytes: usize, location: Location) -> Result<Self, ArenaError> {
        let bytes = round_up(bytes);
        let fail = || ArenaError::Map {
            bytes,
            location,
            source: std::io::Error::last_os_error(),
        };
        // SAFETY: the name is a C string; the call touches nothing else.
        let fd = unsafe {
            libc::memfd_create(
                c"warpwire".as_ptr(),
                libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING,
            )
        };
        if fd < 0 {
            return Err(fail());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let file = unsafe { File::from_raw_fd(fd) };
        file.set_len(bytes as u64)
            .map_err(|source| ArenaError::Map {
                bytes,
                location,
                source,
            })?;
        // SAFETY: plain integers.
        let sealed = unsafe {
            libc::fcntl(
                file.as_raw_fd(),
                libc::F_ADD_SEALS,
                libc::F_SEAL_SHRINK | libc::F_SEAL_GROW,
            )
        };
        if sealed < 0 {
            return Err(fail());
        }
        Self::map(bytes, location, Some(file))
    }

    fn map(bytes: usize, location: Location, file: Option<File>) -> Result<Self, ArenaError> {
        let bytes = round_up(bytes);
        let (flags, fd) = match &file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        // SAFETY: a new mapping at a place of the kernel's choice; nothing existing is replaced.
        let base = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                flags | libc::MAP_POPULATE,
                fd,
                0,
            )
        };
        let source = std::io::Error::last_os_error();
        if base == libc::MAP_FAILED {
            return Err(ArenaError::Map {
                bytes,
                location,
                source,
            });
        }
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            return Err(ArenaError::Map {
                bytes,
                location,
                source,
            });
        };
        let emulated = location != Location::PageableHost;
        Ok(Self {
            base,
            bytes,
            location,
            emulated,
            file,
            used: Mutex::new(0),
        })
    }

    /// Cuts `bytes` off, aligned to `alignment` (a power of two up to 4096). Zeroed unless written
    /// since.
    ///
    /// # Errors
    /// [`ArenaError::Exhausted`] or [`ArenaError::Alignment`].
    pub fn allocate(&self, bytes: u64, alignment: u64) -> Result<Region, ArenaError> {
        if !alignment.is_power_of_two() || alignment > 4096 {
            return Err(ArenaError::Alignment(alignment));
        }
        let mut used = self
            .used
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let have = self.bytes as u64 - *used;
        let padding = used.next_multiple_of(alignment) - *used;
        let need = bytes.saturating_add(padding);
        if need > have {
            return Err(ArenaError::Exhausted { need, have });
        }
        let start = *used + padding;
        *used += need;
        let address = self.whole().address.offset(start);
        Ok(Region {
            address,
            length: bytes,
            key: 0,
            location: self.location,
        })
    }

    /// The whole mapping as a region.
    pub fn whole(&self) -> Region {
        let address = DeviceAddress::new(self.base.as_ptr() as u64);
        Region {
            address,
            length: self.bytes as u64,
            key: 0,
            location: self.location,
        }
    }

    /// Where the memory is meant to lie.
    pub fn location(&self) -> Location {
        self.location
    }

    /// Whether the memory only stands for its location: host memory in the place of device or
    /// pinned memory.
    pub fn emulated(&self) -> bool {
        self.emulated
    }

    /// The memory file of a shared arena.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and whole; whoever used it held the arena.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.bytes);
        }
    }
}

fn round_up(bytes: usize) -> usize {
    bytes.max(1).next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_aligned_apart_and_bounded() {
        let arena = Arena::new(8192, Location::Device).expect("maps");
        let one = arena.allocate(100, 64).expect("fits");
        let two = arena.allocate(4096, 4096).expect("fits");
        assert!(arena.emulated());
        assert!(two.address.is_aligned(4096));
        assert!(two.address.value() >= one.address.value() + 100);
        assert!(matches!(
            arena.allocate(1, 3),
            Err(ArenaError::Alignment(3))
        ));
        assert!(matches!(
            arena.allocate(1, 1),
            Err(ArenaError::Exhausted { need: 1, have: 0 })
        ));
    }

    #[test]
    fn shared_arena_is_sealed() {
        let arena = Arena::shared(4096, Location::PageableHost).expect("maps");
        let file = arena
            .file()
            .expect("has a file")
            .try_clone_to_owned()
            .expect("clones");
        assert!(
            File::from(file).set_len(0).is_err(),
            "shrinking must be refused"
        );
    }
}
