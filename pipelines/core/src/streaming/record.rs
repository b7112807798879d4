//! Whole records out of a stream, and into it.

use warpwire_device::{Simt, Wait};
use warpwire_protocols::stream::framing::{Framing, Next, Record, Wrong};
use warpwire_ring::Cause;

use super::extent::Extent;
use super::stream::Stream;
use crate::messaging::Progress;

impl Stream {
    /// *Collective.* Looks, and says what stands next. A record begins at [`Record::at`] of
    /// [`Stream::unread`]; who is done with it consumes up to [`Record::end`].
    pub fn record<S: Simt>(&mut self, simt: &S, framing: &Framing) -> Next {
        let unread = self.peek(simt);
        framing.next(&unread, 0)
    }

    /// *Collective.* Waits for a record. `None` at the end of the stream.
    ///
    /// # Errors
    /// [`Cause::BadResponse`] if the stream is not framed like this; [`Cause::FrameTooLong`] if
    /// the receive ring does not hold the record; [`Cause::LocalLength`] if the stream ends within
    /// it; how the stream ended; what ends waits.
    pub fn wait_record<S: Simt, P: Progress>(
        &mut self,
        simt: &S,
        framing: &Framing,
        wait: &Wait,
        progress: &mut P,
    ) -> Result<Option<Record>, Cause> {
        self.until(simt, wait, progress, |stream, simt| {
            let (readable, most) = (stream.readable(), stream.most_readable());
            match framing.next(&stream.unread(), 0) {
                Next::Record(record) => Some(Ok(Some(record))),
                Next::Wrong(_) => Some(Err(Cause::BadResponse)),
                Next::NeedMore { bytes } if most != 0 && most - readable < bytes => {
                    Some(Err(Cause::FrameTooLong))
                }
                Next::NeedMore { .. } if readable > 0 && stream.is_last() => {
                    Some(Err(Cause::LocalLength))
                }
                Next::NeedMore { .. } => {
                    let ended = stream.reads(simt, u32::MAX)?;
                    Some(ended.map(|_| None))
                }
            }
        })
    }

    /// *Collective.* Writes a record with what stands before it, whole or not at all: says no if
    /// there is no room as of the last look. It leaves after [`Stream::ring`].
    ///
    /// # Errors
    /// [`Wrong`] if the framing has no such record.
    pub fn write_record<S: Simt>(
        &mut self,
        simt: &S,
        framing: &Framing,
        record: &Extent<'_>,
    ) -> Result<bool, Wrong> {
        let header = framing.header(record.length())?;
        let before = header.bytes().len() as u32;
        let total = before.saturating_add(record.length());
        if total > self.writable() {
            return Ok(false);
        }
        self.write_bytes(simt, header.bytes());
        self.write(simt, record);
        Ok(true)
    }
}
