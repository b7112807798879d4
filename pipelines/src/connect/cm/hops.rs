//! Next hops of peers, asked for without waiting.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use warpwire_nic::neighbor;
use warpwire_protocols::wire::Gid;

use crate::messaging::{Error, Place, route};

/// Who takes packets on to whom.
#[derive(Default)]
pub(super) struct Hops {
    /// The newest last.
    known: VecDeque<Hop>,
    asked: VecDeque<(Gid, Instant)>,
}

struct Hop {
    there: Gid,
    next_hop: [u8; 6],
    since: Instant,
}

impl Hops {
    /// The next hop towards a peer; if nobody knows it, the kernel is made to ask.
    ///
    /// # Errors
    /// There is no way to the peer from here.
    pub(super) fn find(&mut self, place: &Place, there: Gid) -> Result<Option<[u8; 6]>, Error> {
        self.known.retain(|hop| hop.since.elapsed() < FRESH);
        if let Some(hop) = self.known.iter().find(|hop| hop.there == there) {
            return Ok(Some(hop.next_hop));
        }
        let route = route(place, there)?;
        if let Some(next_hop) = neighbor::known(&route)? {
            if self.known.len() == MOST {
                self.known.pop_front();
            }
            self.known.push_back(Hop {
                there,
                next_hop,
                since: Instant::now(),
            });
            return Ok(Some(next_hop));
        }
        self.asked
            .retain(|(_, since)| since.elapsed() < neighbor::ASK_PERIOD);
        let is_asked = self.asked.iter().any(|(asked, _)| *asked == there);
        if !is_asked && self.asked.len() < MOST {
            neighbor::ask(&route)?;
            self.asked.push_back((there, Instant::now()));
        }
        Ok(None)
    }
}

/// How long an answer of the kernel's tables is used.
const FRESH: Duration = Duration::from_secs(10);
/// Peers that are known, or asked for, at a time.
const MOST: usize = 256;
