//! Requests, each with the section that decides it, cut at every byte; and heads of any bytes.

use super::*;
use crate::stream::bytes::Pieces;
use proptest::prelude::*;

const LIMITS: Limits = Limits {
    content: 1000,
    head: 600,
    target: 300,
};

/// What came of a stream: how many bytes were consumed, and the answer; of requests that depend on
/// files, the method, the path, and whether the connection goes on.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Came {
    More,
    Refused(Status),
    Answer(Status, bool),
    File(Method, String, bool),
}

use Came::{Answer, File, More, Refused};
use Status::{
    BadRequest, ContentTooLarge, ExpectationFailed, FieldsTooLarge, MethodNotAllowed,
    NotImplemented, UriTooLong, VersionNotSupported,
};

fn outcome(parser: &Parser, progress: Progress) -> Came {
    match progress {
        Progress::NeedMore | Progress::Continue => More,
        Progress::Refused(status) => Refused(status),
        Progress::Whole => {
            let request = parser.request().unwrap();
            let path = String::from_utf8_lossy(request.path).into_owned();
            match request.answer {
                Some(status) => Answer(status, request.persists),
                None => File(request.method, path, request.persists),
            }
        }
    }
}

/// Feeds pieces that end at the cuts, each through a ring of two pieces. Returns what came, what
/// was consumed, and how often the client was to be told to go on.
fn feed(parser: &mut Parser, stream: &[u8], cuts: &[usize]) -> (Came, usize, usize) {
    let (mut at, mut told) = (0, 0);
    for end in cuts.iter().copied().chain([stream.len()]) {
        loop {
            let there = stream.get(at..end).unwrap_or(&[]);
            let (first, second) = there.split_at(there.len() / 2);
            let taken = parser.take(&Pieces { first, second }, 0, &LIMITS);
            at += taken.consumed as usize;
            match taken.progress {
                Progress::Continue => told += 1,
                Progress::NeedMore => {
                    assert!(at >= end, "bytes were left, and more are wanted");
                    break;
                }
                over => {
                    assert_eq!(parser.take(there, 0, &LIMITS).consumed, 0);
                    return (outcome(parser, over), at, told);
                }
            }
        }
    }
    (More, at, told)
}

/// A request and what follows it, whole and cut at every byte.
fn check(section: &str, stream: &str, came: Came) {
    let bytes = stream.as_bytes();
    let whole = feed(&mut Parser::new(), bytes, &[]);
    assert_eq!(whole.0, came, "{section}: {stream:?}");
    // A parser that read another request before is as good as a new one.
    let mut used = Parser::new();
    let other =
        b"PATCH /a/../%41?b HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: x\r\nExpect: y\r\n\r\n";
    feed(&mut used, other, &[]);
    for cut in 0..=bytes.len() {
        used.begin();
        assert!(!used.has_begun());
        let cut = feed(&mut used, bytes, &[cut]);
        assert_eq!(cut, whole, "{section}: {stream:?}");
    }
    let all: Vec<usize> = (0..bytes.len()).collect();
    let cut = feed(&mut Parser::new(), bytes, &all);
    assert_eq!(cut, whole, "{section}: {stream:?}, byte by byte");
}

fn get(path: &str) -> Came {
    File(Method::Get, path.to_owned(), true)
}

fn get_and_close(path: &str) -> Came {
    File(Method::Get, path.to_owned(), false)
}

/// A request by GET with such fields, and another one that is not to be touched.
fn check_fields(section: &str, fields: &str, came: Came) {
    let stream = format!("GET /a HTTP/1.1\r\n{fields}\r\nGET /next HTTP/1.1\r\n");
    let is_whole = !matches!(came, Refused(_) | More);
    check(section, &stream, came);
    if is_whole {
        let (_, consumed, _) = feed(&mut Parser::new(), stream.as_bytes(), &[]);
        assert!(stream[consumed..].starts_with("GET /next"), "{stream:?}");
    }
}

