//! Windows: closed ones and their probes, silly ones, moving edges.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "no more is sent than the peer takes, and more as soon as it takes more",
        "RFC 9293 3.8.6",
        "",
        "
        passive mss=1000 win=2000
        write 5000
        > . 1:1001
        > . 1001:2001
        silence
        < . 1 ack 1001 win 2000
        > . 2001:3001
        < . 1 ack 3001 win 0
        silence
        < . 1 ack 3001 win 4000
        > . 3001:4001
        > . 4001:5001
        ",
    ),
    case(
        "a closed window is probed, ever more slowly",
        "RFC 9293 3.8.6.1 (SHLD-29 and SHLD-30)",
        "",
        "
        passive mss=1000 nosack win=0
        write 1000
        +300ms > .
        < . 1 ack 1 win 0
        +600ms > .
        < . 1 ack 1 win 0
        +1200ms > .
        < . 1 ack 1 win 0
        +2400ms > .
        < . 1 ack 1 win 1000
        > .
        ",
    ),
    case(
        "a probe whose byte is taken moves on",
        "RFC 9293 3.8.6.1",
        "",
        "
        passive mss=1000 nosack win=0
        write 1000
        +300ms > . 1:2
        < . 1 ack 2 win 0
        +300ms..600ms > . 2:3
        < . 1 ack 3 win 0
        drain
        < . 1 ack 3 win 5000
        > . 3:1001
        ",
    ),
    case(
        "an open window that was lost is found by a probe, hours later as well",
        "RFC 9293 3.8.6.1 (MUST-37: as long as acknowledgements come)",
        "max_rto=60s",
        "
        passive mss=1000 win=0
        write 1000
        +2h answers ack 1 win 0
        state Established
        cause none
        +61s pass
        < . 1 ack 1 win 3000
        > .
        ",
    ),
    case(
        "probes that nobody answers end in the user timeout",
        "RFC 9293 3.8.3",
        "user_timeout=300s",
        "
        passive mss=1000 win=0
        write 1000
        +30m pass
        state Closed
        cause TimedOut
        ",
    ),
    case(
        "a window that is closed without data to send needs no probe",
        "RFC 9293 3.8.6.1",
        "",
        "
        passive mss=1000 win=0
        +10m silence
        timer none
        ",
    ),
    case(
        "our window closes as bytes lie unread, and its right edge stays",
        "RFC 9293 3.8.6.2.2",
        "rcv=4096",
        "
        passive mss=1000
        < . 1:1001 ack 1 win 65535
        < . 1001:2001 ack 1 win 65535 anyway
        < . 2001:3001 ack 1 win 65535 anyway
        < . 3001:4001 ack 1 win 65535 anyway
        drain
        < . 4001:4097 ack 1 win 65535
        +0ms..500ms > . 1 ack 4097 win 0
        readable 4096
        ",
    ),
    case(
        "a small read does not open a closed window",
        "RFC 9293 3.8.6.2.2",
        "rcv=4096",
        "
        passive mss=1460
        < . 1:1461 ack 1 win 65535
        < . 1461:2921 ack 1 win 65535 anyway
        < . 2921:4097 ack 1 win 65535 anyway
        drain
        +500ms pass
        read 100
        +1s silence
        read 1000
        +1s silence
        read 400
        +0ms..500ms > . 1 ack 4097 win 1500
        ",
    ),
    case(
        "a reader that empties the ring opens the window at once",
        "RFC 9293 3.8.6.2.2",
        "rcv=4096",
        "
        passive mss=1460
        < . 1:1461 ack 1 win 65535
        < . 1461:2921 ack 1 win 65535 anyway
        < . 2921:4097 ack 1 win 65535 anyway
        drain
        +500ms pass
        read 4096
        > . 1 ack 4097 win 4096
        +1s silence
        ",
    ),
    case(
        "a byte into a closed window is not taken, but answered",
        "RFC 9293 3.8.6.1 and 3.10.7.4, first",
        "rcv=1024",
        "
        passive mss=1000
        < . 1:1025 ack 1 win 65535
        +0ms..500ms > . 1 ack 1025 win 0
        < . 1025:1026 ack 1 win 65535
        > . 1 ack 1025 win 0
        readable 1024
        ",
    ),
    case(
        "bytes beyond the window are not taken",
        "RFC 9293 3.10.7.4, first",
        "rcv=4096",
        "
        passive mss=1000
        < . 4097:5097 ack 1 win 65535
        > . 1 ack 1
        readable 0
        < . 3597:4597 ack 1 win 65535
        > . 1 ack 1 <sack 3597:4097>
        ",
    ),
    case(
        "an acknowledgement and a window count where data outside the window is refused",
        "RFC 9293 3.10.7.4 (a full window still takes ACK and RST, MUST-66)",
        "rcv=1024",
        "
        passive mss=1000
        write 3000
        drain
        < . 1:1025 ack 1 win 65535
        +0ms..100ms > . 3001 ack 1025 win 0
        < . 1025 ack 3001 win 65535
        writable 65536
        ",
    ),
    case(
        "an old segment does not bring its window back",
        "RFC 9293 3.10.7.4, fifth (SND.WL1 and SND.WL2)",
        "",
        "
        passive mss=1000 win=9000
        < . 1:101 ack 1 win 9000
        < . 101:201 ack 1 win 0
        drain
        < . 51:151 ack 1 win 9000
        drain
        write 1000
        silence
        ",
    ),
    case(
        "an old acknowledgement does not bring its window back",
        "RFC 9293 3.10.7.4, fifth (SND.WL2)",
        "",
        "
        passive mss=1000 win=3000
        write 2000
        drain
        < . 1 ack 2001 win 0
        < . 1 ack 1001 win 9000
        write 1000
        silence
        ",
    ),
    case(
        "a repetition that acknowledges more brings its window with it",
        "RFC 9293 3.8.6 (a window counts from its acknowledgement)",
        "",
        "
        passive mss=1000 win=4000
        write 9000
        sent = 4
        < . 1001:2001 ack 1 win 4000
        drain
        < . 1:1001 ack 4001 win 1000
        > . 4001:5001 ack 2001
        silence
        ",
    ),
    case(
        "less than a segment and less than half the window waits",
        "RFC 9293 3.8.6.2.1 (override 0.1 to 1 s)",
        "",
        "
        passive mss=1000 win=60000
        < . 1 ack 1 win 400
        write 5000
        silence
        +100ms..1s > . 1:401
        ",
    ),
    case(
        "a small buffer of the peer is filled by half at least",
        "RFC 9293 3.8.6.2.1 (Fs)",
        "nodelay",
        "
        passive mss=1000 win=600
        write 2000
        > . 1:601
        < . 1 ack 601 win 400
        > . 601:1001
        ",
    ),
    case(
        "a window that shrinks is kept to",
        "RFC 9293 3.8.6 (MUST-34)",
        "",
        "
        passive mss=1000 nosack win=10000
        write 5000
        sent = 5
        < . 1 ack 1001 win 1000
        write 3000
        silence
        < . 1 ack 5001 win 1000
        > . 5001:6001
        ",
    ),
    case(
        "what lies beyond a window that shrank is still repeated, or probed for",
        "RFC 9293 3.8.6 (MUST-36)",
        "",
        "
        passive mss=1000 nosack win=10000
        write 3000
        sent = 3
        < . 1 ack 1 win 0
        +1h answers ack 1 win 0
        state Established
        +61s pass
        < . 1 ack 1 win 10000
        +0ms..61s > . 1:1001
        < . 1 ack 3001 win 10000 anyway
        drain
        +5m silence
        ",
    ),
    case(
        "the window follows what is read",
        "RFC 9293 3.8.6.2.2",
        "rcv=32768",
        "
        passive mss=1000
        < . 1:1001 ack 1 win 65535
        < . 1001:2001 ack 1 win 65535
        +0ms..500ms > . 1 ack 2001 win 30768
        read 2000
        drain
        write 10
        > . 1:11 ack 2001 win 32768
        ",
    ),
    case(
        "FIN keeps to the window like a byte",
        "RFC 9293 3.4 (SYN and FIN count)",
        "",
        "
        passive mss=1000 win=1000
        write 2000
        > . 1:1001
        close
        silence
        < . 1 ack 1001 win 5000
        > F. 1001:2001
        ",
    ),
];
