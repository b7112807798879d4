//! Idle peers, and times after which a peer is gone.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "an idle connection stays, without a word",
        "RFC 9293 3.8.4 (MUST default to off)",
        "",
        "
        passive mss=1000
        +100h silence
        timer none
        state Established
        ",
    ),
    case(
        "an idle peer is asked where that is wanted",
        "RFC 9293 3.8.4",
        "keep_alive=7200s,75s,3",
        "
        passive mss=1000
        +7200s > . 0 ack 1
        < . 1 ack 1 win 65535
        +7200s > . 0 ack 1
        < . 1 ack 1 win 65535
        state Established
        ",
    ),
    case(
        "one that does not answer is gone",
        "RFC 9293 3.8.4",
        "keep_alive=7200s,75s,3",
        "
        passive mss=1000
        +7200s > . 0 ack 1
        +75s > . 0 ack 1
        +75s > . 0 ack 1
        +200s pass
        state Closed
        cause TimedOut
        timer none
        ",
    ),
    case(
        "one lost probe means nothing",
        "RFC 9293 3.8.4 (MUST-29)",
        "keep_alive=7200s,75s,3",
        "
        passive mss=1000
        +7200s > . 0 ack 1
        +75s > . 0 ack 1
        +1s < . 1 ack 1 win 65535
        +7190s silence
        state Established
        ",
    ),
    case(
        "data is a sign of life",
        "RFC 9293 3.8.4",
        "keep_alive=100s,10s,3",
        "
        passive mss=1000
        +90s < . 1:101 ack 1 win 65535
        +0ms..500ms > . 1 ack 101
        +90s silence
        +5s..12s > . 0 ack 101
        ",
    ),
    case(
        "the probe's number is one before the next, after data too",
        "RFC 9293 3.8.4",
        "keep_alive=100s,10s,3",
        "
        passive mss=1000
        write 500
        > . 1:501
        < . 1 ack 501 win 65535
        +99s..101s > . 500 ack 1
        ",
    ),
    case(
        "the peer's probe is answered",
        "RFC 9293 3.8.4 and 3.10.7.4, first",
        "",
        "
        passive mss=1000
        < . 0 ack 1 win 65535
        > . 1 ack 1
        < . 0:1 ack 1 win 65535
        > . 1 ack 1
        readable 0
        ",
    ),
    case(
        "data that is not acknowledged within the user timeout ends the connection",
        "RFC 9293 3.8.3 and 3.9.1",
        "user_timeout=20s",
        "
        passive mss=1000
        write 100
        drain
        +18s pass
        state Established
        +60s pass
        state Closed
        cause TimedOut
        timer none
        ",
    ),
    case(
        "whoever acknowledges is not gone",
        "RFC 9293 3.8.3",
        "user_timeout=20s",
        "
        passive mss=1000
        write 1000
        drain
        +15s pass
        < . 1 ack 501 win 65535
        drain
        +15s pass
        state Established
        < . 1 ack 1001 win 65535
        +1h silence
        state Established
        ",
    ),
    case(
        "a user timeout does not count while nothing is under way",
        "RFC 9293 3.8.3",
        "user_timeout=20s",
        "
        passive mss=1000
        +1h silence
        write 100
        > . 1:101
        +15s pass
        state Established
        < . 1 ack 101 win 65535
        +1h silence
        ",
    ),
    case(
        "an open that takes too long ends",
        "RFC 9293 3.8.3",
        "handshake=30s",
        "
        connect
        > S 0
        +29s pass
        state SynSent
        +10m pass
        state Closed
        cause TimedOut
        event CLOSED
        timer none
        ",
    ),
];
