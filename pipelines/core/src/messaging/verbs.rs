//! The verbs by their names: each posts one request for every lane that calls it with one.

use warpwire_device::Simt;
use warpwire_ring::Cause;
use warpwire_ring::mlx5::post::{Gather, Payload};

use super::channel::{Channel, Ticket};
use super::request::{Remote, Request, Signal, Update};

impl Channel {
    /// *Collective.* Writes registered bytes into memory of the peer; none is a put of nothing.
    /// Every lane puts its own: see [`Channel::post`] where some have nothing to put.
    ///
    /// # Errors
    /// As [`Channel::post`].
    #[inline(always)]
    pub fn put<S: Simt>(
        &mut self,
        simt: &S,
        local: Gather,
        remote: Remote,
    ) -> Result<Option<Ticket>, Cause> {
        let pieces = [local];
        let request = Request::put(Payload::Pieces(there(&pieces)), remote);
        self.post(simt, Some(&request))
    }

    /// *Collective.* Writes bytes that are copied into the queue: they may change at once.
    ///
    /// # Errors
    /// As [`Channel::post`].
    #[inline(always)]
    pub fn put_inline<S: Simt>(
        &mut self,
        simt: &S,
        bytes: &[u8],
        remote: Remote,
    ) -> Result<Option<Ticket>, Cause> {
        let request = Request::put(Payload::Inline(bytes), remote);
        self.post(simt, Some(&request))
    }

    /// *Collective.* [`Channel::put`], and a signal that follows it.
    ///
    /// # Errors
    /// As [`Channel::post`]: both are posted or none.
    #[inline(always)]
    pub fn put_signal<S: Simt>(
        &mut self,
        simt: &S,
        local: Gather,
        remote: Remote,
        signal: Signal,
    ) -> Result<Option<Ticket>, Cause> {
        let pieces = [local];
        let request = Request::put(Payload::Pieces(there(&pieces)), remote).then(signal);
        self.post(simt, Some(&request))
    }

    /// *Collective.* A signal by itself: it says of earlier puts what one that follows a put says.
    ///
    /// # Errors
    /// As [`Channel::post`].
    #[inline(always)]
    pub fn signal<S: Simt>(&mut self, simt: &S, signal: Signal) -> Result<Option<Ticket>, Cause> {
        let bytes;
        let scratch = [self.scratch];
        let request = match signal.update {
            Update::Set(value) => {
                bytes = value.to_le_bytes();
                Request::put(Payload::Inline(&bytes), signal.at)
            }
            Update::Add(value) => Request::fetch_add(signal.at, value, there(&scratch)),
        };
        self.post(simt, Some(&request))
    }

    /// *Collective.* Reads memory of the peer into registered bytes of one's own. They are there
    /// when the request is complete.
    ///
    /// # Errors
    /// As [`Channel::post`].
    #[inline(always)]
    pub fn get<S: Simt>(
        &mut self,
        simt: &S,
        remote: Remote,
        local: Gather,
    ) -> Result<Option<Ticket>, Cause> {
        let pieces = [local];
        self.post(simt, Some(&Request::get(remote, there(&pieces)).tracked()))
    }

    /// *Collective.* Adds to an aligned word of the peer's. What was there is in the eight bytes of
    /// `found` when the request is complete.
    ///
    /// # Errors
    /// As [`Channel::post`].
    #[inline(always)]
    pub fn fetch_add<S: Simt>(
        &mut self,
        simt: &S,
        remote: Remote,
        value: u64,
        found: Gather,
    ) -> Result<Option<Ticket>, Cause> {
        let pieces = [found];
        let request = Request::fetch_add(remote, value, there(&pieces)).tracked();
        self.post(simt, Some(&request))
    }

    /// *Collective.* Replaces an aligned word of the peer's by `value` if it is `compare`. What was
    /// there is in the eight bytes of `found` when the request is complete.
    ///
    /// # Errors
    /// As [`Channel::post`].
    #[inline(always)]
    pub fn compare_swap<S: Simt>(
        &mut self,
        simt: &S,
        remote: Remote,
        (compare, value): (u64, u64),
        found: Gather,
    ) -> Result<Option<Ticket>, Cause> {
        let pieces = [found];
        let request = Request::compare_swap(remote, compare, value, there(&pieces)).tracked();
        self.post(simt, Some(&request))
    }

    /// *Collective.* Sends registered bytes into the peer's next receive, with 32 bits for its
    /// completion, such as a tag.
    ///
    /// # Errors
    /// As [`Channel::post`].
    #[inline(always)]
    pub fn send<S: Simt>(
        &mut self,
        simt: &S,
        local: Gather,
        immediate: Option<u32>,
    ) -> Result<Option<Ticket>, Cause> {
        let pieces = [local];
        let request = Request::send(Payload::Pieces(there(&pieces)), immediate);
        self.post(simt, Some(&request))
    }

    /// *Collective.* Posts a receive of one piece for every lane; one of no bytes takes messages
    /// without any.
    ///
    /// # Errors
    /// As [`Channel::post_receive`].
    #[inline(always)]
    pub fn receive<S: Simt>(&mut self, simt: &S, local: Gather) -> Result<Option<u64>, Cause> {
        let pieces = [local];
        self.post_receive(simt, Some(there(&pieces)))
    }
}

/// A piece, or none if it has no bytes.
#[inline(always)]
fn there(piece: &[Gather; 1]) -> &[Gather] {
    let [one] = piece;
    if one.length == 0 { &[] } else { piece }
}
