//! Data both ways while nothing is lost.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "a lone segment is acknowledged within half a second, but not at once",
        "RFC 9293 3.8.6.3",
        "",
        "
        passive mss=1460
        < . 1:1461 ack 1 win 65535
        +1ms..500ms > . 1 ack 1461
        readable 1460
        +2s silence
        ",
    ),
    case(
        "every second full segment is acknowledged at once",
        "RFC 5681 4.2",
        "",
        "
        passive mss=1460
        < . 1:1461 ack 1 win 65535
        silence
        < . 1461:2921 ack 1 win 65535
        > . 1 ack 2921
        < . 2921:4381 ack 1 win 65535
        silence
        < . 4381:5841 ack 1 win 65535
        > . 1 ack 5841
        ",
    ),
    case(
        "data takes an acknowledgement with it",
        "RFC 9293 3.8.6.3, RFC 1122 4.2.3.2",
        "",
        "
        passive mss=1000
        < P. 1:101 ack 1 win 65535
        silence
        write 10
        > . 1:11 ack 101
        < . 101 ack 11 win 65535
        +2s silence
        ",
    ),
    case(
        "what is out of order is told at once, and so is the filling of the hole",
        "RFC 5681 4.2",
        "",
        "
        passive mss=1000 nosack
        < . 1001:2001 ack 1 win 65535
        > . 1 ack 1
        readable 0
        < . 2001:3001 ack 1 win 65535
        > . 1 ack 1
        < . 1:1001 ack 1 win 65535
        > . 1 ack 3001
        readable 3000
        ",
    ),
    case(
        "filling one of two holes is told at once",
        "RFC 5681 4.2",
        "",
        "
        passive mss=1000 nosack
        < . 1001:2001 ack 1 win 65535
        > . 1 ack 1
        < . 3001:4001 ack 1 win 65535
        > . 1 ack 1
        < . 1:1001 ack 1 win 65535
        > . 1 ack 2001
        readable 2000
        ",
    ),
    case(
        "what comes twice is acknowledged again and read once",
        "RFC 9293 3.10.7.4, first",
        "",
        "
        passive mss=1000
        < . 1:501 ack 1 win 65535
        +0ms..500ms > . 1 ack 501
        < . 1:501 ack 1 win 65535
        > . 1 ack 501
        readable 500
        ",
    ),
    case(
        "of what comes half again the new half is read",
        "RFC 9293 3.10.7.4, first",
        "",
        "
        passive mss=1000
        < . 1:501 ack 1 win 65535 fill a
        +0ms..500ms > . 1 ack 501
        < . 301:801 ack 1 win 65535 fill b
        readable 800
        bytes 0:500 a
        bytes 500:800 b
        +0ms..500ms > . 1 ack 801
        ",
    ),
    case(
        "small writes wait for the answer to the first",
        "RFC 9293 3.7.4",
        "",
        "
        passive mss=1000
        write 10
        > . 1:11
        write 10
        write 10
        +100ms silence
        < . 1 ack 11 win 65535
        > . 11:31
        ",
    ),
    case(
        "a full segment waits for nothing",
        "RFC 9293 3.7.4",
        "",
        "
        passive mss=1000
        write 10
        > . 1:11
        write 1500
        > . 11:1011
        silence
        < . 1 ack 11 win 65535
        silence
        < . 1 ack 1011 win 65535
        > . 1011:1511
        ",
    ),
    case(
        "without that delay small writes leave at once",
        "RFC 9293 3.7.4 (MUST allow to disable)",
        "nodelay",
        "
        passive mss=1000
        write 10
        > . 1:11
        write 20
        > . 11:31
        write 30
        > . 31:61
        ",
    ),
    case(
        "close ends the waiting of a small write",
        "RFC 9293 3.9.1 (CLOSE implies push)",
        "",
        "
        passive mss=1000
        write 10
        > . 1:11
        write 10
        silence
        < . 1 ack 11 win 65535
        > . 11:21
        close
        > F. 21
        ",
    ),
    case(
        "the last segment of what is written is pushed",
        "RFC 9293 3.9.1 (PSH in the last buffered segment)",
        "",
        "
        passive mss=1000
        write 1000
        > . 1:1001 push
        < . 1 ack 1001 win 65535
        write 2500
        > . 1001:2001 nopush
        > . 2001:3001 nopush
        < . 1 ack 3001 win 65535
        > . 3001:3501 push
        ",
    ),
    case(
        "the first flight is at most ten segments",
        "RFC 6928 2",
        "",
        "
        passive mss=1000
        write 60000
        sent <= 10
        ",
    ),
    case(
        "the window doubles in a round trip of slow start",
        "RFC 5681 3.1",
        "",
        "
        passive mss=1000 
        write 65536
        sent <= 10
        stat cwnd <= 14600
        +100ms < . 1 ack 2001 win 65535
        sent <= 4
        stat cwnd <= 16600
        < . 1 ack 4001 win 65535
        sent <= 4
        stat cwnd <= 18600
        ",
    ),
    case(
        "one acknowledgement of a few bytes does not open the window by a segment",
        "RFC 5681 3.1 (at most as many bytes as were acknowledged)",
        "nodelay",
        "
        passive mss=1000
        write 65536
        drain
        stat cwnd <= 14600
        +100ms < . 1 ack 101 win 65535
        < . 1 ack 201 win 65535
        < . 1 ack 301 win 65535
        < . 1 ack 401 win 65535
        stat cwnd <= 15000
        drain
        ",
    ),
    case(
        "an acknowledgement that was seen before is no news",
        "RFC 9293 3.10.7.4, fifth",
        "",
        "
        passive mss=1000
        write 2000
        drain
        < . 1 ack 2001 win 65535
        < . 1 ack 1001 win 65535
        < . 1 ack 1 win 65535
        silence
        writable 65536
        state Established
        ",
    ),
    case(
        "the send ring holds what it holds",
        "RFC 9293 3.9.1",
        "snd=4096",
        "
        passive mss=1000
        write 5000 accepts 4096
        writable 0
        drain
        < . 1 ack 1001 win 65535
        drain
        writable 1000
        write 5000 accepts 1000
        drain
        ",
    ),
    case(
        "a train for segmentation offload is whole segments and then the rest",
        "RFC 9293 3.7.1",
        "offload=64000",
        "
        passive mss=1000
        write 4500
        > . 1:4001
        < . 1 ack 4001 win 65535
        > . 4001:4501
        ",
    ),
    case(
        "a train is no longer than the windows",
        "RFC 9293 3.8.6, RFC 6928 2",
        "offload=64000",
        "
        passive mss=1000 win=3000
        write 6000
        > . 1:3001
        < . 1 ack 3001 win 2000
        > . 3001:5001
        < . 1 ack 5001 win 2000
        > . 5001:6001
        ",
    ),
    case(
        "after a long silence the window is that of a start",
        "RFC 5681 4.1",
        "",
        "
        passive mss=1000
        write 40000
        drain
        +100ms < . 1 ack 10001 win 65535
        drain
        +100ms < . 1 ack 30001 win 65535
        drain
        +100ms < . 1 ack 40001 win 65535
        drain
        +10s silence
        write 60000
        sent <= 10
        ",
    ),
    case(
        "the acknowledgement that is owed goes before the reader is done",
        "RFC 9293 3.8.6.3",
        "",
        "
        passive mss=1000
        < P. 1:101 ack 1 win 65535
        +1ms..500ms > . 1 ack 101
        readable 100
        read 100
        readable 0
        +1s silence
        ",
    ),
    case(
        "a fixed rate is kept between segments",
        "RFC 9293 3.8.2 (a control of ours)",
        "rate=1000000",
        "
        passive mss=1000
        write 40000
        sent <= 5
        +0ms..3ms > .
        +0ms..3ms > .
        +0ms..3ms > .
        +0ms..3ms > .
        drain
        ",
    ),
    case(
        "segments that were joined on the way are acknowledged at once",
        "RFC 9293 3.8.6.3 (two full segments' worth)",
        "",
        "
        passive mss=1460
        < . 1:2921 ack 1 win 65535
        > . 1 ack 2921
        readable 2920
        ",
    ),
    case(
        "whoever wants no delay acknowledges everything at once",
        "RFC 9293 3.8.6.3 (a delay is allowed, not demanded)",
        "delayed_ack=0s",
        "
        passive mss=1460
        < . 1:11 ack 1 win 65535
        > . 1 ack 11
        < . 11:12 ack 1 win 65535
        > . 1 ack 12
        ",
    ),
    case(
        "urgent data is data",
        "RFC 9293 3.8.5 (in line, RFC 6093 4)",
        "",
        "
        passive mss=1460
        < U. 1:101 ack 1 win 65535 fill u
        readable 100
        bytes 0:100 u
        +0ms..500ms > . 1 ack 101
        ",
    ),
    case(
        "data that comes with the peer's answer is not lost",
        "RFC 9293 3.10.7.3, fourth",
        "",
        "
        connect
        > S 0
        < S. 0:100 ack 1 win 8000 <mss 1000> fill a
        drain
        state Established
        < . 1:101 ack 1 win 8000 fill b
        drain
        readable 100
        ",
    ),
    case(
        "data that comes with the peer's SYN is not read before the handshake ends",
        "RFC 9293 3.10.7.2, third",
        "",
        "
        < S 0:100 win 8000 <mss 1000> fill a
        > S. 0
        readable 0
        < . 1:101 ack 1 win 8000 fill b
        drain
        state Established
        readable 100
        ",
    ),
];
