//! Questions to the kernel over netlink: links, routes, and what a driver's XDP can do.
#![expect(unsafe_code, reason = "a socket, and messages as plain bytes")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// A netlink socket of one protocol.
#[derive(Debug)]
pub(crate) struct Netlink {
    descriptor: OwnedFd,
    sequence: u32,
}

/// One message of an answer: its type and what follows the netlink header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) body: Vec<u8>,
}

impl Netlink {
    /// Opens a socket, for `NETLINK_ROUTE` or `NETLINK_GENERIC`.
    pub(crate) fn open(protocol: libc::c_int) -> io::Result<Self> {
        let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
        // SAFETY: plain integers.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, kind, protocol) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and owned by nobody else.
        let descriptor = unsafe { OwnedFd::from_raw_fd(fd) };
        let sequence = 0;
        Ok(Self {
            descriptor,
            sequence,
        })
    }

    /// Asks, and collects the answer: all messages of a dump, or the one of a plain question.
    pub(crate) fn ask(&mut self, kind: u16, dump: bool, body: &[u8]) -> io::Result<Vec<Message>> {
        self.sequence += 1;
        let what = if dump { libc::NLM_F_DUMP } else { 0 };
        let flags = (libc::NLM_F_REQUEST | what) as u16;
        let mut bytes = Vec::with_capacity(HEADER + body.len());
        bytes.extend_from_slice(&((HEADER + body.len()) as u32).to_ne_bytes());
        bytes.extend_from_slice(&kind.to_ne_bytes());
        bytes.extend_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(&self.sequence.to_ne_bytes());
        bytes.extend_from_slice(&0_u32.to_ne_bytes());
        bytes.extend_from_slice(body);
        self.send(&bytes)?;
        let mut messages = Vec::new();
        for _ in 0..MAX_PACKETS {
            let packet = self.receive()?;
            if self.read(&packet, &mut messages)? || !dump {
                return Ok(messages);
            }
        }
        Err(io::Error::other("the kernel's answer does not end"))
    }

    /// Reads one packet of messages. Says whether the answer is over.
    fn read(&self, packet: &[u8], messages: &mut Vec<Message>) -> io::Result<bool> {
        let mut rest = packet;
        while rest.len() >= HEADER {
            let length = u32_at(rest, 0).unwrap_or(0) as usize;
            let kind = u16_at(rest, 4).unwrap_or(0);
            let body = rest.get(HEADER..length).ok_or(io::ErrorKind::InvalidData)?;
            let ours = u32_at(rest, 8) == Some(self.sequence);
            match libc::c_int::from(kind) {
                _ if !ours => {}
                libc::NLMSG_DONE => return Ok(true),
                libc::NLMSG_ERROR => {
                    let code = u32_at(body, 0).unwrap_or(0) as i32;
                    if code == 0 {
                        return Ok(true);
                    }
                    return Err(io::Error::from_raw_os_error(code.saturating_neg()));
                }
                _ => messages.push(Message {
                    kind,
                    body: body.to_vec(),
                }),
            }
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(false)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: the bytes are live; a netlink socket without an address talks to the kernel.
        let sent = unsafe { libc::send(fd, bytes.as_ptr().cast(), bytes.len(), 0) };
        if sent < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    fn receive(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0_u8; 1 << 16];
        let fd = self.descriptor.as_raw_fd();
        // SAFETY: the buffer is live and as long as said.
        let got = unsafe { libc::recv(fd, bytes.as_mut_ptr().cast(), bytes.len(), 0) };
        let length = usize::try_from(got).map_err(|_| io::Error::last_os_error())?;
        bytes.truncate(length);
        Ok(bytes)
    }
}

const HEADER: usize = 16;
const MAX_PACKETS: usize = 4096;

/// An attribute to be sent: length, type, value, padding to 4.
pub(crate) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(8 + value.len());
    bytes.extend_from_slice(&((4 + value.len()) as u16).to_ne_bytes());
    bytes.extend_from_slice(&kind.to_ne_bytes());
    bytes.extend_from_slice(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// The attributes in `bytes`: type and value of each. Stops at the first that does not fit.
pub(crate) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    const TYPE_MASK: u16 = 0x3fff;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let length = usize::from(u16_at(rest, 0)?);
        let kind = u16_at(rest, 2)? & TYPE_MASK;
        let value = rest.get(4..length)?;
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, value))
    })
}

/// The value of the first attribute of a type.
pub(crate) fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes)
        .find(|&(found, _)| found == kind)
        .map(|(_, value)| value)
}

pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at + 2)?;
    Some(u16::from_ne_bytes(bytes.try_into().ok()?))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    Some(u32::from_ne_bytes(bytes.try_into().ok()?))
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_come_back_and_cut_ones_end_the_list() {
        let mut bytes = attribute(3, b"veth0\0");
        bytes.extend(attribute(0x8004, &7_u32.to_ne_bytes()));
        let list: Vec<_> = attributes(&bytes).collect();
        assert_eq!(list, [(3, &b"veth0\0"[..]), (4, &7_u32.to_ne_bytes()[..])]);
        assert_eq!(find(&bytes, 4).and_then(|value| u32_at(value, 0)), Some(7));
        for cut in 0..bytes.len() {
            assert!(
                attributes(bytes.get(..cut).unwrap_or(&[])).count() <= 2,
                "cut {cut}"
            );
        }
        assert_eq!(attributes(&[1, 0, 3, 0, 9, 9]).count(), 0);
    }

    #[test]
    fn an_error_of_any_number_is_an_error() {
        let netlink = Netlink::open(libc::NETLINK_ROUTE).expect("opens");
        for code in [i32::MIN, -1, 1, i32::MAX] {
            let words = [20, libc::NLMSG_ERROR as u32, 0, 0, code as u32];
            let packet: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
            let result = netlink.read(&packet, &mut Vec::new());
            assert!(result.is_err_and(|error| error.raw_os_error().is_some()));
        }
    }

    #[test]
    fn the_kernel_lists_the_loopback_interface() {
        let mut netlink = Netlink::open(libc::NETLINK_ROUTE).expect("opens");
        let links = netlink
            .ask(libc::RTM_GETLINK, true, &[0; 16])
            .expect("answers");
        let names: Vec<_> = links
            .iter()
            .filter_map(|link| find(link.body.get(16..)?, libc::IFLA_IFNAME))
            .collect();
        assert!(names.contains(&&b"lo\0"[..]), "{names:?}");
        let error = netlink
            .ask(0x7ff0, false, &[])
            .expect_err("no such question");
        assert!(error.raw_os_error().is_some());
    }
}