/// A request by POST with such content in chunks, and another one that is not to be touched.
fn check_chunks(section: &str, chunks: &str, came: Came) {
    let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    let stream = format!("{head}{chunks}GET /next");
    let is_whole = matches!(came, Answer(..));
    check(section, &stream, came);
    if is_whole {
        let (_, consumed, _) = feed(&mut Parser::new(), stream.as_bytes(), &[]);
        assert_eq!(&stream[consumed..], "GET /next", "{chunks:?}");
    }
}

#[test]
fn request_lines() {
    let line = |section: &str, line: &str, came: Came| {
        check(section, &format!("{line}Host: a\r\n\r\n"), came);
    };
    line("9112 3", "GET /a HTTP/1.1\r\n", get("/a"));
    line("9112 3.2.1", "GET /a?b=c HTTP/1.1\r\n", get("/a"));
    line("9112 3.2.2", "GET http://b/a HTTP/1.1\r\n", get("/a"));
    line(
        "9112 2.2, empty lines",
        "\r\n\r\nGET /a HTTP/1.1\r\n",
        get("/a"),
    );
    line(
        "9110 9.3.2",
        "HEAD / HTTP/1.1\r\n",
        File(Method::Head, "/".into(), true),
    );
    let not_allowed = Answer(MethodNotAllowed, true);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "PATCH"] {
        line(
            "9110 9.1",
            &format!("{method} / HTTP/1.1\r\n"),
            not_allowed.clone(),
        );
    }
    line(
        "9112 3.2.3",
        "CONNECT a:80 HTTP/1.1\r\n",
        not_allowed.clone(),
    );
    line("9112 3.2.4", "OPTIONS * HTTP/1.1\r\n", not_allowed);
    let unknown = Answer(NotImplemented, true);
    line("9110 9.1", "BREW / HTTP/1.1\r\n", unknown.clone());
    line("9110 9.1, case", "get / HTTP/1.1\r\n", unknown.clone());
    line("9110 9.1", "GETS / HTTP/1.1\r\n", unknown.clone());
    line("9110 9.1", "G!#$%&'*+-.^_`|~1 / HTTP/1.1\r\n", unknown);
    let long = "A".repeat(33);
    line(
        "9112 3",
        &format!("{long} / HTTP/1.1\r\n"),
        Refused(NotImplemented),
    );
    let over = |path: usize| format!("GET /{}?{} HTTP/1.1\r\n", "a".repeat(path), "b".repeat(20));
    line(
        "9110 15.5.15",
        &over(PATH_BYTES - 1),
        get(&over(PATH_BYTES - 1)[4..][..PATH_BYTES]),
    );
    line("9110 15.5.15", &over(PATH_BYTES), Answer(UriTooLong, true));
    line(
        "9110 15.5.15",
        &over(LIMITS.target as usize - 21),
        Refused(UriTooLong),
    );
    line("9112 2.5", "GET / HTTP/1.2\r\n", get("/"));
    line(
        "9110 15.6.6",
        "GET / HTTP/2.0\r\n",
        Refused(VersionNotSupported),
    );
    line(
        "9110 15.6.6",
        "GET / HTTP/0.9\r\n",
        Refused(VersionNotSupported),
    );
    line(
        "9113 3.4",
        "OPTIONS * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        Refused(VersionNotSupported),
    );
    for (section, bad) in [
        ("9112 3, one space", "GET  /a HTTP/1.1\r\n"),
        ("9112 3, one space", "GET /a  HTTP/1.1\r\n"),
        ("9112 3, a space", "GET\t/a HTTP/1.1\r\n"),
        ("9112 3, behind the version", "GET /a HTTP/1.1 \r\n"),
        ("9112 3, before the method", " GET /a HTTP/1.1\r\n"),
        ("9112 3, no version", "GET /a\r\n"),
        ("9112 3, no target", "GET HTTP/1.1\r\n"),
        ("9112 3.2, white space in a target", "GET /a b HTTP/1.1\r\n"),
        ("9112 3.2.3", "GET a:80 HTTP/1.1\r\n"),
        ("9112 3.2.3", "CONNECT / HTTP/1.1\r\n"),
        ("9112 3.2.4", "GET * HTTP/1.1\r\n"),
        ("9112 2.3, case", "GET /a http/1.1\r\n"),
        ("9112 2.3, digits", "GET /a HTTP/11.1\r\n"),
        ("9112 2.3, digits", "GET /a HTTP/1.10\r\n"),
        ("9112 2.3, digits", "GET /a HTTP/1.\r\n"),
        ("9112 2.3, digits", "GET /a HTTP/x.1\r\n"),
        ("9112 2.2, LF alone", "GET /a HTTP/1.1\n"),
        ("9112 2.2, CR alone", "GET /a HTTP/1.1\r"),
        ("9112 2.2, CR alone", "GET /a\r HTTP/1.1\r\n"),
        ("9112 2.2, LF alone", "\nGET /a HTTP/1.1\r\n"),
        ("9112 2.2, CR alone", "\rGET /a HTTP/1.1\r\n"),
        ("9110 5.6.2", "G(T /a HTTP/1.1\r\n"),
        ("9110 5.6.2", "G\u{c9}T /a HTTP/1.1\r\n"),
        ("9112 3, no method", " / HTTP/1.1\r\n"),
        ("3986 2.1", "GET /%zz HTTP/1.1\r\n"),
        ("3986 7.3", "GET /%00 HTTP/1.1\r\n"),
    ] {
        line(section, bad, Refused(BadRequest));
    }
    check(
        "a client of TLS",
        "\x16\x03\x01\x02\0\x01\0",
        Refused(BadRequest),
    );
}

