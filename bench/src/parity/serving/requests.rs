//! What clients of HTTP ask for, and what they must be answered.

use warpwire_core::serving::{FileEntry, SiteBlock};
use warpwire_nic::soft::Dice;
use warpwire_ring::DeviceAddress;

use crate::stage::Stage;

/// The files that are served, in the order of their paths.
fn files() -> [(&'static str, &'static str, Vec<u8>); 4] {
    let text = |bytes: usize| (0..bytes).map(|at| (at * 7 + at / 251) as u8).collect();
    [
        ("/a", "text/html", text(0)),
        ("/b.txt", "", text(100)),
        ("/big", "image/png", text(9000)),
        ("/folder/", "text/html; charset=utf-8", text(11)),
    ]
}

pub(super) fn site(stage: &Stage) -> DeviceAddress {
    let entries = files().map(|(path, media, content)| FileEntry {
        path: stage.place_all(path.as_bytes()),
        media: stage.place_all(media.as_bytes()),
        content: stage.place_all(&content),
        content_bytes: content.len() as u64,
        path_bytes: path.len() as u32,
        media_bytes: media.len() as u32,
    });
    stage.place(SiteBlock {
        files: stage.place_all(&entries),
        file_count: entries.len() as u32,
        reserved: 0,
    })
}

/// What a client asks for, and what it must be answered.
pub(super) fn requests(dice: &mut Dice) -> (Vec<u8>, Vec<u8>) {
    let (mut asks, mut answers) = (Vec::new(), Vec::new());
    let mut is_over = false;
    for _ in 0..dice.below(12) {
        let (ask, answer, ends) = request(dice);
        asks.extend(ask);
        if !is_over {
            answers.extend(answer);
        }
        is_over |= ends;
    }
    (asks, answers)
}

/// A request, its answer, and whether that is the last.
fn request(dice: &mut Dice) -> (Vec<u8>, Vec<u8>, bool) {
    let head = |status: &str, media: &str, length: usize, more: &str| {
        let media = match media {
            "" => "Content-Type: \r\n".to_owned(),
            media => format!("Content-Type: {media}\r\n"),
        };
        format!("HTTP/1.1 {status}\r\n{media}Content-Length: {length}\r\n{more}\r\n").into_bytes()
    };
    let refused = |status: &str, more: &str| {
        let reason = status.split_once(' ').map_or("", |(_, reason)| reason);
        [
            head(status, "text/plain", reason.len(), more),
            reason.as_bytes().to_vec(),
        ]
        .concat()
    };
    let close = "Connection: close\r\n";
    let files = files();
    let [_, _, (path, media, content), _] = &files;
    match dice.below(12) {
        0..6 => {
            let (path, media, content) = &files[dice.below(4) as usize];
            let ask = format!("GET {path}?x HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = [head("200 OK", media, content.len(), ""), content.clone()];
            (ask.into_bytes(), answer.concat(), false)
        }
        6 => {
            let ask = format!("HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = head("200 OK", media, content.len(), "");
            (ask.into_bytes(), answer, false)
        }
        7 => {
            let ask = "GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
            (ask.into(), refused("404 Not Found", close), true)
        }
        8 => {
            let ask = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n12345";
            let allow = "Allow: GET, HEAD\r\n";
            (ask.into(), refused("405 Method Not Allowed", allow), false)
        }
        9 => {
            let ask = "POST /a HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\
                       Content-Length: 3\r\n\r\n123";
            let allow = "Allow: GET, HEAD\r\n";
            let answer = [
                b"HTTP/1.1 100 Continue\r\n\r\n".to_vec(),
                refused("405 Method Not Allowed", allow),
            ];
            (ask.into(), answer.concat(), false)
        }
        10 if dice.below(4) == 0 => {
            let ask = "GET /a b HTTP/1.1\r\nHost: a\r\n\r\n";
            (ask.into(), refused("400 Bad Request", close), true)
        }
        _ => {
            let ask = "GET /none HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
            let more = "Connection: keep-alive\r\n";
            (ask.into(), refused("404 Not Found", more), false)
        }
    }
}
