//! Frames for tests, with checksums by the book: one 16-bit word at a time.

/// What to build.
#[derive(Clone, Copy, Debug)]
pub(super) struct Build {
    pub(super) v6: bool,
    pub(super) tcp: bool,
    pub(super) tags: usize,
    pub(super) payload: usize,
    pub(super) ports: (u16, u16),
    /// The two ECN bits.
    pub(super) ecn: u8,
    /// IPv4: more fragments follow.
    pub(super) fragment: bool,
}

impl Default for Build {
    fn default() -> Self {
        Self {
            v6: false,
            tcp: false,
            tags: 0,
            payload: 40,
            ports: (4000, 4791),
            ecn: 0,
            fragment: false,
        }
    }
}

/// Where the parts of a built frame lie.
#[derive(Clone, Debug)]
pub(super) struct Built {
    pub(super) bytes: Vec<u8>,
    pub(super) network_at: usize,
    pub(super) transport_at: usize,
    /// Where the TCP or UDP checksum stands.
    pub(super) checksum_at: usize,
}

/// An Ethernet frame between two addresses with an unknown type.
pub(super) fn plain(to: [u8; 6], from: [u8; 6], payload: &[u8]) -> Vec<u8> {
    [&to[..], &from, &[0x88, 0xb5], payload].concat()
}

/// An IP packet with right checksums.
pub(super) fn packet(build: Build) -> Built {
    let mut bytes = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1];
    for tag in 0..build.tags {
        bytes.extend([0x81, 0x00, 0x20, 7 + tag as u8]);
    }
    let transport_bytes = if build.tcp { 20 } else { 8 } + build.payload;
    let protocol = if build.tcp { 6 } else { 17 };
    bytes.extend(if build.v6 { [0x86, 0xdd] } else { [0x08, 0x00] });
    let network_at = bytes.len();
    let addresses = if build.v6 {
        let length = (transport_bytes as u16).to_be_bytes();
        bytes.extend([
            0x60,
            build.ecn << 4,
            0,
            0,
            length[0],
            length[1],
            protocol,
            64,
        ]);
        8..40
    } else {
        let length = (transport_bytes as u16 + 20).to_be_bytes();
        let fragment = if build.fragment { 0x20 } else { 0 };
        bytes.extend([
            0x45, build.ecn, length[0], length[1], 0, 9, fragment, 0, 64, protocol, 0, 0,
        ]);
        12..20
    };
    for n in 0..addresses.len() {
        bytes.push(if n % 4 == 0 { 10 } else { n as u8 });
    }
    if !build.v6 {
        let sum = checksum(&[&bytes[network_at..]]);
        bytes[network_at + 10..network_at + 12].copy_from_slice(&sum.to_be_bytes());
    }
    let transport_at = bytes.len();
    bytes.extend(build.ports.0.to_be_bytes());
    bytes.extend(build.ports.1.to_be_bytes());
    if build.tcp {
        bytes.extend([0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    } else {
        bytes.extend((transport_bytes as u16).to_be_bytes());
        bytes.extend([0, 0]);
    }
    bytes.extend((0..build.payload).map(|n| (n * 7) as u8));
    let checksum_at = transport_at + if build.tcp { 16 } else { 6 };
    let length = (transport_bytes as u32).to_be_bytes();
    let pseudo = [
        &bytes[network_at..][addresses],
        &length[..],
        &[0, 0, 0, protocol],
    ]
    .concat();
    let sum = checksum(&[&pseudo, &bytes[transport_at..]]);
    bytes[checksum_at..checksum_at + 2].copy_from_slice(&sum.to_be_bytes());
    Built {
        bytes,
        network_at,
        transport_at,
        checksum_at,
    }
}

/// The internet checksum over parts that each start at an even place.
fn checksum(parts: &[&[u8]]) -> u16 {
    let mut sum = 0u32;
    for part in parts {
        for pair in part.chunks(2) {
            let low = pair.get(1).copied().unwrap_or(0);
            sum += u32::from(pair[0]) << 8 | u32::from(low);
            sum = (sum & 0xffff) + (sum >> 16);
        }
    }
    !(sum as u16)
}
