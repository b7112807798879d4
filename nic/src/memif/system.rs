//! The system calls of memif's control channel: packet sockets that carry descriptors, and
//! eventfds.
#![expect(
    unsafe_code,
    reason = "sockets that keep packet bounds and pass descriptors are not in std"
)]

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use crate::memif::message::MESSAGE_BYTES;

/// One end of a connection: packets of bytes, each with a descriptor or without.
#[derive(Debug)]
pub(super) struct Socket(OwnedFd);

/// A socket that waits for connections. Its file goes away with it.
#[derive(Debug)]
pub(super) struct Listener {
    socket: OwnedFd,
    path: Option<String>,
}

/// One packet.
#[derive(Debug)]
pub(super) struct Packet {
    /// Its bytes; more than were asked for means that it was cut.
    pub(super) bytes: Vec<u8>,
    /// The descriptors that came with it.
    pub(super) files: Vec<OwnedFd>,
    /// Bytes or descriptors were lost because there were too many.
    pub(super) cut: bool,
}

impl Socket {
    /// Connects to a listener; refused and missing listeners are errors at once.
    pub(super) fn connect(address: &str) -> io::Result<Self> {
        let socket = packet_socket()?;
        let (name, length) = socket_name(address)?;
        // SAFETY: a socket name of the length given, alive for the call.
        let result = unsafe { libc::connect(socket.as_raw_fd(), (&raw const name).cast(), length) };
        checked(result)?;
        Ok(Self(socket))
    }

    /// Two connected sockets.
    #[cfg(any(test, feature = "oracles"))]
    pub(super) fn pair() -> io::Result<(Self, Self)> {
        let mut ends = [0; 2];
        let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: room for two descriptors.
        checked(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, ends.as_mut_ptr()) })?;
        let [left, right] = ends;
        // SAFETY: a new descriptor that nobody else owns.
        let left = unsafe { OwnedFd::from_raw_fd(left) };
        // SAFETY: a new descriptor that nobody else owns.
        let right = unsafe { OwnedFd::from_raw_fd(right) };
        Ok((Self(left), Self(right)))
    }

    /// Sends a packet, with a descriptor if there is one. Does not wait.
    pub(super) fn send(&self, bytes: &[u8], file: Option<BorrowedFd<'_>>) -> io::Result<()> {
        let mut piece = libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control([0; CONTROL_WORDS]);
        let mut header = empty_header();
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        if let Some(file) = file {
            header.msg_control = control.0.as_mut_ptr().cast();
            // SAFETY: plain arithmetic.
            header.msg_controllen = unsafe { libc::CMSG_SPACE(FD_BYTES) } as usize;
            // SAFETY: the control buffer is aligned and longer than one header.
            let first = unsafe { libc::CMSG_FIRSTHDR(&raw const header) };
            let entry = libc::cmsghdr {
                // SAFETY: plain arithmetic.
                cmsg_len: unsafe { libc::CMSG_LEN(FD_BYTES) } as usize,
                cmsg_level: libc::SOL_SOCKET,
                cmsg_type: libc::SCM_RIGHTS,
            };
            // SAFETY: `first` points to the start of the control buffer.
            unsafe { first.write(entry) };
            // SAFETY: as above; the data follow the header.
            let data = unsafe { libc::CMSG_DATA(first) };
            // SAFETY: room for one descriptor there, by the length above.
            unsafe { data.cast::<i32>().write_unaligned(file.as_raw_fd()) };
        }
        // SAFETY: the header, its piece and its control buffer live for the call.
        let sent =
            unsafe { libc::sendmsg(self.0.as_raw_fd(), &raw const header, libc::MSG_NOSIGNAL) };
        match sent {
            sent if sent < 0 => Err(io::Error::last_os_error()),
            sent if sent as usize == bytes.len() => Ok(()),
            _ => Err(io::ErrorKind::WriteZero.into()),
        }
    }

    /// Takes the next packet; none means that the peer closed. Does not wait.
    pub(super) fn receive(&self) -> io::Result<Option<Packet>> {
        let mut bytes = vec![0_u8; MESSAGE_BYTES];
        let mut piece = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        let mut control = Control([0; CONTROL_WORDS]);
        let mut header = empty_header();
        header.msg_iov = &raw mut piece;
        header.msg_iovlen = 1;
        header.msg_control = control.0.as_mut_ptr().cast();
        header.msg_controllen = size_of::<Control>();
        let fd = self.0.as_raw_fd();
        // SAFETY: the header, its piece and its control buffer live for the call.
        let got = unsafe { libc::recvmsg(fd, &raw mut header, libc::MSG_CMSG_CLOEXEC) };
        if got < 0 {
            return Err(io::Error::last_os_error());
        }
        let files = descriptors(&header);
        if got == 0 {
            return Ok(None);
        }
        bytes.truncate(got as usize);
        Ok(Some(Packet {
            bytes,
            files,
            cut: header.msg_flags & (libc::MSG_TRUNC | libc::MSG_CTRUNC) != 0,
        }))
    }

    /// Waits until a packet or the peer's close is there; false at the deadline.
    pub(super) fn wait(&self, deadline: Instant) -> io::Result<bool> {
        wait_readable(self.0.as_fd(), deadline)
    }
}

