//! Loss: timers, fast retransmission, probes of the tail; without and with selective
//! acknowledgements. The round trip of the handshake is 100 ms, so that the first timeout is
//! 100 + 4 * 50 = 300 ms.

use super::{Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "what is not acknowledged is repeated after the timeout, which doubles",
        "RFC 6298 2.2, 5.4 to 5.6",
        "",
        "
        passive mss=1000 nosack
        write 1000
        > . 1:1001
        +300ms > . 1:1001
        +600ms > . 1:1001
        +1200ms > . 1:1001
        +2400ms > . 1:1001
        stat retransmits = 4
        < . 1 ack 1001 win 65535
        +1m silence
        timer none
        ",
    ),
    case(
        "the timeout grows to its bound and no further",
        "RFC 6298 2.5",
        "max_rto=2s",
        "
        passive mss=1000 nosack
        write 1000
        > . 1:1001
        +300ms > . 1:1001
        +600ms > . 1:1001
        +1200ms > . 1:1001
        +2s > . 1:1001
        +2s > . 1:1001
        ",
    ),
    case(
        "the timeout is never below its floor",
        "RFC 6298 2.4 (ours is 200 ms)",
        "",
        "
        passive mss=1000 nosack rtt=1ms
        write 1000
        > . 1:1001
        +200ms > . 1:1001
        ",
    ),
    case(
        "what was repeated times nothing",
        "RFC 6298 3 (Karn)",
        "",
        "
        passive mss=1000 nosack
        write 1000
        > . 1:1001
        +300ms > . 1:1001
        +1ms < . 1 ack 1001 win 65535
        stat srtt_ms = 100
        write 1000
        > . 1001:2001
        +600ms > . 1001:2001
        ",
    ),
    case(
        "the first new measurement after a repetition ends the doubling",
        "RFC 6298 5.5 to 5.7",
        "",
        "
        passive mss=1000 nosack
        write 1000
        > . 1:1001
        +300ms > . 1:1001
        +1ms < . 1 ack 1001 win 65535
        write 1000
        > . 1001:2001
        +100ms < . 1 ack 2001 win 65535
        stat srtt_ms = 100
        write 1000
        > . 2001:3001
        +200ms..300ms > . 2001:3001
        ",
    ),
    case(
        "an acknowledgement of something new starts the timer again",
        "RFC 6298 5.3",
        "",
        "
        passive mss=1000 nosack rtt=200ms
        write 2000
        > . 1:1001
        > . 1001:2001
        +200ms < . 1 ack 1001 win 65535
        +500ms..600ms > . 1001:2001
        ",
    ),
    case(
        "a duplicate does not start the timer again",
        "RFC 6298 5.3",
        "",
        "
        passive mss=1000 nosack
        write 2000
        drain
        +200ms < . 1 ack 1 win 65535
        +100ms > . 1:1001
        ",
    ),
    case(
        "the round trip is smoothed",
        "RFC 6298 2.3",
        "",
        "
        passive mss=1000 nosack
        stat srtt_ms = 100
        stat rttvar_ms = 50
        write 1000
        > . 1:1001
        +180ms < . 1 ack 1001 win 65535
        stat srtt_ms = 110
        stat rttvar_ms = 57
        ",
    ),
    case(
        "a timeout begins again with one segment",
        "RFC 5681 3.1 (equation 4 and the loss window)",
        "",
        "
        passive mss=1000 nosack
        write 4000
        > . 1:1001
        > . 1001:2001
        > . 2001:3001
        > . 3001:4001
        +300ms > . 1:1001
        stat cwnd = 1000
        +100ms < . 1 ack 1001 win 65535
        > . 1001:2001
        > . 2001:3001
        silence
        ",
    ),
    case(
        "what the timeout would repeat may be acknowledged meanwhile",
        "RFC 5681 3.1",
        "",
        "
        passive mss=1000 nosack
        write 4000
        drain
        +300ms > . 1:1001
        +10ms < . 1 ack 4001 win 65535
        +5m silence
        ",
    ),
    case(
        "the rest of a segment that was half acknowledged is repeated",
        "RFC 9293 3.10.7.4, fifth",
        "",
        "
        passive mss=1000 nosack
        write 1000
        > . 1:1001
        < . 1 ack 601 win 65535
        +200ms..400ms > . 601:1001
        ",
    ),
    case(
        "three duplicates repeat the first segment",
        "RFC 5681 3.2",
        "",
        "
        passive mss=1000 nosack
        write 10000
        sent <= 10
        +100ms < . 1 ack 1 win 65535
        < . 1 ack 1 win 65535
        silence
        < . 1 ack 1 win 65535
        > . 1:1001
        silence
        stat retransmits = 1
        < . 1 ack 10001 win 65535
        +2s silence
        ",
    ),
    case(
        "the first two duplicates let one new segment go each",
        "RFC 3042 2",
        "",
        "
        passive mss=1000 nosack
        write 30000
        sent = 10
        +100ms < . 1 ack 1 win 65535
        > . 10001:11001
        < . 1 ack 1 win 65535
        > . 11001:12001
        < . 1 ack 1 win 65535
        > . 1:1001
        ",
    ),
    case(
        "a partial acknowledgement repeats the next hole",
        "RFC 6582 3.2",
        "",
        "
        passive mss=1000 nosack
        write 10000
        sent = 10
        +100ms < . 1 ack 1 win 65535
        < . 1 ack 1 win 65535
        < . 1 ack 1 win 65535
        > . 1:1001
        +100ms < . 1 ack 4001 win 65535
        > . 4001:5001
        +100ms < . 1 ack 10001 win 65535
        silence
        stat retransmits = 2
        +2s silence
        ",
    ),
    case(
        "a recovery reduces the window once",
        "RFC 5681 3.2, RFC 6582 3.2, RFC 9438 4.6",
        "",
        "
        passive mss=1000 nosack
        write 10000
        sent = 10
        +100ms < . 1 ack 1 win 65535
        < . 1 ack 1 win 65535
        < . 1 ack 1 win 65535
        > . 1:1001
        +100ms < . 1 ack 4001 win 65535
        > . 4001:5001
        +100ms < . 1 ack 10001 win 65535
        stat cwnd <= 7500
        stat ssthresh <= 7000
        stat ssthresh >= 5000
        ",
    ),
    case(
        "an acknowledgement with a new window or with data is no duplicate",
        "RFC 5681 2",
        "",
        "
        passive mss=1000 nosack
        write 5000
        drain
        +100ms < . 1 ack 1 win 65000
        < . 1 ack 1 win 64000
        < . 1 ack 1 win 63000
        < . 1:11 ack 1 win 63000
        < . 11:21 ack 1 win 63000
        < . 21:31 ack 1 win 63000 anyway
        drain
        stat retransmits = 0
        ",
    ),
    case(
        "a duplicate while nothing is under way is nothing",
        "RFC 5681 2",
        "",
        "
        passive mss=1000
        < . 1 ack 1 win 65535
        < . 1 ack 1 win 65535
        < . 1 ack 1 win 65535
        < . 1 ack 1 win 65535
        silence
        stat duplicate_acks = 0
        write 100
        > . 1:101
        ",
    ),
    case(
        "the tail is probed after two round trips",
        "RFC 8985 7.2 and 7.3",
        "",
        "
        passive mss=1000
        write 3000
        > . 1:1001
        > . 1001:2001
        > . 2001:3001
        +200ms > . 2001:3001
        +1ms < . 1 ack 3001 win 65535
        +1m silence
        ",
    ),
    case(
        "the probe is new data where there is some",
        "RFC 8985 7.3",
        "",
        "
        passive mss=1000
        write 15000
        sent = 10
        +200ms > . 10001:11001
        ",
    ),
    case(
        "a probe that tells of a loss makes recovery begin",
        "RFC 8985 7.4, RFC 6675 5",
        "",
        "
        passive mss=1000
        write 5000
        sent = 5
        +200ms > . 4001:5001
        +100ms < . 1 ack 1 win 65535 <sack 1001:5001>
        > . 1:1001
        +100ms < . 1 ack 5001 win 65535
        +1m silence
        ",
    ),
    case(
        "behind the probe stands the timeout",
        "RFC 8985 7.3",
        "",
        "
        passive mss=1000
        write 3000
        sent = 3
        +200ms > . 2001:3001
        +100ms..400ms > . 1:1001
        stat cwnd = 1000
        ",
    ),
    case(
        "a repetition that was lost again is noticed without the timeout",
        "RFC 8985 6.2 (lost retransmission)",
        "",
        "
        passive mss=1000
        write 40000
        sent = 10
        +100ms < . 1 ack 1 win 65535 <sack 1001:2001>
        drain
        < . 1 ack 1 win 65535 <sack 1001:3001>
        drain
        < . 1 ack 1 win 65535 <sack 1001:4001>
        > . 1:1001
        drain
        < . 1 ack 1 win 65535 <sack 1001:10001>
        drain
        +101ms < . 1 ack 1 win 65535 <sack 1001:11001>
        drain
        < . 1 ack 1 win 65535 <sack 1001:12001>
        drain
        < . 1 ack 1 win 65535 <sack 1001:13001>
        drain
        < . 1 ack 1 win 65535 <sack 1001:14001>
        drain
        < . 1 ack 1 win 65535 <sack 1001:15001>
        drain
        stat retransmits >= 2
        stat timeouts = 0
        ",
    ),
    case(
        "a peer that is gone is given up in the end",
        "RFC 9293 3.8.3 (R2: 100 seconds at least)",
        "",
        "
        passive mss=1000
        write 1000
        drain
        +99s pass
        state Established
        +1h pass
        state Closed
        cause TimedOut
        timer none
        ",
    ),
    case(
        "a FIN that is lost is repeated",
        "RFC 9293 3.8.1, RFC 6298 5",
        "",
        "
        passive mss=1000 nosack
        close
        > F. 1
        +300ms > F. 1
        +600ms > F. 1
        < . 1 ack 2 win 65535
        state FinWait2
        ",
    ),
    case(
        "what is repeated tells what is acknowledged by now",
        "RFC 9293 3.10.7.4",
        "",
        "
        passive mss=1000 nosack
        write 1000
        > . 1:1001 ack 1
        < . 1:301 ack 1 win 65535
        +0ms..300ms > . 1001 ack 301
        +200ms..300ms > . 1:1001 ack 301
        ",
    ),
    case(
        "a FIN alone is probed for, too",
        "RFC 8985 7.2",
        "",
        "
        passive mss=1000
        close
        > F. 1
        +150ms..310ms > F. 1
        < . 1 ack 2 win 65535
        state FinWait2
        timer none
        ",
    ),
    case(
        "a probe is sent once, whatever it brings",
        "RFC 8985 7.3 (one at a time)",
        "",
        "
        passive mss=1000
        write 2000
        sent = 2
        +200ms > . 1001:2001
        < . 1 ack 1 win 65535
        +0ms..500ms > . 1:1001
        stat tail_probes = 1
        ",
    ),
    case(
        "after a timeout slow start goes up to half of what was under way",
        "RFC 5681 3.1 (equation 4), RFC 9438 4.8",
        "",
        "
        passive mss=1000 nosack
        write 10000
        sent = 10
        +300ms > . 1:1001
        stat ssthresh <= 7000
        stat ssthresh >= 5000
        ",
    ),
];
