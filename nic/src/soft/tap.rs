//! A tap interface of Linux as a way out of a fabric: the kernel's own stack is the peer.
//!
//! The kernel completes checksums and cuts large packets before a frame comes out of a plain tap,
//! and takes frames with right checksums only. One system call a frame, none blocks.
#![expect(unsafe_code, reason = "tap interfaces are made by ioctl")]

use std::fs::{File, OpenOptions};
use std::io::{Error as IoError, ErrorKind, Read, Write};
use std::net::UdpSocket;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::uplink::Uplink;
use crate::error::Error;

/// A tap interface, made when this is opened and gone when it is dropped.
pub struct Tap {
    name: String,
    file: File,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    sent: u64,
    received: u64,
    refused: u64,
    too_long: u64,
}

impl Tap {
    /// Makes the interface in the calling thread's network namespace, and sets it up.
    ///
    /// # Errors
    /// [`Error::Spec`] for an impossible name, [`Error::System`] naming what was tried.
    pub fn open(interface: &str) -> Result<Self, Error> {
        let nic = format!("tap:{interface}");
        let name = interface.as_bytes();
        let fits = (1..libc::IFNAMSIZ).contains(&name.len());
        if !fits || name.iter().any(|byte| b"/: \t\n%".contains(byte)) {
            return Err(Error::Spec {
                spec: nic,
                field: "interface".to_owned(),
                problem: format!("`{interface}` is no name for an interface"),
                cure: "write 1 to 15 letters, as in tap:ww0".to_owned(),
            });
        }
        let failed = |action: &str, source: IoError| Error::System {
            nic: nic.clone(),
            action: action.to_owned(),
            source,
            cure: "run as root, or with CAP_NET_ADMIN".to_owned(),
        };
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")
            .map_err(|source| failed("open /dev/net/tun", source))?;
        let mut request = request(name);
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        control(&file, libc::TUNSETIFF, &mut request)
            .map_err(|source| failed("make the interface", source))?;
        set_up(name).map_err(|source| failed("set the interface up", source))?;
        Ok(Self {
            name: nic,
            file,
            counts: Counts::default(),
        })
    }
}

impl Uplink for Tap {
    fn name(&self) -> &str {
        &self.name
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        let taken = matches!(self.file.write(frame), Ok(length) if length == frame.len());
        self.counts.sent += u64::from(taken);
        self.counts.refused += u64::from(!taken);
        taken
    }

    fn receive(&mut self, into: &mut [u8], _now_ns: u64) -> Option<usize> {
        loop {
            match self.file.read(into) {
                // A frame that fills the buffer may have been cut by it.
                Ok(length) if length == into.len() => self.counts.too_long += 1,
                Ok(length) => {
                    self.counts.received += 1;
                    return Some(length);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return None,
            }
        }
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("frames to the kernel", self.counts.sent),
            ("frames from the kernel", self.counts.received),
            ("refused by the kernel", self.counts.refused),
            ("too long from the kernel", self.counts.too_long),
        ]
    }
}

fn request(name: &[u8]) -> libc::ifreq {
    // SAFETY: plain integers and addresses, for which all zero is a value.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name) {
        *to = *from as libc::c_char;
    }
    request
}

fn control(
    file: &impl AsRawFd,
    operation: libc::Ioctl,
    request: &mut libc::ifreq,
) -> std::io::Result<()> {
    let request: *mut libc::ifreq = request;
    // SAFETY: the operations used here read and write one request, which outlives the call.
    match unsafe { libc::ioctl(file.as_raw_fd(), operation, request) } {
        0.. => Ok(()),
        _ => Err(IoError::last_os_error()),
    }
}

fn set_up(name: &[u8]) -> std::io::Result<()> {
    // Any socket of the namespace will do; it is never used otherwise.
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    let mut request = request(name);
    control(&socket, libc::SIOCGIFFLAGS as libc::Ioctl, &mut request)?;
    // SAFETY: the operation just filled this field.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    request.ifr_ifru.ifru_flags = flags | libc::IFF_UP as libc::c_short;
    control(&socket, libc::SIOCSIFFLAGS as libc::Ioctl, &mut request)
}
