//! From text to tokens.

use super::{ParseError, Problem};

/// One token and the line that it stands on, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Token<'t> {
    pub(crate) line: u32,
    pub(crate) kind: Kind<'t>,
}

/// What a token is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind<'t> {
    /// An identifier, an instruction with its dots, a directive, a register.
    Word(&'t str),
    /// An integer; a minus before it is a token of its own.
    Number(u64),
    /// Text in quotation marks, without them.
    Quoted(&'t str),
    /// Everything else, a character each.
    Mark(char),
    /// The end of the text.
    End,
}

/// Cuts `text` up; comments are left out.
pub(crate) fn tokens(text: &str) -> Result<Vec<Token<'_>>, ParseError> {
    let mut found = Vec::new();
    let mut reader = Reader {
        rest: text,
        line: 1,
    };
    loop {
        let token = reader.next()?;
        found.push(token);
        if token.kind == Kind::End {
            return Ok(found);
        }
    }
}

struct Reader<'t> {
    rest: &'t str,
    line: u32,
}

impl<'t> Reader<'t> {
    fn next(&mut self) -> Result<Token<'t>, ParseError> {
        self.skip_blanks()?;
        let line = self.line;
        let token = |kind| Ok(Token { line, kind });
        let Some(first) = self.rest.chars().next() else {
            return token(Kind::End);
        };
        if first.is_ascii_digit() {
            return token(Kind::Number(self.number()?));
        }
        if first == '"' {
            let inside = self.rest.get(1..).unwrap_or_default();
            let Some((quoted, rest)) = inside.split_once('"') else {
                return Err(self.error(Problem::Unclosed("a quotation mark")));
            };
            self.line += lines(quoted);
            self.rest = rest;
            return token(Kind::Quoted(quoted));
        }
        let length = word_length(self.rest);
        if length > 0 {
            return token(Kind::Word(self.cut(length)));
        }
        self.cut(first.len_utf8());
        token(Kind::Mark(first))
    }

    fn cut(&mut self, length: usize) -> &'t str {
        let (head, rest) = self.rest.split_at(length);
        self.rest = rest;
        head
    }

    fn skip_blanks(&mut self) -> Result<(), ParseError> {
        loop {
            let trimmed = self.rest.trim_start();
            let blank = self.rest.len() - trimmed.len();
            self.line += lines(self.cut(blank));
            if self.rest.starts_with("//") {
                let length = self.rest.find('\n').unwrap_or(self.rest.len());
                self.cut(length);
            } else if self.rest.starts_with("/*") {
                let Some(end) = self.rest.find("*/") else {
                    return Err(self.error(Problem::Unclosed("a comment")));
                };
                self.line += lines(self.cut(end + 2));
            } else {
                return Ok(());
            }
        }
    }

    /// Decimal, `0x`, `0b` and octal integers, with or without a `U` behind.
    fn number(&mut self) -> Result<u64, ParseError> {
        let ends = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
        let length = self.rest.find(ends).unwrap_or(self.rest.len());
        let text = self.cut(length);
        let digits = text.strip_suffix('U').unwrap_or(text);
        let (digits, base) = match digits.as_bytes() {
            [b'0', b'x' | b'X', ..] => (&digits[2..], 16),
            [b'0', b'b' | b'B', ..] => (&digits[2..], 2),
            [b'0', _, ..] => (&digits[1..], 8),
            _ => (digits, 10),
        };
        u64::from_str_radix(digits, base).map_err(|_| self.error(Problem::Number(text.to_owned())))
    }

    fn error(&self, problem: Problem) -> ParseError {
        ParseError {
            line: self.line,
            problem,
        }
    }
}

/// Bytes of the word at the start of `text`. Dots and double colons belong to it.
fn word_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let inside = byte.is_ascii_alphabetic()
            || matches!(byte, b'_' | b'$' | b'%' | b'.')
            || (at > 0 && byte.is_ascii_digit());
        let colons = at > 0
            && bytes.get(at..at + 2) == Some(b"::")
            && bytes.get(at + 2).is_some_and(u8::is_ascii_alphanumeric);
        match (inside, colons) {
            (true, _) => at += 1,
            (_, true) => at += 2,
            _ => break,
        }
    }
    at
}

fn lines(text: &str) -> u32 {
    text.bytes().filter(|&byte| byte == b'\n').count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_keep_their_dots_and_lines_are_counted() {
        let text = "ld.global.L1::no_allocate.b32 // a\n%rd1, /* \n */ [x+-0x1F];\n$L_1: 017 9U";
        let found = tokens(text).expect("well formed");
        let seen: Vec<(u32, String)> = found
            .iter()
            .map(|token| {
                let text = match token.kind {
                    Kind::Word(word) => word.to_owned(),
                    Kind::Number(number) => number.to_string(),
                    Kind::Quoted(text) => format!("{text:?}"),
                    Kind::Mark(mark) => mark.to_string(),
                    Kind::End => "end".to_owned(),
                };
                (token.line, text)
            })
            .collect();
        let expected = [
            (1, "ld.global.L1::no_allocate.b32"),
            (2, "%rd1"),
            (2, ","),
            (3, "["),
            (3, "x"),
            (3, "+"),
            (3, "-"),
            (3, "31"),
            (3, "]"),
            (3, ";"),
            (4, "$L_1"),
            (4, ":"),
            (4, "15"),
            (4, "9"),
            (4, "end"),
        ];
        let expected: Vec<(u32, String)> = expected
            .iter()
            .map(|&(line, text)| (line, text.to_owned()))
            .collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn what_does_not_end_is_named() {
        for text in ["\"abc", "/* abc", "0f3f800000", "99999999999999999999"] {
            assert!(tokens(text).is_err(), "{text}");
        }
    }
}
