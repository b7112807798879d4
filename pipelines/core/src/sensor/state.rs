//! What becomes of a record, by its number alone; by the leader of a warp.

use warpwire_protocols::stream::samples::{Offered, SpanTooLong, Window};

use super::block::{Gap, SensorState, Why};

/// What the host and the block allow.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) rows: u64,
    /// Positions before this were given back.
    pub(super) consumed: u64,
    pub(super) far_limit: u32,
    pub(super) late_limit: u32,
}

/// What is to be done about a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Step {
    /// It has the row of this position.
    Place(u64),
    /// It is dropped, or waits if the reason is [`Why::Full`].
    Drop(Why),
    /// Everything before this number is to be settled; then the record is judged again.
    Settle(u64),
    /// Everything is to be settled and the window to begin anew here; then it is judged again.
    Restart(u64),
}

impl SensorState {
    /// A window over `span` records with numbers of `bits` bits, that begins with `first`, or else
    /// with the record that comes first.
    ///
    /// # Errors
    /// [`SpanTooLong`].
    pub fn new(bits: u32, span: u32, first: Option<u64>) -> Result<Self, SpanTooLong> {
        let mut state = Self {
            window: Window::with_span(bits, span)?,
            shift: 0,
            mark: 0,
            since_ns: 0,
            far_in_row: 0,
            reserved: 0,
        };
        if let Some(first) = first {
            state.begin(first);
        }
        Ok(state)
    }

    fn begin(&mut self, number: u64) {
        let position = self.whole();
        self.window.start(number);
        self.shift = position.wrapping_sub(number);
        self.since_ns = 0;
        self.far_in_row = 0;
    }

    /// Positions before this are settled.
    pub(super) const fn whole(&self) -> u64 {
        self.window.base().wrapping_add(self.shift)
    }

    /// The position of a number.
    pub(super) const fn position(&self, number: u64) -> u64 {
        number.wrapping_add(self.shift)
    }

    /// What is to be done about a record with this number.
    pub(super) fn judge(&mut self, number: u64, limits: &Limits) -> Step {
        if !self.window.is_started() {
            self.begin(number);
        }
        let Some(place) = self.window.place_of(number) else {
            if limits.late_limit != 0 && self.window.late_in_row() >= limits.late_limit {
                return Step::Restart(number);
            }
            self.window.offer(number);
            return Step::Drop(Why::Late);
        };
        if place - self.window.base() >= limits.rows {
            if self.far_in_row >= limits.far_limit {
                return Step::Restart(place);
            }
            self.far_in_row += 1;
            return Step::Drop(Why::Early);
        }
        let position = self.position(place);
        if position.wrapping_sub(limits.consumed) >= limits.rows {
            return Step::Drop(Why::Full);
        }
        match self.window.offer(number) {
            Offered::Fresh(_) => {
                self.far_in_row = 0;
                Step::Place(position)
            }
            Offered::Duplicate => Step::Drop(Why::Doubled),
            Offered::Late => Step::Drop(Why::Late),
            Offered::Ahead(place) => {
                let span = u64::from(self.window.span());
                Step::Settle(place.saturating_sub(span.saturating_sub(1)))
            }
        }
    }

    /// Begins anew with a number, after everything was settled. What is between is a gap without
    /// rows.
    pub(super) fn restart(&mut self, number: u64) -> Gap {
        let (base, position) = (self.window.base(), self.whole());
        let ahead = number.checked_sub(base);
        self.begin(number);
        Gap {
            first: if ahead.is_some() { base } else { number },
            count: ahead.unwrap_or(0),
            position,
            rows: 0,
        }
    }

    /// Before which number everything is to be settled because its time has passed, after what
    /// came was settled.
    pub(super) fn due(&mut self, now_ns: u64, patience_ns: u64) -> Option<u64> {
        let (base, top) = (self.window.base(), self.window.top());
        if top <= base {
            self.since_ns = 0;
            return None;
        }
        let waited = now_ns.saturating_sub(self.since_ns) >= patience_ns;
        let is_watched = self.since_ns != 0 && self.mark > base;
        let due = (is_watched && waited).then_some(self.mark);
        if due.is_some() || !is_watched {
            self.since_ns = now_ns.max(1);
            self.mark = top;
        }
        due
    }
}
