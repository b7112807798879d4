//! Places of queue pairs that nobody has: connections come and go in the same memory.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpwire_core::messaging::Cursor;

use super::table::PairPlaces;

/// A place that nobody has.
pub(super) struct Vacancy {
    /// Which one.
    pub(super) place: usize,
    pub(super) places: PairPlaces,
    /// Where its queues stood.
    pub(super) cursor: Cursor,
    /// The engine owes the answer with this number.
    pub(super) owed: Option<u32>,
}

/// The places that nobody has, the one that is free for longest first. Clones are the same.
#[derive(Clone)]
pub(super) struct Vacancies {
    list: Arc<Mutex<VecDeque<Vacancy>>>,
}

impl Vacancies {
    pub(super) fn new(places: &[PairPlaces]) -> Self {
        let list = places.iter().enumerate().map(|(place, places)| Vacancy {
            place,
            places: *places,
            cursor: Cursor::default(),
            owed: None,
        });
        Self {
            list: Arc::new(Mutex::new(list.collect())),
        }
    }

    pub(super) fn take(&self) -> Option<Vacancy> {
        self.list().pop_front()
    }

    pub(super) fn give(&self, vacancy: Vacancy) {
        self.list().push_back(vacancy);
    }

    fn list(&self) -> MutexGuard<'_, VecDeque<Vacancy>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
