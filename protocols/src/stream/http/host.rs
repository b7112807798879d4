//! `uri-host [ ":" port ]`: the value of Host, and the authority of a target. RFC 3986, section
//! 3.2; RFC 9110, sections 4.2.4 and 7.2.

use super::grammar::{hex, is_plain, is_space};

/// Checks a host as its bytes come. What it is called is not kept: all names lead here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Host {
    /// Nothing came, or white space.
    Start,
    Name,
    Escape,
    EscapeEnd,
    /// Between brackets: an address of IPv6, or of a later version.
    Literal,
    BehindLiteral,
    Port,
    /// White space came behind it.
    Behind,
    Wrong,
}

impl Host {
    /// Takes a byte; white space may stand around it.
    pub(super) fn step(self, byte: u8) -> Self {
        match (self, byte) {
            (Self::Start, _) if is_space(byte) => Self::Start,
            (Self::Start, b'[') => Self::Literal,
            (Self::Start | Self::Name, b'%') => Self::Escape,
            (Self::Start | Self::Name, _) if is_plain(byte) => Self::Name,
            (Self::Escape, _) if hex(byte).is_some() => Self::EscapeEnd,
            (Self::EscapeEnd, _) if hex(byte).is_some() => Self::Name,
            (Self::Literal, b']') => Self::BehindLiteral,
            (Self::Literal, _) if is_plain(byte) || byte == b':' => Self::Literal,
            // A host without a name but with a port is no host.
            (Self::Name | Self::BehindLiteral, b':') => Self::Port,
            (Self::Port, b'0'..=b'9') => Self::Port,
            (Self::Name | Self::BehindLiteral | Self::Port | Self::Behind, _) if is_space(byte) => {
                Self::Behind
            }
            _ => Self::Wrong,
        }
    }

    /// Whether it may end here; one without a name may.
    pub(super) const fn may_end(self) -> bool {
        matches!(self, Self::Start) || self.is_name()
    }

    /// Whether it may end here and names somebody.
    pub(super) const fn is_name(self) -> bool {
        matches!(
            self,
            Self::Name | Self::BehindLiteral | Self::Port | Self::Behind
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts() {
        let check = |text: &str, may_end: bool, is_name: bool| {
            let host = text.bytes().fold(Host::Start, Host::step);
            assert_eq!(
                (host.may_end(), host.is_name()),
                (may_end, is_name),
                "{text}"
            );
        };
        for good in [
            "a",
            "www.example.org",
            " \texample.org:8080 \t",
            "example.org:",
            "127.0.0.1:80",
            "[::1]",
            "[2001:db8::1]:443",
            "[v1.x:y]",
            "%41b",
            "a,b;c=d",
        ] {
            check(good, true, true);
        }
        for nobody in ["", " \t "] {
            check(nobody, true, false);
        }
        for bad in [
            "a b", "a:b", "a:80:80", "user@a", "a/b", "[::1", "::1]", "[::1]x", "%4", "%", "%4g",
            ":80", "a\"", "a\\b", "a#", "a?", "a:80 1", "\u{e4}", "[::1]]", "[[",
        ] {
            check(bad, false, false);
        }
    }
}
