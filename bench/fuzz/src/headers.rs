//! Every header: any bytes are legal values or a reason, and legal values that are written are
//! read back.

use std::fmt::Debug;

use warpwire_protocols::DropReason;
use warpwire_protocols::checksum::{Arithmetic, Fill, Host, Sum, icrc};
use warpwire_protocols::wire::ipv6_extension::Extensions;
use warpwire_protocols::wire::{
    BufferTooShort, IpProtocol, aeth, arp, atomic_ack_eth, atomic_eth, bth, cnp, deth, ethernet,
    feth, icmpv4, icmpv6, ieth, imm_dt, ipv4, ipv6, ipv6_fragment, ndp_neighbor, ndp_option,
    ndp_redirect, ndp_router, reth, tcp, tcp_option, udp, vlan, vxlan,
};

/// `data` starts with any header.
pub fn check(data: &[u8]) {
    links(data);
    networks(data);
    extensions(data);
    transports(data);
    neighbours(data);
    roce(data);
}

/// A `Repr` of fixed size: its header is one of `$module`, read by `$parse`.
macro_rules! fixed {
    ($data:expr, $module:ident, $parse:expr) => {
        let read = |bytes: &[u8]| {
            let (header, _) = $module::Header::split(bytes).ok()?;
            $parse(header)
        };
        if let Some(repr) = read($data) {
            let emitted = emit(repr.length(), |buffer| repr.emit(buffer));
            assert_eq!(read(&emitted), Some(repr));
            let _ = repr.to_string();
        }
    };
}

fn links(data: &[u8]) {
    fixed!(data, ethernet, ethernet::Repr::parse);
    fixed!(data, vlan, |header| Some(vlan::Repr::parse(header)));
    fixed!(data, arp, |header| arp::Repr::parse(header).ok());
    fixed!(data, vxlan, |header| vxlan::Repr::parse(header).ok());
}

fn networks(data: &[u8]) {
    if let Ok((repr, payload)) = ipv4::Repr::parse(data) {
        let mut again = emit(repr.length(), |buffer| repr.emit(buffer));
        assert!(ipv4::checksum_holds(&again), "{repr:?}");
        again.extend(payload);
        assert_eq!(ipv4::Repr::parse(&again), Ok((repr, payload)));
        let _ = (repr.to_string(), repr.options.count());
    }
    if let Ok((repr, payload)) = ipv6::Repr::parse(data) {
        let mut again = emit(repr.length(), |buffer| repr.emit(buffer));
        again.extend(payload);
        assert_eq!(ipv6::Repr::parse(&again), Ok((repr, payload)));
        let _ = repr.to_string();
    }
}

fn extensions(data: &[u8]) {
    for next_header in [0, 43, 44, 50, 51, 60, 135] {
        let mut chain = Extensions::new(IpProtocol(next_header), data);
        let steps = chain.by_ref().take(data.len() + 2).count();
        assert!(steps <= data.len() + 1, "a chain without end");
        assert!(data.ends_with(chain.rest()));
    }
    fixed!(data, ipv6_fragment, |header| Some(
        ipv6_fragment::Repr::parse(header)
    ));
}

fn transports(data: &[u8]) {
    if let Ok((header, rest)) = udp::Header::split(data)
        && let Ok(repr) = udp::Repr::parse(header, data.len())
    {
        let payload = rest
            .get(..usize::from(repr.payload_length))
            .expect("inside");
        let fill = Fill::Compute {
            payload: Sum::of(payload),
        };
        let mut again = emit(repr.length(), |buffer| repr.emit(buffer, Sum::ZERO, fill));
        let (header, _) = udp::Header::split(&again).expect("just written");
        assert_eq!(udp::Repr::parse(header, data.len()), Ok(repr));
        assert_ne!(header.checksum.get(), 0, "zero means that there is none");
        again.extend(payload);
        assert!(Sum::of(&again).holds(), "{repr:?}");
        let _ = repr.to_string();
    }
    if let Ok((repr, rest)) = tcp::Repr::parse(data) {
        let fill = Fill::Compute {
            payload: Sum::of(rest),
        };
        let mut again = emit(repr.length(), |buffer| repr.emit(buffer, Sum::ZERO, fill));
        again.extend(rest);
        assert!(Sum::of(&again).holds(), "{repr:?}");
        let (back, data) = tcp::Repr::parse(&again).expect("just written");
        // Blocks that did not fit are left out; all else is the same.
        let kept = back.options.sack.as_slice();
        assert_eq!(kept, &repr.options.sack.as_slice()[..kept.len()]);
        let same = tcp_option::Options {
            sack: repr.options.sack,
            ..back.options
        };
        assert_eq!(
            (
                tcp::Repr {
                    options: same,
                    ..back
                },
                data
            ),
            (repr, rest)
        );
        let _ = repr.to_string();
    }
    let steps = tcp_option::TcpOptions::new(data)
        .take(data.len() + 2)
        .count();
    assert!(steps <= data.len() + 1, "options without end");
    messages(data);
}

