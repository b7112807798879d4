//! Arbitrary bytes as a row of choices.

/// Takes numbers off the front; nothing once the bytes are used up.
#[derive(Clone, Debug)]
pub(crate) struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub(crate) fn new(data: &'a [u8]) -> Self {
        Self(data)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.take().map(|[byte]| byte)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// A number below `limit`, which is at most 256.
    pub(crate) fn below(&mut self, limit: u32) -> Option<u32> {
        Some(u32::from(self.byte()?) % limit)
    }

    /// One of a few.
    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        let at = usize::from(self.byte()?).checked_rem(of.len())?;
        of.get(at).copied()
    }

    /// So many bytes, or all that are left.
    pub(crate) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let (front, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        front
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*front)
    }
}