impl Listener {
    /// Listens at `address`: a path, or `@NAME` in the abstract name space. The file of a dead
    /// listener is replaced, that of a live one is not.
    pub(super) fn bind(address: &str) -> io::Result<Self> {
        let socket = packet_socket()?;
        let path = (!address.starts_with('@')).then(|| address.to_owned());
        let bound = bind(&socket, address);
        let in_use = matches!(&bound, Err(error) if error.kind() == io::ErrorKind::AddrInUse);
        if in_use
            && let Some(path) = &path
            && is_dead(path)
        {
            std::fs::remove_file(path)?;
            bind(&socket, address)?;
        } else {
            bound?;
        }
        let listener = Self { socket, path };
        // SAFETY: plain integers.
        checked(unsafe { libc::listen(listener.socket.as_raw_fd(), BACKLOG) })?;
        Ok(listener)
    }

    /// Takes the next connection, if there is one. Does not wait.
    pub(super) fn accept(&self) -> io::Result<Option<Socket>> {
        let flags = libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        let none = std::ptr::null_mut();
        // SAFETY: the peer's name is not asked for.
        let fd =
            unsafe { libc::accept4(self.socket.as_raw_fd(), none, std::ptr::null_mut(), flags) };
        match checked(fd) {
            // SAFETY: a new descriptor that nobody else owns.
            Ok(fd) => Ok(Some(Socket(unsafe { OwnedFd::from_raw_fd(fd) }))),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Waits until a connection is there; false at the deadline.
    pub(super) fn wait(&self, deadline: Instant) -> io::Result<bool> {
        wait_readable(self.socket.as_fd(), deadline)
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // Already gone is as good.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A new eventfd. Reads and writes do not block.
pub(super) fn eventfd() -> io::Result<File> {
    // SAFETY: plain integers.
    let fd = checked(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK) })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { File::from_raw_fd(fd) })
}

fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: plain integers.
    let fd = checked(unsafe { libc::socket(libc::AF_UNIX, kind, 0) })?;
    // SAFETY: a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

fn bind(socket: &OwnedFd, address: &str) -> io::Result<()> {
    let (name, length) = socket_name(address)?;
    // SAFETY: a socket name of the length given, alive for the call.
    let result = unsafe { libc::bind(socket.as_raw_fd(), (&raw const name).cast(), length) };
    checked(result).map(|_| ())
}

/// Whether a socket's file has no listener behind it any more.
fn is_dead(path: &str) -> bool {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(Path::new(path))
        .is_ok_and(|metadata| metadata.file_type().is_socket());
    let refused = matches!(
        Socket::connect(path),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused
    );
    is_socket && refused
}

fn socket_name(address: &str) -> io::Result<(libc::sockaddr_un, libc::socklen_t)> {
    let mut name = libc::sockaddr_un {
        sun_family: libc::AF_UNIX as libc::sa_family_t,
        sun_path: [0; 108],
    };
    let abstract_name = address.starts_with('@');
    // A path needs its closing zero within the field; an abstract name starts with one instead.
    let room = name.sun_path.len() - usize::from(!abstract_name);
    if address.is_empty() || address.len() > room || address.bytes().any(|byte| byte == 0) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    for (to, from) in name.sun_path.iter_mut().zip(address.bytes()) {
        *to = from as libc::c_char;
    }
    if abstract_name && let Some(first) = name.sun_path.first_mut() {
        *first = 0;
    }
    let used = address.len() + usize::from(!abstract_name);
    let length = core::mem::offset_of!(libc::sockaddr_un, sun_path) + used;
    Ok((name, length as libc::socklen_t))
}

fn wait_readable(fd: BorrowedFd<'_>, deadline: Instant) -> io::Result<bool> {
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let mut entry = libc::pollfd {
            fd: fd.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // Rounded up, so that the last wait does not end early and spin.
        let wait_ms = left.min(Duration::from_secs(60)).as_micros().div_ceil(1000);
        // SAFETY: one entry, alive for the call.
        let ready = unsafe { libc::poll(&raw mut entry, 1, wait_ms as libc::c_int) };
        match checked(ready) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) => {}
            Ok(_) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// The descriptors in a received control buffer, each owned so that none leaks.
fn descriptors(header: &libc::msghdr) -> Vec<OwnedFd> {
    let mut files = Vec::new();
    // SAFETY: the kernel filled the control buffer and its length.
    let mut entry = unsafe { libc::CMSG_FIRSTHDR(header) };
    while !entry.is_null() {
        // SAFETY: within the control buffer, by CMSG_FIRSTHDR or CMSG_NXTHDR.
        let found = unsafe { entry.read() };
        if (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
            // SAFETY: plain arithmetic.
            let head = unsafe { libc::CMSG_LEN(0) } as usize;
            let count = found.cmsg_len.saturating_sub(head) / FD_BYTES as usize;
            // SAFETY: the data follow the header.
            let data = unsafe { libc::CMSG_DATA(entry) }.cast::<i32>();
            for number in 0..count {
                // SAFETY: descriptor `number` of `count` in this entry.
                let place = unsafe { data.add(number) };
                // SAFETY: as above.
                let fd = unsafe { place.read_unaligned() };
                // SAFETY: the kernel installed it for us; nobody else owns it.
                files.push(unsafe { OwnedFd::from_raw_fd(fd) });
            }
        }
        // SAFETY: `entry` lies in the header's control buffer.
        entry = unsafe { libc::CMSG_NXTHDR(header, entry) };
    }
    files
}

fn empty_header() -> libc::msghdr {
    // SAFETY: all-zero is a valid header: no name, no pieces, no control buffer.
    unsafe { std::mem::zeroed() }
}

fn checked(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(result)
    }
}

/// Room for a few descriptors; a message carries one.
#[repr(C, align(8))]
struct Control([u64; CONTROL_WORDS]);

const CONTROL_WORDS: usize = 8;
const FD_BYTES: u32 = size_of::<i32>() as u32;
const BACKLOG: libc::c_int = 16;

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    #[test]
    fn packets_keep_their_bounds_and_carry_a_descriptor() {
        let (left, right) = Socket::pair().expect("pair");
        let deadline = Instant::now() + Duration::from_secs(5);
        let mut event = eventfd().expect("eventfd");
        left.send(&[1; 128], Some(event.as_fd())).expect("sends");
        left.send(&[2; 7], None).expect("sends");
        left.send(&[3; 129], None).expect("sends");
        assert!(right.wait(deadline).expect("waits"));
        let first = right.receive().expect("receives").expect("a packet");
        assert_eq!((first.bytes.as_slice(), first.cut), (&[1; 128][..], false));
        let [theirs] = <[OwnedFd; 1]>::try_from(first.files).expect("one descriptor");
        File::from(theirs)
            .write_all(&5_u64.to_ne_bytes())
            .expect("same eventfd");
        let mut count = [0; 8];
        event.read_exact(&mut count).expect("was written");
        assert_eq!(u64::from_ne_bytes(count), 5);
        let second = right.receive().expect("receives").expect("a packet");
        assert_eq!((second.bytes.len(), second.files.len()), (7, 0));
        assert!(right.receive().expect("receives").expect("a packet").cut);
        assert!(matches!(right.receive(), Err(error) if error.kind() == io::ErrorKind::WouldBlock));
        drop(left);
        assert!(right.wait(deadline).expect("waits"));
        assert!(right.receive().expect("receives").is_none());
    }

