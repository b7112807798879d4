//! The transport checksum of a parsed frame that lies in one piece: for hosts, tests and judges.
//! Device code sums across lanes and calls [`judge`](super::judge) itself.

use super::internet::Sum;
use super::pseudo::{pseudo_ipv4, pseudo_ipv6};
use super::verdict::{ChecksumState, judge, judge_udp};
use crate::parse::{Fragment, Headers, Kind};
use crate::wire::{bth, vxlan};

/// What is known of the TCP, UDP or ICMP checksum of `frame`, from which `headers` were parsed.
///
/// [`ChecksumState::Unverified`] for other frames, for fragments, and if bytes are missing. UDP
/// over IPv6 without a checksum is [`ChecksumState::Bad`] but for RoCEv2 and VXLAN (RFC 6935). The
/// destination is the one in the IPv6 header: a packet on its way through a routing header is
/// judged bad.
pub fn transport_state(frame: &[u8], headers: &Headers) -> ChecksumState {
    judge_frame(frame, headers).unwrap_or_default()
}

fn judge_frame(frame: &[u8], headers: &Headers) -> Option<ChecksumState> {
    let field_offset = match headers.kind {
        Kind::Tcp => 16,
        Kind::Udp | Kind::RoceV2 | Kind::Vxlan => 6,
        Kind::Icmpv4 | Kind::Icmpv6 => 2,
        _ => return None,
    };
    if headers.fragment != Fragment::None {
        return None;
    }
    let l4 = usize::from(headers.l4);
    let datagram = frame.get(l4..headers.end() as usize)?;
    let field = u16::from_be_bytes(*datagram.get(field_offset..)?.first_chunk()?);
    let sum = Sum::of(datagram);
    let pseudo = match headers.kind {
        Kind::Icmpv4 => Sum::ZERO,
        _ => pseudo(frame, headers, datagram.len())?,
    };
    let is_udp = matches!(headers.kind, Kind::Udp | Kind::RoceV2 | Kind::Vxlan);
    if !is_udp {
        return Some(judge(field, pseudo, sum));
    }
    let may_be_absent = headers.ip_version == 4
        || matches!(headers.destination_port(), bth::UDP_PORT | vxlan::UDP_PORT);
    match judge_udp(field, pseudo, sum) {
        ChecksumState::Absent if !may_be_absent => Some(ChecksumState::Bad),
        state => Some(state),
    }
}

fn pseudo(frame: &[u8], headers: &Headers, length: usize) -> Option<Sum> {
    if let Some((source, destination)) = headers.ipv4_addresses(frame) {
        return Some(pseudo_ipv4(
            source,
            destination,
            headers.protocol,
            length as u16,
        ));
    }
    let (source, destination) = headers.ipv6_addresses(frame)?;
    Some(pseudo_ipv6(
        source,
        destination,
        headers.protocol,
        length as u32,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::parse_bytes;
    use crate::wire::testing::hex;

    fn check(text: &str, expected: ChecksumState) {
        let ether_type = if text.starts_with('4') {
            "0800"
        } else {
            "86dd"
        };
        let frame = hex(&format!("020000000002 020000000001 {ether_type} {text}"));
        let headers = parse_bytes(&frame, frame.len() as u32).unwrap();
        assert_eq!(transport_state(&frame, &headers), expected, "{text}");
    }

    #[test]
    fn packets_of_scapy() {
        use ChecksumState::*;
        // The scapy expressions stand beside the same packets in `wire`.
        let udp = "4500002100010000401166c90a0000010a00000203e80035000d";
        check(&format!("{udp} a3e268656c6c6f"), Good);
        check(&format!("{udp} a3e368656c6c6f"), Bad);
        check(&format!("{udp} 142168656c6c6f"), Partial);
        check(&format!("{udp} 000068656c6c6f"), Absent);
        let icmp = "46b90028123440003f017f450a4d00030a4d0002940400000800";
        check(&format!("{icmp} 2342432100076162636465666768"), Good);
        check(&format!("{icmp} 0000432100076162636465666768"), Bad);
        let echo = "6b812345000b3afffe800000000000000000000000000001
            fe800000000000000000000000000002 8000";
        check(&format!("{echo} 7f161122000378797a"), Good);
        check(&format!("{echo} 7f161122000378797b"), Bad);
        let tcp = "6000000000190640fd770000000000000000000000000003
            fd7700000000000000000000000000029c4000500000000100000002501801f4";
        check(&format!("{tcp} d279000068656c6c6f"), Good);
        check(&format!("{tcp} d279000068656c6c70"), Bad);
    }

    #[test]
    fn udp_over_ipv6_needs_a_checksum() {
        let addresses = "fd770000000000000000000000000003 fd770000000000000000000000000002";
        check(
            &format!("60000000000a1140 {addresses} 00010002000a0000 6869"),
            ChecksumState::Bad,
        );
        let bth = format!("0470ffff000000118000000100000000{}", "00".repeat(4));
        let roce = format!("60000000001c1140 {addresses} c00012b7001c0000 {bth}");
        check(&roce, ChecksumState::Absent);
    }

    #[test]
    fn what_has_no_checksum_is_not_judged() {
        check(
            "4500001c12342000401133ff0a4d00030a4d00020000000000080000",
            ChecksumState::Unverified,
        );
    }
}
