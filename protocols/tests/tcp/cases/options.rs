//! What a SYN offers, what is made of it, and garbage.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "a SYN without options gets an answer without any that it must offer first",
        "RFC 7323 1.3 and 3.2, RFC 2018 2",
        "ts",
        "
        < S 0 win 8000
        > S. 0 ack 1 <mss 1460,nots,nosackok,nows>
        < . 1 ack 1 win 8000
        write 600
        > . 1:537 ack 1 <nots>
        < . 1 ack 537 win 8000
        > . 537:601 ack 1
        ",
    ),
    case(
        "a SYN-ACK with what we did not offer gives nothing",
        "RFC 7323 1.3, RFC 2018 2",
        "nosack",
        "
        connect
        > S 0 <mss 1460,nots,nosackok>
        < S. 0 ack 1 win 8000 <mss 1000,ts 9,sackok>
        > . 1 ack 1 <nots>
        < . 1001:1101 ack 1 win 8000
        > . 1 ack 1 <nosack,nots>
        write 1000
        > . 1:1001 ack 1 <nots>
        ",
    ),
    case(
        "segments are no larger than the peer takes",
        "RFC 9293 3.7.1",
        "",
        "
        passive mss=700
        write 2000
        > . 1:701
        > . 701:1401
        < . 1 ack 1401 win 65535
        > . 1401:2001
        ",
    ),
    case(
        "nor larger than our own link takes",
        "RFC 9293 3.7.1",
        "",
        "
        passive mss=9000
        write 2000
        > . 1:1461
        < . 1 ack 1461 win 65535
        > . 1461:2001
        ",
    ),
    case(
        "a size of nothing does not stop the stream",
        "RFC 9293 3.7.1 (a floor is ours)",
        "",
        "
        < S 0 win 8000 <mss 0>
        > S. 0 ack 1
        < . 1 ack 1 win 8000
        write 10
        > .
        < . 1 ack 11 win 8000
        state Established
        writable 65536
        ",
    ),
    case(
        "a size of one byte does not make a thousand segments at once",
        "RFC 9293 3.7.1 (a floor is ours)",
        "",
        "
        < S 0 win 8000 <mss 1>
        > S. 0 ack 1
        < . 1 ack 1 win 8000
        write 8000
        sent <= 200
        ",
    ),
    case(
        "windows are scaled when both say so, but those of SYN never are",
        "RFC 7323 2.2",
        "rcv=1048576",
        "
        < S 0 win 400 <mss 1000,ws 7>
        > S. 0 ack 1 <ws>
        < . 1 ack 1 win 10
        write 3000
        > . 1:1001
        < . 1 ack 1001 win 16
        > . 1001:2001
        > . 2001:3001
        ",
    ),
    case(
        "the window of a SYN is not scaled",
        "RFC 7323 2.2",
        "nodelay",
        "
        connect
        > S 0 <ws>
        < S. 0 ack 1 win 600 <mss 1000,ws 7>
        > . 1 ack 1
        write 500
        > . 1:501
        write 500
        +200ms..10s > . 1:501
        ",
    ),
    case(
        "nor is that of a SYN that crossed ours, or of its answer",
        "RFC 7323 2.2",
        "",
        "
        connect
        > S 0 <ws>
        < S 0 win 500 <mss 1000,ws 3>
        > S. 0 ack 1
        < S. 0 ack 1 win 600 <mss 1000,ws 3>
        drain
        state Established
        write 3000
        > . 1:601
        drain
        ",
    ),
    case(
        "a shift beyond 14 is taken for 14",
        "RFC 7323 2.3",
        "snd=1048576",
        "
        < S 0 win 8000 <mss 1000,ws 255>
        > S. 0 ack 1 <ws>
        < . 1 ack 1 win 1
        write 10000
        > . 1:1001
        > . 1001:2001
        drain
        ",
    ),
    case(
        "without the peer's shift our windows are not shifted either",
        "RFC 7323 2.2",
        "rcv=1048576",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1 win 65535 <nows>
        < . 1 ack 1 win 8000
        write 100
        > . 1:101 win 65535
        ",
    ),
    case(
        "a large window is offered by its shift",
        "RFC 7323 2.2",
        "rcv=1048576",
        "
        < S 0 win 8000 <mss 1000,ws 0>
        > S. 0 ack 1 win 65535 <ws>
        < . 1 ack 1 win 8000
        write 100
        > . 1:101 win 1048576
        ",
    ),
    case(
        "options of a SYN mean nothing later",
        "RFC 9293 3.1 (MSS), RFC 7323 2.2, RFC 2018 2",
        "nosack",
        "
        passive mss=1000 win=4000
        < . 1 ack 1 win 1000 <mss 100,ws 9,sackok>
        write 5000
        > . 1:1001
        silence
        < . 2001:2101 ack 1001 win 1000
        > *
        drain
        ",
    ),
    case(
        "timestamps that were not agreed on are ignored",
        "RFC 7323 3.2",
        "",
        "
        passive mss=1000
        < . 1:101 ack 1 win 8000 <ts 500>
        readable 100
        < . 101:201 ack 1 win 8000 <ts 5>
        readable 200
        +0ms..500ms > . 1 ack 201 <nots>
        ",
    ),
    case(
        "blocks that were not agreed on are ignored",
        "RFC 2018 2",
        "",
        "
        passive mss=1000 nosack
        write 5000
        drain
        < . 1 ack 1 win 65535 <sack 1001:5001>
        silence
        < . 1 ack 5001 win 65535
        silence
        ",
    ),
    case(
        "timestamps take their part of every segment",
        "RFC 6691 2, RFC 7323 3.2",
        "ts",
        "
        passive mss=1000 ts
        write 1500
        > . 1:989 ack 1 <ts>
        < . 1 ack 989 win 65535 <ts 2000>
        > . 989:1501 ack 1 <ts 100:2000>
        ",
    ),
    case(
        "everything that a SYN may ask for at once",
        "RFC 7323 3.2, RFC 2018 2, RFC 9293 3.7.1",
        "ts rcv=1048576",
        "
        connect
        > S 0 <mss 1460,ws,sackok,ts 0:0>
        +10ms < S. 0 ack 1 win 5000 <mss 1400,ws 3,sackok,ts 77>
        > . 1 ack 1 <nomss,nows,nosackok,ts 10:77>
        ",
    ),
    case(
        "over IPv6 a SYN without a size means 1220 bytes",
        "RFC 9293 3.7.1",
        "v6",
        "
        < S 0 win 8000
        > S. 0 ack 1 <mss 1440>
        < . 1 ack 1 win 8000
        write 1400
        > . 1:1221 ack 1
        drain
        ",
    ),
    case(
        "what we offer and the peer does not take is not used",
        "RFC 7323 1.3 and 3.2, RFC 2018 2",
        "ts rcv=1048576",
        "
        connect
        > S 0 <mss 1460,ws,sackok,ts>
        < S. 0 ack 1 win 8000 <mss 1460>
        > . 1 ack 1 win 65535 <nots,nosack>
        < . 1001:1101 ack 1 win 8000
        > . 1 ack 1 <nots,nosack>
        write 1460
        > . 1:1461 ack 1 <nots>
        ",
    ),
];