#[test]
fn fields() {
    check_fields("9112 5", "Host: a\r\n", get("/a"));
    check_fields("9112 5", "hOST:a\r\nX:\r\nY: \t z \t \r\n", get("/a"));
    check_fields("9110 5.5, obs-text", "Host: a\r\nX: \u{e4}\r\n", get("/a"));
    check_fields(
        "9110 5.6.2",
        "Host: a\r\n!#$%&'*+-.^_`|~1: (\"x\r\n",
        get("/a"),
    );
    check_fields("9112 3.2, empty", "Host:\r\n", get("/a"));
    check_fields("9112 3.2", "Host: [::1]:80\r\n", get("/a"));
    for (section, bad) in [
        ("9112 3.2, no Host", ""),
        ("9112 3.2, no Host", "Hosts: a\r\nHos: a\r\n"),
        ("9112 3.2, two", "Host: a\r\nHost: a\r\n"),
        ("9112 3.2, value", "Host: a b\r\n"),
        ("9112 3.2, value", "Host: a/b\r\n"),
        ("9112 3.2, value", "Host: user@a\r\n"),
        ("9112 3.2, value", "Host: a:b\r\n"),
        ("9112 5.1, before the colon", "Host : a\r\n"),
        ("9112 5.1, before the colon", "Host: a\r\nX\t: b\r\n"),
        ("9112 5.2, folded", "Host: a\r\nX: b\r\n c\r\n"),
        ("9112 5.2, folded", "Host: a\r\nX:\r\n\tc\r\n"),
        ("9112 2.2, before the first", " Host: a\r\n"),
        ("9112 2.2, CR alone", "Host: a\r\nX: a\rb\r\n"),
        ("9112 2.2, CR twice", "Host: a\r\r\n"),
        ("9112 2.2, LF alone", "Host: a\n"),
        ("9112 2.2, LF alone", "Host: a\r\nX: y\n\r\n"),
        ("9112 2.2, CR at the end", "Host: a\r\n\rX: y\r\n"),
        ("9110 5.5, NUL", "Host: a\r\nX: a\0b\r\n"),
        ("9110 5.5, control", "Host: a\r\nX: a\x7fb\r\n"),
        ("9110 5.5, control", "Host: a\r\nX: \x01\r\n"),
        ("9110 5.1, no name", "Host: a\r\n: b\r\n"),
        ("9110 5.1, no colon", "Host: a\r\nX\r\n"),
        ("9110 5.1, name", "Host: a\r\nX(Y): b\r\n"),
        ("9110 5.1, name", "Host: a\r\n\u{e4}: b\r\n"),
        ("9110 5.1, name", "Host: a\r\n\"X\": b\r\n"),
    ] {
        check_fields(section, bad, Refused(BadRequest));
    }
    let long = format!("Host: a\r\nX: {}\r\n", "y".repeat(600));
    check_fields("6585 5", &long, Refused(FieldsTooLarge));
    let many = format!("Host: a\r\n{}", "X: y\r\n".repeat(100));
    check_fields("6585 5", &many, Refused(FieldsTooLarge));
    check("empty lines only", &"\r\n".repeat(301), Refused(BadRequest));
}

