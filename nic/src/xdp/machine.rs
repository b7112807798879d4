//! What the process may do and how old the kernel is.

use std::fs;

/// A version of Linux.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct KernelVersion(pub(super) u32, pub(super) u32);

impl KernelVersion {
    /// XDP links and memory shared by several sockets.
    pub(super) const NEEDED: Self = Self(5, 10);
    /// Frames of several pieces.
    pub(super) const MULTI_BUFFER: Self = Self(6, 6);
    /// Requests before packets.
    pub(super) const METADATA: Self = Self(6, 11);

    /// The running kernel's, if it can be read.
    pub(super) fn running() -> Option<Self> {
        let words = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
        Self::parse(&words)
    }

    fn parse(words: &str) -> Option<Self> {
        let mut parts = words.trim().split(|c: char| !c.is_ascii_digit());
        let major = parts.next()?.parse().ok()?;
        Some(Self(major, parts.next()?.parse().ok()?))
    }
}

/// The capabilities that the process lacks for AF_XDP, by name.
pub fn missing_capabilities() -> Vec<&'static str> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    missing_of(&status)
}

fn missing_of(status: &str) -> Vec<&'static str> {
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0);
    let has = |bit: u32| effective >> bit & 1 != 0;
    const NET_ADMIN: u32 = 12;
    const NET_RAW: u32 = 13;
    const SYS_ADMIN: u32 = 21;
    const BPF: u32 = 39;
    let needs = [
        (has(NET_RAW), "CAP_NET_RAW"),
        (has(NET_ADMIN), "CAP_NET_ADMIN"),
        (has(BPF) || has(SYS_ADMIN), "CAP_BPF"),
    ];
    let missing = needs.iter().filter(|(has, _)| !has);
    missing.map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare() {
        let cases = [
            ("6.18.44-fc-v669\n", Some(KernelVersion(6, 18))),
            ("5.4.0-1\n", Some(KernelVersion(5, 4))),
            ("5.10", Some(KernelVersion(5, 10))),
            ("six", None),
        ];
        for (words, want) in cases {
            assert_eq!(KernelVersion::parse(words), want, "{words}");
        }
        assert!(KernelVersion(5, 4) < KernelVersion::NEEDED);
        assert!(KernelVersion(6, 0) > KernelVersion::NEEDED);
    }

    #[test]
    fn capabilities_are_named() {
        let cases = [
            ("CapEff:\t000001ffffffffff\n", vec![]),
            (
                "CapEff:\t0000000000000000\n",
                vec!["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"],
            ),
            ("CapEff:\t0000000000203000\n", vec![]),
            ("CapEff:\t0000008000001000\n", vec!["CAP_NET_RAW"]),
            ("", vec!["CAP_NET_RAW", "CAP_NET_ADMIN", "CAP_BPF"]),
        ];
        for (status, want) in cases {
            assert_eq!(missing_of(status), want, "{status}");
        }
    }
}
