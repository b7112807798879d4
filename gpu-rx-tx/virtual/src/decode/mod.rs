//! From statements to code: names become slots, spans and indices, and every form of every
//! instruction is checked.

mod arithmetic;
mod control;
mod form;
mod function;
mod meeting;
mod memory;
mod operand;
mod tables;

use std::collections::HashMap;

use crate::module::{Module, Span, Tables};
use crate::parse::{FunctionText, Item, ParseError, Problem, Value, Variable};

/// What a name of the module stands for.
#[derive(Clone, Debug)]
pub(crate) enum Symbol {
    /// An offset into the tables.
    Table(u64),
    /// An offset into the block's memory.
    Shared(u64),
    /// A function.
    Function(Signature),
}

/// What callers must know of a function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Signature {
    /// Its number; nothing if it is declared and not defined.
    pub(crate) index: Option<u32>,
    pub(crate) returns: Vec<Span>,
    pub(crate) parameters: Vec<Span>,
    /// Bytes of both.
    pub(crate) bytes: u64,
    pub(crate) align: u64,
}

type Symbols<'t> = HashMap<&'t str, Symbol>;

/// Makes a module ready to run.
pub(crate) fn module(items: &[Item<'_>]) -> Result<Module, ParseError> {
    let mut layout = Layout::default();
    // Constants first: what may not be written lies in front.
    for wanted in [".const", ".global", ".shared"] {
        for item in items {
            if let Item::Variable(line, variable) = item
                && variable.space == wanted
            {
                layout.variable(*line, variable)?;
            }
        }
        if wanted == ".const" {
            layout.tables.writable_from = layout.tables.bytes.len() as u64;
        }
    }
    for item in items {
        match item {
            Item::Function(function) => layout.function(function)?,
            Item::Variable(line, variable) => layout.fill(*line, variable)?,
        }
    }
    let mut functions = Vec::new();
    let mut entries = HashMap::new();
    for item in items {
        if let Item::Function(text) = item
            && let Some(body) = &text.body
        {
            if text.is_entry {
                entries.insert(text.name.into(), functions.len());
            }
            let signature = match layout.symbols.get(text.name) {
                Some(Symbol::Function(signature)) => signature.clone(),
                _ => Signature::default(),
            };
            functions.push(function::decode(&layout.symbols, text, &signature, body)?);
        }
    }
    Ok(Module {
        functions,
        entries,
        tables: layout.tables,
        shared_bytes: layout.shared_bytes,
    })
}

#[derive(Default)]
struct Layout<'t> {
    symbols: Symbols<'t>,
    tables: Tables,
    shared_bytes: u64,
    functions: u32,
}

impl<'t> Layout<'t> {
    fn variable(&mut self, line: u32, variable: &Variable<'t>) -> Result<(), ParseError> {
        let align = alignment(line, variable.align)?;
        let symbol = if variable.space == ".shared" {
            let start = self.shared_bytes.next_multiple_of(align);
            // One without a size lies behind all others and ends where the launch says.
            self.shared_bytes = start.saturating_add(variable.bytes());
            Symbol::Shared(start)
        } else {
            let start = (self.tables.bytes.len() as u64).next_multiple_of(align);
            let end = start.saturating_add(variable.bytes());
            at_most(line, "bytes of tables", end, MOST_TABLE_BYTES)?;
            self.tables.bytes.resize(end as usize, 0);
            Symbol::Table(start)
        };
        at_most(
            line,
            "bytes of shared memory",
            self.shared_bytes,
            MOST_SHARED_BYTES,
        )?;
        match self.symbols.insert(variable.name, symbol) {
            None => Ok(()),
            Some(_) => Err(twice(line, variable.name)),
        }
    }

    /// Writes a variable's initial values.
    fn fill(&mut self, line: u32, variable: &Variable<'t>) -> Result<(), ParseError> {
        let Some(Symbol::Table(start)) = self.symbols.get(variable.name) else {
            return Ok(());
        };
        let (mut at, size) = (*start as usize, variable.element as usize);
        for value in &variable.values {
            let value = self.value(line, value)?;
            if let Some(bytes) = self.tables.bytes.get_mut(at..at + size) {
                bytes.copy_from_slice(value.to_le_bytes().get(..size).unwrap_or_default());
            }
            at += size;
        }
        Ok(())
    }

