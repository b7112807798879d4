//! What comes in pieces, in any order, twice and different: of every byte the first copy counts.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "bytes that lie there already are not overwritten by the filler of the hole",
        "RFC 9293 3.10.7.4 (trim to what is new)",
        "",
        "
        passive mss=1460
        < . 1001:2001 ack 1 win 65535 fill a
        drain
        < . 1:1401 ack 1 win 65535 fill b
        drain
        readable 2000
        bytes 0:1000 b
        bytes 1000:2000 a
        ",
    ),
    case(
        "bytes that were read are not placed again",
        "RFC 9293 3.10.7.4 (trim to what is new)",
        "rcv=4096",
        "
        passive mss=1460
        < . 1:1001 ack 1 win 65535 fill a
        read 1000
        < . 1:1201 ack 1 win 65535 fill b
        drain
        readable 200
        bytes 1000:1200 b
        ",
    ),
    case(
        "what overlaps both sides of a held range loses nothing that was held",
        "RFC 9293 3.10.7.4 (trim to what is new)",
        "",
        "
        passive mss=1460
        < . 2001:2501 ack 1 win 65535 fill a
        < . 1501:2901 ack 1 win 65535 fill b anyway
        drain
        < . 1:1401 ack 1 win 65535 fill c
        drain
        < . 1401:1501 ack 1 win 65535 fill d
        drain
        bytes 0:1400 c
        bytes 1400:1500 d
        bytes 1500:2000 b
        bytes 2000:2500 a
        < . 2501:2901 ack 1 win 65535 fill e
        drain
        readable 2900
        ",
    ),
    case(
        "a second copy of what waits behind a hole changes nothing",
        "RFC 9293 3.10.7.4 (trim to what is new)",
        "",
        "
        passive mss=1460
        < . 1001:2001 ack 1 win 65535 fill a
        < . 1001:2001 ack 1 win 65535 fill b anyway
        < . 1201:1401 ack 1 win 65535 fill c anyway
        drain
        < . 1:1001 ack 1 win 65535 fill d
        > . 1 ack 2001
        bytes 0:1000 d
        bytes 1000:2000 a
        ",
    ),
    case(
        "a segment that grew when it was repeated brings its new end",
        "RFC 9293 3.8.1 (repacketization)",
        "",
        "
        passive mss=1460
        < . 1:101 ack 1 win 65535 fill a
        < . 1:1201 ack 1 win 65535 fill b anyway
        readable 1200
        bytes 0:100 a
        bytes 100:1200 b
        drain
        ",
    ),
    case(
        "more holes than can be remembered cost nothing but time",
        "RFC 9293 3.10.7.4 (SHLD-31 lets data be dropped)",
        "",
        "
        passive mss=1000
        < . 1001:1002 ack 1 win 65535
        < . 1003:1004 ack 1 win 65535 anyway
        < . 1005:1006 ack 1 win 65535 anyway
        < . 1007:1008 ack 1 win 65535 anyway
        < . 1009:1010 ack 1 win 65535 anyway
        < . 1011:1012 ack 1 win 65535 anyway
        < . 1013:1014 ack 1 win 65535 anyway
        < . 1015:1016 ack 1 win 65535 anyway
        < . 1017:1018 ack 1 win 65535 anyway
        < . 1019:1020 ack 1 win 65535 anyway
        < . 1021:1022 ack 1 win 65535 anyway
        < . 1023:1024 ack 1 win 65535 anyway
        < . 1025:1026 ack 1 win 65535 anyway
        < . 1027:1028 ack 1 win 65535 anyway
        < . 1029:1030 ack 1 win 65535 anyway
        < . 1031:1032 ack 1 win 65535 anyway
        < . 1033:1034 ack 1 win 65535 anyway
        < . 1035:1036 ack 1 win 65535 anyway
        drain
        < . 1:1001 ack 1 win 65535
        drain
        < . 1001:2001 ack 1 win 65535
        drain
        < . 1002:2001 ack 1 win 65535
        drain
        < . 1010:2001 ack 1 win 65535
        < . 1018:2001 ack 1 win 65535 anyway
        < . 1026:2001 ack 1 win 65535 anyway
        < . 1034:2001 ack 1 win 65535 anyway
        drain
        state Established
        ",
    ),
    case(
        "a segment that starts before the window and ends beyond it is cut on both sides",
        "RFC 9293 3.10.7.4, first",
        "rcv=1024",
        "
        passive mss=1460
        < . 1:501 ack 1 win 65535 fill a
        drain
        < . 1:1461 ack 1 win 65535 fill b
        drain
        readable 1024
        bytes 0:500 a
        bytes 500:1024 b
        ",
    ),
    case(
        "an end that was cut off by the window is not believed",
        "RFC 9293 3.10.7.4, first and eighth",
        "rcv=1024",
        "
        passive mss=1460
        < F. 1:1461 ack 1 win 65535
        drain
        state Established
        readable 1024
        read 1024
        drain
        < F. 1025:1461 ack 1 win 65535
        > . 1 ack 1462
        state CloseWait
        ",
    ),
    case(
        "the stream wraps its ring",
        "RFC 9293 3.4 (numbers count modulo 2^32)",
        "rcv=1024",
        "
        passive mss=1000
        < . 1:801 ack 1 win 65535 fill a
        read 800
        drain
        < . 801:1601 ack 1 win 65535 fill b
        readable 800
        bytes 800:1600 b
        drain
        ",
    ),
];