#[test]
fn a_head_may_have_as_many_bytes_as_the_limit_says() {
    let head = |bytes: usize| {
        let start = "GET / HTTP/1.1\r\nHost: a\r\nX: ";
        start.to_owned() + &"y".repeat(bytes - start.len() - 4) + "\r\n\r\n"
    };
    let most = LIMITS.head as usize;
    check("6585 5", &head(most), get("/"));
    check("6585 5", &head(most + 1), Refused(FieldsTooLarge));
}

#[test]
fn persistence() {
    check_fields(
        "9112 9.3",
        "Host: a\r\nConnection: close\r\n",
        get_and_close("/a"),
    );
    check_fields(
        "9112 9.3",
        "Host: a\r\nConnection: keep-alive\r\n",
        get("/a"),
    );
    check_fields(
        "9112 9.6",
        "Host: a\r\nConnection: x, CLOSE\r\n",
        get_and_close("/a"),
    );
    check_fields(
        "9112 9.6, close goes before",
        "Host: a\r\nConnection: close\r\nConnection: keep-alive\r\n",
        get_and_close("/a"),
    );
    check_fields(
        "9110 7.6.1",
        "Host: a\r\nConnection: closed, clos\r\n",
        get("/a"),
    );
    check_fields(
        "9110 7.6.1",
        "Host: a\r\nX-Connection: close\r\n",
        get("/a"),
    );
    let old = |fields: &str, came: Came| {
        check("9112 9.3", &format!("GET / HTTP/1.0\r\n{fields}\r\n"), came);
    };
    old("", get_and_close("/"));
    old("Connection: Keep-Alive\r\n", get("/"));
    old("Connection: keep-alive, close\r\n", get_and_close("/"));
    old("Host: a\r\nConnection: x\r\n", get_and_close("/"));
    old("Host: a\r\nHost: a\r\n", Refused(BadRequest));
}

