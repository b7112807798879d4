//! A segment arrives: RFC 9293 section 3.10.7, with RFC 5961 and RFC 7323 where they say more.

use super::config::Config;
use super::connection::{Connection, after};
use super::hot::Flags;
use super::segment::{Delivery, Segment};
use super::state::{Cause, Events, Note, State};
use crate::wire::tcp::{TcpFlags, TcpSequence};

impl Connection {
    /// Takes a segment that arrived.
    #[cfg_attr(target_arch = "nvptx64", inline(never))]
    pub fn on_segment(&mut self, now_ns: u64, segment: &Segment, config: &Config) -> Delivery {
        match self.hot.state {
            State::Closed => Delivery::note(Note::Unexpected),
            State::SynSent => self.on_answer(now_ns, segment, config),
            State::SynReceived => match self.without_syn(segment) {
                Some(answer) => self.on_late_answer(now_ns, &answer, config),
                None => self.on_known(now_ns, segment, config),
            },
            _ => self.on_known(now_ns, segment, config),
        }
    }

    /// Both ends opened at once: SYN and ACK come for a SYN that came already. What is new of it
    /// is the acknowledgement.
    fn without_syn(&self, segment: &Segment) -> Option<Segment> {
        let hot = &self.hot;
        let is_answer = segment.has(TcpFlags::SYN | TcpFlags::ACK)
            && !segment.has(TcpFlags::RST)
            && hot.flags.contains(Flags::ACTIVE)
            && segment.sequence == hot.irs
            && segment.acknowledgement == hot.nxt;
        let mut new = *segment;
        new.flags.remove(TcpFlags::SYN | TcpFlags::ECE);
        new.sequence = segment.sequence.wrapping_add(1);
        is_answer.then_some(new)
    }

    /// What was a SYN tells a window that is not scaled: RFC 7323 section 2.2.
    fn on_late_answer(&mut self, now_ns: u64, answer: &Segment, config: &Config) -> Delivery {
        let most = self.hot.max_window;
        let delivery = self.on_known(now_ns, answer, config);
        if self.hot.state.is_synchronized() {
            self.hot.window = u32::from(answer.window);
            self.hot.max_window = most.max(self.hot.window);
        }
        delivery
    }

    /// In every state but CLOSED and SYN-SENT.
    fn on_known(&mut self, now_ns: u64, segment: &Segment, config: &Config) -> Delivery {
        if let Some(refused) = self.refuse(now_ns, segment, config) {
            return refused;
        }
        self.heard(now_ns, config);
        let mut delivery = Delivery::default();
        if self.hot.state == State::SynReceived {
            let hot = &mut self.hot;
            let is_ours = hot.una.is_before(segment.acknowledgement)
                && !hot.nxt.is_before(segment.acknowledgement);
            if !is_ours {
                hot.flags.insert(Flags::STRAY_DUE);
                self.cold.stray = segment.acknowledgement;
                return Delivery::note(Note::BadAcknowledgement);
            }
            delivery.events = self.establish(now_ns, config);
            self.hot.wl1 = segment.sequence.wrapping_add(u32::MAX);
        }
        if !self.on_acknowledgement(now_ns, segment, config, &mut delivery) {
            return delivery;
        }
        self.take(now_ns, segment, config, &mut delivery);
        delivery
    }

    /// Data and FIN, after everything else.
    fn take(&mut self, now_ns: u64, segment: &Segment, config: &Config, delivery: &mut Delivery) {
        if segment.length == 0 && !segment.has(TcpFlags::FIN) {
            return;
        }
        if !self.hot.state.receives() {
            if segment.length > 0 {
                self.hot.flags.insert(Flags::ACK_DUE);
                delivery.note = Some(Note::NotReceiving);
            }
            return;
        }
        self.on_data(now_ns, segment, config, delivery);
    }

