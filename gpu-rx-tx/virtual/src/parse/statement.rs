//! Statements within a function.

use super::token::Kind;
use super::{Cursor, ParseError, Variable};

/// One line of a function's body.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Statement<'t> {
    /// `{`
    Open,
    /// `}`
    Close,
    /// A label.
    Label(&'t str),
    /// `.reg`: type, name, and how many if it is a row of registers.
    Registers {
        kind: &'t str,
        name: &'t str,
        count: Option<u64>,
    },
    /// A variable in a state space, without the space's dot.
    Variable(Variable<'t>),
    /// `.branchtargets` behind its label.
    Targets { name: &'t str, labels: Vec<&'t str> },
    /// An instruction.
    Instruction {
        guard: Option<Guard<'t>>,
        name: &'t str,
        operands: Vec<Operand<'t>>,
    },
}

/// The predicate before an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Guard<'t> {
    pub(crate) negated: bool,
    pub(crate) register: &'t str,
}

/// An operand.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Operand<'t> {
    /// A register, a symbol or a number.
    Plain(Piece<'t>),
    /// `!%p`
    Not(&'t str),
    /// `%a|%b`
    Pair(&'t str, &'t str),
    /// `[base+offset]`
    Address(Base<'t>, i64),
    /// `{a, b}`
    Vector(Vec<Piece<'t>>),
    /// `(a, b)`
    List(Vec<Piece<'t>>),
}

/// What an address is counted from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Base<'t> {
    /// A register or symbol.
    Name(&'t str),
    /// Nothing: the offset is the address.
    Zero,
}

/// A register, a symbol (with an offset) or a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Piece<'t> {
    Name(&'t str),
    Number(u64),
    Sum(&'t str, i64),
}

impl<'t> Cursor<'_, 't> {
    /// The statements up to the brace that closes the body, which is open already.
    pub(super) fn statements(&mut self) -> Result<Vec<(u32, Statement<'t>)>, ParseError> {
        let mut found = Vec::new();
        let mut depth = 0;
        loop {
            let line = self.line();
            let statement = match self.peek() {
                Kind::Mark('}') if depth == 0 => {
                    self.next();
                    return Ok(found);
                }
                Kind::Mark('{') => {
                    depth += 1;
                    self.next();
                    Statement::Open
                }
                Kind::Mark('}') => {
                    depth -= 1;
                    self.next();
                    Statement::Close
                }
                Kind::Mark(';') => {
                    self.next();
                    continue;
                }
                Kind::Word(word) if self.ahead(1) == Kind::Mark(':') => {
                    self.at += 2;
                    self.label(word)?
                }
                Kind::Word(".pragma" | ".loc") => {
                    self.skip_line(line);
                    continue;
                }
                Kind::Word(".reg") => {
                    self.registers(line, &mut found)?;
                    continue;
                }
                Kind::Word(word) if word.starts_with('.') => Statement::Variable(self.variable()?),
                _ => self.instruction()?,
            };
            found.push((line, statement));
        }
    }

    /// A label, or the table that stands behind it.
    fn label(&mut self, name: &'t str) -> Result<Statement<'t>, ParseError> {
        if !self.takes_word(".branchtargets") {
            return Ok(Statement::Label(name));
        }
        let mut labels = Vec::new();
        loop {
            labels.push(self.word("a label")?);
            if !self.takes(',') {
                break;
            }
        }
        self.mark(';', "`,` or `;`")?;
        Ok(Statement::Targets { name, labels })
    }

    /// Directives for debuggers and assemblers: up to the semicolon, or to the end of the line.
    fn skip_line(&mut self, line: u32) {
        while self.line() == line && self.peek() != Kind::End {
            if self.next() == Kind::Mark(';') {
                return;
            }
        }
    }

    fn registers(
        &mut self,
        line: u32,
        found: &mut Vec<(u32, Statement<'t>)>,
    ) -> Result<(), ParseError> {
        self.next();
        let kind = self.word("a type")?;
        loop {
            let name = self.word("a register")?;
            let count = match self.takes('<') {
                true => {
                    let count = self.number("how many registers")?;
                    self.mark('>', "`>`")?;
                    Some(count)
                }
                false => None,
            };
            found.push((line, Statement::Registers { kind, name, count }));
            if !self.takes(',') {
                break;
            }
        }
        self.mark(';', "`,` or `;`")
    }

    fn instruction(&mut self) -> Result<Statement<'t>, ParseError> {
        let guard = match self.takes('@') {
            true => Some(Guard {
                negated: self.takes('!'),
                register: self.word("a predicate")?,
            }),
            false => None,
        };
        let name = self.word("an instruction")?;
        let mut operands = Vec::new();
        if !self.takes(';') {
            loop {
                operands.push(self.operand()?);
                if !self.takes(',') {
                    break;
                }
            }
            self.mark(';', "`,` or `;`")?;
        }
        Ok(Statement::Instruction {
            guard,
            name,
            operands,
        })
    }

    fn operand(&mut self) -> Result<Operand<'t>, ParseError> {
        match self.peek() {
            Kind::Mark('[') => self.address(),
            Kind::Mark('{') => Ok(Operand::Vector(self.pieces('}', "`,` or `}`")?)),
            Kind::Mark('(') => Ok(Operand::List(self.pieces(')', "`,` or `)`")?)),
            Kind::Mark('!') => {
                self.next();
                Ok(Operand::Not(self.word("a predicate")?))
            }
            Kind::Word(first) if self.ahead(1) == Kind::Mark('|') => {
                self.at += 2;
                Ok(Operand::Pair(first, self.word("a register")?))
            }
            _ => Ok(Operand::Plain(self.piece()?)),
        }
    }

    fn address(&mut self) -> Result<Operand<'t>, ParseError> {
        self.next();
        let operand = match self.peek() {
            Kind::Word(name) => {
                self.next();
                Operand::Address(Base::Name(name), self.offset()?)
            }
            _ => Operand::Address(Base::Zero, self.number("an address")? as i64),
        };
        self.mark(']', "`]`")?;
        Ok(operand)
    }

    /// `+number`, `-number`, `+-number` or nothing.
    fn offset(&mut self) -> Result<i64, ParseError> {
        match self.peek() {
            Kind::Mark('+') => {
                self.next();
                Ok(self.number("an offset")? as i64)
            }
            Kind::Mark('-') => Ok(self.number("an offset")? as i64),
            _ => Ok(0),
        }
    }

    fn pieces(&mut self, end: char, expected: &'static str) -> Result<Vec<Piece<'t>>, ParseError> {
        self.next();
        let mut found = Vec::new();
        if self.takes(end) {
            return Ok(found);
        }
        loop {
            found.push(self.piece()?);
            if !self.takes(',') {
                break;
            }
        }
        self.mark(end, expected)?;
        Ok(found)
    }

    fn piece(&mut self) -> Result<Piece<'t>, ParseError> {
        let Kind::Word(name) = self.peek() else {
            return Ok(Piece::Number(self.number("an operand")?));
        };
        self.next();
        Ok(match self.offset()? {
            0 => Piece::Name(name),
            offset => Piece::Sum(name, offset),
        })
    }
}
