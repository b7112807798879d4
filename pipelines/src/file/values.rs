//! Reading single values: addresses, prefixes, ranges, durations, names of protocols.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use warpwire_core::rule::{Prefix, Within};
use warpwire_core::spec::PackedAddress;

/// `02:00:00:00:00:01`.
pub(super) fn mac(words: &str) -> Option<[u8; 6]> {
    let mut bytes = [0; 6];
    let mut parts = words.split([':', '-']);
    for byte in &mut bytes {
        let part = parts.next().filter(|part| part.len() == 2)?;
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(bytes)
}

/// Exactly `count` bytes in hexadecimal; spaces, colons and dashes between them are skipped.
pub(super) fn hex(words: &str, count: usize) -> Option<Vec<u8>> {
    let digits: Vec<u8> = words
        .chars()
        .filter(|letter| !matches!(letter, ' ' | ':' | '-' | '_'))
        .map(|letter| {
            letter
                .to_digit(16)
                .and_then(|digit| u8::try_from(digit).ok())
        })
        .collect::<Option<_>>()?;
    let bytes: Vec<u8> = digits
        .chunks_exact(2)
        .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
        .collect();
    (digits.len() == count * 2).then_some(bytes)
}

/// An address as the kernel wants it: big-endian numbers, IPv4 in the first.
pub(super) fn pack(address: IpAddr) -> PackedAddress {
    match address {
        IpAddr::V4(address) => PackedAddress {
            words: [address.to_bits(), 0, 0, 0],
            version: 4,
        },
        IpAddr::V6(address) => PackedAddress {
            words: words(address.to_bits()),
            version: 6,
        },
    }
}

fn words(bits: u128) -> [u32; 4] {
    [96, 64, 32, 0].map(|shift| (bits >> shift) as u32)
}

/// `10.0.0.0/8`, `2001:db8::/32` or a single address; with the IP version.
pub(super) fn prefix(text: &str) -> Option<(Prefix, u32)> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u32>().ok()?)),
        None => (text, None),
    };
    let (bits, most, version) = match address.parse().ok()? {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32, 4),
        IpAddr::V6(address) => (address.to_bits(), 128, 6),
    };
    let length = length.unwrap_or(most);
    if length > most {
        return None;
    }
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    let prefix = Prefix {
        words: words(bits & mask),
        mask: words(mask),
    };
    Some((prefix, version))
}

/// An address, with or without the length of its network behind it.
pub(super) fn host_address(text: &str) -> Option<IpAddr> {
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length.parse::<u8>().ok()?)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    (length.unwrap_or(most) <= most && !unusable(address)).then_some(address)
}

/// Addresses that no host can have.
fn unusable(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address == Ipv4Addr::BROADCAST || address.is_multicast(),
        IpAddr::V6(address) => address == Ipv6Addr::UNSPECIFIED || address.is_multicast(),
    }
}

/// `80` or `1000-2000`, in decimal or with `0x`, each through `names` first.
pub(super) fn within(text: &str, most: u32, names: &[(&str, u32)]) -> Option<Within> {
    let one = |word: &str| {
        let word = word.trim();
        let named = names.iter().find(|(name, _)| *name == word);
        let value = named.map(|(_, value)| *value).or_else(|| number(word));
        value.filter(|value| *value <= most)
    };
    if let Some(value) = one(text) {
        let (low, high) = (value, value);
        return Some(Within { low, high });
    }
    let (low, high) = text.split_once('-')?;
    let (low, high) = (one(low)?, one(high)?);
    (low <= high).then_some(Within { low, high })
}

fn number(word: &str) -> Option<u32> {
    match word.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None => word.parse().ok(),
    }
}

/// `10s`, `500ms`, `2m`, `1h`; up to a year.
pub fn duration(text: &str) -> Option<Duration> {
    let split = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (digits, unit) = text.split_at(split);
    let value: f64 = digits.parse().ok()?;
    let seconds = match unit {
        "us" => value / 1e6,
        "ms" => value / 1e3,
        "s" => value,
        "m" => value * 60.0,
        "h" => value * 3600.0,
        _ => return None,
    };
    let year = 366.0 * 24.0 * 3600.0;
    (seconds > 0.0 && seconds <= year).then(|| Duration::from_secs_f64(seconds))
}

/// IP protocols by name.
pub(super) const PROTOCOLS: &[(&str, u32)] = &[
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmpv6", 58),
    ("ospf", 89),
    ("vrrp", 112),
    ("sctp", 132),
];

/// Ethernet types by name.
pub(super) const ETHER_TYPES: &[(&str, u32)] = &[
    ("ipv4", 0x0800),
    ("arp", 0x0806),
    ("ipv6", 0x86dd),
    ("mpls", 0x8847),
    ("rocev1", 0x8915),
    ("lldp", 0x88cc),
    ("ptp", 0x88f7),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn macs() {
        assert_eq!(mac("02:00:00:0a:FF:01"), Some([2, 0, 0, 10, 255, 1]));
        for wrong in [
            "",
            "02:00:00:0a:ff",
            "2:0:0:0:0:1",
            "02:00:00:0a:ff:01:02",
            "zz:00:00:00:00:00",
        ] {
            assert_eq!(mac(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn prefixes() {
        let (eight, version) = prefix("10.1.2.3/8").expect("reads");
        assert_eq!(
            (eight.words, eight.mask, version),
            ([0x0a00_0000, 0, 0, 0], [0xff00_0000, 0, 0, 0], 4)
        );
        let (all, _) = prefix("0.0.0.0/0").expect("reads");
        assert_eq!(all.mask, [0; 4]);
        let (six, version) = prefix("2001:db8::1").expect("reads");
        assert_eq!(
            (six.words, six.mask, version),
            ([0x2001_0db8, 0, 0, 1], [u32::MAX; 4], 6)
        );
        for wrong in ["10.0.0.0/33", "::/129", "10.0.0/8", "", "/8", "10.0.0.0/-1"] {
            assert_eq!(prefix(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn ranges() {
        let pair = |text, most| within(text, most, PROTOCOLS).map(|range| (range.low, range.high));
        assert_eq!(pair("udp", 255), Some((17, 17)));
        assert_eq!(pair("tcp-udp", 255), Some((6, 17)));
        assert_eq!(pair("0x10-0x1f", 255), Some((16, 31)));
        for wrong in ["256", "20-10", "", "-", "1-", "x"] {
            assert_eq!(pair(wrong, 255), None, "{wrong}");
        }
    }

    #[test]
    fn durations() {
        assert_eq!(duration("1.5s"), Some(Duration::from_millis(1500)));
        assert_eq!(duration("250ms"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2m"), Some(Duration::from_secs(120)));
        for wrong in ["", "10", "s", "0s", "-1s", "1d", "1e99s", "9999999h"] {
            assert_eq!(duration(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn host_addresses_and_hex() {
        assert!(host_address("10.0.0.1/24").is_some());
        assert!(host_address("fe80::1").is_some());
        for wrong in [
            "10.0.0.1/40",
            "255.255.255.255",
            "224.0.0.1",
            "ff02::1",
            "::",
        ] {
            assert_eq!(host_address(wrong), None, "{wrong}");
        }
        assert_eq!(hex("01:0a ff", 3), Some(vec![1, 10, 255]));
        assert_eq!(hex("01f", 1), None);
        assert_eq!(hex("01", 2), None);
    }
}