    /// Checks that end the processing of a segment: timestamp, sequence number, RST, SYN, ACK.
    fn refuse(&mut self, now_ns: u64, segment: &Segment, config: &Config) -> Option<Delivery> {
        let is_reset = segment.has(TcpFlags::RST);
        if self.hot.state == State::TimeWait && self.is_incarnation(segment) {
            let events = self.end(Cause::Finished);
            return Some(ended(events, Note::NewIncarnation));
        }
        if !is_reset && let Some(note) = self.old_timestamp(now_ns, segment) {
            return Some(Delivery::note(note));
        }
        if !self.is_acceptable(segment) {
            if !is_reset {
                self.answer_unacceptable(now_ns, segment, config);
            }
            return Some(Delivery::note(match self.is_old(segment) {
                true => Note::Duplicate,
                false => Note::OutsideWindow,
            }));
        }
        if is_reset {
            return Some(self.on_reset(now_ns, segment));
        }
        if segment.has(TcpFlags::SYN) {
            let hot = &self.hot;
            if hot.state == State::SynReceived && !hot.flags.contains(Flags::ACTIVE) {
                let events = self.end(Cause::Reset);
                return Some(ended(events, Note::NewIncarnation));
            }
            self.challenge(now_ns);
            return Some(Delivery::note(Note::Challenged));
        }
        if !segment.has(TcpFlags::ACK) {
            return Some(Delivery::note(Note::Unexpected));
        }
        if let Some(timestamps) = segment.options.timestamps
            && !self.hot.acknowledged.is_before(segment.sequence)
        {
            self.hot.ts_recent = timestamps.value;
        }
        None
    }

    /// A SYN in TIME-WAIT that begins a new connection. RFC 6191, RFC 9293 section 3.6.1.
    fn is_incarnation(&self, segment: &Segment) -> bool {
        let hot = &self.hot;
        let other = TcpFlags::ACK | TcpFlags::RST | TcpFlags::FIN;
        if !segment.has(TcpFlags::SYN) || segment.flags.intersects(other) {
            return false;
        }
        let is_later = hot.rcv_nxt.is_before(segment.sequence);
        match segment.options.timestamps {
            Some(timestamps) if hot.flags.contains(Flags::TIMESTAMPS) => {
                let newer = timestamps.value.wrapping_sub(hot.ts_recent) as i32;
                newer > 0 || (newer == 0 && is_later)
            }
            _ => is_later,
        }
    }

    /// RFC 7323 sections 3.2 and 5.
    fn old_timestamp(&mut self, now_ns: u64, segment: &Segment) -> Option<Note> {
        let hot = &mut self.hot;
        if !hot.flags.contains(Flags::TIMESTAMPS) {
            return None;
        }
        let Some(timestamps) = segment.options.timestamps else {
            return Some(Note::NoTimestamp);
        };
        let age = timestamps.value.wrapping_sub(hot.ts_recent) as i32;
        let is_stale = now_ns.saturating_sub(hot.heard_ns) > TIMESTAMP_LIFE_NS;
        if age >= 0 || is_stale {
            return None;
        }
        if segment.span() > 0 || self.cold.answers.spend(now_ns) {
            self.hot.flags.insert(Flags::ACK_DUE);
        }
        Some(Note::OldTimestamp)
    }

    /// Whether a part of the segment lies in the window. RFC 9293 section 3.10.7.4, first; pure
    /// acknowledgements of a peer that filled the window lie at its edge.
    fn is_acceptable(&self, segment: &Segment) -> bool {
        let hot = &self.hot;
        let (sequence, span) = (segment.sequence, segment.span());
        let begins = !hot.edge.is_before(sequence);
        if sequence == hot.rcv_nxt {
            return true;
        }
        match span {
            0 => begins && !sequence.is_before(hot.rcv_nxt),
            _ => sequence.is_before(hot.edge) && hot.rcv_nxt.is_before(end_of(segment)),
        }
    }

