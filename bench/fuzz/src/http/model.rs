//! What a request is, said simply: whole lines, allocated strings.

use warpwire_protocols::stream::http::{Limits, Method, PATH_BYTES, Request, Status, Version};

/// What a stream begins with.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The end of a line is not there, which may be wrong already.
    NeedLine,
    /// Content is not there.
    NeedMore,
    Refused,
    Whole(Read),
}

/// A request.
#[derive(Debug)]
pub(super) struct Read {
    method: Method,
    version: Version,
    path: Vec<u8>,
    persists: bool,
    answer: Option<Status>,
    pub(super) consumed: usize,
}

impl Read {
    pub(super) fn request(&self) -> Request<'_> {
        Request {
            method: self.method,
            version: self.version,
            path: &self.path,
            persists: self.persists,
            answer: self.answer,
        }
    }
}

/// Reads the request that a stream begins with.
pub(super) fn read(stream: &[u8], limits: &Limits) -> Outcome {
    let mut start = 0;
    while stream[start..].starts_with(b"\r\n") {
        start += 2;
    }
    let Some(length) = find(&stream[start..], b"\r\n\r\n") else {
        return Outcome::NeedLine;
    };
    let end = start + length + 4;
    let Some(head) = head(&stream[start..start + length], limits) else {
        return Outcome::Refused;
    };
    if end > limits.head as usize {
        return Outcome::Refused;
    }
    let whole = |consumed| Outcome::Whole(Read { consumed, ..head.0 });
    match head.1 {
        Content::Length(length) if length > u128::from(limits.content) => Outcome::Refused,
        Content::Length(length) if length as usize > stream.len() - end => Outcome::NeedMore,
        Content::Length(length) => whole(end + length as usize),
        Content::Chunked => match chunks(&stream[end..], limits) {
            Ok(length) => whole(end + length),
            Err(outcome) => outcome,
        },
    }
}

enum Content {
    Length(u128),
    Chunked,
}

fn head(head: &[u8], limits: &Limits) -> Option<(Read, Content)> {
    let mut lines = Vec::new();
    let mut rest = head;
    while let Some(at) = find(rest, b"\r\n") {
        lines.push(&rest[..at]);
        rest = &rest[at + 2..];
    }
    lines.push(rest);
    let first = lines.remove(0);
    let [method, target, version] = first.split(|byte| *byte == b' ').collect::<Vec<_>>()[..]
    else {
        return None;
    };
    if method.len() > 32 || !is_token(method) || target.len() > limits.target as usize {
        return None;
    }
    let method = match method {
        b"GET" => Method::Get,
        b"HEAD" => Method::Head,
        b"POST" => Method::Post,
        b"PUT" => Method::Put,
        b"DELETE" => Method::Delete,
        b"CONNECT" => Method::Connect,
        b"OPTIONS" => Method::Options,
        b"TRACE" => Method::Trace,
        b"PATCH" => Method::Patch,
        _ => Method::Unknown,
    };
    let version = match version {
        b"HTTP/1.0" => Version::Http10,
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Version::Http11,
        _ => return None,
    };
    let path = path(method, target)?;
    let fields = lines
        .iter()
        .map(|line| field(line))
        .collect::<Option<Vec<_>>>()?;
    let (persists, content) = meaning(&fields, version)?;
    let answer = match (method, path.is_none()) {
        (Method::Unknown, _) => Some(Status::NotImplemented),
        (Method::Get | Method::Head, true) => Some(Status::UriTooLong),
        (Method::Get | Method::Head, false) => None,
        _ => Some(Status::MethodNotAllowed),
    };
    let read = Read {
        method,
        version,
        path: path.unwrap_or_default(),
        persists,
        answer,
        consumed: 0,
    };
    Some((read, content))
}

