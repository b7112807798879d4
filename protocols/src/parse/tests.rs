use super::*;
use crate::wire::testing::hex;
use crate::wire::{Psn, Qpn};

const ETHERNET: &str = "020000000002 020000000001";

#[test]
fn roce_over_ipv4() {
    let frame = hex(&format!(
        "{ETHERNET} 0800 4502004400004000401126a50a0000010a000002c00012b700300000
         0a70ffff00000011801234560000000000001000000012340000000568656c6c6f000000cb0ee381"
    ));
    let headers = parse_bytes(&frame, frame.len() as u32).unwrap();
    let fast = parse_fast(
        &Window::from_bytes(&frame),
        Extent::whole(frame.len() as u32),
    );
    assert_eq!(fast, Fast::Parsed(headers));
    assert_eq!(headers.kind, Kind::RoceV2);
    assert_eq!(headers.bth_opcode, 0x0a);
    assert_eq!(headers.bth_flags, 0x70);
    assert_eq!(headers.destination_qp, Qpn::new(0x11));
    assert_eq!(headers.psn, Psn::new(0x123456));
    assert_eq!((headers.payload, headers.payload_length), (54, 16 + 8 + 4));
    assert_eq!(headers.traffic_class.0, 2);
    assert_eq!(
        (headers.source_port(), headers.destination_port()),
        (0xc000, 4791)
    );
}