fn messages(data: &[u8]) {
    let read4 = |bytes: &[u8]| icmpv4::Repr::parse(icmpv4::Header::split(bytes).ok()?.0);
    if let Some(repr) = read4(data) {
        let rest = data.get(repr.length()..).unwrap_or(&[]);
        let fill = Fill::Compute {
            payload: Sum::of(rest),
        };
        let mut again = emit(repr.length(), |buffer| repr.emit(buffer, fill));
        assert_eq!(read4(&again), Some(repr));
        again.extend(rest);
        assert!(Sum::of(&again).holds(), "{repr:?}");
        let _ = repr.to_string();
    }
    let read6 = |bytes: &[u8]| icmpv6::Repr::parse(icmpv6::Header::split(bytes).ok()?.0);
    if let Some(repr) = read6(data) {
        let rest = data.get(repr.length()..).unwrap_or(&[]);
        let fill = Fill::Compute {
            payload: Sum::of(rest),
        };
        let mut again = emit(repr.length(), |buffer| repr.emit(buffer, Sum::ZERO, fill));
        assert_eq!(read6(&again), Some(repr));
        again.extend(rest);
        assert!(Sum::of(&again).holds(), "{repr:?}");
        let _ = repr.to_string();
    }
}

fn neighbours(data: &[u8]) {
    if let Ok(repr) = ndp_neighbor::Repr::parse(data, HOP_LIMIT) {
        let again = emit(repr.length(), |buffer| repr.emit(buffer, Sum::ZERO));
        assert!(Sum::of(&again).holds(), "{repr:?}");
        assert_eq!(ndp_neighbor::Repr::parse(&again, HOP_LIMIT), Ok(repr));
        let _ = repr.to_string();
    }
    let refused = ndp_neighbor::Repr::parse(data, HOP_LIMIT - 1);
    assert_eq!(refused, Err(DropReason::NdHopLimit));
    let _ = ndp_router::Advertisement::parse(data, HOP_LIMIT).map(|repr| repr.to_string());
    let _ = ndp_redirect::Repr::parse(data, HOP_LIMIT).map(|repr| repr.to_string());
    for option in ndp_option::NdOptions::new(data).take(data.len()) {
        let Ok(option) = option else { break };
        let mut buffer = [0; 64];
        let written = option.emit(&mut buffer).expect("no option is longer");
        if written > 0 {
            let back = ndp_option::NdOptions::new(&buffer[..written]).next();
            assert_eq!(back, Some(Ok(option)));
        }
    }
}

fn roce(data: &[u8]) {
    fixed!(data, bth, |header| bth::Repr::parse(header).ok());
    fixed!(data, cnp, |header| cnp::Repr::parse(header).ok());
    fixed!(data, aeth, |header| aeth::Repr::parse(header).ok());
    fixed!(data, feth, |header| feth::Repr::parse(header).ok());
    fixed!(data, reth, |header| Some(reth::Repr::parse(header)));
    fixed!(data, deth, |header| Some(deth::Repr::parse(header)));
    fixed!(data, ieth, |header| Some(ieth::Repr::parse(header)));
    fixed!(data, imm_dt, |header| Some(imm_dt::Repr::parse(header)));
    fixed!(data, atomic_eth, |header| Some(atomic_eth::Repr::parse(
        header
    )));
    fixed!(data, atomic_ack_eth, |header| Some(
        atomic_ack_eth::Repr::parse(header)
    ));
    let verdict = icrc::verify::<Host>(data);
    assert_eq!(icrc::verify::<Arithmetic>(data), verdict);
    assert_eq!(
        icrc::of_packet::<Arithmetic>(data),
        icrc::of_packet::<Host>(data)
    );
}

/// What `emit` writes: the same over zeros and over marks, nothing past its length, and nothing to
/// a buffer that is a byte short.
fn emit(length: usize, write: impl Fn(&mut [u8]) -> Result<usize, BufferTooShort>) -> Vec<u8> {
    let mut zeros = vec![0x00; length + 8];
    let mut marks = vec![0xa5; length + 8];
    same("bytes written", write(&mut zeros), Ok(length));
    same("bytes written", write(&mut marks), Ok(length));
    same("a byte left unwritten", &zeros[..length], &marks[..length]);
    same("written past the end", &zeros[length..], &[0x00; 8][..]);
    same("written past the end", &marks[length..], &[0xa5; 8][..]);
    if let Some(have) = length.checked_sub(1) {
        let short = write(&mut zeros[..have]);
        same(
            "too short",
            short,
            Err(BufferTooShort { need: length, have }),
        );
        zeros = marks;
    }
    zeros.truncate(length);
    zeros
}

fn same<T: PartialEq + Debug>(what: &str, got: T, want: T) {
    assert_eq!(got, want, "{what}");
}

const HOP_LIMIT: u8 = 255;
