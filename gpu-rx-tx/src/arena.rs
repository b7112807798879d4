//! Arenas: memory that knows where it lies, from which rings, buffers and tables are cut.
#![expect(unsafe_code, reason = "maps memory and lends views of it")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use warpwire_ring::{DeviceAddress, Location, Region};

/// Why an arena cannot be had, cannot give more, or cannot be accessed.
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
    /// A peer's memory file may shrink under us, which would kill the process at the next access.
    #[error("the peer's memory file is not sealed against shrinking; seal it with F_SEAL_SHRINK")]
    Unsealed,
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
    /// An access outside the arena or off its alignment.
    #[error("{length} bytes at {address:?} lie outside the arena's {have} bytes or off alignment")]
    Bounds {
        /// First byte of the access.
        address: DeviceAddress,
        /// Bytes of the access.
        length: u64,
        /// Bytes of the arena.
        have: u64,
    },
}

/// The pages that an arena is made of.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Paging {
    /// Pages of 4 KiB.
    #[default]
    Ordinary,
    /// Pages of 4 KiB that the kernel was asked to merge into large ones where it can.
    Transparent,
    /// Reserved pages of 2 MiB.
    Huge,
}

/// What an arena shall be. [`Arena::new`] and [`Arena::shared`] fill this in for common cases.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ArenaRequest {
    /// Bytes; rounded up to whole pages.
    pub bytes: usize,
    /// What memory it stands for.
    pub location: Location,
    /// Backed by a memory file that other processes can map.
    pub shared: bool,
    /// Pages to try for. What the arena got is in [`Arena::paging`].
    pub paging: Paging,
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
    locked: bool,
    paging: Paging,
    file: Option<File>,
    /// Frees memory that is no mapping of ours.
    owner: Option<Box<dyn Owner>>,
    /// Whether the owner is a device driver, which has the memory in its device's reach already.
    in_reach: bool,
    used: Mutex<u64>,
}

/// Who keeps memory that is not an arena's own, and frees it when dropped.
pub trait Owner: std::fmt::Debug + Send + Sync {}

impl<T: std::fmt::Debug + Send + Sync> Owner for T {}

// SAFETY: the mapping is plain memory that stays until drop; all shared access is atomic or through
// ring::memory.
unsafe impl Send for Arena {}
// SAFETY: as for Send; the cursor is behind a mutex.
unsafe impl Sync for Arena {}

impl Arena {
    /// Maps `bytes` (rounded up to pages) of zeroed host memory that stands for `location`. Pinned
    /// memory is locked where the system allows it, see [`Arena::locked`].
    ///
    /// # Errors
    /// [`ArenaError::Map`] with the system's reason.
    pub fn new(bytes: usize, location: Location) -> Result<Self, ArenaError> {
        Self::request(ArenaRequest {
            bytes,
            location,
            ..ArenaRequest::default()
        })
    }

    /// Like [`Arena::new`], but over a memory file that other processes can map: see
    /// [`Arena::file`]. The file is sealed against shrinking and growing.
    ///
    /// # Errors
    /// [`ArenaError::Map`] with the system's reason.
    pub fn shared(bytes: usize, location: Location) -> Result<Self, ArenaError> {
        Self::request(ArenaRequest {
            bytes,
            location,
            shared: true,
            ..ArenaRequest::default()
        })
    }

    /// Maps what `request` says. Huge pages that the system does not have become transparent ones;
    /// [`Arena::paging`] tells.
    ///
    /// # Errors
    /// [`ArenaError::Map`] with the system's reason.
    pub fn request(request: ArenaRequest) -> Result<Self, ArenaError> {
        if request.paging == Paging::Huge
            && let Ok(arena) = Self::build(request)
        {
            return Ok(arena);
        }
        let paging = match request.paging {
            Paging::Huge => Paging::Transparent,
            other => other,
        };
        Self::build(ArenaRequest { paging, ..request })
    }

