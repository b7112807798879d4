//! A stream of more bytes than its positions can count: they wrap, as the numbers do.

use warpwire_protocols::tcp::{Config, Connection, Initial, Segment, State};
use warpwire_protocols::wire::tcp::{TcpFlags, TcpSequence};
use warpwire_protocols::wire::tcp_option::Options;

const TOTAL: u64 = 9 << 30;
const PIECE: u32 = 64_000;
const OURS: TcpSequence = TcpSequence(77);
const THEIRS: TcpSequence = TcpSequence(u32::MAX - 5);

/// An established connection, and a segment of the peer that says nothing new.
fn established(config: &Config) -> (Connection, Segment) {
    let initial = Initial {
        sequence: OURS,
        timestamp: 0,
    };
    let syn = Segment {
        sequence: THEIRS,
        flags: TcpFlags::SYN,
        window: u16::MAX,
        options: Options {
            maximum_segment_size: Some(1460),
            window_scale: Some(4),
            ..Options::default()
        },
        ..Segment::default()
    };
    let mut connection = Connection::answer(config, initial, &syn, 1);
    while connection.poll(1, config, 0).is_some() {}
    let ack = Segment {
        sequence: THEIRS.wrapping_add(1),
        acknowledgement: OURS.wrapping_add(1),
        flags: TcpFlags::ACK,
        window: u16::MAX,
        ..Segment::default()
    };
    connection.on_segment(1_000_000, &ack, config);
    assert_eq!(connection.state(), State::Established);
    (connection, ack)
}

#[test]
fn positions_wrap_where_a_stream_is_received() {
    let config = Config::of_mtu(1500, false);
    let (mut connection, mut segment) = established(&config);
    segment.length = PIECE;
    let (mut total, mut now_ns) = (0_u64, 1_000_000);
    while total < TOTAL {
        now_ns += 10_000;
        let delivery = connection.on_segment(now_ns, &segment, &config);
        let place = delivery.place.expect("has room");
        assert_eq!((place.at, place.length), (total as u32, PIECE), "{total}");
        assert_eq!(delivery.readable, PIECE);
        assert_eq!(connection.read_position(), total as u32);
        connection.consume(PIECE);
        while connection.poll(now_ns, &config, 0).is_some() {}
        segment.sequence = segment.sequence.wrapping_add(PIECE);
        total += u64::from(PIECE);
    }
}

#[test]
fn positions_wrap_where_a_stream_is_sent() {
    let config = Config::of_mtu(1500, false);
    let (mut connection, mut ack) = established(&config);
    let (mut total, mut written, mut now_ns) = (0_u64, 0_u64, 1_000_000);
    while total < TOTAL {
        assert_eq!(connection.write_position(), written as u32);
        written += u64::from(connection.write(PIECE));
        now_ns += 10_000;
        while let Some(train) = connection.poll(now_ns, &config, PIECE) {
            assert_eq!(train.payload.at, total as u32, "{total}");
            total += u64::from(train.payload.length);
        }
        now_ns += 10_000;
        ack.acknowledgement = OURS.wrapping_add(1).wrapping_add(total as u32);
        connection.on_segment(now_ns, &ack, &config);
        assert_eq!(u64::from(connection.unacknowledged()), written - total);
    }
    assert_eq!(connection.statistics().retransmits, 0);
}
