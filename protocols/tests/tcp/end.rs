//! One end of a connection: the machine with its rings, run as its owner would run it, and watched:
//! what must hold at all times is asserted here, from what came in and went out alone.

use warpwire_protocols::tcp::{
    Config, Connection, Delivery, Events, Note, Outgoing, Place, Segment, State,
};
use warpwire_protocols::wire::tcp::{TcpFlags, TcpSequence};

/// One end.
pub(crate) struct End {
    pub(crate) connection: Connection,
    pub(crate) config: Config,
    /// What happened and was not asked for.
    pub(crate) events: Events,
    pub(crate) notes: Vec<Note>,
    /// Payload bytes that were sent, repetitions as well.
    pub(crate) sent_bytes: u64,
    send: Vec<u8>,
    receive: Vec<u8>,
    /// Which bytes of the receive ring were placed and not consumed.
    held: Vec<bool>,
    watch: Watch,
}

/// Segments with their payload.
pub(crate) type Segments = Vec<(Outgoing, Vec<u8>)>;

/// What is known of a connection from its segments.
#[derive(Default)]
struct Watch {
    /// Numbers of both SYNs.
    ours: Option<TcpSequence>,
    theirs: Option<TcpSequence>,
    our_scale: Option<u8>,
    their_scale: Option<u8>,
    /// The right edge that we told, the number of the byte after it.
    told: Option<TcpSequence>,
    /// The one that the peer told.
    allowed: Option<TcpSequence>,
    /// Positions: of what was written, acknowledged, readable, and consumed.
    written: u32,
    freed: u32,
    ordered: u32,
    consumed: u32,
    is_reset: bool,
}

impl End {
    pub(crate) fn new(connection: Connection, config: Config) -> Self {
        Self {
            connection,
            config,
            events: Events::empty(),
            notes: Vec::new(),
            sent_bytes: 0,
            send: vec![0; config.send_bytes as usize],
            receive: vec![0; config.receive_bytes as usize],
            held: vec![false; config.receive_bytes as usize],
            watch: Watch::default(),
        }
    }

    /// Our side of a handshake that a cookie told of.
    pub(crate) fn knows(
        &mut self,
        ours: TcpSequence,
        theirs: TcpSequence,
        scales: [Option<u8>; 2],
    ) {
        self.watch.ours = Some(ours);
        self.watch.theirs = Some(theirs);
        [self.watch.our_scale, self.watch.their_scale] = scales;
        self.watch.told = Some(theirs.wrapping_add(1 + self.config.receive_bytes.min(0xffff)));
        self.watch.allowed = Some(ours.wrapping_add(1));
    }

    /// Whether windows that we tell are scaled, and how far.
    pub(crate) fn our_shift(&self) -> u8 {
        match (self.watch.our_scale, self.watch.their_scale) {
            (Some(ours), Some(_)) => ours,
            _ => 0,
        }
    }

    fn their_shift(&self) -> u8 {
        match (self.watch.our_scale, self.watch.their_scale) {
            (Some(_), Some(theirs)) => theirs.min(14),
            _ => 0,
        }
    }

    /// Takes a segment.
    pub(crate) fn take(&mut self, now_ns: u64, segment: &Segment, payload: &[u8]) -> Delivery {
        assert_eq!(payload.len() as u32, segment.length);
        self.hear(segment);
        let before = self.connection.readable();
        let config = self.config;
        let delivery = self.connection.on_segment(now_ns, segment, &config);
        if let Some(place) = &delivery.place {
            self.place(place, segment, payload);
        }
        assert_eq!(
            self.connection.readable(),
            before + delivery.readable,
            "readable is what it was and what came"
        );
        for position in 0..delivery.readable {
            let at = self.watch.ordered.wrapping_add(position);
            assert!(
                self.held[self.ring(at)],
                "byte {at} is readable, and not there"
            );
        }
        self.watch.ordered = self.watch.ordered.wrapping_add(delivery.readable);
        self.free(delivery.freed);
        self.events |= delivery.events;
        self.notes.extend(delivery.note);
        delivery
    }

