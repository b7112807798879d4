//! An instruction's name, taken apart.

use crate::parse::{Operand, ParseError, Problem};

/// An instruction as it is written.
pub(super) struct Form<'a, 't> {
    pub(super) line: u32,
    /// The whole name.
    pub(super) name: &'t str,
    /// Its first part.
    pub(super) head: &'t str,
    /// The rest without the type at the end, joined by dots.
    pub(super) middle: &'t str,
    /// The last part.
    pub(super) last: &'t str,
    pub(super) operands: &'a [Operand<'t>],
}

/// A type of PTX.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Type {
    Predicate,
    Bits(u32),
    Unsigned(u32),
    Signed(u32),
    /// IEEE 754 single precision.
    Float,
}

impl Type {
    pub(super) fn of(word: &str) -> Option<Self> {
        Some(match word {
            "pred" => Self::Predicate,
            "b8" => Self::Bits(8),
            "b16" => Self::Bits(16),
            "b32" => Self::Bits(32),
            "b64" => Self::Bits(64),
            "u8" => Self::Unsigned(8),
            "u16" => Self::Unsigned(16),
            "u32" => Self::Unsigned(32),
            "u64" => Self::Unsigned(64),
            "s8" => Self::Signed(8),
            "s16" => Self::Signed(16),
            "s32" => Self::Signed(32),
            "s64" => Self::Signed(64),
            "f32" => Self::Float,
            _ => return None,
        })
    }

    pub(super) fn bits(self) -> u32 {
        match self {
            Self::Predicate => 1,
            Self::Float => 32,
            Self::Bits(bits) | Self::Unsigned(bits) | Self::Signed(bits) => bits,
        }
    }

    pub(super) fn is_signed(self) -> bool {
        matches!(self, Self::Signed(_))
    }
}

impl<'a, 't> Form<'a, 't> {
    pub(super) fn new(line: u32, name: &'t str, operands: &'a [Operand<'t>]) -> Self {
        let (head, rest) = name.split_once('.').unwrap_or((name, ""));
        let (middle, last) = rest.rsplit_once('.').unwrap_or(("", rest));
        Self {
            line,
            name,
            head,
            middle,
            last,
            operands,
        }
    }

    /// The parts between the head and the type.
    pub(super) fn parts(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        self.middle.split('.').filter(|part| !part.is_empty())
    }

    /// All parts behind the head.
    pub(super) fn all_parts(&self) -> impl Iterator<Item = &'t str> + use<'t> {
        let last = Some(self.last).filter(|last| !last.is_empty());
        self.parts().chain(last)
    }

    /// The type at the end.
    pub(super) fn kind(&self) -> Result<Type, ParseError> {
        Type::of(self.last).ok_or_else(|| self.unknown())
    }

    /// Operands, which must be so many.
    pub(super) fn take<const N: usize>(&self) -> Result<&'a [Operand<'t>; N], ParseError> {
        self.operands
            .try_into()
            .map_err(|_| self.wrong(format!("{} operands, expected {N}", self.operands.len())))
    }

    /// The instruction is not known.
    pub(super) fn unknown(&self) -> ParseError {
        ParseError {
            line: self.line,
            problem: Problem::Instruction(self.name.to_owned()),
        }
    }

    /// Something about the instruction is wrong or not known.
    pub(super) fn wrong(&self, what: impl Into<String>) -> ParseError {
        ParseError {
            line: self.line,
            problem: Problem::Form {
                instruction: self.name.to_owned(),
                what: what.into(),
            },
        }
    }
}
