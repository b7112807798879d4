//! Files over HTTP/1.1: RFC 9110 and RFC 9112.
#![expect(
    unsafe_code,
    reason = "the parser of a seat lies where the host gave memory for it"
)]

use warpwire_device::{Piece, Simt, Solo};
use warpwire_protocols::stream::http::{
    CONTINUE, FieldValue, Head, Method, Parser, Progress, Request, Status, Version, date,
};
use warpwire_ring::DeviceAddress;

use super::block::{LAST, Stand};
use super::server::{Counted, Outcome, Server};
use crate::streaming::{Extent, Stream};

impl Server<'_> {
    /// *Collective.* Answers requests, one after the other.
    pub(super) fn converse<S: Simt>(
        &self,
        simt: &S,
        stream: &mut Stream,
        (stand, parser): (&mut Stand, DeviceAddress),
        counted: &mut Counted,
    ) -> Outcome {
        if stream.most_writable() < HEAD_BYTES as u32 {
            // A head would never fit.
            return Outcome::Over;
        }
        let mut left = self.block.share;
        loop {
            if !self.speak(simt, stream, stand, (&mut left, counted)) {
                // Who has no room is told when there is some.
                let is_held = left == 0 && stream.writable() > 0;
                return if is_held {
                    Outcome::Again
                } else {
                    Outcome::Waits
                };
            }
            if stand.flags & LAST != 0 {
                return farewell(simt, stream, stand);
            }
            let unread = stream.unread().up_to(left);
            let is_all = unread.length() == stream.readable();
            let consumed = self.hear(simt, &unread, (stand, parser));
            stream.consume(simt, consumed);
            counted.came += u64::from(consumed);
            left = left.saturating_sub(consumed.max(LEAST_COST));
            if stand.say != 0 {
                continue;
            }
            return match (is_all, stream.is_at_end()) {
                (false, _) => Outcome::Again,
                (true, true) => {
                    stream.close(simt);
                    Outcome::Over
                }
                (true, false) => Outcome::Waits,
            };
        }
    }

    /// *Collective.* Says what is to be said, as far as there is room and as `left` allows. Whether
    /// that was all.
    fn speak<S: Simt>(
        &self,
        simt: &S,
        stream: &mut Stream,
        stand: &mut Stand,
        (left, counted): (&mut u32, &mut Counted),
    ) -> bool {
        if stand.say != 0 {
            if *left == 0 || stream.writable() < HEAD_BYTES as u32 {
                return false;
            }
            let count = self.say(simt, stream, stand);
            *left = left.saturating_sub(count);
            counted.left += u64::from(count);
            if stand.say != SAY_CONTINUE {
                counted.answers += 1;
                counted.refusals += u64::from(stand.file == NONE);
            }
            stand.say = 0;
        }
        while stand.left > 0 {
            let most = u64::from(*left).min(stand.left) as u32;
            let count = self.write_content(simt, stream, stand, most);
            if count == 0 {
                return false;
            }
            stand.content = stand.content.offset(u64::from(count));
            stand.left -= u64::from(count);
            *left -= count;
            counted.left += u64::from(count);
        }
        true
    }

    fn write_content<S: Simt>(
        &self,
        simt: &S,
        stream: &mut Stream,
        stand: &Stand,
        most: u32,
    ) -> u32 {
        let Some(site) = &self.site else {
            return 0;
        };
        let content = site.content(stand.content, stand.left);
        let piece = content.piece(0, most).unwrap_or(Piece::EMPTY);
        stream.write(simt, &piece.into())
    }

    /// *Collective.* Writes a head, and the content of an answer without a file. What follows it is
    /// then in the seat. Returns how many bytes it wrote.
    fn say<S: Simt>(&self, simt: &S, stream: &mut Stream, stand: &mut Stand) -> u32 {
        let mut count = 0;
        let (mut content, mut left) = (DeviceAddress::NULL, 0);
        if simt.is_leader() {
            let mut buffer = [0; HEAD_BYTES];
            count = match stand.say {
                SAY_CONTINUE => put(&mut buffer, 0, CONTINUE),
                _ => self.compose(simt.now_ns(), stand, &mut buffer),
            };
            let words = buffer.get(..count).unwrap_or_default();
            count = stream.room().fill(&Solo(simt), words) as usize;
            let file = self.site.as_ref().and_then(|site| site.file(stand.file));
            if let Some(file) = file.filter(|_| stand.say & HAS_CONTENT != 0) {
                (content, left) = (file.content, file.bytes);
            }
        }
        stand.content = DeviceAddress::new(simt.shuffle_u64(content.value(), 0));
        stand.left = simt.shuffle_u64(left, 0);
        if stand.say & (SAY_CONTINUE | PERSISTS) == 0 {
            stand.flags |= LAST;
        }
        let count = simt.shuffle(count as u32, 0);
        stream.commit(simt, count);
        count
    }

    /// The leader's part: a head, and the content of an answer without a file.
    fn compose(&self, now_ns: u64, stand: &Stand, buffer: &mut [u8; HEAD_BYTES]) -> usize {
        let number = stand.say & STATUS;
        let status = Status::ALL
            .into_iter()
            .find(|status| u32::from(status.code()) == number);
        let status = status.unwrap_or(Status::NotFound);
        let site = self.site.as_ref();
        let file = site.and_then(|site| site.file(stand.file));
        let words = status.reason().as_bytes();
        let (length, media) = match &file {
            Some(file) => (file.bytes, file.media),
            None => (words.len() as u64, &b"text/plain"[..]),
        };
        let since = match self.block.epoch_ns {
            u64::MAX => None,
            epoch_ns => Some(date(epoch_ns.wrapping_add(now_ns) / SECOND_NS)),
        };
        let head = Head {
            status,
            length,
            media_type: FieldValue::new(media),
            date: since.as_ref(),
            version: match stand.say & HTTP_10 {
                0 => Version::Http11,
                _ => Version::Http10,
            },
            persists: stand.say & PERSISTS != 0,
        };
        // Media types are short: a head always fits.
        let count = head.emit(buffer).unwrap_or(0);
        match file.is_none() && stand.say & HAS_CONTENT != 0 {
            true => put(buffer, count, words),
            false => count,
        }
    }

    /// *Collective.* Reads on. What is to be said then is in the seat. Returns how many bytes were
    /// taken.
    fn hear<S: Simt>(
        &self,
        simt: &S,
        unread: &Extent<'_>,
        (stand, parser): (&mut Stand, DeviceAddress),
    ) -> u32 {
        let (mut consumed, mut say, mut file) = (0, 0, NONE);
        if simt.is_leader() {
            // SAFETY: the seat's parser, which was written when the stream was accepted; the leader
            // alone touches it.
            let parser = unsafe { &mut *(parser.value() as *mut Parser) };
            let taken = parser.take(unread, 0, &self.block.limits);
            consumed = taken.consumed;
            (say, file) = match taken.progress {
                Progress::NeedMore => (0, NONE),
                Progress::Continue => (SAY_CONTINUE, NONE),
                Progress::Whole => self.answer(parser),
                Progress::Refused(status) => (u32::from(status.code()) | HAS_CONTENT, NONE),
            };
        }
        stand.say = simt.shuffle(say, 0);
        stand.file = simt.shuffle(file, 0);
        simt.shuffle(consumed, 0)
    }

    /// The leader's part: what is said to a whole request. The parser waits for the next one then.
    fn answer(&self, parser: &mut Parser) -> (u32, u32) {
        let Some(request) = parser.request() else {
            return (0, NONE);
        };
        let Request {
            method,
            version,
            persists,
            ..
        } = request;
        let site = self.site.as_ref();
        let (status, file) = match request.answer {
            Some(status) => (status, NONE),
            None => match site.and_then(|site| site.find(request.path)) {
                Some(file) => (Status::Ok, file),
                None => (Status::NotFound, NONE),
            },
        };
        parser.begin();
        let bit = |is_set: bool, bit: u32| if is_set { bit } else { 0 };
        let say = u32::from(status.code())
            | bit(method != Method::Head, HAS_CONTENT)
            | bit(version == Version::Http10, HTTP_10)
            | bit(persists, PERSISTS);
        (say, file)
    }
}

