//! Streams that are spliced: each one that is accepted, with one that is opened.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::endpoint::Shared;
use super::super::error::Error;
use super::super::listener::Listener;
use super::super::opening::Opening;
use super::super::stream::Stream;
use super::layout::Layout;

/// A stream that was accepted and could not be spliced. It is closed.
#[derive(Debug)]
pub struct Unspliced {
    /// Who connected.
    pub peer: SocketAddr,
    /// Why no stream to the target came about.
    pub error: Error,
}

/// Streams whose partners are being opened.
pub(super) struct Splices {
    to: SocketAddr,
    patience: Duration,
    waiting: Vec<Waiting>,
    failed: u64,
    failures: Vec<Unspliced>,
}

struct Waiting {
    near: Stream,
    opening: Opening,
    /// Once it is there, until a kernel is told of both.
    far: Option<Stream>,
    since: Instant,
}

/// What becomes of a stream that waits.
enum Fate {
    Waits,
    Spliced,
    Gone,
    Failed(Unspliced),
}

impl Splices {
    pub(super) const fn new(to: SocketAddr, patience: Duration) -> Self {
        Self {
            to,
            patience,
            waiting: Vec::new(),
            failed: 0,
            failures: Vec::new(),
        }
    }

    /// Accepts who came, and goes on with those that wait. Says whether something came of it.
    pub(super) fn step(
        &mut self,
        shared: &Arc<Shared>,
        listeners: &[Listener],
        layout: &Layout,
    ) -> Result<bool, Error> {
        let mut busy = false;
        for listener in listeners {
            while let Some(near) = listener.try_accept()? {
                let (block, _) = shared.table.split(near.number());
                self.waiting.push(Waiting {
                    near,
                    opening: Opening::new(shared, self.to, Some(block)),
                    far: None,
                    since: Instant::now(),
                });
                busy = true;
            }
        }
        for mut waiting in std::mem::take(&mut self.waiting) {
            match waiting.go_on(shared, layout, self.patience)? {
                Fate::Waits => {
                    self.waiting.push(waiting);
                    continue;
                }
                Fate::Spliced => waiting.lend(),
                Fate::Gone => {}
                Fate::Failed(failure) => {
                    self.failed += 1;
                    if self.failures.len() < MOST_FAILURES {
                        self.failures.push(failure);
                    }
                }
            }
            busy = true;
        }
        Ok(busy)
    }

    /// How many could not be spliced.
    pub(super) const fn failed(&self) -> u64 {
        self.failed
    }

    /// Those that could not be spliced since the last time; of very many, the first.
    pub(super) fn take_failures(&mut self) -> Vec<Unspliced> {
        std::mem::take(&mut self.failures)
    }

    /// Whether the engine still has to say which connection it opened.
    pub(super) fn are_asked_for(&self) -> bool {
        self.waiting.iter().any(|one| one.opening.is_asked_for())
    }

    /// Gives up those that wait.
    pub(super) fn give_up(&mut self) {
        self.waiting.clear();
    }
}

impl Waiting {
    fn go_on(
        &mut self,
        shared: &Arc<Shared>,
        layout: &Layout,
        patience: Duration,
    ) -> Result<Fate, Error> {
        let is_asked_for = self.opening.is_asked_for();
        if self.far.is_none() {
            let peer = self.near.peer();
            self.far = match self.opening.go_on() {
                Ok(far) => far,
                Err(error) => return Ok(Fate::Failed(Unspliced { peer, error })),
            };
            let is_late = self.since.elapsed() >= patience && !is_asked_for;
            if self.far.is_none() && is_late {
                let error = Error::Deadline {
                    what: "the target did not answer",
                    waited: patience,
                };
                return Ok(Fate::Failed(Unspliced { peer, error }));
            }
        }
        // Who connected is gone.
        if self.near.is_over()? && !self.opening.is_asked_for() {
            return Ok(Fate::Gone);
        }
        let Some(far) = &self.far else {
            return Ok(Fate::Waits);
        };
        let numbers = [self.near.number(), far.number()].map(|number| shared.table.split(number));
        let [(block, _), (other, _)] = numbers;
        let laid = layout.each.get(block).filter(|_| block == other);
        let Some(pairs) = laid.and_then(|laid| laid.pairs) else {
            // An engine opens its own connections.
            return Ok(Fate::Gone);
        };
        let names = [
            (numbers[0].1, self.near.generation()?),
            (numbers[1].1, far.generation()?),
        ];
        Ok(match pairs.push(&layout.arena, names)? {
            true => Fate::Spliced,
            false => Fate::Waits,
        })
    }

    /// A kernel has both from now on.
    fn lend(mut self) {
        for stream in [Some(&mut self.near), self.far.as_mut()]
            .into_iter()
            .flatten()
        {
            stream.is_lent = true;
        }
    }
}

/// Failures that wait to be asked for.
const MOST_FAILURES: usize = 64;
