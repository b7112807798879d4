//! The answers that a server of files gives.

/// A status code: RFC 9110, section 15.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
pub enum Status {
    /// The file follows.
    Ok = 200,
    /// Not a request, or one that may be read in two ways.
    BadRequest = 400,
    /// There is no such file.
    NotFound = 404,
    /// The method is not for files; the answer names those that are.
    MethodNotAllowed = 405,
    /// The client took too long to say what it wants.
    RequestTimeout = 408,
    /// More body than anybody skips.
    ContentTooLarge = 413,
    /// More target than anybody reads, or more path than is kept.
    UriTooLong = 414,
    /// The client expects something else than to be told to go on.
    ExpectationFailed = 417,
    /// More head, or trailer, than anybody reads.
    FieldsTooLarge = 431,
    /// A method or a transfer coding that nobody here knows.
    NotImplemented = 501,
    /// There is no place for one more.
    Unavailable = 503,
    /// Another major version than 1.
    VersionNotSupported = 505,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 12] = [
        Self::Ok,
        Self::BadRequest,
        Self::NotFound,
        Self::MethodNotAllowed,
        Self::RequestTimeout,
        Self::ContentTooLarge,
        Self::UriTooLong,
        Self::ExpectationFailed,
        Self::FieldsTooLarge,
        Self::NotImplemented,
        Self::Unavailable,
        Self::VersionNotSupported,
    ];

    /// The three digits.
    pub const fn code(self) -> u16 {
        self as u16
    }

    /// What it is called: the reason phrase, and the content of an answer without a file.
    pub const fn reason(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::BadRequest => "Bad Request",
            Self::NotFound => "Not Found",
            Self::MethodNotAllowed => "Method Not Allowed",
            Self::RequestTimeout => "Request Timeout",
            Self::ContentTooLarge => "Content Too Large",
            Self::UriTooLong => "URI Too Long",
            Self::ExpectationFailed => "Expectation Failed",
            Self::FieldsTooLarge => "Request Header Fields Too Large",
            Self::NotImplemented => "Not Implemented",
            Self::Unavailable => "Service Unavailable",
            Self::VersionNotSupported => "HTTP Version Not Supported",
        }
    }
}
