//! Where in a record things stand.

use crate::stream::bytes::{ByteOrder, Bytes};

/// How the records of a sensor look: a header, in which there is a number, and the payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub struct Format {
    /// Bytes of the header.
    header: u32,
    /// Where in it the number stands.
    offset: u32,
    /// Bytes of the number.
    width: u8,
    order: ByteOrder,
    reserved: [u8; 2],
}

const _: () = assert!(size_of::<Format>() == 12);

/// A format that cannot be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Illegal {
    /// A number of other than 1, 2, 4 or 8 bytes.
    Width,
    /// The number does not lie within the header.
    Offset,
}

/// The parts of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Split {
    /// Offset of the payload from the start of the record: the header is before it.
    pub payload: u32,
    /// Bytes of the payload.
    pub length: u32,
}

impl Format {
    /// Records with a header of `header` bytes, in which a number of `width` bytes stands from
    /// `offset` on.
    ///
    /// # Errors
    /// [`Illegal`].
    pub const fn new(
        header: u32,
        offset: u32,
        width: u32,
        order: ByteOrder,
    ) -> Result<Self, Illegal> {
        if !matches!(width, 1 | 2 | 4 | 8) {
            return Err(Illegal::Width);
        }
        match offset.checked_add(width) {
            Some(end) if end <= header => Ok(Self {
                header,
                offset,
                width: width as u8,
                order,
                reserved: [0; 2],
            }),
            _ => Err(Illegal::Offset),
        }
    }

    /// Bits of the number.
    pub const fn bits(&self) -> u32 {
        self.width as u32 * 8
    }

    /// The number of the record that begins at `at`; `None` if that is not there.
    pub fn sequence(&self, bytes: &(impl Bytes + ?Sized), at: u32) -> Option<u64> {
        let at = at.checked_add(self.offset)?;
        self.order.read(bytes, at, u32::from(self.width))
    }

    /// The parts of a record of `length` bytes; `None` if it is shorter than its header.
    pub const fn split(&self, length: u32) -> Option<Split> {
        let payload = self.header;
        match length.checked_sub(payload) {
            Some(length) => Some(Split { payload, length }),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::bytes::Pieces;
    use ByteOrder::{Big, Little};

    #[test]
    fn numbers_stand_where_the_format_says() {
        let bytes: Vec<u8> = (0..20).collect();
        let check = |at: u32, offset: u32, width: u32, order: ByteOrder, number: Option<u64>| {
            let format = Format::new(12, offset, width, order).unwrap();
            assert_eq!(format.bits(), 8 * width);
            for cut in 0..=bytes.len() {
                let (first, second) = bytes.split_at(cut);
                let pieces = Pieces { first, second };
                assert_eq!(format.sequence(&pieces, at), number);
            }
        };
        check(0, 0, 1, Big, Some(0));
        check(3, 2, 2, Big, Some(0x0506));
        check(3, 2, 2, Little, Some(0x0605));
        check(1, 8, 4, Big, Some(0x090a_0b0c));
        check(12, 0, 8, Little, Some(0x1312_1110_0f0e_0d0c));
        check(13, 0, 8, Little, None);
        check(u32::MAX, 4, 1, Big, None);
    }

    #[test]
    fn headers_are_split_off() {
        let format = Format::new(12, 4, 4, Big).unwrap();
        let split = |length| format.split(length);
        let payload = 12;
        assert_eq!((split(0), split(11)), (None, None));
        assert_eq!(split(12), Some(Split { payload, length: 0 }));
        assert_eq!(
            split(1012),
            Some(Split {
                payload,
                length: 1000
            })
        );
    }

    #[test]
    fn formats_that_cannot_be() {
        let check = |header: u32, offset: u32, width: u32, illegal: Illegal| {
            assert_eq!(Format::new(header, offset, width, Big), Err(illegal));
        };
        check(8, 0, 3, Illegal::Width);
        check(8, 0, 0, Illegal::Width);
        check(8, 0, 16, Illegal::Width);
        check(8, 5, 4, Illegal::Offset);
        check(0, 0, 1, Illegal::Offset);
        check(8, u32::MAX, 4, Illegal::Offset);
    }
}