/// The path of a target, or `Some(None)` if it is too long.
fn path(method: Method, target: &[u8]) -> Option<Option<Vec<u8>>> {
    if method == Method::Connect {
        return (!target.is_empty() && is_host(target)).then(|| Some(Vec::new()));
    }
    if target == b"*" {
        return (method == Method::Options).then(|| Some(Vec::new()));
    }
    let mut rest = target;
    let is_absolute = target.len() >= 7 && target[..7].eq_ignore_ascii_case(b"http://");
    if is_absolute {
        rest = &target[7..];
        let end = rest.iter().position(|byte| b"/?".contains(byte));
        let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
        if authority.is_empty() || !is_host(authority) {
            return None;
        }
        rest = path;
    }
    let question = rest.iter().position(|byte| *byte == b'?');
    let (path, query) = rest.split_at(question.unwrap_or(rest.len()));
    if !is_absolute && path.is_empty() {
        return None;
    }
    for text in [path, query] {
        decoded(text)?;
    }
    if !query
        .iter()
        .all(|byte| is_path(*byte) || b"%/?".contains(byte))
    {
        return None;
    }
    if path.is_empty() {
        return Some(Some(b"/".to_vec()));
    }
    if path[0] != b'/'
        || !path
            .iter()
            .all(|byte| is_path(*byte) || b"%/".contains(byte))
    {
        return None;
    }
    let names: Option<Vec<_>> = path[1..].split(|byte| *byte == b'/').map(decoded).collect();
    let names = names?;
    let is_bad = |byte: &u8| byte.is_ascii_control() || b"/\\".contains(byte);
    if names.iter().flatten().any(is_bad) {
        return None;
    }
    Some(without_dots(&names))
}

/// Removes dot segments; `None` if on the way there were more bytes than are kept.
fn without_dots(names: &[Vec<u8>]) -> Option<Vec<u8>> {
    let mut kept: Vec<&[u8]> = Vec::new();
    for (index, name) in names.iter().enumerate() {
        let is_last = index + 1 == names.len();
        let before: usize = 1 + kept.iter().map(|name| name.len() + 1).sum::<usize>();
        if before + name.len() > PATH_BYTES {
            return None;
        }
        match &name[..] {
            b"." => {}
            b".." => {
                kept.pop();
            }
            name => {
                if !is_last && before + name.len() + 1 > PATH_BYTES {
                    return None;
                }
                kept.push(name);
            }
        }
    }
    let ends_with_slash = names
        .last()
        .is_some_and(|name| *name == b"." || *name == b"..");
    let mut path = [b"/", &kept.join(&b'/')[..]].concat();
    if ends_with_slash && !kept.is_empty() {
        path.push(b'/');
    }
    Some(path)
}

fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut rest = text.iter();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [*rest.next()?, *rest.next()?];
                if !digits.iter().all(u8::is_ascii_hexdigit) {
                    return None;
                }
                u8::from_str_radix(str::from_utf8(&digits).ok()?, 16).ok()?
            }
            _ => *byte,
        });
    }
    Some(bytes)
}

fn field(line: &[u8]) -> Option<(String, Vec<u8>)> {
    let colon = line.iter().position(|byte| *byte == b':')?;
    let (name, value) = (&line[..colon], &line[colon + 1..]);
    let is_right = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
    if !is_token(name) || !value.iter().all(is_right) {
        return None;
    }
    let name = String::from_utf8(name.to_ascii_lowercase()).ok()?;
    Some((name, trimmed(value).to_vec()))
}

/// Whether the connection persists, and what the content is.
fn meaning(fields: &[(String, Vec<u8>)], version: Version) -> Option<(bool, Content)> {
    let values = |name: &str| {
        let named = fields.iter().filter(|field| field.0 == name);
        named.map(|field| field.1.clone()).collect::<Vec<_>>()
    };
    let list = |name: &str| {
        let joined = values(name).join(&b',');
        let elements = joined.split(|byte| *byte == b',').map(trimmed);
        let elements = elements.filter(|element| !element.is_empty());
        elements.map(<[u8]>::to_ascii_lowercase).collect::<Vec<_>>()
    };
    let is_old = version == Version::Http10;
    let hosts = values("host");
    if hosts.len() > 1 || !is_old && hosts.is_empty() || !hosts.iter().all(|host| is_host(host)) {
        return None;
    }
    let lengths = values("content-length");
    let content = match &lengths[..] {
        [] => Content::Length(0),
        [length] if !length.is_empty() && length.iter().all(u8::is_ascii_digit) => {
            let digits = str::from_utf8(length).ok()?;
            Content::Length(digits.parse().unwrap_or(u128::MAX))
        }
        _ => return None,
    };
    let codings = list("transfer-encoding");
    let content = match values("transfer-encoding").is_empty() {
        true => content,
        false if codings == [b"chunked"] && lengths.is_empty() && !is_old => Content::Chunked,
        false => return None,
    };
    if !is_old
        && list("expect")
            .iter()
            .any(|element| element != b"100-continue")
    {
        return None;
    }
    let options = list("connection");
    // Parameters are none of an option's: what stands before them counts.
    let has = |word: &[u8]| {
        options.iter().any(|option| {
            let end = option.iter().position(|byte| *byte == b';');
            trimmed(&option[..end.unwrap_or(option.len())]) == word
        })
    };
    let persists = !has(b"close") && (!is_old || has(b"keep-alive"));
    Some((persists, content))
}

