//! Opens: by the peer, by us, by both at once; and what goes wrong in them.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "the peer opens",
        "RFC 9293 3.5 figure 6",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1 <mss 1460>
        state SynReceived
        silence
        < . 1 ack 1 win 8000
        event CONNECTED
        state Established
        +500ms silence
        timer none
        ",
    ),
    case(
        "we open",
        "RFC 9293 3.5 figure 6",
        "",
        "
        connect
        > S 0 <mss 1460>
        state SynSent
        +20ms < S. 0 ack 1 win 8000 <mss 1000>
        > . 1 ack 1
        event CONNECTED
        state Established
        +500ms silence
        timer none
        ",
    ),
    case(
        "both open at once",
        "RFC 9293 3.5 figure 7",
        "",
        "
        connect
        > S 0
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        state SynReceived
        < S. 0 ack 1 win 8000 <mss 1000>
        state Established
        event CONNECTED
        drain
        write 10
        > . 1:11 ack 1
        ",
    ),
    case(
        "both open at once, and a bare acknowledgement ends it",
        "RFC 9293 3.10.7.3",
        "",
        "
        connect
        > S 0
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        < . 1 ack 1 win 8000
        state Established
        silence
        ",
    ),
    case(
        "both open at once, and our answer is lost",
        "RFC 9293 3.10.7.4, RFC 6298 5",
        "",
        "
        connect
        > S 0
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        +900ms..1100ms > S. 0 ack 1
        < . 1 ack 1 win 8000
        state Established
        ",
    ),
    case(
        "a SYN that nobody answers is repeated, ever more slowly, and then given up",
        "RFC 6298 2.1 and 5.5, RFC 9293 3.8.3 (three minutes at least)",
        "",
        "
        connect
        > S 0
        +1s > S 0
        +2s > S 0
        +4s > S 0
        +8s > S 0
        +16s > S 0
        +32s > S 0
        +110s pass
        state SynSent
        +20m pass
        state Closed
        cause TimedOut
        timer none
        ",
    ),
    case(
        "a SYN-ACK that nobody answers is repeated, ever more slowly, and then given up",
        "RFC 6298 2.1 and 5.5",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        +1s > S. 0 ack 1
        +2s > S. 0 ack 1
        +4s > S. 0 ack 1
        +20m pass
        state Closed
        timer none
        ",
    ),
    case(
        "a SYN that comes again is answered again",
        "RFC 9293 3.10.7.4",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        +10ms < S 0 win 8000 <mss 1000>
        > * ack 1
        state SynReceived
        < . 1 ack 1 win 8000
        state Established
        ",
    ),
    case(
        "data while the open is under way waits for its end",
        "RFC 9293 3.10.2",
        "",
        "
        connect
        > S 0
        write 300
        silence
        < S. 0 ack 1 win 8000 <mss 1000>
        > . 1:301 ack 1
        ",
    ),
    case(
        "an acknowledgement of what was never sent is reset while we open",
        "RFC 9293 3.10.7.3, first",
        "",
        "
        connect
        > S 0
        < . 0 ack 77
        > R 77
        < . 0 ack 0
        > R 0
        state SynSent
        < S. 0 ack 1 win 8000
        > . 1 ack 1
        state Established
        ",
    ),
    case(
        "a SYN-ACK of somebody else's SYN is reset",
        "RFC 9293 3.10.7.3, first; 3.5 figure 8",
        "",
        "
        connect
        > S 0
        < S. 0 ack 4000 win 8000
        > R 4000
        state SynSent
        ",
    ),
    case(
        "a reset with somebody else's acknowledgement is not answered",
        "RFC 9293 3.10.7.3, first",
        "",
        "
        connect
        > S 0
        < R. 0 ack 77
        silence
        state SynSent
        cause none
        ",
    ),
    case(
        "a reset without an acknowledgement does not end an open",
        "RFC 9293 3.10.7.3, second",
        "",
        "
        connect
        > S 0
        < R 0
        silence
        state SynSent
        ",
    ),
    case(
        "a reset that acknowledges the SYN refuses the connection",
        "RFC 9293 3.10.7.3, second",
        "",
        "
        connect
        > S 0
        < R. 0 ack 1
        silence
        state Closed
        cause Refused
        timer none
        ",
    ),
    case(
        "an acknowledgement of what was never sent is reset in SYN-RECEIVED",
        "RFC 9293 3.10.7.4, fifth",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        < . 1 ack 500 win 8000
        > R 500
        < . 1 ack 0 win 8000
        > R 0
        state SynReceived
        < . 1 ack 1 win 8000
        state Established
        ",
    ),
    case(
        "a reset ends SYN-RECEIVED",
        "RFC 9293 3.10.7.4, second",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        < R 1
        silence
        state Closed
        timer none
        ",
    ),
    case(
        "a reset from elsewhere does not end SYN-RECEIVED",
        "RFC 9293 3.10.7.4, first",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        < R 900000
        silence
        state SynReceived
        ",
    ),
    case(
        "the last segment of the open may carry data",
        "RFC 9293 3.10.7.4, seventh",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        readable 0
        < . 1:101 ack 1 win 8000
        state Established
        readable 100
        +0ms..500ms > . 1 ack 101
        ",
    ),
    case(
        "the last segment of the open may be the end of the stream as well",
        "RFC 9293 3.10.7.4, eighth",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        < F. 1:101 ack 1 win 8000
        > . 1 ack 102
        state CloseWait
        readable 100
        ",
    ),
    case(
        "data behind a lost acknowledgement of the SYN-ACK completes the open",
        "RFC 9293 3.10.7.4, fifth",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        < . 101:201 ack 1 win 8000
        state Established
        readable 0
        > . 1 ack 1
        < . 1:101 ack 1 win 8000
        > . 1 ack 201
        readable 200
        ",
    ),
    case(
        "close before an answer leaves nothing behind",
        "RFC 9293 3.10.4",
        "",
        "
        connect
        > S 0
        close
        +5m silence
        state Closed
        timer none
        ",
    ),
    case(
        "close within SYN-RECEIVED sends FIN",
        "RFC 9293 3.10.4",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        close
        drain
        < . 1 ack 1 win 8000
        drain
        state FinWait1
        < . 1 ack 2 win 8000
        state FinWait2
        ",
    ),
    case(
        "abort while we open says nothing",
        "RFC 9293 3.10.5",
        "",
        "
        connect
        > S 0
        abort
        silence
        state Closed
        timer none
        ",
    ),
    case(
        "abort within SYN-RECEIVED resets",
        "RFC 9293 3.10.5",
        "",
        "
        < S 0 win 8000 <mss 1000>
        > S. 0 ack 1
        abort
        > R* 1
        silence
        state Closed
        timer none
        ",
    ),
    case(
        "a segment without any flag is dropped",
        "RFC 9293 3.10.7.4, fifth; 3.10.7.3, fifth",
        "",
        "
        connect
        > S 0
        < - 0:10
        silence
        state SynSent
        < S. 0 ack 1 win 8000
        > . 1 ack 1
        < - 1:11 win 8000
        silence
        readable 0
        ",
    ),
    case(
        "after a SYN that was lost the first data waits three seconds for its answer",
        "RFC 6298 5.7",
        "",
        "
        connect
        > S 0
        +1s > S 0
        +50ms < S. 0 ack 1 win 8000 <mss 1000>
        > . 1 ack 1
        write 500
        > . 1:501 ack 1
        +3s > . 1:501 ack 1
        ",
    ),
    case(
        "but not if timestamps tell how long the way is",
        "RFC 6298 5.7 and 2.2, RFC 7323 4.1 (a repeated SYN is measured)",
        "ts",
        "
        connect
        > S 0
        +1s > S 0
        +50ms < S. 0 ack 1 win 8000 <mss 1000,ts 1000:1000>
        > . 1 ack 1
        stat srtt_ms = 50
        write 500
        > . 1:501 ack 1
        +200ms..300ms > . 1:501 ack 1
        ",
    ),
    case(
        "nor if the way is shorter than timestamps tell",
        "RFC 6298 5.7 and 2.2 to 2.4, RFC 7323 4.1",
        "ts",
        "
        connect
        > S 0
        +1s > S 0
        < S. 0 ack 1 win 8000 <mss 1000,ts 1000:1000>
        > . 1 ack 1
        write 500
        > . 1:501 ack 1
        +200ms..300ms > . 1:501 ack 1
        ",
    ),
    case(
        "nor at the end that answered",
        "RFC 6298 5.7 and 2.2 to 2.4, RFC 7323 4.1",
        "ts",
        "
        < S 0 win 8000 <mss 1000,ts 1000>
        > S. 0 ack 1
        +1s > S. 0 ack 1
        < . 1 ack 1 win 8000 <ts 2000:1000>
        write 500
        > . 1:501 ack 1
        +200ms..300ms > . 1:501 ack 1
        ",
    ),
];
