//! Explicit congestion notification. RFC 3168.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "the peer asks, we agree, and data can be marked",
        "RFC 3168 6.1.1 and 6.1.2",
        "ecn",
        "
        < SEW 0 win 65535 <mss 1000>
        > S.E 0 ack 1 noect
        < . 1 ack 1 win 65535
        write 100
        > . 1:101 ect
        ",
    ),
    case(
        "we ask, the peer agrees",
        "RFC 3168 6.1.1",
        "ecn",
        "
        connect
        > SEW 0 noect
        < S.E 0 ack 1 win 65535 <mss 1000>
        > . 1 ack 1 noect
        write 100
        > . 1:101 ect
        ",
    ),
    case(
        "we ask, the peer does not know",
        "RFC 3168 6.1.1",
        "ecn",
        "
        connect
        > SEW 0
        < S. 0 ack 1 win 65535 <mss 1000>
        > . 1 ack 1
        write 100
        > . 1:101 noect
        < . 1:101 ack 101 win 65535 ce
        +0ms..500ms > . 101 ack 101
        ",
    ),
    case(
        "who sends our own flags back does not know either",
        "RFC 3168 6.1.1.1",
        "ecn",
        "
        connect
        > SEW 0
        < S.EW 0 ack 1 win 65535 <mss 1000>
        > . 1 ack 1
        write 100
        > . 1:101 noect
        ",
    ),
    case(
        "who is not asked to does not agree",
        "RFC 3168 6.1.1",
        "",
        "
        < SEW 0 win 65535 <mss 1000>
        > S. 0 ack 1
        < . 1 ack 1 win 65535
        write 100
        > . 1:101 noect
        ",
    ),
    case(
        "a mark is told until the peer says that it heard",
        "RFC 3168 6.1.3",
        "ecn",
        "
        < SEW 0 win 65535 <mss 1000>
        > S.E 0 ack 1
        < . 1 ack 1 win 65535
        < . 1:101 ack 1 win 65535 ce
        +0ms..500ms > .E 1 ack 101
        < . 101:201 ack 1 win 65535
        +0ms..500ms > .E 1 ack 201
        < .W 201:301 ack 1 win 65535
        +0ms..500ms > . 1 ack 301
        < .W 301:401 ack 1 win 65535 ce
        +0ms..500ms > .E 1 ack 401
        ",
    ),
    case(
        "the peer's echo reduces the window once a round trip, which is told",
        "RFC 3168 6.1.2",
        "ecn",
        "
        < SEW 0 win 65535 <mss 1000>
        > S.E 0 ack 1
        +100ms < . 1 ack 1 win 65535
        write 40000
        sent = 10
        +100ms < .E 1 ack 1001 win 65535
        drain
        stat cwnd <= 8000
        stat marks = 1
        < .E 1 ack 2001 win 65535
        < .E 1 ack 3001 win 65535 anyway
        < .E 1 ack 4001 win 65535 anyway
        < .E 1 ack 5001 win 65535 anyway
        < .E 1 ack 6001 win 65535 anyway
        drain
        stat marks = 1
        stat cwnd >= 4000
        stat retransmits = 0
        ",
    ),
    case(
        "the next new data tells that the window was reduced",
        "RFC 3168 6.1.2",
        "ecn",
        "
        < SEW 0 win 65535 <mss 1000>
        > S.E 0 ack 1
        +100ms < . 1 ack 1 win 65535
        write 5000
        sent = 5
        +100ms < .E 1 ack 5001 win 65535
        write 2000
        > .W 5001:6001 ect
        > . 6001:7001 ect
        ",
    ),
    case(
        "what is repeated cannot be marked, nor what has no data",
        "RFC 3168 6.1.4 and 6.1.5",
        "ecn",
        "
        < SEW 0 win 65535 <mss 1000>
        > S.E 0 ack 1
        +100ms < . 1 ack 1 win 65535
        write 1000
        > . 1:1001 ect
        +300ms > . 1:1001 noect
        < . 1001:1101 ack 1001 win 65535
        > . 1001 ack 1 noect
        ",
    ),
    case(
        "a probe of a closed window cannot be marked",
        "RFC 3168 6.1.6",
        "ecn",
        "
        < SEW 0 win 0 <mss 1000>
        > S.E 0 ack 1
        +100ms < . 1 ack 1 win 0
        write 1000
        +200ms..400ms > . noect
        ",
    ),
    case(
        "a SYN that was lost comes again without asking",
        "RFC 3168 6.1.1.1",
        "ecn",
        "
        connect
        > SEW 0
        +1s > S 0
        ",
    ),
];
