//! Resets, and those who would like to cause them without seeing the connection.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "a reset with the next number ends it",
        "RFC 5961 3.2, RFC 9293 3.10.7.4, second",
        "",
        "
        passive mss=1000
        write 1000
        drain
        < R 1
        silence
        state Closed
        cause Reset
        event CLOSED
        timer none
        ",
    ),
    case(
        "a reset with another number within the window is asked about",
        "RFC 5961 3.2",
        "",
        "
        passive mss=1000
        < R 2
        > . 1 ack 1
        < R 60000
        > . 1 ack 1
        state Established
        < R 1
        state Closed
        ",
    ),
    case(
        "a reset outside the window is not answered",
        "RFC 5961 3.2",
        "rcv=65536",
        "
        passive mss=1000
        < R 65538
        silence
        < R 0
        silence
        < R -40000
        silence
        < R 2000000000
        silence
        state Established
        ",
    ),
    case(
        "a reset reaches a receiver whose window is closed",
        "RFC 9293 3.10.7.4 (MUST-66)",
        "rcv=1024",
        "
        passive mss=1000
        < . 1:1025 ack 1 win 65535
        drain
        +500ms pass
        < R 1025
        state Closed
        cause Reset
        ",
    ),
    case(
        "a reset counts whatever it acknowledges",
        "RFC 9293 3.10.7.4, second",
        "",
        "
        passive mss=1000
        < R. 1 ack 99999 win 0
        silence
        state Closed
        cause Reset
        ",
    ),
    case(
        "a SYN within a connection is asked about, wherever it stands",
        "RFC 5961 4.2",
        "",
        "
        passive mss=1000
        < S 1 win 65535
        > . 1 ack 1
        +2s < S 1000 win 65535
        > . 1 ack 1
        +2s < S 90000000 win 65535
        > . 1 ack 1
        +2s < S. 0 ack 1 win 65535
        > . 1 ack 1
        state Established
        ",
    ),
    case(
        "data with an acknowledgement of what was never sent is refused",
        "RFC 5961 5.2",
        "",
        "
        passive mss=1000
        write 100
        drain
        < . 1:1001 ack 102 win 65535
        > . 101 ack 1
        readable 0
        < . 1:1001 ack 1000000000 win 65535
        drain
        readable 0
        state Established
        ",
    ),
    case(
        "data with an acknowledgement of long ago is refused",
        "RFC 5961 5.2 (older than the largest window)",
        "",
        "
        passive mss=1000 win=10000
        < . 1:1001 ack -20000 win 10000
        > . 1 ack 1
        readable 0
        ",
    ),
    case(
        "data with an acknowledgement that is somewhat old is taken",
        "RFC 5961 5.2",
        "",
        "
        passive mss=1000 win=60000
        write 3000
        drain
        < . 1 ack 3001 win 60000
        < . 1:1001 ack 1001 win 60000
        readable 1000
        ",
    ),
    case(
        "not every question of an attacker is answered",
        "RFC 5961 7",
        "",
        "
        passive mss=1000
        x300 < R 100
        sent <= 100
        x300 < S 5000 win 1000
        sent <= 100
        state Established
        +10s pass
        < R 100
        > . 1 ack 1
        ",
    ),
    case(
        "acknowledgements of what was never sent do not start a war",
        "RFC 5961 7",
        "",
        "
        passive mss=1000
        x300 < . 1 ack 5000 win 65535
        sent <= 100
        state Established
        ",
    ),
    case(
        "a reset in FIN-WAIT-1",
        "RFC 9293 3.10.7.4, second",
        "",
        "
        passive mss=1000
        close
        drain
        state FinWait1
        < R 1
        silence
        state Closed
        cause Reset
        ",
    ),
    case(
        "a reset in FIN-WAIT-2",
        "RFC 9293 3.10.7.4, second",
        "",
        "
        passive mss=1000
        close
        drain
        < . 1 ack 2 win 65535
        state FinWait2
        < R 1
        silence
        state Closed
        cause Reset
        ",
    ),
    case(
        "a reset in CLOSE-WAIT",
        "RFC 9293 3.10.7.4, second",
        "",
        "
        passive mss=1000
        < F. 1 ack 1 win 65535
        drain
        state CloseWait
        < R 2
        silence
        state Closed
        cause Reset
        ",
    ),
    case(
        "a reset in CLOSING",
        "RFC 9293 3.10.7.4, second",
        "",
        "
        passive mss=1000
        close
        drain
        < F. 1 ack 1 win 65535
        drain
        state Closing
        < R 2
        silence
        state Closed
        timer none
        ",
    ),
    case(
        "a reset in LAST-ACK",
        "RFC 9293 3.10.7.4, second",
        "",
        "
        passive mss=1000
        < F. 1 ack 1 win 65535
        drain
        close
        drain
        state LastAck
        < R 2
        silence
        state Closed
        timer none
        ",
    ),
    case(
        "a reset is not answered by anybody",
        "RFC 9293 3.10.7.1",
        "",
        "
        passive mss=1000
        abort
        drain
        < R 1
        < R. 1 ack 1
        silence
        ",
    ),
    case(
        "what belongs to nobody is reset",
        "RFC 9293 3.10.7.1",
        "nobody",
        "
        < . 5:15 ack 77 win 100
        > R 77
        < - 5:15 win 100
        > R. ack 15
        < F 5:15 win 100
        > R. ack 16
        < R 5
        silence
        ",
    ),
    case(
        "a SYN that comes again after the connection began brings no second answer",
        "RFC 5961 4.2",
        "",
        "
        passive mss=1000
        < S 0 win 65535 <mss 1000>
        > . 1 ack 1
        state Established
        < . 1:101 ack 1 win 65535
        readable 100
        ",
    ),
];