    /// Maps the memory file of a peer, whole. Everything in it counts as given out.
    ///
    /// # Errors [`ArenaError::Unsealed`] if the peer could shrink it, [`ArenaError::Map`] with the
    /// system's reason.
    pub fn from_file(file: File, location: Location) -> Result<Self, ArenaError> {
        // SAFETY: plain integers; a descriptor that knows no seals answers with an error.
        let seals = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) };
        if seals < 0 || seals & libc::F_SEAL_SHRINK == 0 {
            return Err(ArenaError::Unsealed);
        }
        let fail = |source| ArenaError::Map {
            bytes: 0,
            location,
            source,
        };
        let bytes = file.metadata().map_err(fail)?.len() as usize;
        let request = ArenaRequest {
            bytes,
            location,
            shared: true,
            paging: Paging::Ordinary,
        };
        let mut arena = Self::map(request, Some(file))?;
        arena.bytes = bytes;
        arena.used = Mutex::new(bytes as u64);
        Ok(arena)
    }

    /// Pinned memory that `owner` keeps: `bytes` from `address` on, which begins a page. It is
    /// zeroed.
    ///
    /// # Safety
    /// The memory is live, writable and used by nobody else until the owner is dropped.
    pub(crate) unsafe fn lent(
        address: u64,
        bytes: usize,
        owner: Box<dyn Owner>,
    ) -> Result<Self, ArenaError> {
        let location = Location::PinnedHost;
        let base = NonNull::new(address as *mut u8).ok_or(ArenaError::Map {
            bytes,
            location,
            source: std::io::ErrorKind::OutOfMemory.into(),
        })?;
        // SAFETY: live and unshared, by the caller's promise.
        unsafe { base.write_bytes(0, bytes) };
        Ok(Self {
            base,
            bytes,
            location,
            emulated: false,
            locked: true,
            paging: Paging::Ordinary,
            file: None,
            owner: Some(owner),
            in_reach: true,
            used: Mutex::new(0),
        })
    }

    /// Memory that somebody else mapped and shares, such as rings of the operating system's kernel:
    /// `bytes` from `base` on, as they are, until `owner` is dropped. Everything in it counts as
    /// given out.
    ///
    /// # Safety
    /// The memory is live, readable and writable until the owner is dropped, and whoever shares it
    /// touches it as atomics do.
    pub unsafe fn foreign(base: NonNull<u8>, bytes: usize, owner: Box<dyn Owner>) -> Self {
        Self {
            base,
            bytes,
            location: Location::PageableHost,
            emulated: false,
            locked: false,
            paging: Paging::Ordinary,
            file: None,
            owner: Some(owner),
            in_reach: false,
            used: Mutex::new(bytes as u64),
        }
    }

    /// Whether the memory is a device driver's own, and in the device's reach already.
    pub(crate) fn is_in_reach(&self) -> bool {
        self.in_reach
    }

    fn build(request: ArenaRequest) -> Result<Self, ArenaError> {
        let bytes = round_up(request.bytes, request.paging);
        let request = ArenaRequest { bytes, ..request };
        let file = if request.shared {
            let file = memory_file(bytes, request.paging).map_err(|source| ArenaError::Map {
                bytes,
                location: request.location,
                source,
            })?;
            Some(file)
        } else {
            None
        };
        Self::map(request, file)
    }

    fn map(request: ArenaRequest, file: Option<File>) -> Result<Self, ArenaError> {
        let ArenaRequest {
            bytes,
            location,
            paging,
            ..
        } = request;
        let fail = |source| ArenaError::Map {
            bytes,
            location,
            source,
        };
        let (mut flags, fd) = match &file {
            Some(file) => (libc::MAP_SHARED, file.as_raw_fd()),
            None => (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1),
        };
        match (paging, &file) {
            (Paging::Huge, None) => flags |= libc::MAP_HUGETLB | libc::MAP_POPULATE,
            // Populating first would fix small pages before the advice below.
            (Paging::Transparent, _) => {}
            _ => flags |= libc::MAP_POPULATE,
        }
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: a new mapping at a place of the kernel's choice; nothing existing is replaced.
        let base = unsafe { libc::mmap(std::ptr::null_mut(), bytes, access, flags, fd, 0) };
        if base == libc::MAP_FAILED {
            return Err(fail(std::io::Error::last_os_error()));
        }
        let Some(base) = NonNull::new(base.cast::<u8>()) else {
            return Err(fail(std::io::ErrorKind::OutOfMemory.into()));
        };
        let mut arena = Self {
            base,
            bytes,
            location,
            emulated: location != Location::PageableHost,
            locked: false,
            paging,
            file,
            owner: None,
            in_reach: false,
            used: Mutex::new(0),
        };
        arena.settle();
        Ok(arena)
    }

    /// Advice and locks: neither is owed by the system, so refusals are recorded, not errors.
    fn settle(&mut self) {
        let base = self.base.as_ptr().cast();
        if self.paging == Paging::Transparent {
            // SAFETY: advice on our own mapping; contents do not change.
            let advised = unsafe { libc::madvise(base, self.bytes, libc::MADV_HUGEPAGE) };
            if advised != 0 {
                self.paging = Paging::Ordinary;
            }
        }
        if self.location == Location::PinnedHost {
            // SAFETY: a lock on our own mapping, gone when it is unmapped.
            self.locked = unsafe { libc::mlock(base, self.bytes) } == 0;
        }
    }

    /// Cuts `bytes` off, aligned to `alignment` (a power of two up to 4096). Zeroed: a piece is
    /// given out once.
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

    /// Cuts a piece for `value` and moves it there: how blocks of plain data reach a kernel.
    ///
    /// # Errors
    /// As [`Arena::allocate`].
    pub fn place<T: Copy>(&self, value: T) -> Result<Region, ArenaError> {
        let region = self.allocate(size_of::<T>() as u64, align_of::<T>() as u64)?;
        let slot = region.address.value() as *mut T;
        // SAFETY: aligned, within the mapping, and given out to nobody else.
        unsafe { slot.write(value) };
        Ok(region)
    }

    /// Cuts a piece for all of `values`, one behind the other, and copies them there.
    ///
    /// # Errors
    /// As [`Arena::allocate`].
    pub fn place_all<T: Copy>(&self, values: &[T]) -> Result<Region, ArenaError> {
        let region = self.allocate(size_of_val(values) as u64, align_of::<T>() as u64)?;
        let first = region.address.value() as *mut T;
        // SAFETY: aligned, within the mapping, and given out to nobody else.
        unsafe { first.copy_from_nonoverlapping(values.as_ptr(), values.len()) };
        Ok(region)
    }

    /// Copies `bytes` to `address`, eight at a time where aligned; others may look meanwhile and
    /// see any mixture of old and new words.
    ///
    /// # Errors
    /// [`ArenaError::Bounds`].
    pub fn write(&self, address: DeviceAddress, bytes: &[u8]) -> Result<(), ArenaError> {
        self.check(address, bytes.len() as u64, 1)?;
        let mut at = address;
        let mut rest = bytes;
        while !rest.is_empty() {
            if at.is_aligned(8)
                && let Some((word, tail)) = rest.split_first_chunk::<8>()
            {
                self.word(at)?
                    .store(u64::from_ne_bytes(*word), Ordering::Relaxed);
                (at, rest) = (at.offset(8), tail);
            } else if let Some((&byte, tail)) = rest.split_first() {
                self.byte(at)?.store(byte, Ordering::Relaxed);
                (at, rest) = (at.offset(1), tail);
            }
        }
        Ok(())
    }

    /// Copies bytes from `address` into `into`, eight at a time where aligned.
    ///
    /// # Errors
    /// [`ArenaError::Bounds`].
    pub fn read(&self, address: DeviceAddress, into: &mut [u8]) -> Result<(), ArenaError> {
        self.check(address, into.len() as u64, 1)?;
        let mut at = address;
        let mut rest = into;
        while !rest.is_empty() {
            if at.is_aligned(8) && rest.len() >= 8 {
                let (word, tail) = rest.split_at_mut(8);
                word.copy_from_slice(&self.word(at)?.load(Ordering::Relaxed).to_ne_bytes());
                (at, rest) = (at.offset(8), tail);
            } else {
                let (byte, tail) = rest.split_at_mut(1);
                byte.fill(self.byte(at)?.load(Ordering::Relaxed));
                (at, rest) = (at.offset(1), tail);
            }
        }
        Ok(())
    }

    /// The 32-bit word at `address`, shared with whoever else uses the arena.
    ///
    /// # Errors
    /// [`ArenaError::Bounds`].
    pub fn half_word(&self, address: DeviceAddress) -> Result<&AtomicU32, ArenaError> {
        self.check(address, 4, 4)?;
        // SAFETY: within the mapping and aligned, checked above; all sharing is through atomics.
        Ok(unsafe { AtomicU32::from_ptr(address.value() as *mut u32) })
    }

    /// The 64-bit word at `address`, shared with whoever else uses the arena.
    ///
    /// # Errors
    /// [`ArenaError::Bounds`].
    pub fn word(&self, address: DeviceAddress) -> Result<&AtomicU64, ArenaError> {
        self.check(address, 8, 8)?;
        // SAFETY: within the mapping and aligned, checked above; all sharing is through atomics.
        Ok(unsafe { AtomicU64::from_ptr(address.value() as *mut u64) })
    }

    fn byte(&self, address: DeviceAddress) -> Result<&AtomicU8, ArenaError> {
        self.check(address, 1, 1)?;
        // SAFETY: within the mapping, checked above; all sharing is through atomics.
        Ok(unsafe { AtomicU8::from_ptr(address.value() as *mut u8) })
    }

    fn check(&self, address: DeviceAddress, length: u64, align: u64) -> Result<(), ArenaError> {
        if self.whole().contains(address, length) && address.is_aligned(align) {
            Ok(())
        } else {
            Err(ArenaError::Bounds {
                address,
                length,
                have: self.bytes as u64,
            })
        }
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

    /// Whether the pages are locked into memory. Only pinned arenas ask for it, and the system may
    /// refuse (`ulimit -l`).
    pub fn locked(&self) -> bool {
        self.locked
    }

    /// The pages that the arena got.
    pub fn paging(&self) -> Paging {
        self.paging
    }

    /// The memory file of a shared arena.
    pub fn file(&self) -> Option<BorrowedFd<'_>> {
        self.file.as_ref().map(AsFd::as_fd)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if self.owner.is_some() {
            return;
        }
        // SAFETY: the mapping is ours and whole; whoever used it held the arena.
        unsafe {
            libc::munmap(self.base.as_ptr().cast(), self.bytes);
        }
    }
}

