//! Which of numbered records came: a window over their numbers, as bits.

/// A window of `WORDS * 64` records, `WORDS` a power of two, or of fewer. Behind it everything is
/// settled; ahead of it nothing came.
///
/// Numbers of fewer than 64 bits go on from their largest to 0: a record is taken to be the one of
/// its number that is nearest to those that came last. What is told are numbers that go on for
/// ever, of which the number of the record is the low bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Window<const WORDS: usize> {
    /// Everything before this is settled.
    base: u64,
    /// Nothing from this on came.
    top: u64,
    /// Bit `number % (WORDS * 64)`: it came, for numbers from base on.
    came: [u64; WORDS],
    counts: Counts,
    /// Records in a row that were late.
    late_in_row: u32,
    bits: u32,
    /// Records that it holds.
    span: u32,
    is_started: bool,
}

/// What came of the records of a window, since its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(C)]
pub struct Counts {
    /// Came for the first time, and in time.
    pub fresh: u64,
    /// Came again, while the window was there.
    pub duplicates: u64,
    /// Came when the window had passed them, for the first time or again.
    pub late: u64,
    /// Did not come before the window passed them.
    pub missing: u64,
}

/// What a record is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offered {
    /// Its payload is to be placed by this number.
    Fresh(u64),
    /// It came before; its payload is not to be looked at.
    Duplicate,
    /// The window has passed it; its payload is not to be looked at.
    Late,
    /// It is ahead of the window, and was not taken: it is to be offered again after
    /// [`Window::make_room`] for this number has told everything.
    Ahead(u64),
}

/// Records that are settled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The number of the first.
    pub from: u64,
    /// How many they are, one at least.
    pub count: u64,
    /// They came; otherwise they did not, and will not be taken any more.
    pub came: bool,
}

/// A window over nothing, over more than its bits, or over more than half of all numbers: what is
/// ahead cannot be told from what is late.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpanTooLong;

impl<const WORDS: usize> Window<WORDS> {
    /// The most records that the window can hold.
    pub const SPAN: u64 = {
        assert!(WORDS.is_power_of_two());
        WORDS as u64 * 64
    };

    /// A window over numbers of `bits` bits, 1 to 64. It begins with the record that comes first:
    /// what was sent before that is late.
    ///
    /// # Errors
    /// [`SpanTooLong`].
    pub const fn new(bits: u32) -> Result<Self, SpanTooLong> {
        Self::with_span(bits, Self::SPAN as u32)
    }

    /// [`new`](Self::new), over `span` records, 1 to [`SPAN`](Self::SPAN).
    ///
    /// # Errors
    /// [`SpanTooLong`].
    pub const fn with_span(bits: u32, span: u32) -> Result<Self, SpanTooLong> {
        let is_legal = span > 0 && span as u64 <= Self::SPAN && bits > 0 && bits <= 64;
        if !is_legal || span as u64 > 1 << (bits - 1) {
            return Err(SpanTooLong);
        }
        Ok(Self {
            base: 0,
            top: 0,
            came: [0; WORDS],
            counts: Counts {
                fresh: 0,
                duplicates: 0,
                late: 0,
                missing: 0,
            },
            late_in_row: 0,
            bits,
            span,
            is_started: false,
        })
    }

    /// The window begins anew with this number, as when a sensor was switched on again. What was
    /// not settled is forgotten: [`flush`](Self::flush) tells it before.
    pub const fn start(&mut self, number: u64) {
        self.base = number;
        self.top = number;
        self.came = [0; WORDS];
        self.late_in_row = 0;
        self.is_started = true;
    }

    /// Everything before this number is settled.
    pub const fn base(&self) -> u64 {
        self.base
    }

    /// What came of the records.
    pub const fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many of the last records were late, one after the other: many say that the sensor counts
    /// anew.
    pub const fn late_in_row(&self) -> u32 {
        self.late_in_row
    }

    /// Records that it holds.
    pub const fn span(&self) -> u32 {
        self.span
    }

    /// Everything from this number on did not come.
    pub const fn top(&self) -> u64 {
        self.top
    }

    /// Whether a record was offered yet, or a beginning was set.
    pub const fn is_started(&self) -> bool {
        self.is_started
    }

