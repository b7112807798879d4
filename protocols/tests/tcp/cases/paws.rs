//! Timestamps. RFC 7323. The peer's clock stands at 1000 after the handshake, ours at 100.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "an old timestamp makes a segment old, which is told",
        "RFC 7323 5.3 R1",
        "ts",
        "
        passive mss=1000 ts
        < . 1:101 ack 1 win 65535 <ts 2000>
        readable 100
        +0ms..500ms > . 1 ack 101
        < . 101:201 ack 1 win 65535 <ts 1999>
        > . 1 ack 101
        readable 100
        < . 101:201 ack 1 win 65535 <ts 2000>
        readable 200
        ",
    ),
    case(
        "an acknowledgement with an old timestamp says nothing",
        "RFC 7323 5.3 R1",
        "ts",
        "
        passive mss=1000 ts
        write 500
        drain
        < . 1:101 ack 1 win 65535 <ts 2000>
        drain
        < . 101 ack 501 win 65535 <ts 1500>
        drain
        stat in_flight = 500
        < . 101 ack 501 win 65535 <ts 2001>
        stat in_flight = 0
        ",
    ),
    case(
        "the clock of the peer may wrap",
        "RFC 7323 5.2",
        "ts",
        "
        < S 0 win 65535 <mss 1000,ts 4294967290>
        > S. 0 ack 1 <ts 0:4294967290>
        < . 1 ack 1 win 65535 <ts 4294967295>
        < . 1:101 ack 1 win 65535 <ts 3>
        readable 100
        < . 101:201 ack 1 win 65535 <ts 4294967295>
        readable 100
        drain
        ",
    ),
    case(
        "after 24 days of silence an old timestamp is a new one",
        "RFC 7323 5.5",
        "ts",
        "
        passive mss=1000 ts
        < . 1:101 ack 1 win 65535 <ts 2000>
        drain
        +1s pass
        +600h pass
        < . 101:201 ack 1 win 65535 <ts 1000>
        readable 200
        ",
    ),
    case(
        "a segment without its timestamp is dropped",
        "RFC 7323 3.2",
        "ts",
        "
        passive mss=1000 ts
        < . 1:101 ack 1 win 65535
        drain
        readable 0
        < . 1:101 ack 1 win 65535 <ts 1100>
        readable 100
        ",
    ),
    case(
        "a reset needs none",
        "RFC 7323 3.2 and 5.2",
        "ts",
        "
        passive mss=1000 ts
        < R 1
        state Closed
        cause Reset
        ",
    ),
    case(
        "a reset may be old",
        "RFC 7323 5.2 (RST is not subject to PAWS)",
        "ts",
        "
        passive mss=1000 ts
        < R 1 <ts 5>
        state Closed
        cause Reset
        ",
    ),
    case(
        "the echo is of the earliest segment that is not yet acknowledged",
        "RFC 7323 4.3 (A)",
        "ts",
        "
        passive mss=1460 ts
        < . 1:1449 ack 1 win 65535 <ts 2000>
        silence
        +10ms < . 1449:2897 ack 1 win 65535 <ts 2010>
        > . 1 ack 2897 <ts 110:2000>
        ",
    ),
    case(
        "what is beyond a hole is not echoed",
        "RFC 7323 4.3 (B)",
        "ts",
        "
        passive mss=1000 ts
        < . 1:101 ack 1 win 65535 <ts 2000>
        +0ms..500ms > . 1 ack 101 <ts>
        < . 201:301 ack 1 win 65535 <ts 2100>
        > . 1 ack 101 <ts :2000>
        ",
    ),
    case(
        "what fills a hole is echoed",
        "RFC 7323 4.3 (C)",
        "ts",
        "
        passive mss=1000 ts
        < . 101:201 ack 1 win 65535 <ts 2000>
        > . 1 ack 1 <ts :1000>
        < . 1:101 ack 1 win 65535 <ts 2050>
        > . 1 ack 201 <ts :2050>
        ",
    ),
    case(
        "our clock goes by the millisecond",
        "RFC 7323 5.4",
        "ts",
        "
        passive mss=1000 ts
        write 10
        > . 1:11 <ts 100:1000>
        +50ms < . 1 ack 11 win 65535 <ts 1050>
        +950ms silence
        write 10
        > . 11:21 <ts 1100>
        ",
    ),
    case(
        "an echo times even what was repeated",
        "RFC 7323 4.1",
        "ts nosack",
        "
        passive mss=1000 ts nosack
        write 100
        > . 1:101 <ts 100>
        +300ms > . 1:101 <ts 400>
        +100ms < . 1 ack 101 win 65535 <ts 1500:400>
        stat srtt_ms >= 95
        stat srtt_ms <= 105
        ",
    ),
    case(
        "a segment of zero window probes the clock too",
        "RFC 7323 5.3 R3",
        "ts",
        "
        passive mss=1000 ts
        < . 1 ack 1 win 65535 <ts 5000>
        < . 1:101 ack 1 win 65535 <ts 4000>
        drain
        readable 0
        ",
    ),
    case(
        "keep-alive probes of an old clock are answered",
        "RFC 7323 5.3 R1",
        "ts",
        "
        passive mss=1000 ts
        < . 1:101 ack 1 win 65535 <ts 3000>
        +0ms..500ms > . 1 ack 101
        < . 100 ack 1 win 65535 <ts 2500>
        > . 1 ack 101 <ts :3000>
        ",
    ),
];