/// Bytes of a content in chunks.
fn chunks(stream: &[u8], limits: &Limits) -> Result<usize, Outcome> {
    let (mut at, mut total) = (0, 0);
    loop {
        let rest = &stream[at..];
        let line = find(rest, b"\r\n").ok_or(Outcome::NeedLine)?;
        let (size, extension) = {
            let line = &rest[..line];
            let end = line.iter().position(|byte| *byte == b';');
            line.split_at(end.unwrap_or(line.len()))
        };
        let is_right = |byte: &u8| *byte == b'\t' || !byte.is_ascii_control();
        let is_size = (1..=16).contains(&size.len()) && size.iter().all(u8::is_ascii_hexdigit);
        if !is_size || !extension.iter().all(is_right) || line + 1 > 256 {
            return Err(Outcome::Refused);
        }
        let digits = str::from_utf8(size).map_err(|_| Outcome::Refused)?;
        let size = u64::from_str_radix(digits, 16).map_err(|_| Outcome::Refused)?;
        at += line + 2;
        total += u128::from(size);
        if total > u128::from(limits.content) {
            return Err(Outcome::Refused);
        }
        if size == 0 {
            return trailer(&stream[at..], limits).map(|length| at + length);
        }
        let size = size as usize;
        match stream[at..].get(size..) {
            None => return Err(Outcome::NeedMore),
            Some([] | [b'\r']) => return Err(Outcome::NeedMore),
            Some([b'\r', b'\n', ..]) => at += size + 2,
            Some(_) => return Err(Outcome::Refused),
        }
    }
}

/// Bytes of a trailer.
fn trailer(stream: &[u8], limits: &Limits) -> Result<usize, Outcome> {
    let mut at = 0;
    loop {
        let line = find(&stream[at..], b"\r\n").ok_or(Outcome::NeedLine)?;
        let text = &stream[at..at + line];
        at += line + 2;
        if at > limits.head as usize || !text.is_empty() && field(text).is_none() {
            return Err(Outcome::Refused);
        }
        if text.is_empty() {
            return Ok(at);
        }
    }
}

fn is_host(host: &[u8]) -> bool {
    if host.is_empty() {
        return true;
    }
    let (name, port) = match host.first() {
        Some(b'[') => {
            let Some(end) = host.iter().position(|byte| *byte == b']') else {
                return false;
            };
            let literal = &host[1..end];
            if !literal.iter().all(|byte| is_plain(*byte) || *byte == b':') {
                return false;
            }
            (&b"literal"[..], &host[end + 1..])
        }
        _ => {
            let colon = host.iter().position(|byte| *byte == b':');
            host.split_at(colon.unwrap_or(host.len()))
        }
    };
    let is_name = name.iter().all(|byte| is_plain(*byte) || *byte == b'%');
    let is_port = match port {
        [] => true,
        [b':', digits @ ..] => digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    !name.is_empty() && is_name && is_port && decoded(name).is_some()
}

fn is_token(text: &[u8]) -> bool {
    let is_right = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(is_right)
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte)
}

fn is_path(byte: u8) -> bool {
    is_plain(byte) || b":@".contains(&byte)
}

fn trimmed(text: &[u8]) -> &[u8] {
    let is_space = |byte: &u8| b" \t".contains(byte);
    let start = text.iter().position(|byte| !is_space(byte));
    let end = text.iter().rposition(|byte| !is_space(byte));
    match (start, end) {
        (Some(start), Some(end)) => &text[start..=end],
        _ => &[],
    }
}

fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}
