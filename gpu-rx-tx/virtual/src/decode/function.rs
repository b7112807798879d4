//! A function's body: scopes, labels, and one instruction after the other.

use std::collections::HashMap;

use super::form::Form;
use super::{MOST_FRAME_BYTES, Signature, Symbols, alignment, at_most, twice, unknown};
use crate::module::{Constant, Flag, Function, Instruction, Op, Slot};
use crate::parse::{Body, FunctionText, Guard, Operand, ParseError, Problem, Statement, Variable};

/// What a name within a function stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Binding {
    /// Registers of so many bits, 1 for predicates. A row of them has a count.
    Registers {
        first: Slot,
        count: Option<u16>,
        bits: u32,
    },
    /// An offset into the frame.
    Frame(u64),
}

/// A function that is being decoded.
pub(super) struct Decoder<'a, 't> {
    pub(super) symbols: &'a Symbols<'t>,
    scopes: Vec<HashMap<&'t str, Binding>>,
    pub(super) code: Vec<Instruction>,
    labels: HashMap<&'t str, u32>,
    tables: HashMap<&'t str, Vec<&'t str>>,
    /// Labels of branches, by instruction.
    jumps: Vec<(usize, &'t str)>,
    constants: HashMap<Constant, Slot>,
    registers: u64,
    predicates: u64,
    /// Bytes of the frame in use, and at most.
    frame: u64,
    most_frame: u64,
    align: u64,
}

pub(super) fn decode<'t>(
    symbols: &Symbols<'t>,
    text: &FunctionText<'t>,
    signature: &Signature,
    body: &Body<'t>,
) -> Result<Function, ParseError> {
    let mut decoder = Decoder {
        symbols,
        scopes: vec![HashMap::new()],
        code: Vec::new(),
        labels: HashMap::new(),
        tables: HashMap::new(),
        jumps: Vec::new(),
        constants: HashMap::new(),
        registers: 1,
        predicates: u64::from(Flag::RESERVED),
        frame: signature.bytes,
        most_frame: signature.bytes,
        align: signature.align.max(8),
    };
    let formals = text.returns.iter().zip(&signature.returns);
    for (variable, span) in formals.chain(text.parameters.iter().zip(&signature.parameters)) {
        decoder.bind(text.line, variable.name, Binding::Frame(span.offset))?;
    }
    let mut frames = Vec::new();
    for (line, statement) in body {
        match statement {
            Statement::Open => {
                decoder.scopes.push(HashMap::new());
                frames.push(decoder.frame);
            }
            Statement::Close => {
                decoder.scopes.pop();
                decoder.frame = frames.pop().unwrap_or(decoder.frame);
            }
            _ => decoder.statement(*line, statement)?,
        }
    }
    decoder.finish(text, signature)
}

