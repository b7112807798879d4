//! Requests of HTTP: however a stream is cut, the same comes of it, and that is what a model says
//! which reads whole lines.

mod model;

use model::Outcome;
use warpwire_protocols::stream::Pieces;
use warpwire_protocols::stream::http::{
    FieldValue, Head, Limits, Parser, Progress, Request, Status, date,
};

use crate::choices::Choices;

/// `data`: how the stream is cut, which limits there are, and the stream.
pub fn check(data: &[u8]) {
    let mut choices = Choices::new(data);
    let (Some(step), Some(form)) = (choices.byte(), choices.byte()) else {
        return;
    };
    let limits = match form & 1 {
        0 => Limits::default(),
        _ => Limits {
            content: 20,
            head: 80,
            target: 30,
        },
    };
    let stream = choices.bytes(MOST_BYTES);
    let (mut parser, mut at) = (Parser::new(), 0);
    for _ in 0..MOST_REQUESTS {
        let rest = stream.get(at..).unwrap_or(&[]);
        let whole = feed(&mut parser, rest, rest.len().max(1), &limits);
        let mut other = Parser::new();
        let cut = feed(&mut other, rest, usize::from(step).max(1), &limits);
        assert_eq!(whole, cut, "cuts change what comes of a stream");
        assert_eq!(parser.request(), other.request());
        agree(&whole, &parser, &model::read(rest, &limits));
        at += whole.consumed;
        let Some(request) = parser.request() else {
            return;
        };
        answer(&request, form);
        parser.begin();
    }
}

/// What came of a stream.
#[derive(PartialEq, Eq, Debug)]
struct Came {
    consumed: usize,
    progress: Progress,
    continues: u32,
}

/// Feeds pieces of `step` bytes, each in two parts.
fn feed(parser: &mut Parser, stream: &[u8], step: usize, limits: &Limits) -> Came {
    let (mut consumed, mut end, mut continues) = (0, 0, 0);
    loop {
        let there = stream.get(consumed..end).unwrap_or(&[]);
        let (first, second) = there.split_at(there.len() / 2);
        let taken = parser.take(&Pieces { first, second }, 0, limits);
        consumed += taken.consumed as usize;
        assert!(consumed <= end, "more was taken than there is");
        match taken.progress {
            Progress::Continue => continues += 1,
            Progress::NeedMore if end < stream.len() => {
                assert_eq!(consumed, end, "bytes were left, and more are wanted");
                end = stream.len().min(end + step);
            }
            progress => {
                return Came {
                    consumed,
                    progress,
                    continues,
                };
            }
        }
    }
}

/// The model looks at whole heads and lines; the parser may know earlier that one is wrong.
fn agree(came: &Came, parser: &Parser, outcome: &Outcome) {
    assert!(came.continues <= 1);
    match (came.progress, outcome) {
        (Progress::NeedMore, Outcome::NeedMore | Outcome::NeedLine) => {}
        (Progress::Refused(_), Outcome::NeedLine | Outcome::Refused) => {}
        (Progress::Whole, Outcome::Whole(read)) => {
            assert_eq!(parser.request(), Some(read.request()));
            assert_eq!(came.consumed, read.consumed);
        }
        (progress, _) => panic!("{progress:?}, and the model says {outcome:?}"),
    }
}

/// A head of an answer: written whole, or too long for its buffer.
fn answer(request: &Request<'_>, form: u8) {
    assert!(request.path.len() <= 256);
    let date = date(u64::from(form) << 24);
    let head = Head {
        status: request.answer.unwrap_or(Status::NotFound),
        length: u64::from(form),
        media_type: FieldValue::new(request.path),
        date: Some(&date),
        version: request.version,
        persists: request.persists,
    };
    let mut buffer = [0xa5; 512];
    let have = usize::from(form) * 2;
    let place = buffer.get_mut(..have).unwrap_or(&mut []);
    match head.emit(place) {
        Ok(length) => {
            let written = place.get(..length).unwrap_or(&[]);
            assert!(written.ends_with(b"\r\n\r\n"));
            assert_eq!(written.iter().filter(|byte| **byte == b'\n').count(), {
                let lines = written.split(|byte| *byte == b'\r').count();
                lines - 1
            });
        }
        Err(short) => assert!(short.need > short.have && short.have == have),
    }
}

const MOST_BYTES: usize = 1 << 15;
const MOST_REQUESTS: usize = 8;