    fn answer_unacceptable(&mut self, now_ns: u64, segment: &Segment, config: &Config) {
        let hot = &mut self.hot;
        let is_first_syn = segment.has(TcpFlags::SYN) && segment.sequence == hot.irs;
        if hot.state == State::SynReceived && is_first_syn && !segment.has(TcpFlags::ACK) {
            // Our answer was lost.
            hot.flags.insert(Flags::SYN_DUE);
            return;
        }
        if hot.state == State::TimeWait && segment.has(TcpFlags::FIN) {
            hot.slow_ns = after(now_ns, config.time_wait_ns);
        }
        if segment.length > 0 {
            self.note_twice(segment.sequence, end_of(segment));
        }
        if segment.span() > 0 || self.cold.answers.spend(now_ns) {
            self.hot.flags.insert(Flags::ACK_DUE);
        }
    }

    /// RFC 5961 section 3.2: only the exact number is believed.
    fn on_reset(&mut self, now_ns: u64, segment: &Segment) -> Delivery {
        if segment.sequence != self.hot.rcv_nxt {
            self.challenge(now_ns);
            return Delivery::note(Note::Challenged);
        }
        let is_active = self.hot.flags.contains(Flags::ACTIVE);
        let events = self.end(match self.hot.state {
            State::SynReceived if is_active => Cause::Refused,
            State::TimeWait => Cause::Finished,
            _ => Cause::Reset,
        });
        Delivery {
            events,
            ..Delivery::default()
        }
    }

    /// RFC 5961 section 7: an acknowledgement, but not too often.
    pub(super) fn challenge(&mut self, now_ns: u64) {
        if self.cold.challenges.spend(now_ns) {
            self.hot.flags.insert(Flags::ACK_DUE);
            self.cold.counts.challenges = self.cold.counts.challenges.saturating_add(1);
        }
    }

    /// In SYN-SENT. RFC 9293 section 3.10.7.3.
    fn on_answer(&mut self, now_ns: u64, segment: &Segment, config: &Config) -> Delivery {
        let hot = &self.hot;
        let acknowledgement = segment.acknowledgement;
        let is_acknowledged = segment.has(TcpFlags::ACK);
        let is_ours = hot.iss.is_before(acknowledgement) && !hot.nxt.is_before(acknowledgement);
        if is_acknowledged && !is_ours {
            if !segment.has(TcpFlags::RST) {
                self.hot.flags.insert(Flags::STRAY_DUE);
                self.cold.stray = acknowledgement;
            }
            return Delivery::note(Note::BadAcknowledgement);
        }
        if segment.has(TcpFlags::RST) {
            if !is_acknowledged {
                return Delivery::note(Note::Unexpected);
            }
            let events = self.end(Cause::Refused);
            return Delivery {
                events,
                ..Delivery::default()
            };
        }
        if !segment.has(TcpFlags::SYN) {
            return Delivery::note(Note::Unexpected);
        }
        self.agree(segment, config);
        if !is_acknowledged {
            self.hot.state = State::SynReceived;
            self.hot.flags.insert(Flags::SYN_DUE);
            return Delivery::default();
        }
        let mut delivery = Delivery::default();
        self.time_acknowledgement(now_ns, segment, config);
        self.hot.una = acknowledgement;
        self.hot.wl2 = acknowledgement;
        delivery.events = self.establish(now_ns, config);
        self.hot.flags.insert(Flags::ACK_DUE);
        self.take(now_ns, segment, config, &mut delivery);
        delivery
    }
}

impl Delivery {
    pub(super) fn note(note: Note) -> Self {
        Self {
            note: Some(note),
            ..Self::default()
        }
    }
}

fn ended(events: Events, note: Note) -> Delivery {
    Delivery {
        events,
        ..Delivery::note(note)
    }
}

/// The number behind a segment.
pub(super) fn end_of(segment: &Segment) -> TcpSequence {
    segment.sequence.wrapping_add(segment.span())
}

/// A timestamp that was kept for longer says nothing: 24 days. RFC 7323 section 5.5.
const TIMESTAMP_LIFE_NS: u64 = 24 * 24 * 3600 * 1_000_000_000;
