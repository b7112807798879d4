//! iperf3's server, one test at a time: a control connection, and the streams that are measured.

mod dialogue;
mod measurement;
mod words;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use warpwire_pipelines::streaming::{Error, Stream};

use super::super::live::Note;
use super::report::Tally;
use measurement::{PATIENCE, Test};
use words::{COOKIE_BYTES, Refusal, State};

/// The server, beside its connections.
pub(super) struct Server {
    /// By the numbers of connections.
    roles: Vec<Role>,
    test: Option<Test>,
    looked: Instant,
    /// What is to be told to who runs the server.
    said: Vec<Note>,
}

/// What a connection is for.
enum Role {
    Absent,
    /// Its cookie will say.
    New {
        cookie: Vec<u8>,
        since: Instant,
    },
    Control,
    /// A stream of the test, by its place there.
    Flow(usize),
    /// Nothing any more, but its peer may not have closed yet.
    Leaving {
        may_break: bool,
    },
}

impl Server {
    pub(super) fn new() -> Self {
        Self {
            roles: Vec::new(),
            test: None,
            looked: Instant::now(),
            said: Vec::new(),
        }
    }

    /// Takes a connection that was accepted.
    pub(super) fn welcome(
        &mut self,
        streams: &mut [Option<Stream>],
        place: usize,
        tally: &mut Tally,
    ) {
        if place >= self.roles.len() {
            self.roles.resize_with(place + 1, || Role::Absent);
        }
        let new = Role::New {
            cookie: Vec::with_capacity(COOKIE_BYTES),
            since: Instant::now(),
        };
        self.set(place, new);
        match &self.test {
            Some(test) if !test.wants_streams() => self.deny(streams, place, tally),
            _ => self.go_on(streams, place, tally),
        }
    }

    /// Does for a connection what can be done now.
    pub(super) fn go_on(
        &mut self,
        streams: &mut [Option<Stream>],
        place: usize,
        tally: &mut Tally,
    ) {
        match self.roles.get_mut(place) {
            Some(Role::New { cookie, .. }) => {
                match read_cookie(&mut streams[..], place, cookie, tally) {
                    Ok(true) => {
                        let cookie = std::mem::take(cookie);
                        self.seat(streams, place, cookie, tally);
                    }
                    Ok(false) => {}
                    Err(Refusal::Left(_)) => self.begin_to_leave(streams, place, false, tally),
                    Err(_) => self.forget(streams, place, tally),
                }
            }
            Some(Role::Control) => self.run(streams, tally, Test::converse),
            Some(Role::Flow(index)) => {
                let index = *index;
                self.run(streams, tally, |test, streams, tally| {
                    test.exchange(index, streams, tally).map(|()| false)
                });
            }
            Some(Role::Leaving { .. }) => self.leave(streams, place, tally),
            Some(Role::Absent) | None => {}
        }
    }

    /// Does what is due by the clock: bytes of streams with a rate, and ends of patience.
    pub(super) fn look(&mut self, streams: &mut [Option<Stream>], tally: &mut Tally) {
        let now = Instant::now();
        if self.test.as_ref().is_some_and(Test::is_paced) {
            self.run(streams, tally, |test, streams, tally| {
                test.fill(streams, tally).map(|()| false)
            });
        }
        if now.duration_since(self.looked) < LOOK_PERIOD {
            return;
        }
        self.looked = now;
        if self.test.is_some() {
            self.run(streams, tally, |test, streams, _| {
                test.look(streams, now).map(|()| false)
            });
        }
        for place in 0..self.roles.len() {
            if let Some(Role::New { since, .. }) = self.roles.get(place)
                && now.duration_since(*since) >= PATIENCE
            {
                self.deny(streams, place, tally);
            }
        }
    }

