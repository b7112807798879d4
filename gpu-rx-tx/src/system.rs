//! What the executor asks of the operating system for its threads.
#![expect(unsafe_code, reason = "system calls that std does not wrap")]

use std::io;

/// Nanoseconds of the machine's monotonic clock.
pub(crate) fn monotonic_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the structure is ours; a clock that every Linux has cannot fail.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Lets the calling thread run on one processor alone.
pub(crate) fn pin_to(cpu: usize) -> io::Result<()> {
    if cpu >= libc::CPU_SETSIZE as usize {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // SAFETY: a set of processors is plain bits, all zero is the empty one.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours and `cpu` lies within it, checked above.
    unsafe { libc::CPU_SET(cpu, &mut set) };
    // SAFETY: the set is live for the call; 0 names the calling thread.
    let done = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set) };
    if done == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Asks that short sleeps of the calling thread end on time: the default adds 50 microseconds.
pub(crate) fn sharpen_sleeps() {
    // SAFETY: plain integers; a refusal only makes sleeps longer.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1_000_u64, 0, 0, 0) };
}