    /// What a segment tells a bystander.
    pub(crate) fn hear(&mut self, segment: &Segment) {
        let watch = &mut self.watch;
        let is_syn = segment.flags.contains(TcpFlags::SYN);
        let is_reset = segment.flags.contains(TcpFlags::RST);
        if is_syn && !is_reset && watch.theirs.is_none() {
            watch.theirs = Some(segment.sequence);
            watch.their_scale = segment.options.window_scale;
        }
        let shift = if is_syn { 0 } else { self.their_shift() };
        let watch = &mut self.watch;
        let base = match segment.flags.contains(TcpFlags::ACK) {
            true => segment.acknowledgement,
            // A SYN alone tells a window for what follows our SYN.
            false => match watch.ours {
                Some(ours) => ours.wrapping_add(1),
                None => return,
            },
        };
        let edge = base.wrapping_add(u32::from(segment.window) << shift);
        if watch.allowed.is_none_or(|allowed| allowed.is_before(edge)) {
            watch.allowed = Some(edge);
        }
    }

    fn place(&mut self, place: &Place, segment: &Segment, payload: &[u8]) {
        let end = place.from.checked_add(place.length).expect("fits");
        assert!(place.length > 0, "a place of nothing");
        assert!(end <= segment.length, "{place:?} is beyond the payload");
        let theirs = self.watch.theirs.expect("SYN came before data");
        let syn = u32::from(segment.flags.contains(TcpFlags::SYN));
        let first = segment.sequence.wrapping_add(syn + place.from);
        let position = first.diff(theirs.wrapping_add(1)) as u32;
        assert_eq!(place.at, position, "{place:?}: another byte of the stream");
        let most = theirs.wrapping_add(1 + self.config.receive_bytes.min(0xffff));
        let told = self.watch.told.unwrap_or(most);
        let last = first.wrapping_add(place.length);
        assert!(
            !told.is_before(last),
            "{place:?} is beyond the window that we told"
        );
        let ahead = place.at.wrapping_sub(self.watch.consumed);
        assert!(
            ahead.saturating_add(place.length) <= self.config.receive_bytes,
            "{place:?} is beyond the ring"
        );
        for index in 0..place.length {
            let at = self.ring(place.at.wrapping_add(index));
            assert!(!self.held[at], "{place:?}: a byte is placed twice");
            self.held[at] = true;
            self.receive[at] = payload[(place.from + index) as usize];
        }
    }

    fn free(&mut self, bytes: u32) {
        let unacknowledged = self.watch.written.wrapping_sub(self.watch.freed);
        assert!(bytes <= unacknowledged, "more is freed than was written");
        for _ in 0..bytes {
            let at = self.watch.freed as usize & (self.send.len() - 1);
            self.send[at] = 0;
            self.watch.freed = self.watch.freed.wrapping_add(1);
        }
    }

    fn ring(&self, position: u32) -> usize {
        position as usize & (self.receive.len() - 1)
    }

    /// Bytes of the receive ring, wherever they stand.
    pub(crate) fn bytes(&self, positions: std::ops::Range<u32>) -> Vec<u8> {
        positions.map(|at| self.receive[self.ring(at)]).collect()
    }

    /// Reads up to so many bytes.
    pub(crate) fn read(&mut self, most: u32) -> Vec<u8> {
        let count = most.min(self.connection.readable());
        let from = self.connection.read_position();
        assert_eq!(from, self.watch.consumed);
        let bytes: Vec<u8> = (0..count)
            .map(|index| self.receive[self.ring(from.wrapping_add(index))])
            .collect();
        for index in 0..count {
            let at = self.ring(from.wrapping_add(index));
            self.held[at] = false;
        }
        self.connection.consume(count);
        self.watch.consumed = from.wrapping_add(count);
        bytes
    }