    /// The number that goes on for ever of a record that says this one; `None` if the window has
    /// passed it, or did not begin.
    pub fn place_of(&self, number: u64) -> Option<u64> {
        let number = self.extended(number).filter(|_| self.is_started)?;
        (number >= self.base).then_some(number)
    }

    /// A record with this number came; of a number, the low bits count.
    pub fn offer(&mut self, number: u64) -> Offered {
        if !self.is_started {
            self.start(number & self.mask());
        }
        let number = self.extended(number).filter(|number| *number >= self.base);
        let Some(number) = number else {
            self.counts.late += 1;
            self.late_in_row = self.late_in_row.saturating_add(1);
            return Offered::Late;
        };
        if number - self.base >= u64::from(self.span) {
            return Offered::Ahead(number);
        }
        self.late_in_row = 0;
        let bit = 1 << (number % 64);
        let word = self.came.get_mut(word_of::<WORDS>(number));
        if let Some(word) = word {
            if *word & bit != 0 {
                self.counts.duplicates += 1;
                return Offered::Duplicate;
            }
            *word |= bit;
        }
        self.counts.fresh += 1;
        self.top = self.top.max(number.saturating_add(1));
        Offered::Fresh(number)
    }

    /// The next records that came and before which everything is settled; `None` once the oldest
    /// that is not settled is missing.
    pub fn settle(&mut self) -> Option<Run> {
        self.advance(self.base)
    }

    /// Moves the window so that this number is in it: tells what that settles, a run at a time,
    /// until it is done.
    pub fn make_room(&mut self, number: u64) -> Option<Run> {
        self.advance(number.saturating_sub(u64::from(self.span) - 1))
    }

    /// Settles everything before this number: what of it is missing did not come in time. A run at
    /// a time, until it is done.
    pub fn give_up(&mut self, before: u64) -> Option<Run> {
        self.advance(before)
    }

    /// Settles everything up to the last record that came: the rest did not come in time. A run at
    /// a time, until it is done.
    pub fn flush(&mut self) -> Option<Run> {
        self.advance(self.top)
    }

    /// Tells the next run; of what is missing, not beyond `target`.
    fn advance(&mut self, target: u64) -> Option<Run> {
        let from = self.base;
        let present = self.run(|word| word.trailing_ones());
        if present != 0 {
            self.clear(present);
            self.base = from + present;
            let (count, came) = (present, true);
            return Some(Run { from, count, came });
        }
        let wanted = target.saturating_sub(from);
        let count = match self.top > from {
            true => wanted.min(self.run(|word| word.trailing_zeros())),
            false => wanted,
        };
        if count == 0 {
            return None;
        }
        self.base = from + count;
        self.top = self.top.max(self.base);
        self.counts.missing += count;
        let came = false;
        Some(Run { from, count, came })
    }

    /// How many bits from base on are alike, by a function that counts them from the lowest on. Not
    /// beyond top.
    fn run(&self, alike: impl Fn(u64) -> u32) -> u64 {
        let most = self.top.saturating_sub(self.base);
        let (mut at, mut count) = (self.base, 0);
        while count < most {
            let word = self.came.get(word_of::<WORDS>(at)).copied().unwrap_or(0);
            let left = 64 - (at % 64) as u32;
            // Bits that are shifted in are zeros, and are not counted.
            let found = alike(word >> (at % 64)).min(left);
            count += u64::from(found);
            if found < left {
                break;
            }
            at = at.saturating_add(u64::from(left));
        }
        count.min(most)
    }

    /// Takes the first `count` bits away.
    fn clear(&mut self, count: u64) {
        let (mut at, end) = (self.base, self.base.saturating_add(count));
        while at < end {
            let bits = (64 - at % 64).min(end - at);
            let mask = u64::MAX >> (64 - bits) << (at % 64);
            if let Some(word) = self.came.get_mut(word_of::<WORDS>(at)) {
                *word &= !mask;
            }
            at += bits;
        }
    }

    const fn mask(&self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The number that goes on for ever, nearest to top; `None` before the beginning of numbers.
    fn extended(&self, number: u64) -> Option<u64> {
        let unused = 64 - self.bits;
        let ahead = number.wrapping_sub(self.top) << unused;
        self.top.checked_add_signed(ahead as i64 >> unused)
    }
}

const fn word_of<const WORDS: usize>(number: u64) -> usize {
    (number / 64) as usize & (WORDS - 1)
}

#[cfg(test)]
mod tests;