    #[test]
    fn waits_end_at_their_deadline() {
        let (left, _right) = Socket::pair().expect("pair");
        let start = Instant::now();
        let limit = Duration::from_millis(20);
        assert!(!left.wait(start + limit).expect("waits"));
        assert!(start.elapsed() >= limit);
    }

    #[test]
    fn a_dead_listeners_file_is_replaced_and_a_live_one_is_not() {
        let path = std::env::temp_dir().join(format!("wwmemif-bind-{}", std::process::id()));
        let path = path.to_str().expect("utf-8");
        let first = Listener::bind(path).expect("binds");
        let second = Listener::bind(path).expect_err("in use");
        assert_eq!(second.kind(), io::ErrorKind::AddrInUse);
        // As a killed process leaves it: no listener, but the file.
        let Listener { socket, path: file } = &first;
        assert_eq!(file.as_deref(), Some(path));
        // SAFETY: plain integers; the descriptor stays open.
        unsafe { libc::shutdown(socket.as_raw_fd(), libc::SHUT_RDWR) };
        let third = Listener::bind(path).expect("replaces the dead one");
        drop(third);
        assert!(!Path::new(path).exists());
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        let long = "x".repeat(108);
        for (address, fits) in [
            ("", false),
            ("a\0b", false),
            (&*long, false),
            (&long[1..], true),
        ] {
            assert_eq!(socket_name(address).is_ok(), fits, "{address}");
        }
        let (name, length) = socket_name("@abc").expect("abstract");
        assert_eq!(
            (name.sun_path[0], name.sun_path[1]),
            (0, b'a' as libc::c_char)
        );
        assert_eq!(length as usize, size_of::<libc::sa_family_t>() + 4);
    }
}
