//! Tables, and streams of random records against what was put into them.

use super::*;
use crate::stream::bytes::Pieces;
use ByteOrder::{Big, Little};
use proptest::prelude::*;

fn delimited(width: u32, order: ByteOrder, counts_itself: bool, most: u32) -> Framing {
    Framing::delimited(width, order, counts_itself, most).unwrap()
}

fn record(at: u32, length: u32) -> Next {
    Next::Record(Record { at, length })
}

fn need(bytes: u32) -> Next {
    Next::NeedMore { bytes }
}

#[test]
fn what_stands_next() {
    let check = |framing: Framing, bytes: &[u8], from: u32, next: Next| {
        assert_eq!(
            framing.next(bytes, from),
            next,
            "{framing:?} {bytes:?} {from}"
        );
    };
    let three = Framing::fixed(3).unwrap();
    check(three, &[1, 2, 3, 4], 0, record(0, 3));
    check(three, &[1, 2, 3, 4], 3, need(2));
    check(three, &[1, 2, 3], 3, need(3));
    check(three, &[1, 2], 9, need(3));
    check(three, &[1, 2], u32::MAX, need(3));

    let short = delimited(2, Big, false, 4);
    check(short, &[], 0, need(2));
    check(short, &[0], 0, need(1));
    check(short, &[0, 0], 0, record(2, 0));
    check(short, &[0, 3, 7], 0, need(2));
    check(short, &[9, 0, 2, 7, 7, 7], 1, record(3, 2));
    let most = 4;
    check(
        short,
        &[0, 5],
        0,
        Next::Wrong(Wrong::TooLong { length: 5, most }),
    );

    let itself = delimited(4, Little, true, 4);
    check(itself, &[6, 0, 0, 0, 7, 7], 0, record(4, 2));
    check(itself, &[4, 0, 0, 0], 0, record(4, 0));
    let length = 3;
    check(
        itself,
        &[3, 0, 0, 0, 0],
        0,
        Next::Wrong(Wrong::ShorterThanItself { length }),
    );

    let long = delimited(8, Big, false, 4);
    let length = u64::MAX;
    check(
        long,
        &[0xff; 8],
        0,
        Next::Wrong(Wrong::TooLong { length, most }),
    );
    check(long, &[0, 0, 0, 0, 0, 0, 0, 1, 7], 0, record(8, 1));
    let length = 1 << 32;
    check(
        long,
        &[0, 0, 0, 1, 0, 0, 0, 0],
        0,
        Next::Wrong(Wrong::TooLong { length, most }),
    );
}

#[test]
fn framings_that_cannot_be() {
    let check = |made: Result<Framing, Illegal>, illegal: Option<Illegal>| {
        assert_eq!(made.err(), illegal);
    };
    check(Framing::fixed(0), Some(Illegal::NoBytes));
    check(Framing::fixed(MOST_BYTES + 1), Some(Illegal::TooManyBytes));
    check(Framing::fixed(MOST_BYTES), None);
    check(Framing::delimited(3, Big, false, 1), Some(Illegal::Width));
    check(Framing::delimited(0, Big, false, 1), Some(Illegal::Width));
    check(
        Framing::delimited(4, Big, false, MOST_BYTES + 1),
        Some(Illegal::TooManyBytes),
    );
    check(Framing::delimited(1, Big, false, 255), None);
    check(
        Framing::delimited(1, Big, false, 256),
        Some(Illegal::Unspeakable),
    );
    check(Framing::delimited(1, Big, true, 254), None);
    check(
        Framing::delimited(1, Big, true, 255),
        Some(Illegal::Unspeakable),
    );
    check(Framing::delimited(2, Big, true, 65533), None);
    check(
        Framing::delimited(2, Big, true, 65534),
        Some(Illegal::Unspeakable),
    );
}

#[test]
fn headers_of_records() {
    let check = |framing: Framing, length: u32, header: Result<&[u8], Wrong>| {
        let made = framing.header(length);
        let bytes = made.as_ref().map(Header::bytes).map_err(|wrong| *wrong);
        assert_eq!(bytes, header, "{framing:?} {length}");
    };
    let most = 300;
    check(delimited(2, Big, false, most), 0x102, Ok(&[1, 2]));
    check(delimited(2, Little, true, most), 0x102, Ok(&[4, 1]));
    check(
        delimited(8, Little, false, most),
        2,
        Ok(&[2, 0, 0, 0, 0, 0, 0, 0]),
    );
    let length = 301;
    check(
        delimited(4, Big, false, most),
        301,
        Err(Wrong::TooLong { length, most }),
    );
    let three = Framing::fixed(3).unwrap();
    check(three, 3, Ok(&[]));
    let (length, size) = (4, 3);
    check(three, 4, Err(Wrong::OtherSize { length, size }));
}

fn framings() -> impl Strategy<Value = Framing> {
    let widths = prop::sample::select(vec![1, 2, 4, 8]);
    let lengths = (widths, any::<bool>(), any::<bool>()).prop_map(|(width, is_big, itself)| {
        delimited(width, if is_big { Big } else { Little }, itself, 40)
    });
    prop_oneof![
        lengths,
        (1..40_u32).prop_map(|bytes| Framing::fixed(bytes).unwrap())
    ]
}

proptest! {
    /// Records come out as they went in, however much of the stream is there and wherever it is
    /// cut; `NeedMore` never asks for bytes beyond the record.
    #[test]
    fn records_come_out_as_they_went_in(
        framing in framings(),
        records in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..=40), 1..8),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut stream = Vec::new();
        let mut ends = Vec::new();
        let mut put = Vec::new();
        for mut record in records {
            if framing.width == 0 {
                record.resize(framing.bytes as usize, 0);
            }
            stream.extend(framing.header(record.len() as u32).unwrap().bytes());
            stream.extend(&record);
            ends.push(stream.len());
            put.push(record);
        }
        for have in 0..=stream.len() {
            let there = &stream[..have];
            let (first, second) = there.split_at(cut.index(have + 1));
            let pieces = Pieces { first, second };
            let (mut from, mut got) = (0, 0);
            let bytes = loop {
                match framing.next(&pieces, from) {
                    Next::Record(record) => {
                        let range = record.at as usize..record.end() as usize;
                        prop_assert_eq!(&there[range], &put[got][..]);
                        from = record.end();
                        got += 1;
                    }
                    Next::NeedMore { bytes } => break bytes as usize,
                    wrong => return Err(TestCaseError::fail(format!("{wrong:?}"))),
                }
            };
            prop_assert_eq!(got, ends.iter().filter(|end| **end <= have).count());
            prop_assert!(bytes > 0);
            if let Some(end) = ends.get(got) {
                prop_assert!(have + bytes <= *end);
            }
        }
    }

    /// Any bytes are records, a wish or a refusal: never a record beyond what is there.
    #[test]
    fn any_bytes_are_bounded(
        framing in framings(),
        bytes in prop::collection::vec(any::<u8>(), 0..64),
        from in prop_oneof![0..70_u32, Just(u32::MAX)],
    ) {
        match framing.next(&bytes[..], from) {
            Next::Record(record) => {
                prop_assert!(record.end() as usize <= bytes.len() && record.length <= 40);
                let whole = framing.header(record.length).unwrap();
                prop_assert_eq!(whole.bytes(), &bytes[from as usize..record.at as usize]);
            }
            Next::NeedMore { bytes } => prop_assert!((1..=48).contains(&bytes)),
            Next::Wrong(_) => {}
        }
    }
}