/// A new memory file of `bytes`, sealed in its size.
fn memory_file(bytes: usize, paging: Paging) -> std::io::Result<File> {
    let mut flags = libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING;
    if paging == Paging::Huge {
        flags |= libc::MFD_HUGETLB;
    }
    // SAFETY: the name is a C string; the call touches nothing else.
    let fd = unsafe { libc::memfd_create(c"warpwire".as_ptr(), flags) };
    if fd < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and owned by nobody else.
    let file = unsafe { File::from_raw_fd(fd) };
    file.set_len(bytes as u64)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW;
    // SAFETY: plain integers.
    let sealed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) };
    if sealed < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(file)
}

fn round_up(bytes: usize, paging: Paging) -> usize {
    let page = if paging == Paging::Huge {
        2 << 20
    } else {
        4096
    };
    bytes.max(1).next_multiple_of(page)
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
    fn locations_are_told_as_they_are() {
        let cases = [
            (Location::Device, true),
            (Location::PinnedHost, true),
            (Location::PageableHost, false),
        ];
        for (location, emulated) in cases {
            let arena = Arena::new(4096, location).expect("maps");
            assert_eq!(arena.emulated(), emulated, "{location:?}");
            assert_eq!(arena.allocate(8, 8).expect("fits").location, location);
            if location != Location::PinnedHost {
                assert!(!arena.locked(), "{location:?} asks for no lock");
            }
        }
    }

    #[test]
    fn huge_pages_are_had_or_their_lack_is_told() {
        for shared in [false, true] {
            let arena = Arena::request(ArenaRequest {
                bytes: 1,
                paging: Paging::Huge,
                shared,
                ..ArenaRequest::default()
            })
            .expect("maps");
            let least = match arena.paging() {
                Paging::Huge => 2 << 20,
                _ => 4096,
            };
            assert_eq!(arena.whole().length, least, "{:?}", arena.paging());
            let region = arena.place(7u64).expect("fits");
            let word = arena.word(region.address).expect("inside");
            assert_eq!(word.load(Ordering::Relaxed), 7);
        }
    }

    #[test]
    fn bytes_come_back_at_every_alignment() {
        let arena = Arena::new(4096, Location::Device).expect("maps");
        let base = arena.allocate(64, 64).expect("fits").address;
        let bytes: Vec<u8> = (1..=29).collect();
        for shift in 0..9 {
            let at = base.offset(shift);
            arena.write(at, &bytes).expect("inside");
            let mut back = vec![0; bytes.len()];
            arena.read(at, &mut back).expect("inside");
            assert_eq!(back, bytes, "shift {shift}");
        }
    }

    #[test]
    fn accesses_outside_are_refused() {
        let arena = Arena::new(4096, Location::Device).expect("maps");
        let whole = arena.whole();
        let end = whole.address.offset(whole.length);
        assert!(arena.write(end.offset(u64::MAX), &[0, 0]).is_err());
        assert!(arena.write(end.offset(u64::MAX), &[0]).is_ok());
        assert!(arena.read(DeviceAddress::NULL, &mut [0]).is_err());
        assert!(arena.word(whole.address.offset(4)).is_err(), "misaligned");
        assert!(arena.half_word(whole.address.offset(4)).is_ok());
        assert!(arena.half_word(end).is_err());
    }

    #[test]
    fn shared_arena_is_sealed_and_a_second_mapping_sees_it() {
        let ours = Arena::shared(4096, Location::PageableHost).expect("maps");
        let file = File::from(
            ours.file()
                .expect("a file")
                .try_clone_to_owned()
                .expect("fd"),
        );
        assert!(file.set_len(0).is_err(), "shrinking must be refused");
        let region = ours.place(0x1122_3344u32).expect("fits");
        let theirs = Arena::from_file(file, Location::PageableHost).expect("maps");
        let offset = region.address.value() - ours.whole().address.value();
        let word = theirs.half_word(theirs.whole().address.offset(offset));
        assert_eq!(word.expect("inside").load(Ordering::Relaxed), 0x1122_3344);
        assert!(matches!(
            theirs.allocate(1, 1),
            Err(ArenaError::Exhausted { .. })
        ));
    }

    #[test]
    fn foreign_memory_is_used_where_it_lies_and_goes_with_its_owner() {
        let words = std::sync::Arc::new([7u64, 8]);
        let base = NonNull::from(words.as_ref()).cast();
        // SAFETY: the owner keeps the words, which nobody else touches meanwhile.
        let arena = unsafe { Arena::foreign(base, 16, Box::new(std::sync::Arc::clone(&words))) };
        let second = arena.whole().address.offset(8);
        let word = arena.word(second).expect("inside");
        assert_eq!(word.load(Ordering::Relaxed), 8, "as it was");
        assert!(!arena.emulated() && !arena.is_in_reach());
        assert!(matches!(
            arena.allocate(1, 1),
            Err(ArenaError::Exhausted { .. })
        ));
        assert_eq!(std::sync::Arc::strong_count(&words), 2);
        drop(arena);
        assert_eq!(std::sync::Arc::strong_count(&words), 1);
    }

    #[test]
    fn a_file_that_may_shrink_is_refused() {
        let file = File::open("/proc/self/exe").expect("opens");
        assert!(matches!(
            Arena::from_file(file, Location::PageableHost),
            Err(ArenaError::Unsealed)
        ));
    }
}