#[test]
fn lengths_of_content() {
    check_fields("9112 6.3", "Host: a\r\nContent-Length: 0\r\n", get("/a"));
    check_fields(
        "9110 8.6",
        "Host: a\r\nContent-Length:  000 \t\r\n",
        get("/a"),
    );
    let stream = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n\r\n\0GEGET /next";
    check("9112 6.3, item 6", stream, Answer(MethodNotAllowed, true));
    let (_, consumed, _) = feed(&mut Parser::new(), stream.as_bytes(), &[]);
    assert_eq!(&stream[consumed..], "GET /next");
    check("9112 6.3, item 6", &stream[..stream.len() - 10], More);
    check_fields("the limit", "Host: a\r\nContent-Length: 1000\r\n", More);
    for long in [
        "1001",
        "18446744073709551616",
        "18446744073709551620",
        &"9".repeat(50),
    ] {
        let fields = format!("Host: a\r\nContent-Length: {long}\r\n");
        check_fields("9110 15.5.14", &fields, Refused(ContentTooLarge));
    }
    for (section, bad) in [
        ("9110 8.6, sign", "+5"),
        ("9110 8.6, sign", "-5"),
        ("9110 8.6, no digits", ""),
        ("9110 8.6, no digits", " \t"),
        ("9110 8.6, hexadecimal", "0x5"),
        ("9110 8.6, hexadecimal", "5f"),
        ("9110 8.6, fraction", "5.0"),
        ("9110 8.6, two numbers", "5 5"),
        ("9112 6.3, item 5, a list", "5, 5"),
        ("9112 6.3, item 5, a list", "5, 6"),
        ("9112 6.3, item 5, a list", "5,"),
        ("9110 8.6, quotes", "\"5\""),
        ("9110 8.6, digits of others", "\u{665}"),
        ("9112 6.3, item 5, twice", "0\r\nContent-Length: 0"),
        ("9112 6.3, item 5, twice", "0\r\ncontent-length: 5"),
        ("9112 5.1, before the colon", "0\r\nContent-Length : 5"),
        (
            "9112 6.3, item 3, with chunks",
            "5\r\nTransfer-Encoding: chunked",
        ),
        ("9112 6.3, item 3, with nothing", "5\r\nTransfer-Encoding:"),
    ] {
        let fields = format!("Host: a\r\nContent-Length: {bad}\r\n");
        check_fields(section, &fields, Refused(BadRequest));
    }
    let both = "Host: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n";
    check_fields("9112 6.3, item 3", both, Refused(BadRequest));
}

#[test]
fn transfer_codings() {
    let coding = |section: &str, value: &str, came: Came| {
        let fields = format!("Host: a\r\nTransfer-Encoding: {value}\r\n");
        let stream = format!("GET /a HTTP/1.1\r\n{fields}\r\n0\r\n\r\n");
        check(section, &stream, came);
    };
    coding("9112 7.1", "chunked", get("/a"));
    coding("9112 7, case", "ChunKed", get("/a"));
    coding("9110 5.6.1", " , chunked\t, ", get("/a"));
    coding("9112 6.1", "gzip, chunked", Refused(NotImplemented));
    coding(
        "9112 6.1",
        "gzip\r\nTransfer-Encoding: chunked",
        Refused(NotImplemented),
    );
    coding("9112 6.1", "a;b=c, chunked", Refused(NotImplemented));
    for (section, bad) in [
        ("9112 6.3, item 4, not last", "chunked, gzip"),
        ("9112 6.3, item 4, not last", "gzip"),
        ("9112 6.3, item 4, not last", "identity"),
        ("9112 6.3, item 4, not last", "xchunked"),
        ("9112 6.3, item 4, not last", "chunked2"),
        ("9112 6.3, item 4, none", ""),
        ("9112 6.3, item 4, none", " , "),
        ("9112 6.1, twice", "chunked, chunked"),
        ("9112 6.1, twice", "chunked\r\nTransfer-Encoding: chunked"),
        ("9112 7.1, parameters", "chunked;a=b"),
        ("9112 7, no token", "\"chunked\""),
        ("9112 7, no token", "chunked chunked"),
        ("9112 7, no token", "gzip gzip, chunked"),
        ("9112 7, no token", "\u{b}chunked"),
        ("9112 5.2, folded", "\r\n chunked"),
    ] {
        coding(section, bad, Refused(BadRequest));
    }
    let old = "GET / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    check("9112 6.1, HTTP/1.0", old, Refused(BadRequest));
}

