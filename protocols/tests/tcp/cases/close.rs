//! Ends: from either side, from both, half of it, late segments.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "we close first, and linger",
        "RFC 9293 3.6 figure 12",
        "time_wait=60s",
        "
        passive mss=1000
        close
        > F. 1 ack 1
        state FinWait1
        < . 1 ack 2 win 65535
        state FinWait2
        < F. 1 ack 2 win 65535
        > . 2 ack 2
        state TimeWait
        event PEER_CLOSED
        +59s silence
        state TimeWait
        +2s silence
        state Closed
        cause Finished
        event CLOSED
        timer none
        ",
    ),
    case(
        "the peer closes first",
        "RFC 9293 3.6 figure 12",
        "",
        "
        passive mss=1000
        < F. 1 ack 1 win 65535
        > . 1 ack 2
        state CloseWait
        event PEER_CLOSED
        close
        > F. 1 ack 2
        state LastAck
        < . 2 ack 2 win 65535
        state Closed
        cause Finished
        event CLOSED
        timer none
        ",
    ),
    case(
        "FIN and the acknowledgement of ours come together",
        "RFC 9293 3.10.7.4, eighth",
        "",
        "
        passive mss=1000
        close
        > F. 1 ack 1
        < F. 1 ack 2 win 65535
        > . 2 ack 2
        state TimeWait
        ",
    ),
    case(
        "both close at once",
        "RFC 9293 3.6 figure 13",
        "",
        "
        passive mss=1000
        close
        > F. 1 ack 1
        < F. 1 ack 1 win 65535
        > * 2 ack 2
        state Closing
        < . 2 ack 2 win 65535
        state TimeWait
        silence
        ",
    ),
    case(
        "the peer goes on after our end",
        "RFC 9293 3.6, case 1 (half-close)",
        "",
        "
        passive mss=1000
        close
        > F. 1 ack 1
        < . 1 ack 2 win 65535
        < . 1:1001 ack 2 win 65535
        < . 1001:2001 ack 2 win 65535
        +0ms..500ms > . 2
        +1s pass
        readable 2000
        read 2000
        state FinWait2
        < F. 2001:2101 ack 2 win 65535
        > . 2 ack 2102
        readable 100
        state TimeWait
        ",
    ),
    case(
        "data comes before the acknowledgement of our FIN",
        "RFC 9293 3.6, case 1",
        "",
        "
        passive mss=1000
        close
        > F. 1 ack 1
        < . 1:1001 ack 1 win 65535
        readable 1000
        state FinWait1
        +0ms..150ms > . 2 ack 1001
        < . 1001 ack 2 win 65535
        state FinWait2
        ",
    ),
    case(
        "we go on after the peer's end",
        "RFC 9293 3.6, case 2 (half-close)",
        "",
        "
        passive mss=1000
        < F. 1:101 ack 1 win 65535
        > . 1 ack 102
        readable 100
        write 1500
        > . 1:1001 ack 102
        < . 102 ack 1001 win 65535
        > . 1001:1501
        < . 102 ack 1501 win 65535
        state CloseWait
        close
        > F. 1501
        < . 102 ack 1502 win 65535
        state Closed
        cause Finished
        ",
    ),
    case(
        "an end before its data waits for it",
        "RFC 9293 3.10.7.4, eighth",
        "",
        "
        passive mss=1000
        < F. 1001:2001 ack 1 win 65535
        > . 1 ack 1
        state Established
        readable 0
        < . 1:1001 ack 1 win 65535
        > . 1
        +100ms pass
        < F. 1001:2001 ack 1 win 65535
        drain
        state CloseWait
        readable 2000
        event PEER_CLOSED
        write 1
        > . 1:2 ack 2002
        ",
    ),
    case(
        "an end without data before its data",
        "RFC 9293 3.10.7.4, eighth",
        "",
        "
        passive mss=1000
        < F. 1001 ack 1 win 65535
        drain
        state Established
        < . 1:1001 ack 1 win 65535
        drain
        < F. 1001 ack 1 win 65535
        drain
        state CloseWait
        readable 1000
        ",
    ),
    case(
        "an end that comes again is acknowledged again",
        "RFC 9293 3.10.7.4, first",
        "",
        "
        passive mss=1000
        < F. 1 ack 1 win 65535
        > . 1 ack 2
        +100ms < F. 1 ack 1 win 65535
        > . 1 ack 2
        state CloseWait
        ",
    ),
    case(
        "all that was written leaves before the end",
        "RFC 9293 3.10.4",
        "",
        "
        passive mss=1000 win=2000
        write 3500
        close
        > . 1:1001
        > . 1001:2001
        < . 1 ack 2001 win 2000
        > . 2001:3001
        > F. 3001:3501
        state FinWait1
        < . 1 ack 3502 win 2000
        state FinWait2
        ",
    ),
    case(
        "nothing can be written after close",
        "RFC 9293 3.10.2",
        "",
        "
        passive mss=1000
        close
        > F. 1
        write 10 accepts 0
        silence
        ",
    ),
    case(
        "a peer's FIN that comes again renews the lingering",
        "RFC 9293 3.10.7.4, eighth (TIME-WAIT)",
        "time_wait=60s",
        "
        passive mss=1000
        close
        > F. 1
        < F. 1 ack 2 win 65535
        > . 2 ack 2
        +50s < F. 1 ack 2 win 65535
        > . 2 ack 2
        +50s silence
        state TimeWait
        +11s silence
        state Closed
        ",
    ),
    case(
        "old data is answered while we linger",
        "RFC 9293 3.10.7.4, first",
        "",
        "
        passive mss=1000
        < . 1:101 ack 1 win 65535
        close
        > F. 1 ack 101
        < F. 101 ack 2 win 65535
        > . 2 ack 102
        +1s < . 1:101 ack 2 win 65535
        > . 2 ack 102
        readable 100
        state TimeWait
        ",
    ),
    case(
        "a new SYN ends the lingering",
        "RFC 9293 3.10.7.4, fourth, and RFC 6191 2",
        "",
        "
        passive mss=1000
        close
        > F. 1
        < F. 1 ack 2 win 65535
        > . 2 ack 2
        < S 500000 win 65535 <mss 1000>
        silence
        note NewIncarnation
        state Closed
        ",
    ),
    case(
        "an old SYN does not end the lingering",
        "RFC 6191 2",
        "",
        "
        passive mss=1000
        close
        > F. 1
        < F. 1 ack 2 win 65535
        > . 2 ack 2
        < S -500000 win 65535 <mss 1000>
        > . 2 ack 2
        state TimeWait
        ",
    ),
    case(
        "a later timestamp makes a SYN new whatever its number",
        "RFC 6191 2",
        "ts",
        "
        passive mss=1000 ts
        close
        > F. 1
        < F. 1 ack 2 win 65535 <ts 1200>
        > . 2 ack 2
        +2s < S -500000 win 65535 <mss 1000,ts 3300:0>
        silence
        note NewIncarnation
        state Closed
        ",
    ),
    case(
        "the acknowledgement of our last FIN is waited for, not for ever",
        "RFC 9293 3.8.3",
        "user_timeout=120s",
        "
        passive mss=1000 nosack
        < F. 1 ack 1 win 65535
        > . 1 ack 2
        close
        > F. 1
        +300ms > F. 1
        +600ms > F. 1
        +30m pass
        state Closed
        cause TimedOut
        timer none
        ",
    ),
    case(
        "data behind the peer's end is not read",
        "RFC 9293 3.10.7.4, seventh",
        "",
        "
        passive mss=1000
        < F. 1 ack 1 win 65535
        > . 1 ack 2
        < . 2:102 ack 1 win 65535
        drain
        readable 0
        state CloseWait
        ",
    ),
    case(
        "data for a connection that was aborted is reset",
        "RFC 9293 3.10.7.1 and 3.6.1",
        "",
        "
        passive mss=1000
        abort
        > R* 1
        state Closed
        cause Aborted
        < . 1:101 ack 1 win 65535
        > R 1
        < . 1:101 ack 777 win 65535
        > R 777
        ",
    ),
    case(
        "data for a connection that is over is reset",
        "RFC 9293 3.10.7.1",
        "",
        "
        passive mss=1000
        < F. 1 ack 1 win 65535
        > . 1 ack 2
        close
        > F. 1
        < . 2 ack 2 win 65535
        state Closed
        < . 2:102 ack 2 win 65535
        > R 2
        < F. 1 ack 1 win 65535
        > R 1
        ",
    ),
    case(
        "abort throws away what was not sent",
        "RFC 9293 3.10.5",
        "",
        "
        passive mss=1000 win=1000
        write 5000
        > . 1:1001
        abort
        > R* 1001
        +1m silence
        state Closed
        cause Aborted
        timer none
        ",
    ),
    case(
        "data and FIN that are lost come again",
        "RFC 6298 5",
        "",
        "
        passive mss=1000 nosack
        write 500
        close
        drain
        +1s pass
        < . 1 ack 1 win 65535
        +0ms..3s > * 1:501
        < . 1 ack 502 win 65535
        state FinWait2
        ",
    ),
    case(
        "a FIN may be acknowledged alone after its data",
        "RFC 9293 3.10.7.4, fifth",
        "",
        "
        passive mss=1000 nosack
        write 500
        close
        drain
        < . 1 ack 501 win 65535
        state FinWait1
        +200ms..400ms > F. 501
        < . 1 ack 502 win 65535
        state FinWait2
        ",
    ),
];