    /// What is to be told to who runs the server, since the last time.
    pub(super) fn said(&mut self) -> impl Iterator<Item = Note> + '_ {
        self.said.drain(..)
    }

    /// Ends the test, if there is one: the server goes.
    pub(super) fn stop(&mut self, streams: &mut [Option<Stream>]) {
        if let Some(mut test) = self.test.take() {
            test.say(State::ServerTerminate, streams);
        }
    }

    /// Gives a connection its role by its cookie.
    fn seat(
        &mut self,
        streams: &mut [Option<Stream>],
        place: usize,
        cookie: Vec<u8>,
        tally: &mut Tally,
    ) {
        match &mut self.test {
            None => {
                let Some(control) = stream_at(streams, place) else {
                    return;
                };
                self.test = Some(Test::new(place, control.peer(), cookie));
                self.set(place, Role::Control);
                self.run(streams, tally, Test::converse);
            }
            Some(test) if test.wants_streams() && test.has_cookie(&cookie) => {
                let index = test.add(place);
                self.set(place, Role::Flow(index));
                if !self.test.as_ref().is_some_and(Test::wants_streams) {
                    self.run(streams, tally, |test, streams, tally| {
                        test.start(streams, tally)?;
                        Ok(false)
                    });
                }
            }
            Some(_) => self.deny(streams, place, tally),
        }
    }

    /// Goes on with the test, and ends it if it is over or cannot go on.
    fn run(
        &mut self,
        streams: &mut [Option<Stream>],
        tally: &mut Tally,
        act: impl FnOnce(&mut Test, &mut [Option<Stream>], &mut Tally) -> Result<bool, Refusal>,
    ) {
        let Some(test) = &mut self.test else {
            return;
        };
        let outcome = act(test, streams, tally);
        let is_whole = match &outcome {
            Ok(false) => return,
            Ok(true) => true,
            Err(_) => false,
        };
        let (line, facts) = match outcome {
            Ok(_) => test.summary(),
            Err(refusal) => {
                test.refuse(&refusal, streams);
                let why = refusal.to_string();
                let line = format!("ended: {why}");
                (line, Map::from_iter([("error".to_owned(), why.into())]))
            }
        };
        self.said.push(note(test.peer(), &line, facts));
        let places = test.places();
        self.test = None;
        for place in places {
            self.begin_to_leave(streams, place, is_whole, tally);
        }
    }

    /// Sends somebody away, as there is a test already, or no cookie comes.
    fn deny(&mut self, streams: &mut [Option<Stream>], place: usize, tally: &mut Tally) {
        if let Some(stream) = stream_at(streams, place) {
            let why = match &self.test {
                Some(_) => "one test at a time",
                None => "no cookie came",
            };
            let peer = stream.peer();
            let facts = Map::from_iter([("error".to_owned(), why.into())]);
            self.said
                .push(note(peer, &format!("sent away: {why}"), facts));
            // A new connection has room for a byte, or is over.
            let _ = stream.write(&[State::AccessDenied.byte()]);
        }
        self.begin_to_leave(streams, place, false, tally);
    }

    /// Closes a connection; what its peer still says is read, as a reset could overtake the end.
    /// That of a test that came to its end may be broken by its client, which resets what it does
    /// not want to read.
    fn begin_to_leave(
        &mut self,
        streams: &mut [Option<Stream>],
        place: usize,
        may_break: bool,
        tally: &mut Tally,
    ) {
        self.set(place, Role::Leaving { may_break });
        match stream_at(streams, place).map(Stream::close) {
            Some(Ok(())) => self.leave(streams, place, tally),
            _ => self.forget(streams, place, tally),
        }
    }

    fn leave(&mut self, streams: &mut [Option<Stream>], place: usize, tally: &mut Tally) {
        let may_break = self.may_break(place);
        let Some(stream) = stream_at(streams, place) else {
            return;
        };
        let stays = discard(stream).and_then(|_| stream.is_at_end());
        if !matches!(stays, Ok(false)) {
            if let Some(slot) = streams.get_mut(place) {
                *slot = None;
            }
            self.set(place, Role::Absent);
        }
        tally.broken += u64::from(stays.is_err() && !may_break);
    }

    fn forget(&mut self, streams: &mut [Option<Stream>], place: usize, tally: &mut Tally) {
        if let Some(slot) = streams.get_mut(place) {
            *slot = None;
        }
        tally.broken += u64::from(!self.may_break(place));
        self.set(place, Role::Absent);
    }

    fn may_break(&self, place: usize) -> bool {
        let role = self.roles.get(place);
        matches!(role, Some(Role::Leaving { may_break: true }))
    }

    fn set(&mut self, place: usize, role: Role) {
        if let Some(slot) = self.roles.get_mut(place) {
            *slot = role;
        }
    }
}

/// What is told of a client.
fn note(peer: SocketAddr, line: &str, mut facts: Map<String, Value>) -> Note {
    facts.insert("peer".to_owned(), peer.to_string().into());
    Note::with("iperf3", format!("iperf3 {peer}: {line}"), facts)
}

/// The connection of a number.
fn stream_at(streams: &mut [Option<Stream>], place: usize) -> Option<&mut Stream> {
    streams.get_mut(place)?.as_mut()
}

/// Reads a cookie, as far as it came. Whether all of it is there; an error if it never will be.
fn read_cookie(
    streams: &mut [Option<Stream>],
    place: usize,
    cookie: &mut Vec<u8>,
    tally: &mut Tally,
) -> Result<bool, Refusal> {
    let left = || Refusal::Left("before its cookie");
    let stream = stream_at(streams, place).ok_or_else(left)?;
    let missing = COOKIE_BYTES - cookie.len().min(COOKIE_BYTES);
    let came = stream.peek()?;
    let bytes = came.iter().flat_map(|piece| piece.iter());
    let before = cookie.len();
    cookie.extend(bytes.take(missing));
    let count = cookie.len() - before;
    stream.consume(count)?;
    tally.came += count as u64;
    match cookie.len() == COOKIE_BYTES {
        false if stream.is_at_end()? => Err(left()),
        is_whole => Ok(is_whole),
    }
}

/// Throws away what came; how many bytes that was.
fn discard(stream: &mut Stream) -> Result<usize, Error> {
    let came = stream.peek()?.iter().map(|piece| piece.len()).sum();
    stream.consume(came)?;
    Ok(came)
}

/// Time between two looks at what is not urgent.
const LOOK_PERIOD: Duration = Duration::from_millis(50);
