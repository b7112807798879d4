//! Branches, calls, ends.

use super::form::Form;
use super::function::{Binding, Decoder};
use super::{Symbol, unknown};
use crate::count::Class;
use crate::module::{Call, Op, Span};
use crate::parse::{Operand, ParseError, Piece};

impl<'t> Decoder<'_, 't> {
    /// An instruction that says what comes next, if it is one.
    pub(super) fn control(
        &mut self,
        form: &Form<'_, 't>,
    ) -> Result<Option<(Class, Op)>, ParseError> {
        let op = match form.name {
            "bra" | "bra.uni" => {
                let [label] = form.take()?;
                self.jump(label_of(form, label)?);
                Op::Branch(0)
            }
            "brx.idx" | "brx.idx.uni" => self.table_branch(form)?,
            "call" | "call.uni" => self.call(form)?,
            "ret" | "ret.uni" => Op::Return,
            "exit" => Op::Exit,
            "trap" | "brkpt" => Op::Trap,
            "nanosleep.u32" => {
                form.take::<1>()?;
                return Ok(Some((Class::Other, Op::Sleep)));
            }
            "pmevent" | "pmevent.mask" => return Ok(Some((Class::Other, Op::Nothing))),
            _ => return Ok(None),
        };
        Ok(Some((Class::Control, op)))
    }

    fn table_branch(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let [index, table] = form.take()?;
        let labels = self.table(form.line, label_of(form, table)?)?;
        for label in &labels {
            self.jump(label);
        }
        Ok(Op::Table {
            index: self.source(form, index, 32)?,
            targets: vec![0; labels.len()].into(),
        })
    }

    /// `call (results), function, (arguments)`.
    fn call(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let (results, rest) = match form.operands {
            [Operand::List(results), rest @ ..] => (results.as_slice(), rest),
            rest => (&[][..], rest),
        };
        let (function, arguments) = match rest {
            [function] => (function, &[][..]),
            [function, Operand::List(arguments)] => (function, arguments.as_slice()),
            _ => return Err(form.wrong("expected a function and its arguments")),
        };
        let name = label_of(form, function)?;
        if let Some(Binding::Registers { .. }) = self.binding(name) {
            return Err(form.wrong("calls through registers are not known"));
        }
        let Some(Symbol::Function(signature)) = self.symbols.get(name) else {
            return Err(unknown(form.line, name));
        };
        let signature = signature.clone();
        let Some(function) = signature.index else {
            return Err(form.wrong(format!("`{name}` is declared and not defined")));
        };
        Ok(Op::Call(Box::new(Call {
            function,
            arguments: self.spans(form, arguments, &signature.parameters)?,
            results: self.spans(form, results, &signature.returns)?,
        })))
    }

    /// Where the caller's side of parameters or results lies, as large as the function's side.
    fn spans(
        &self,
        form: &Form<'_, 't>,
        names: &[Piece<'t>],
        expected: &[Span],
    ) -> Result<Vec<Span>, ParseError> {
        if names.len() != expected.len() {
            return Err(form.wrong(format!(
                "{} arguments or results, the function has {}",
                names.len(),
                expected.len()
            )));
        }
        let mut found = Vec::new();
        for (piece, span) in names.iter().zip(expected) {
            let Piece::Name(name) = piece else {
                return Err(form.wrong("expected the name of a `.param` variable"));
            };
            let Some(Binding::Frame(offset)) = self.binding(name) else {
                return Err(unknown(form.line, name));
            };
            found.push(Span { offset, ..*span });
        }
        Ok(found)
    }
}

fn label_of<'t>(form: &Form<'_, 't>, operand: &Operand<'t>) -> Result<&'t str, ParseError> {
    match operand {
        Operand::Plain(Piece::Name(name)) => Ok(name),
        _ => Err(form.wrong("expected a name")),
    }
}
