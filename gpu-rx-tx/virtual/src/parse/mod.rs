//! From text to statements: names are still names, nothing is checked against anything.

mod declaration;
mod statement;
mod token;

pub(crate) use declaration::{Body, FunctionText, Item, Value, Variable};
pub(crate) use statement::{Base, Guard, Operand, Piece, Statement};

use std::fmt;

use token::{Kind, Token};

/// Why a text is not a module that the virtual GPU can run.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line} of the PTX: {problem}")]
pub struct ParseError {
    /// The line, from 1.
    pub line: u32,
    /// What was found there.
    pub problem: Problem,
}

/// What is wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Problem {
    /// Something else had to stand here.
    #[error("found {found}, expected {expected}")]
    Unexpected {
        /// What stands there.
        found: String,
        /// What had to.
        expected: &'static str,
    },
    /// Something opens and never closes.
    #[error("{0} is opened and never closed")]
    Unclosed(&'static str),
    /// A number that is none, or is no integer of 64 bits.
    #[error("`{0}` is not an integer of 64 bits")]
    Number(String),
    /// A directive that is not known.
    #[error("unknown directive `{0}`")]
    Directive(String),
    /// An instruction that the virtual GPU does not know.
    #[error("unknown instruction `{0}`")]
    Instruction(String),
    /// A known instruction in a form that is not known.
    #[error("`{instruction}`: {what}")]
    Form {
        /// The instruction.
        instruction: String,
        /// What about it.
        what: String,
    },
    /// A name that nothing was declared by.
    #[error("`{0}` is not declared")]
    Unknown(String),
    /// A name for two things.
    #[error("`{0}` is declared twice")]
    Twice(String),
    /// More of something than there may be.
    #[error("{what}: {have}, at most {most} are possible")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// How many there are.
        have: u64,
        /// How many there may be.
        most: u64,
    },
}

/// Reads a whole module.
pub(crate) fn parse(text: &str) -> Result<Vec<Item<'_>>, ParseError> {
    let tokens = token::tokens(text)?;
    Cursor {
        tokens: &tokens,
        at: 0,
    }
    .module()
}

/// A place among tokens.
struct Cursor<'a, 't> {
    tokens: &'a [Token<'t>],
    at: usize,
}

impl<'t> Cursor<'_, 't> {
    fn peek(&self) -> Kind<'t> {
        self.ahead(0)
    }

    fn ahead(&self, count: usize) -> Kind<'t> {
        let token = self.tokens.get(self.at + count);
        token.map_or(Kind::End, |token| token.kind)
    }

    fn line(&self) -> u32 {
        let token = self.tokens.get(self.at).or(self.tokens.last());
        token.map_or(0, |token| token.line)
    }

    fn next(&mut self) -> Kind<'t> {
        let kind = self.peek();
        self.at += 1;
        kind
    }

    /// Goes past `mark` if it stands here.
    fn takes(&mut self, mark: char) -> bool {
        let here = self.peek() == Kind::Mark(mark);
        self.at += usize::from(here);
        here
    }

    /// Goes past `word` if it stands here.
    fn takes_word(&mut self, word: &str) -> bool {
        let here = self.peek() == Kind::Word(word);
        self.at += usize::from(here);
        here
    }

    fn mark(&mut self, mark: char, expected: &'static str) -> Result<(), ParseError> {
        match self.takes(mark) {
            true => Ok(()),
            false => Err(self.unexpected(expected)),
        }
    }

    fn word(&mut self, expected: &'static str) -> Result<&'t str, ParseError> {
        match self.peek() {
            Kind::Word(word) => {
                self.at += 1;
                Ok(word)
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn number(&mut self, expected: &'static str) -> Result<u64, ParseError> {
        let minus = self.takes('-');
        match self.peek() {
            Kind::Number(number) => {
                self.at += 1;
                Ok(if minus { number.wrapping_neg() } else { number })
            }
            _ => Err(self.unexpected(expected)),
        }
    }

    fn unexpected(&self, expected: &'static str) -> ParseError {
        let found = self.peek().to_string();
        self.error(Problem::Unexpected { found, expected })
    }

    fn error(&self, problem: Problem) -> ParseError {
        ParseError {
            line: self.line(),
            problem,
        }
    }
}

impl fmt::Display for Kind<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Word(word) => write!(f, "`{word}`"),
            Self::Number(number) => write!(f, "`{number}`"),
            Self::Quoted(text) => write!(f, "{text:?}"),
            Self::Mark(mark) => write!(f, "`{mark}`"),
            Self::End => f.write_str("the end of the text"),
        }
    }
}
