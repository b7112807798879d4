//! Questions to drivers: their name and how many queues are in use.
#![expect(unsafe_code, reason = "an ioctl that fills a block of plain bytes")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use crate::netlink::u32_at;

/// A socket to ask with.
#[derive(Debug)]
pub(crate) struct Ethtool {
    descriptor: OwnedFd,
}

/// `struct ifreq` with a pointer.
#[repr(C)]
struct Request {
    name: [u8; 16],
    data: u64,
    padding: [u64; 2],
}

const _: () = assert!(size_of::<Request>() == 40);

impl Ethtool {
    pub(crate) fn open() -> io::Result<Self> {
        let kind = libc::SOCK_DGRAM | libc::SOCK_CLOEXEC;
        // SAFETY: plain integers.
        let fd = unsafe { libc::socket(libc::AF_INET, kind, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Self { descriptor })
    }

    /// The driver's name.
    pub(crate) fn driver(&self, interface: &str) -> Option<String> {
        const DRIVER_INFO: u32 = 0x03;
        let answer = self.ask(interface, DRIVER_INFO)?;
        let name = answer.get(4..36)?;
        let end = name.iter().position(|&byte| byte == 0)?;
        Some(String::from_utf8_lossy(name.get(..end)?).into_owned())
    }

    /// Receive and transmit queues in use.
    pub(crate) fn queues(&self, interface: &str) -> Option<(u32, u32)> {
        const CHANNELS: u32 = 0x3c;
        let answer = self.ask(interface, CHANNELS)?;
        let (receive, transmit) = (u32_at(&answer, 20)?, u32_at(&answer, 24)?);
        let combined = u32_at(&answer, 32)?;
        Some((receive + combined, transmit + combined)).filter(|&(receive, _)| receive > 0)
    }

    /// One question. The answer is longer than any that is asked for here.
    fn ask(&self, interface: &str, question: u32) -> Option<[u8; 512]> {
        let mut answer = [0_u8; 512];
        answer
            .get_mut(..4)?
            .copy_from_slice(&question.to_ne_bytes());
        let mut request = Request {
            name: [0; 16],
            data: answer.as_mut_ptr() as u64,
            padding: [0; 2],
        };
        let room = request.name.get_mut(..interface.len())?;
        room.copy_from_slice(interface.as_bytes());
        let (fd, pointer) = (self.descriptor.as_raw_fd(), &raw mut request);
        // SAFETY: the request and the block that it points to are live and longer than the answer.
        let result = unsafe { libc::ioctl(fd, libc::SIOCETHTOOL as _, pointer) };
        (result == 0).then_some(answer)
    }
}