    /// Writes bytes as far as they fit; says how many.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> u32 {
        let may = self.connection.writable();
        let from = self.connection.write_position();
        assert_eq!(from, self.watch.written);
        for (index, byte) in (0..may).zip(bytes) {
            let at = from.wrapping_add(index) as usize & (self.send.len() - 1);
            self.send[at] = *byte;
        }
        let taken = self.connection.write(bytes.len() as u32);
        assert_eq!(taken, may.min(bytes.len() as u32));
        self.watch.written = from.wrapping_add(taken);
        taken
    }

    /// The next train of segments, and its segments as the wire wants them.
    pub(crate) fn poll(&mut self, now_ns: u64, most_bytes: u32) -> Option<(Outgoing, Segments)> {
        let config = self.config;
        let train = self.connection.poll(now_ns, &config, most_bytes)?;
        let pieces = (0..train.segments()).map(|index| train.piece(index).expect("is counted"));
        let pieces: Vec<Outgoing> = pieces.collect();
        assert!(train.piece(train.segments()).is_none());
        let sum: u32 = pieces.iter().map(|piece| piece.payload.length).sum();
        assert_eq!(sum, train.payload.length);
        let pieces = pieces.into_iter().map(|piece| {
            let payload = self.look(&piece);
            (piece, payload)
        });
        Some((train, pieces.collect()))
    }

    /// Holds a segment that is sent against what is known. Gives its bytes.
    fn look(&mut self, out: &Outgoing) -> Vec<u8> {
        let length = out.payload.length;
        let options = out.options.length() as u32;
        assert!(options <= 40, "options of {options} bytes");
        assert!(
            length + options <= u32::from(self.config.maximum_segment_size) || length == 0,
            "{length} bytes and {options} of options are more than a segment"
        );
        let is_syn = out.flags.contains(TcpFlags::SYN);
        if is_syn && self.watch.ours.is_none() {
            self.watch.ours = Some(out.sequence);
        }
        if is_syn {
            self.watch.our_scale = out.options.window_scale;
        }
        if out.flags.contains(TcpFlags::RST) {
            assert_eq!(length, 0, "a reset with data");
            self.watch.is_reset = self.connection.state() == State::Closed;
            return Vec::new();
        }
        assert!(!self.watch.is_reset, "something follows a reset");
        self.look_at_window(out);
        if length == 0 {
            return Vec::new();
        }
        self.look_at_payload(out)
    }

    fn look_at_window(&mut self, out: &Outgoing) {
        if !out.flags.contains(TcpFlags::ACK) {
            return;
        }
        let is_syn = out.flags.contains(TcpFlags::SYN);
        let shift = if is_syn { 0 } else { self.our_shift() };
        let edge = out
            .acknowledgement
            .wrapping_add(u32::from(out.window) << shift);
        let told = self.watch.told.unwrap_or(edge);
        if is_syn && self.watch.told.is_some() {
            // The field of a SYN cannot say what a scaled one did.
            return;
        }
        // Of a scaled window the field cannot say less than a unit (RFC 7323 section 2.4).
        let back = told.diff(edge);
        assert!(
            back < 1 << shift,
            "the right edge of our window moves left by {back}"
        );
        if back < 0 {
            self.watch.told = Some(edge);
        }
        self.watch.told.get_or_insert(edge);
        let theirs = self.watch.theirs.expect("what is acknowledged came");
        let end = self.watch.ordered.wrapping_add(2);
        let acknowledged = out.acknowledgement.diff(theirs);
        assert!(
            acknowledged >= 1 && (acknowledged as u32) <= end,
            "{acknowledged} is acknowledged of {end} at most"
        );
    }

    fn look_at_payload(&mut self, out: &Outgoing) -> Vec<u8> {
        let length = out.payload.length;
        let ours = self.watch.ours.expect("SYN went before data");
        let position = out.sequence.diff(ours.wrapping_add(1)) as u32;
        let at = out.payload.at;
        assert_eq!(
            at, position,
            "payload of another place than the number says"
        );
        let end = at.wrapping_add(length);
        let from = at.wrapping_sub(self.watch.freed);
        let to = self.watch.written.wrapping_sub(self.watch.freed);
        // The probe of a peer that is idle may repeat the byte before the first.
        assert!(
            from <= to && from + length <= to,
            "bytes {at} to {end} are not in the send ring"
        );
        let allowed = self.watch.allowed.expect("a window was told");
        let last = out.sequence.wrapping_add(length);
        assert!(
            length == 1 || !allowed.is_before(last),
            "{length} bytes at {at}, {} beyond the peer's window: {:?}",
            last.diff(allowed),
            self.connection.statistics()
        );
        self.sent_bytes += u64::from(length);
        (0..length)
            .map(|index| self.send[at.wrapping_add(index) as usize & (self.send.len() - 1)])
            .collect()
    }

    pub(crate) fn on_timer(&mut self, now_ns: u64) {
        let config = self.config;
        self.events |= self.connection.on_timer(now_ns, &config);
    }
}
