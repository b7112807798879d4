//! Who may become a connection: listeners, full ones, and nobody.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "what is no SYN does not become a connection",
        "RFC 9293 3.10.7.2",
        "",
        "
        < . 5:15 ack 77 win 100
        > R 77
        < R 5
        silence
        < R. 5 ack 3
        silence
        < - 5:15
        silence
        < S. 0 ack 9
        > R 9
        state none
        < S 0 win 8000
        > S. 0 ack 1
        state SynReceived
        ",
    ),
    case(
        "a full listener answers by a cookie and keeps nothing",
        "RFC 4987 3.6",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1 <mss 1460,nots,nows,nosackok>
        state none
        +1h silence
        ",
    ),
    case(
        "a cookie that comes back is a connection",
        "RFC 4987 3.6",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1
        +50ms < . 1 ack 1 win 8000
        event CONNECTED
        state Established
        write 3000
        > . 1:1461 ack 1
        > . 1461:2921 ack 1
        < . 1 ack 2921 win 8000
        > . 2921:3001 ack 1
        < F. 1:101 ack 3001 win 8000
        > . 3001 ack 102
        readable 100
        ",
    ),
    case(
        "a cookie that comes back with the first data",
        "RFC 4987 3.6",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1
        +50ms < P. 1:101 ack 1 win 8000
        state Established
        readable 100
        bytes 0:100 x
        +0ms..500ms > . 1 ack 101
        ",
    ),
    case(
        "data that overtakes a cookie does not end what the cookie begins",
        "RFC 4987 3.6 (nothing is kept, so nothing is known to be wrong)",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1
        +50ms < . 101:201 ack 1 win 8000
        silence
        +50ms < . 1:101 ack 1 win 8000
        state Established
        +0ms..500ms > . 1 ack 101
        < . 101:201 ack 1 win 8000
        +0ms..500ms > . 1 ack 201
        readable 200
        ",
    ),
    case(
        "cookies round the peer's segment size down",
        "RFC 4987 3.6",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1459>
        > S. 0 ack 1
        < . 1 ack 1 win 8000
        stat segment_bytes <= 1459
        stat segment_bytes >= 1220
        ",
    ),
    case(
        "with timestamps a cookie keeps scale and selective acknowledgements",
        "RFC 4987 3.6, RFC 7323 2.2",
        "backlog=0 ts rcv=1048576",
        "
        < S 0 win 8000 <mss 1460,ws 7,sackok,ts 1000>
        > S. 0 ack 1 <ws,sackok,ts :1000>
        +50ms < . 1 ack 1 win 10 <ts 1050>
        state Established
        < . 1001:2001 ack 1 win 10 <ts 1051>
        > . 1 ack 1 <ts,sack 1001:2001>
        write 5000
        > . 1:1281 <ts>
        ",
    ),
    case(
        "a number that is no cookie is reset",
        "RFC 4987 3.6, RFC 9293 3.10.7.2",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1
        < . 1 ack 2 win 8000
        > R 2
        < . 2 ack 1 win 8000
        > R 1
        state none
        < . 1 ack 1 win 8000
        state Established
        ",
    ),
    case(
        "a cookie is not good for ever",
        "RFC 4987 3.6",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1
        +5m < . 1 ack 1 win 8000
        > R 1
        state none
        ",
    ),
    case(
        "a cookie outlives a change of the secret, but not two",
        "RFC 4987 3.6",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1
        rotate
        rotate
        < . 1 ack 1 win 8000
        > R 1
        < S 0 win 8000 <mss 1460>
        > S. ack 1
        rotate
        < . 1 ack 1 win 8000
        state Established
        ",
    ),
    case(
        "the end of the stream may come with the cookie",
        "RFC 4987 3.6, RFC 9293 3.10.7.4",
        "backlog=0",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1
        < F. 1:11 ack 1 win 8000
        > . 1 ack 12
        state CloseWait
        readable 10
        ",
    ),
    case(
        "a connection of a listener is asked by nobody else",
        "RFC 9293 3.10.7.1",
        "nobody",
        "
        < S 0 win 8000 <mss 1460>
        > R. ack 1
        < S 0:5 win 8000 <mss 1460>
        > R. ack 6
        ",
    ),
    case(
        "handshakes that end make room",
        "RFC 4987 3.2",
        "backlog=1",
        "
        < S 0 win 8000 <mss 1460>
        > S. 0 ack 1
        embryonic 1
        < . 1 ack 1 win 8000
        embryonic 0
        state Established
        ",
    ),
];