    fn value(&self, line: u32, value: &Value<'t>) -> Result<u64, ParseError> {
        let (name, generic, offset, mask) = match *value {
            Value::Number(number) => return Ok(number),
            Value::Symbol {
                name,
                generic,
                offset,
                mask,
            } => (name, generic, offset, mask),
        };
        let address = match self.symbols.get(name) {
            Some(&Symbol::Table(start)) => crate::memory::TABLE_WINDOW | start,
            Some(&Symbol::Shared(start)) if generic => crate::memory::SHARED_WINDOW | start,
            Some(&Symbol::Shared(start)) => start,
            _ => return Err(unknown(line, name)),
        };
        let address = address.wrapping_add_signed(offset);
        Ok(match mask {
            // The bits under the mask, moved down.
            Some(mask) => (address & mask)
                .checked_shr(mask.trailing_zeros())
                .unwrap_or(0),
            None => address,
        })
    }

    fn function(&mut self, text: &FunctionText<'t>) -> Result<(), ParseError> {
        let mut signature = Signature {
            align: 8,
            ..Signature::default()
        };
        for variable in &text.returns {
            let span = signature.place(text.line, variable)?;
            signature.returns.push(span);
        }
        for variable in &text.parameters {
            let span = signature.place(text.line, variable)?;
            signature.parameters.push(span);
        }
        if text.body.is_some() {
            signature.index = Some(self.functions);
            self.functions += 1;
        }
        match self.symbols.get(text.name) {
            None => {}
            Some(Symbol::Function(before))
                if before.returns != signature.returns
                    || before.parameters != signature.parameters =>
            {
                let what = format!("{}, with other parameters", text.name);
                return Err(twice(text.line, &what));
            }
            Some(Symbol::Function(Signature { index: Some(_), .. })) if text.body.is_none() => {
                return Ok(());
            }
            Some(Symbol::Function(Signature { index: None, .. })) => {}
            Some(_) => return Err(twice(text.line, text.name)),
        }
        self.symbols.insert(text.name, Symbol::Function(signature));
        Ok(())
    }
}

impl Signature {
    /// Room in the frame for a parameter or result.
    fn place(&mut self, line: u32, variable: &Variable<'_>) -> Result<Span, ParseError> {
        let align = alignment(line, variable.align)?.max(8);
        at_most(
            line,
            "bytes of a parameter",
            variable.bytes(),
            MOST_FRAME_BYTES,
        )?;
        let offset = self.bytes.next_multiple_of(align);
        self.bytes = (offset + variable.bytes()).next_multiple_of(8);
        self.align = self.align.max(align);
        Ok(Span {
            offset,
            bytes: variable.bytes(),
        })
    }
}

fn alignment(line: u32, align: u64) -> Result<u64, ParseError> {
    match align.is_power_of_two() && align <= 4096 {
        true => Ok(align),
        false => Err(ParseError {
            line,
            problem: Problem::Form {
                instruction: ".align".to_owned(),
                what: format!("{align} is not a power of two up to 4096"),
            },
        }),
    }
}

fn at_most(line: u32, what: &'static str, have: u64, most: u64) -> Result<(), ParseError> {
    match have <= most {
        true => Ok(()),
        false => Err(ParseError {
            line,
            problem: Problem::TooMany { what, have, most },
        }),
    }
}

fn twice(line: u32, name: &str) -> ParseError {
    ParseError {
        line,
        problem: Problem::Twice(name.to_owned()),
    }
}

fn unknown(line: u32, name: &str) -> ParseError {
    ParseError {
        line,
        problem: Problem::Unknown(name.to_owned()),
    }
}

const MOST_TABLE_BYTES: u64 = 64 << 20;
/// As much as any GPU has for a block.
const MOST_SHARED_BYTES: u64 = 228 << 10;
const MOST_FRAME_BYTES: u64 = 512 << 10;

#[cfg(test)]
mod tests {
    use crate::module::Module;

    #[test]
    fn the_ptx_that_ships_is_understood() {
        let text = include_str!("../../../../pipelines/kernels/warpwire.ptx");
        let module = Module::parse(text).unwrap_or_else(|error| panic!("{error}"));
        assert!(module.entries().any(|name| name == "receive_count_mlx5"));
        assert!(module.instructions() > 10_000, "{}", module.instructions());
    }
}
