//! Classes of characters, and words that are matched as their letters come.

/// tchar of RFC 9110, section 5.6.2.
pub(super) const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// What a field value may have: RFC 9110, section 5.5.
pub(super) const fn is_field_byte(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// White space of RFC 9110, section 5.6.3.
pub(super) const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// unreserved and sub-delims of RFC 3986, section 2: what stands for itself in a name of a host.
pub(super) const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'-' | b'.' | b'_' | b'~')
        || matches!(
            byte,
            b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b',' | b';' | b'='
        )
}

/// pchar of RFC 3986, section 3.3, but for escapes.
pub(super) const fn is_path_byte(byte: u8) -> bool {
    is_plain(byte) || matches!(byte, b':' | b'@')
}

/// What a hexadecimal digit stands for.
pub(super) const fn hex(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// A word of a table, filled up with zeros, which no word has.
pub(super) type Word = [u8; WORD_BYTES];

/// Bytes of the longest word.
pub(super) const WORD_BYTES: usize = 17;

/// A word of a table.
pub(super) const fn word(text: &[u8]) -> Word {
    let mut word = [0; WORD_BYTES];
    let mut at = 0;
    while at < text.len() {
        word[at] = text[at];
        at += 1;
    }
    word
}

/// Which words of a table begin with the letters that came, for up to 16 words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Match {
    candidates: u16,
    letters: u16,
}

impl Match {
    pub(super) const NEW: Self = Self {
        candidates: u16::MAX,
        letters: 0,
    };

    /// The next letter.
    pub(super) fn step(&mut self, words: &[Word], letter: u8) {
        let at = usize::from(self.letters);
        for (index, word) in words.iter().enumerate() {
            if word.get(at) != Some(&letter) {
                self.candidates &= !(1 << (index & 15));
            }
        }
        self.letters = self.letters.saturating_add(1);
    }

    /// How many letters came.
    pub(super) const fn letters(&self) -> u16 {
        self.letters
    }

    /// The index of the word that was spelt.
    pub(super) fn word(&self, words: &[Word]) -> Option<usize> {
        let at = usize::from(self.letters);
        words.iter().enumerate().position(|(index, word)| {
            let ends = word.get(at).is_none_or(|letter| *letter == 0);
            ends && self.candidates >> (index & 15) & 1 == 1
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_from_their_beginnings_and_their_continuations() {
        let words = [word(b"close"), word(b"closed"), word(b"transfer-encoding")];
        let check = |text: &str, found: Option<usize>| {
            let mut matched = Match::NEW;
            for letter in text.bytes() {
                matched.step(&words, letter);
            }
            assert_eq!(matched.word(&words), found, "{text}");
            assert_eq!(usize::from(matched.letters()), text.len());
        };
        check("close", Some(0));
        check("closed", Some(1));
        check("clos", None);
        check("closes", None);
        check("", None);
        check("transfer-encoding", Some(2));
        check("transfer-encodings", None);
        check(&"a".repeat(40), None);
    }

    #[test]
    fn classes_of_characters() {
        let check = |class: fn(u8) -> bool, members: &[u8]| {
            let found: Vec<u8> = (0..=u8::MAX).filter(|byte| class(*byte)).collect();
            assert_eq!(found.len(), members.len());
            assert!(members.iter().all(|byte| found.contains(byte)));
        };
        let letters: Vec<u8> = (0..=127_u8).filter(u8::is_ascii_alphanumeric).collect();
        let with = |more: &[u8]| [&letters[..], more].concat();
        check(is_token, &with(b"!#$%&'*+-.^_`|~"));
        check(is_plain, &with(b"-._~!$&'()*+,;="));
        check(is_path_byte, &with(b"-._~!$&'()*+,;=:@"));
        let visible: Vec<u8> = (0x21..=0x7e).chain(0x80..=0xff).collect();
        check(is_field_byte, &[&visible[..], b" \t"].concat());
        check(is_space, b" \t");
        check(|byte| hex(byte).is_some(), b"0123456789abcdefABCDEF");
        assert_eq!(
            (hex(b'9'), hex(b'a'), hex(b'F')),
            (Some(9), Some(10), Some(15))
        );
    }
}
