//! What the network says: packet too big, unreachable; and what anybody may say in its name.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "a segment that was too big comes again in smaller ones",
        "RFC 1191 6.4, RFC 5927 7",
        "",
        "
        passive mss=1460 nosack
        write 2920
        > . 1:1461
        > . 1461:2921
        too_big 1 mtu 1000
        +0ms..300ms > . 1:961
        < . 1 ack 961 win 65535 anyway
        drain
        stat segment_bytes = 960
        < . 1 ack 2921 win 65535
        write 960
        > . 2921:3881
        ",
    ),
    case(
        "what is not under way was not too big",
        "RFC 5927 4.1 and 7.2",
        "",
        "
        passive mss=1460
        write 1460
        > . 1:1461
        too_big 50000 mtu 600
        too_big -1 mtu 600
        stat segment_bytes = 1460
        < . 1 ack 1461 win 65535
        too_big 1 mtu 600
        silence
        stat segment_bytes = 1460
        ",
    ),
    case(
        "nothing becomes larger by being too big",
        "RFC 1191 3, RFC 5927 7",
        "",
        "
        passive mss=1000
        write 1000
        > . 1:1001
        too_big 1 mtu 9000
        stat segment_bytes = 1000
        silence
        ",
    ),
    case(
        "nobody cuts segments to nothing",
        "RFC 1191 3 (68 at least), RFC 5927 7.3",
        "",
        "
        passive mss=1460
        write 14600
        drain
        too_big 1 mtu 0
        too_big 1 mtu 20
        stat segment_bytes = 28
        drain
        < . 1 ack 14601 win 65535
        write 1000
        sent <= 40
        ",
    ),
    case(
        "segments become as small as any link demands",
        "RFC 791 3.2 (every link takes 68 bytes), RFC 1191 3",
        "",
        "
        passive mss=1460 nosack
        write 84
        > . 1:85
        too_big 1 mtu 300
        > . 1:85
        too_big 1 mtu 68
        > . 1:29
        > . 29:57
        > . 57:85
        < . 1 ack 85 win 65535
        write 28
        > . 85:113
        ",
    ),
    case(
        "on the narrowest way options leave room for data",
        "RFC 6691 2, RFC 9293 3.7.1, RFC 2018 3 (as many blocks as there is room for)",
        "ts",
        "
        passive mss=28 ts
        < . 101:111 ack 1 win 65535 <ts 1001>
        > . 1 ack 1 <nosack>
        write 32
        > . 1:17 ack 1 <nosack>
        > . 17:33 ack 1 <nosack>
        < . 1 ack 33 win 65535 <ts 1002>
        ",
    ),
    case(
        "a way of 72 bytes has room for a block",
        "RFC 2018 3",
        "ts",
        "
        passive mss=32 ts
        < . 101:111 ack 1 win 65535 <ts 1001>
        > . 1 ack 1 <sack 101:111>
        < . 201:211 ack 1 win 65535 <ts 1001>
        > . 1 ack 1 <sack 201:211>
        write 8
        > . 1:9 ack 1 <sack 201:211>
        ",
    ),
    case(
        "an acknowledgement that was too long for the way gets shorter",
        "RFC 791 3.2, RFC 2018 3, RFC 5927 4.1 (the next number is all that it tells)",
        "ts",
        "
        passive mss=1000 ts
        < . 101:111 ack 1 win 65535 <ts 1001>
        > . 1 ack 1 <sack 101:111>
        too_big 2 mtu 68
        too_big 1 mtu 576
        < . 121:131 ack 1 win 65535 <ts 1001>
        > . 1 ack 1 <sack 121:131 101:111>
        too_big 1 mtu 68
        < . 141:151 ack 1 win 65535 <ts 1001>
        > . 1 ack 1 <nosack>
        ",
    ),
    case(
        "a refusal by the network ends an open",
        "RFC 9293 3.9.2.2, RFC 5927 5.2",
        "",
        "
        connect
        > S 0
        unreachable 0
        state Closed
        cause Unreachable
        timer none
        ",
    ),
    case(
        "a refusal of another SYN does not",
        "RFC 5927 4.1",
        "",
        "
        connect
        > S 0
        unreachable 5000
        state SynSent
        ",
    ),
    case(
        "a connection survives the network's opinion",
        "RFC 5927 5.2, RFC 9293 3.9.2.2 (MUST-56 for soft ones)",
        "",
        "
        passive mss=1000
        write 1000
        drain
        unreachable 1
        state Established
        < . 1 ack 1001 win 65535
        +1m silence
        ",
    ),
    case(
        "over IPv6 no way is narrower than 1280 bytes",
        "RFC 8201 4 and 5",
        "v6",
        "
        passive mss=1440 nosack
        write 1440
        > . 1:1441
        too_big 1 mtu 600
        stat segment_bytes >= 1220
        drain
        ",
    ),
];