/// *Collective.* The end follows the last answer; what the client still says is read, as a reset
/// could overtake the answer.
fn farewell<S: Simt>(simt: &S, stream: &mut Stream, stand: &mut Stand) -> Outcome {
    if !stream.is_closed() {
        stream.close(simt);
    }
    let came = stream.readable();
    stream.consume(simt, came);
    stand.ignored += u64::from(came);
    match stream.is_at_end() || stand.ignored >= MOST_IGNORED {
        true => Outcome::Over,
        false => Outcome::Waits,
    }
}

/// Puts text at an offset, as far as it fits. Returns the offset behind it.
fn put(buffer: &mut [u8; HEAD_BYTES], at: usize, text: &[u8]) -> usize {
    for (to, from) in buffer.iter_mut().skip(at).zip(text) {
        *to = *from;
    }
    (at + text.len()).min(HEAD_BYTES)
}

/// In [`Stand::say`]: the three digits.
const STATUS: u32 = 0x3ff;
/// The client is told to send the content of its request.
const SAY_CONTINUE: u32 = 1 << 16;
/// The client gets the content, not the head alone.
const HAS_CONTENT: u32 = 1 << 17;
/// The client speaks HTTP/1.0.
const HTTP_10: u32 = 1 << 18;
/// The connection goes on.
const PERSISTS: u32 = 1 << 19;
const NONE: u32 = u32::MAX;
/// Bytes of the longest head, with the content of an answer without a file.
const HEAD_BYTES: usize = 512;
/// What a request costs of a share at least.
const LEAST_COST: u32 = 64;
/// Bytes that a client may still send after the last answer.
const MOST_IGNORED: u64 = 1 << 16;
const SECOND_NS: u64 = 1_000_000_000;