#[test]
fn chunks() {
    let done = Answer(MethodNotAllowed, true);
    check_chunks("9112 7.1", "0\r\n\r\n", done.clone());
    check_chunks("9112 7.1", "5\r\nGET /\r\n0\r\n\r\n", done.clone());
    check_chunks(
        "9112 7.1",
        "0a\r\n0\r\n\r\n0\r\n\r\n\r\n00\r\n\r\n",
        done.clone(),
    );
    check_chunks(
        "9112 7.1",
        "A\r\n0123456789\r\na\r\n0123456789\r\n000\r\n\r\n",
        done.clone(),
    );
    check_chunks(
        "9112 7.1.1",
        "1;a;b=\"c;\\\"d\"\r\nx\r\n0;e=f\r\n\r\n",
        done.clone(),
    );
    check_chunks(
        "9112 7.1.2",
        "0\r\nContent-Length: 5\r\nHost: b\r\n\r\n",
        done.clone(),
    );
    check_chunks(
        "9112 7.1.2",
        "0\r\nConnection: close\r\nX:\r\n\r\n",
        done.clone(),
    );
    let most = format!("3e8\r\n{}\r\n0\r\n\r\n", "x".repeat(1000));
    check_chunks("the limit", &most, done.clone());
    check_chunks("9110 15.5.14", "3e9\r\n", Refused(ContentTooLarge));
    let twice = format!("3e8\r\n{}\r\n1\r\n", "x".repeat(1000));
    check_chunks("9110 15.5.14", &twice, Refused(ContentTooLarge));
    check_chunks(
        "9112 7.1, overflow",
        "ffffffffffffffff\r\n",
        Refused(ContentTooLarge),
    );
    let long = format!("0\r\nX: {}\r\n\r\n", "y".repeat(600));
    check_chunks("6585 5", &long, Refused(FieldsTooLarge));
    let zeros = format!("{}5\r\nGET /\r\n0\r\n\r\n", "0".repeat(16));
    check_chunks("9112 7.1, digits", &zeros, Refused(BadRequest));
    let extension = |bytes: usize| format!("1;{}\r\nx\r\n0\r\n\r\n", "y".repeat(bytes));
    check_chunks("9112 7.1.1, a limit", &extension(253), done);
    check_chunks("9112 7.1.1, a limit", &extension(254), Refused(BadRequest));
    for (section, bad) in [
        ("9112 7.1, no size", "\r\n"),
        ("9112 7.1, no size", ";a\r\n"),
        ("9112 7.1, sign", "+1\r\nx\r\n"),
        ("9112 7.1, sign", "-1\r\nx\r\n"),
        ("9112 7.1, hexadecimal", "0x1\r\nx\r\n"),
        ("9112 7.1, hexadecimal", "g\r\n"),
        ("9112 7.1, white space", " 1\r\nx\r\n"),
        ("9112 7.1, white space", "1 \r\nx\r\n"),
        ("9112 7.1, LF alone", "1\nx\r\n"),
        ("9112 7.1, CR alone", "1\rx\r\n"),
        ("9112 7.1, LF alone", "1\r\nx\n"),
        ("9112 7.1, more data", "1\r\nxy\r\n"),
        ("9112 7.1, no end", "1\r\nx0\r\n\r\n"),
        ("9112 7.1, CR alone", "1\r\nx\r0\r\n\r\n"),
        ("9112 7.1.1, LF alone", "1;a\nx\r\n"),
        ("9112 7.1.1, control", "1;a\0\r\nx\r\n"),
        ("9112 7.1.2, no field", "0\r\nGET / HTTP/1.1\r\n\r\n"),
        ("9112 7.1.2, LF alone", "0\r\n\n"),
        ("9112 5.2, folded", "0\r\nX: y\r\n z\r\n\r\n"),
    ] {
        check_chunks(section, &format!("{bad}0\r\n\r\n"), Refused(BadRequest));
    }
}

#[test]
fn expectations() {
    let told = |stream: &str, times: usize, came: Came| {
        check("9110 10.1.1", stream, came);
        let (_, _, told) = feed(&mut Parser::new(), stream.as_bytes(), &[]);
        assert_eq!(told, times, "{stream:?}");
    };
    let expect = |version: &str, fields: &str, rest: &str| {
        format!("PUT / HTTP/{version}\r\nHost: a\r\nExpect: {fields}\r\n\r\n{rest}")
    };
    let done = Answer(MethodNotAllowed, true);
    let two = "100-continue\r\nContent-Length: 2";
    told(&expect("1.1", two, ""), 1, More);
    told(&expect("1.1", two, "xy"), 1, done.clone());
    let chunked = "100-Continue\r\nTransfer-Encoding: chunked";
    told(&expect("1.1", chunked, "0\r\n\r\n"), 1, done.clone());
    told(&expect("1.1", "100-continue", ""), 0, done.clone());
    told(&expect("1.1", "", ""), 0, done);
    told(
        &expect("1.0", two, "xy"),
        0,
        Answer(MethodNotAllowed, false),
    );
    told(
        &expect("1.0", "more", ""),
        0,
        Answer(MethodNotAllowed, false),
    );
    for other in [
        "more",
        "100-continue, more",
        "100-continue;a",
        "100-continued",
        "a b",
    ] {
        told(&expect("1.1", other, ""), 0, Refused(ExpectationFailed));
    }
}