impl<'t> Decoder<'_, 't> {
    fn statement(&mut self, line: u32, statement: &Statement<'t>) -> Result<(), ParseError> {
        match statement {
            Statement::Open | Statement::Close => Ok(()),
            Statement::Label(name) => {
                let here = self.code.len() as u32;
                match self.labels.insert(name, here) {
                    None => Ok(()),
                    Some(_) => Err(twice(line, name)),
                }
            }
            Statement::Targets { name, labels } => {
                self.tables.insert(name, labels.clone());
                Ok(())
            }
            Statement::Registers { kind, name, count } => self.declare(line, kind, name, *count),
            Statement::Variable(variable) => self.variable(line, variable),
            Statement::Instruction {
                guard,
                name,
                operands,
            } => self.instruction(line, guard.as_ref(), name, operands),
        }
    }

    fn declare(
        &mut self,
        line: u32,
        kind: &str,
        name: &'t str,
        count: Option<u64>,
    ) -> Result<(), ParseError> {
        let bits = match kind {
            ".pred" => 1,
            ".b8" | ".u8" | ".s8" | ".b16" | ".u16" | ".s16" => 16,
            ".b32" | ".u32" | ".s32" => 32,
            ".b64" | ".u64" | ".s64" => 64,
            _ => {
                let problem = Problem::Directive(format!(".reg {kind}"));
                return Err(ParseError { line, problem });
            }
        };
        let used = match bits {
            1 => &mut self.predicates,
            _ => &mut self.registers,
        };
        let first = *used;
        *used = used.saturating_add(count.unwrap_or(1));
        at_most(line, "registers of a function", *used, MOST_REGISTERS)?;
        let binding = Binding::Registers {
            first: first as Slot,
            count: count.map(|count| count as u16),
            bits,
        };
        self.bind(line, name, binding)
    }

    fn variable(&mut self, line: u32, variable: &Variable<'t>) -> Result<(), ParseError> {
        if !matches!(variable.space, ".local" | ".param") {
            let problem = Problem::Directive(format!("{} in a function", variable.space));
            return Err(ParseError { line, problem });
        }
        let align = alignment(line, variable.align)?.max(8);
        at_most(
            line,
            "bytes of a variable",
            variable.bytes(),
            MOST_FRAME_BYTES,
        )?;
        let offset = self.frame.next_multiple_of(align);
        self.frame = (offset + variable.bytes()).next_multiple_of(8);
        at_most(line, "bytes of a frame", self.frame, MOST_FRAME_BYTES)?;
        self.most_frame = self.most_frame.max(self.frame);
        self.align = self.align.max(align);
        self.bind(line, variable.name, Binding::Frame(offset))
    }

    fn bind(&mut self, line: u32, name: &'t str, binding: Binding) -> Result<(), ParseError> {
        let scope = self.scopes.last_mut();
        match scope.and_then(|scope| scope.insert(name, binding)) {
            None => Ok(()),
            Some(_) => Err(twice(line, name)),
        }
    }

    /// What a name stands for, the innermost scope first; `%r7` may be of a row `%r<8>`.
    pub(super) fn binding(&self, name: &str) -> Option<Binding> {
        let found = |name: &str| {
            let mut scopes = self.scopes.iter().rev();
            scopes.find_map(|scope| scope.get(name)).copied()
        };
        match found(name) {
            Some(Binding::Registers { count: Some(_), .. }) => None,
            Some(binding) => Some(binding),
            None => {
                let row = name.trim_end_matches(|c: char| c.is_ascii_digit());
                let index: u16 = name.get(row.len()..)?.parse().ok()?;
                match found(row)? {
                    Binding::Registers {
                        first,
                        count: Some(count),
                        bits,
                    } if index < count => Some(Binding::Registers {
                        first: first + index,
                        count: None,
                        bits,
                    }),
                    _ => None,
                }
            }
        }
    }

    fn instruction(
        &mut self,
        line: u32,
        guard: Option<&Guard<'t>>,
        name: &'t str,
        operands: &[Operand<'t>],
    ) -> Result<(), ParseError> {
        let guard = match guard {
            Some(guard) => {
                let flag = self.predicate(line, guard.register)?;
                match guard.negated {
                    true => flag.not(),
                    false => flag,
                }
            }
            None => Flag::TRUE,
        };
        let form = Form::new(line, name, operands);
        let decoded = match self.compute(&form)? {
            Some(decoded) => Some(decoded),
            None => match self.access(&form)? {
                Some(decoded) => Some(decoded),
                None => self.control(&form)?,
            },
        };
        let decoded = match decoded {
            Some(decoded) => decoded,
            None => self.meeting(&form)?.ok_or_else(|| form.unknown())?,
        };
        let (class, op) = decoded;
        self.code.push(Instruction {
            op,
            guard,
            line,
            class,
            name: name.into(),
        });
        Ok(())
    }

    /// A register that holds `constant` from the start.
    pub(super) fn constant(&mut self, line: u32, constant: Constant) -> Result<Slot, ParseError> {
        if let Some(&slot) = self.constants.get(&constant) {
            return Ok(slot);
        }
        let slot = self.registers;
        self.registers += 1;
        at_most(
            line,
            "registers of a function",
            self.registers,
            MOST_REGISTERS,
        )?;
        self.constants.insert(constant, slot as Slot);
        Ok(slot as Slot)
    }

    /// The instruction that comes next jumps to `label`, which may not be known yet.
    pub(super) fn jump(&mut self, label: &'t str) {
        self.jumps.push((self.code.len(), label));
    }

    /// The labels of a table.
    pub(super) fn table(&self, line: u32, name: &str) -> Result<Vec<&'t str>, ParseError> {
        self.tables
            .get(name)
            .cloned()
            .ok_or_else(|| unknown(line, name))
    }

    fn finish(
        mut self,
        text: &FunctionText<'t>,
        signature: &Signature,
    ) -> Result<Function, ParseError> {
        let mut next = HashMap::<usize, usize>::new();
        for (pc, label) in std::mem::take(&mut self.jumps) {
            let Some(instruction) = self.code.get_mut(pc) else {
                continue;
            };
            let Some(&target) = self.labels.get(label) else {
                return Err(unknown(instruction.line, label));
            };
            match &mut instruction.op {
                Op::Branch(to) => *to = target,
                Op::Table { targets, .. } => {
                    let at = next.entry(pc).or_default();
                    if let Some(to) = targets.get_mut(*at) {
                        *to = target;
                    }
                    *at += 1;
                }
                _ => {}
            }
        }
        let constants = self.constants.into_iter();
        let mut constants: Vec<_> = constants.map(|(value, slot)| (slot, value)).collect();
        constants.sort_unstable_by_key(|&(slot, _)| slot);
        Ok(Function {
            name: text.name.into(),
            code: self.code,
            registers: self.registers as usize,
            predicates: self.predicates as usize,
            constants,
            frame_bytes: self.most_frame,
            frame_align: self.align,
            parameters: signature.parameters.clone(),
            returns: signature.returns.clone(),
            most_threads: text.most_threads,
        })
    }
}

/// Slots have 16 bits.
const MOST_REGISTERS: u64 = 60_000;
