//! Streams with the buffers of the crate `bytes`, named as tokio names such calls.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::error::Error;
use super::stream::Stream;

impl Stream {
    /// Waits for bytes and appends as many as there are and fit; 0 at the end of the stream, and
    /// if nothing fits.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn read_buf(&mut self, into: &mut impl BufMut, patience: Duration) -> Result<usize, Error> {
        if !into.has_remaining_mut() {
            return Ok(0);
        }
        let shared = Arc::clone(&self.shared);
        shared.wait("nothing came", patience, || {
            let is_at_end = self.is_at_end()?;
            let mut count = 0;
            for piece in self.peek()? {
                let here = piece.len().min(into.remaining_mut());
                into.put_slice(piece.get(..here).unwrap_or_default());
                count += here;
            }
            self.consume(count)?;
            Ok((count > 0 || is_at_end).then_some(count))
        })
    }

    /// Waits for bytes, and takes what there is, at most `most`, as a buffer of its own: a copy,
    /// since the ring is the peer's to fill again. `None` at the end of the stream.
    ///
    /// # Errors
    /// As [`Stream::read`].
    pub fn read_bytes(&mut self, most: usize, patience: Duration) -> Result<Option<Bytes>, Error> {
        let mut taken = BytesMut::new();
        let count = self.read_buf(&mut (&mut taken).limit(most), patience)?;
        Ok((count > 0 || most == 0).then(|| taken.freeze()))
    }

    /// Waits for room, writes as many bytes of a buffer as there is room for, and advances it past
    /// them; how many these are, 0 of an empty buffer.
    ///
    /// # Errors
    /// As [`Stream::write_all`].
    pub fn write_buf(&mut self, from: &mut impl Buf, patience: Duration) -> Result<usize, Error> {
        if !from.has_remaining() {
            return Ok(0);
        }
        let shared = Arc::clone(&self.shared);
        shared.wait("the peer took nothing", patience, || {
            let mut count = 0;
            for piece in self.room()? {
                let here = piece.len().min(from.remaining());
                if let Some(to) = piece.get_mut(..here) {
                    from.copy_to_slice(to);
                    count += here;
                }
            }
            self.commit(count)?;
            Ok((count > 0).then_some(count))
        })
    }

    /// Writes all of a buffer, waiting for room.
    ///
    /// # Errors
    /// As [`Stream::write_all`]. The buffer is advanced past what was written.
    pub fn write_all_buf(&mut self, from: &mut impl Buf, patience: Duration) -> Result<(), Error> {
        while from.has_remaining() {
            self.write_buf(from, patience)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::streaming::scene::{By, LIMIT, Scene, Sizes};
    use crate::streaming::{Listener, StreamEndpoint};
    use warpwire_nic::soft::Impairments;

    #[test]
    fn buffers_go_there_and_back() {
        for by in [By::Tcp, By::Fused] {
            exchange(by);
        }
    }

    /// More than both rings hold, out of a buffer of several parts into ones with limits.
    fn exchange(by: By) {
        let scene = Scene::of(by, Impairments::default(), &Sizes::default());
        let [client, server] = &scene.ends;
        let listener = scene.listen();
        let sent: Vec<u8> = (0..3_000_000u32).map(|i| (i / 7) as u8).collect();
        std::thread::scope(|scope| {
            let serving = scope.spawn(|| serve(server, &listener));
            let stream = client.connect(listener.address(), LIMIT);
            let mut stream = stream.expect("connects");
            let (first, second) = sent.split_at(1_234_567);
            let mut parts = Buf::chain(first, second);
            stream.write_all_buf(&mut parts, LIMIT).expect("writes");
            stream.close().expect("closes");
            let answer = stream.read_bytes(100, LIMIT).expect("comes");
            assert_eq!(answer.as_deref(), Some(&b"taken"[..]), "{by:?}");
            assert_eq!(
                stream.read_bytes(0, LIMIT).expect("none"),
                Some(Bytes::new())
            );
            stream.finish(LIMIT).expect("is closed");
            assert!(serving.join().expect("ends") == sent, "{by:?}: other bytes");
        });
    }

    fn serve(end: &StreamEndpoint, listener: &Listener) -> BytesMut {
        let mut stream = listener.accept(LIMIT).expect("comes");
        let mut came = BytesMut::new();
        loop {
            let before = came.len();
            let count = stream.read_buf(&mut (&mut came).limit(1000), LIMIT);
            let count = count.expect("goes on");
            assert!(count <= 1000, "{count}");
            assert_eq!(came.len(), before + count);
            match stream.read_bytes(1 << 20, LIMIT).expect("goes on") {
                Some(bytes) => came.extend_from_slice(&bytes),
                None => break,
            }
        }
        assert_eq!(stream.read_buf(&mut came, LIMIT).expect("the end"), 0);
        let mut full: &mut [u8] = &mut [];
        assert_eq!(stream.read_buf(&mut full, LIMIT).expect("full"), 0);
        let mut nothing: &[u8] = &[];
        assert_eq!(stream.write_buf(&mut nothing, LIMIT).expect("nothing"), 0);
        let mut answer = Bytes::from_static(b"taken");
        stream.write_all_buf(&mut answer, LIMIT).expect("writes");
        stream.finish(LIMIT).expect("is closed");
        // So that the last acknowledgement leaves.
        for _ in 0..100 {
            end.step();
        }
        came
    }
}