#[test]
fn requests_in_a_row_are_taken_one_by_one() {
    let stream = "GET /1 HTTP/1.1\r\nHost: a\r\n\r\n\
                  POST /2 HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nGET\
                  \r\nHEAD /3 HTTP/1.1\r\nHost: a\r\n\r\n\
                  POST /4 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                  1\r\nx\r\n0\r\n\r\n\
                  GET /5 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\nrest";
    let bytes = stream.as_bytes();
    let (mut parser, mut at, mut paths) = (Parser::new(), 0, String::new());
    loop {
        let taken = parser.take(bytes, at, &LIMITS);
        at += taken.consumed;
        assert_eq!(taken.progress, Progress::Whole);
        let request = parser.request().unwrap();
        paths += str::from_utf8(request.path).unwrap();
        if !request.persists {
            break;
        }
        parser.begin();
    }
    assert_eq!(paths, "/1/2/3/4/5");
    assert_eq!(&bytes[at as usize..], b"rest");
    assert_eq!(parser.take(bytes, u32::MAX, &LIMITS).consumed, 0);
}

/// Pieces of requests, right and wrong, in any order.
fn pieces() -> impl Strategy<Value = Vec<u8>> {
    let texts = [
        "GET /",
        "HEAD /",
        "POST /",
        "a",
        "../",
        "./",
        "%2e",
        "%",
        "?",
        "#",
        " ",
        " HTTP/1.1\r\n",
        " HTTP/1.0\r\n",
        "Host: a\r\n",
        "Content-Length: ",
        "Transfer-Encoding: chunked\r\n",
        "0",
        "5",
        "\r\n",
        "\r\n\r\n",
        "\r",
        "\n",
        ":",
        ",",
        "Connection: close\r\n",
        "Connection: keep-alive\r\n",
        "Expect: 100-continue\r\n",
        "X: y\r\n",
        "\t",
        ";",
        "hello",
        "http://",
        "*",
        "0\r\n\r\n",
    ];
    let text = prop::sample::select(texts.to_vec()).prop_map(|text| text.as_bytes().to_vec());
    let any = prop::collection::vec(any::<u8>(), 1..4);
    let start = Just(b"GET /a HTTP/1.1\r\nHost: a\r\n".to_vec());
    let rest = prop::collection::vec(prop_oneof![20 => text, 1 => any], 0..20);
    (prop::option::of(start), rest).prop_map(|(start, rest)| {
        let start = start.unwrap_or_default();
        [start, rest.concat()].concat()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// However a stream is cut, the same comes of it; paths are what they are said to be.
    #[test]
    fn cuts_change_nothing(
        stream in pieces(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(stream.len() + 1)).collect();
        cuts.sort();
        let mut parser = Parser::new();
        let whole = feed(&mut parser, &stream, &[]);
        prop_assert_eq!(&feed(&mut Parser::new(), &stream, &cuts), &whole);
        prop_assert!(whole.1 <= stream.len());
        if let Some(request) = parser.request() {
            let path = request.path;
            prop_assert!(path.is_empty() || path[0] == b'/');
            let mut names = path.split(|byte| *byte == b'/');
            prop_assert!(names.all(|name| name != b"." && name != b".."));
            prop_assert!(!path.iter().any(|byte| byte.is_ascii_control() || *byte == b'\\'));
        }
    }
}
