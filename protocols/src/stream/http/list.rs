//! Lists of words between commas: RFC 9110, section 5.6.1.

use super::grammar::{Match, Word, is_space, is_token};

/// Reads a list as its bytes come; words are compared without regard to case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct List {
    matched: Match,
    place: Place,
}

/// Where in an element a list stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Place {
    Before,
    Inside,
    Behind,
    Parameters,
    /// In an element that is not a token.
    Astray,
}

/// An element of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Element {
    /// Which word of the table it is.
    pub(super) word: Option<usize>,
    /// Parameters follow.
    pub(super) has_parameters: bool,
    /// It is not a token.
    pub(super) is_malformed: bool,
}

impl List {
    pub(super) const NEW: Self = Self {
        matched: Match::NEW,
        place: Place::Before,
    };

    /// Takes a byte; gives the element that ends with it. Empty ones are left out.
    pub(super) fn step(&mut self, words: &[Word], byte: u8) -> Option<Element> {
        if byte == b',' {
            return self.end(words);
        }
        self.place = match self.place {
            Place::Before if is_space(byte) => Place::Before,
            Place::Before | Place::Inside if is_token(byte) => {
                self.matched.step(words, byte.to_ascii_lowercase());
                Place::Inside
            }
            Place::Inside | Place::Behind if is_space(byte) => Place::Behind,
            Place::Inside | Place::Behind if byte == b';' => Place::Parameters,
            Place::Parameters => Place::Parameters,
            Place::Before | Place::Inside | Place::Behind | Place::Astray => Place::Astray,
        };
        None
    }

    /// The list ends; gives the element that ends with it.
    pub(super) fn end(&mut self, words: &[Word]) -> Option<Element> {
        let Self { matched, place } = core::mem::replace(self, Self::NEW);
        if place == Place::Before {
            return None;
        }
        let is_malformed = place == Place::Astray;
        let word = match is_malformed {
            true => None,
            false => matched.word(words),
        };
        Some(Element {
            word,
            has_parameters: place == Place::Parameters,
            is_malformed,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::grammar::word;
    use super::*;

    #[test]
    fn elements_of_lists() {
        let words = [word(b"close"), word(b"keep-alive")];
        // An element as text: its place in the table or `x`; `;` with parameters, `?` malformed.
        let check = |text: &str, elements: &str| {
            let mut list = List::NEW;
            let mut found: Vec<_> = text
                .bytes()
                .filter_map(|byte| list.step(&words, byte))
                .collect();
            found.extend(list.end(&words));
            let told = found.iter().map(|element| {
                let word = element.word.map_or("x".to_owned(), |word| word.to_string());
                let parameters = if element.has_parameters { ";" } else { "" };
                let malformed = if element.is_malformed { "?" } else { "" };
                word + parameters + malformed
            });
            assert_eq!(told.collect::<Vec<_>>().join(" "), elements, "{text}");
            assert_eq!(list, List::NEW);
        };
        check("close", "0");
        check(" \tClose\t ", "0");
        check("keep-alive, CLOSE", "1 0");
        check("keep-alive,close,upgrade", "1 0 x");
        check("", "");
        check(" , ,,\t", "");
        check(",close,", "0");
        check("clo se", "x?");
        check("close;a=b, close ; c", "0; 0;");
        check("cl\"ose", "x?");
        check("\"close\"", "x?");
        check("keep-aliv", "x");
    }
}
