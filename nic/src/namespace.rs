//! Network namespaces: to open a NIC where an interface lives.
#![expect(
    unsafe_code,
    reason = "one system call moves a thread into a namespace"
)]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// Runs `work` on a thread of its own inside a network namespace made by `ip netns add NAME`.
/// Sockets that it opens stay in the namespace; the calling thread stays where it is.
///
/// # Errors
/// The namespace does not exist, or the process may not enter it.
pub fn within<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> io::Result<T> {
    let file = File::open(format!("/run/netns/{name}"))?;
    let entered = std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: plain integers; only this thread moves, and it ends with the work.
            let moved = unsafe { libc::setns(file.as_raw_fd(), libc::CLONE_NEWNET) };
            if moved < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(work())
        });
        thread.join()
    });
    entered.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}
