//! Selective acknowledgements: sent and used.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "what is beyond a hole is told in a block",
        "RFC 2018 3 and 4",
        "",
        "
        passive mss=1000
        < . 1001:2001 ack 1 win 65535
        > . 1 ack 1 <sack 1001:2001>
        < . 2001:2501 ack 1 win 65535
        > . 1 ack 1 <sack 1001:2501>
        < . 1:1001 ack 1 win 65535
        > . 1 ack 2501 <nosack>
        ",
    ),
    case(
        "the newest block is first",
        "RFC 2018 4",
        "",
        "
        passive mss=1000
        < . 1001:1101 ack 1 win 65535
        > . 1 ack 1 <sack 1001:1101>
        < . 2001:2101 ack 1 win 65535
        > . 1 ack 1 <sack 2001:2101 1001:1101>
        < . 3001:3101 ack 1 win 65535
        > . 1 ack 1 <sack 3001:3101 2001:2101 1001:1101>
        < . 1101:1201 ack 1 win 65535
        > . 1 ack 1 <sack 1001:1201 3001:3101 2001:2101>
        ",
    ),
    case(
        "four blocks are told at most, three beside timestamps",
        "RFC 2018 3",
        "ts",
        "
        passive mss=1000 ts
        < . 1001:1101 ack 1 win 65535 <ts 1001>
        < . 2001:2101 ack 1 win 65535 <ts 1001> anyway
        < . 3001:3101 ack 1 win 65535 <ts 1001> anyway
        drain
        < . 4001:4101 ack 1 win 65535 <ts 1001>
        > . 1 ack 1 <ts,sack 4001:4101 3001:3101 2001:2101>
        ",
    ),
    case(
        "blocks that meet become one",
        "RFC 2018 3 (as large as possible)",
        "",
        "
        passive mss=1000
        < . 1001:2001 ack 1 win 65535
        < . 3001:4001 ack 1 win 65535 anyway
        drain
        < . 2001:3001 ack 1 win 65535
        > . 1 ack 1 <sack 1001:4001>
        ",
    ),
    case(
        "data of ours carries blocks too",
        "RFC 2018 4 (all acknowledgements that do not ack the highest)",
        "",
        "
        passive mss=1000
        < . 1001:2001 ack 1 win 65535
        drain
        write 100
        > . 1:101 ack 1 <sack 1001:2001>
        ",
    ),
    case(
        "only the hole is repeated",
        "RFC 6675 5",
        "",
        "
        passive mss=1000
        write 10000
        sent = 10
        +100ms < . 1 ack 1 win 65535 <sack 1001:2001>
        < . 1 ack 1 win 65535 <sack 1001:3001>
        silence
        < . 1 ack 1 win 65535 <sack 1001:4001>
        > . 1:1001
        silence
        < . 1 ack 10001 win 65535
        +5m silence
        stat retransmits = 1
        ",
    ),
    case(
        "one acknowledgement that tells of enough suffices",
        "RFC 6675 5 (IsLost)",
        "",
        "
        passive mss=1000
        write 10000
        sent = 10
        +100ms < . 1 ack 1 win 65535 <sack 1001:5001>
        > . 1:1001
        ",
    ),
    case(
        "two holes are repeated, in order, and nothing between",
        "RFC 6675 4 and 5",
        "",
        "
        passive mss=1000
        write 10000
        sent = 10
        +100ms < . 1 ack 1 win 65535 <sack 1001:2001>
        < . 1 ack 1 win 65535 <sack 3001:4001 1001:2001>
        < . 1 ack 1 win 65535 <sack 3001:5001 1001:2001>
        > . 1:1001
        < . 1 ack 1 win 65535 <sack 3001:6001 1001:2001>
        > . 2001:3001
        < . 1 ack 1 win 65535 <sack 3001:7001 1001:2001>
        < . 1 ack 1 win 65535 <sack 3001:10001 1001:2001>
        silence
        < . 1 ack 2001 win 65535 <sack 3001:10001>
        silence
        < . 1 ack 10001 win 65535
        +5m silence
        stat retransmits = 2
        ",
    ),
    case(
        "recovery sends new data as the pipe empties",
        "RFC 6675 5 (C)",
        "",
        "
        passive mss=1000
        write 30000
        sent = 10
        +100ms < . 1 ack 1 win 65535 <sack 1001:4001>
        drain
        < . 1 ack 1 win 65535 <sack 1001:10001>
        > . 10001:11001
        drain
        stat retransmits = 1
        ",
    ),
    case(
        "blocks of what was never sent, of nothing and from the past are ignored",
        "RFC 2018 8 and RFC 2883 4 (robustness is ours)",
        "",
        "
        passive mss=1000
        write 4000
        sent = 4
        +10ms < . 1 ack 1 win 65535 <sack 9001:12001>
        < . 1 ack 1 win 65535 <sack 3001:2001>
        < . 1 ack 1 win 65535 <sack 2001:2001> anyway
        < . 1 ack 1 win 65535 <sack -5000:-3000> anyway
        < . 1 ack 1 win 65535 <sack 1001:90001> anyway
        stat retransmits <= 1
        drain
        < . 1 ack 4001 win 65535
        +5m silence
        state Established
        ",
    ),
    case(
        "a block that tells of something that came twice changes nothing",
        "RFC 2883 4 and 5",
        "",
        "
        passive mss=1000
        write 10000
        sent = 10
        +100ms < . 1 ack 3001 win 65535 <sack 1:1001>
        < . 1 ack 3001 win 65535 <sack 1001:2001>
        < . 1 ack 3001 win 65535 <sack 2001:3001>
        silence
        < . 1 ack 10001 win 65535
        +5m silence
        stat retransmits = 0
        ",
    ),
    case(
        "after a timeout what was told selectively counts no more",
        "RFC 2018 8 (reneging), RFC 6675 5.1",
        "",
        "
        passive mss=1000
        write 4000
        sent = 4
        +10ms < . 1 ack 1 win 65535 <sack 2001:4001>
        +100ms..2s > .
        drain
        +2s pass
        < . 1 ack 2001 win 65535
        +0ms..10s > . 2001:3001
        +0ms..10s > . 3001:4001
        < . 1 ack 4001 win 65535
        +5m silence
        ",
    ),
    case(
        "selectively acknowledged bytes stay in the ring until they are acknowledged for good",
        "RFC 2018 8",
        "snd=8192 nodelay",
        "
        passive mss=1000
        write 8192
        drain
        < . 1 ack 1 win 65535 <sack 1001:8193>
        writable 0
        drain
        < . 1 ack 8193 win 65535
        writable 8192
        ",
    ),
    case(
        "many holes of ours are repeated all",
        "RFC 6675 5",
        "",
        "
        passive mss=1000
        write 10000
        sent = 10
        +100ms < . 1 ack 1 win 65535 <sack 9001:10001 7001:8001 5001:6001 3001:4001>
        > . 1:1001
        drain
        +100ms < . 1 ack 4001 win 65535 <sack 9001:10001 7001:8001 5001:6001>
        drain
        < . 1 ack 6001 win 65535 <sack 9001:10001 7001:8001>
        drain
        +50ms < . 1 ack 8001 win 65535 <sack 9001:10001>
        drain
        +50ms < . 1 ack 10001 win 65535
        +5m silence
        stat retransmits <= 6
        stat retransmits >= 4
        ",
    ),
    case(
        "what comes one or two places late is not repeated",
        "RFC 5681 3.2, RFC 6675 5 (DupThresh)",
        "",
        "
        passive mss=1000
        write 10000
        sent = 10
        +100ms < . 1 ack 1 win 65535 <sack 1001:2001>
        < . 1 ack 1 win 65535 <sack 1001:3001>
        < . 1 ack 3001 win 65535
        < . 1 ack 3001 win 65535 <sack 4001:5001>
        < . 1 ack 5001 win 65535
        < . 1 ack 10001 win 65535
        +5m silence
        stat retransmits = 0
        ",
    ),
    case(
        "the first two tellings let one new segment go each",
        "RFC 3042 2, RFC 6675 5 (4)",
        "",
        "
        passive mss=1000
        write 30000
        sent = 10
        +100ms < . 1 ack 1 win 65535 <sack 1001:2001>
        > . 10001:11001
        < . 1 ack 1 win 65535 <sack 1001:3001>
        > . 11001:12001
        < . 1 ack 1 win 65535 <sack 1001:4001>
        > . 1:1001
        drain
        ",
    ),
    case(
        "what comes twice is told, once",
        "RFC 2883 4",
        "",
        "
        passive mss=1000
        < . 1:1001 ack 1 win 65535
        +0ms..500ms > . 1 ack 1001 <nosack>
        < . 1:1001 ack 1 win 65535
        > . 1 ack 1001 <sack 1:1001>
        < . 1001:1101 ack 1 win 65535
        +0ms..500ms > . 1 ack 1101 <nosack>
        ",
    ),
];
