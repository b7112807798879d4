//! Operands: registers, numbers, symbols, special registers.

use super::form::Form;
use super::function::{Binding, Decoder};
use super::{Symbol, unknown};
use crate::alu::ones;
use crate::memory::TABLE_WINDOW;
use crate::module::{Constant, Flag, Slot, Space, Special};
use crate::parse::{Base, Operand, ParseError, Piece};

impl<'t> Decoder<'_, 't> {
    /// A register that is read as a value of `bits` bits, or a constant of as many.
    pub(super) fn source(
        &mut self,
        form: &Form<'_, 't>,
        operand: &Operand<'t>,
        bits: u32,
    ) -> Result<Slot, ParseError> {
        match operand {
            Operand::Plain(piece) => self.piece(form, *piece, bits, bits),
            _ => Err(form.wrong("expected a register or a number")),
        }
    }

    /// As [`Decoder::source`], from a register of `bits` bits or more.
    pub(super) fn wide_source(
        &mut self,
        form: &Form<'_, 't>,
        operand: &Operand<'t>,
        bits: u32,
    ) -> Result<Slot, ParseError> {
        match operand {
            Operand::Plain(piece) => self.piece(form, *piece, bits, 64),
            _ => Err(form.wrong("expected a register or a number")),
        }
    }

    pub(super) fn piece(
        &mut self,
        form: &Form<'_, 't>,
        piece: Piece<'t>,
        least: u32,
        most: u32,
    ) -> Result<Slot, ParseError> {
        let (name, offset) = match piece {
            Piece::Number(number) => {
                let value = Constant::Value(number & ones(least));
                return self.constant(form.line, value);
            }
            Piece::Name(name) => (name, 0),
            Piece::Sum(name, offset) => (name, offset),
        };
        if let Some(Binding::Registers { first, bits, .. }) = self.binding(name)
            && offset == 0
        {
            return match bits >= least && bits <= most {
                true => Ok(first),
                false => Err(misfit(form, name, bits, least)),
            };
        }
        let constant = match self.symbol(name, offset) {
            Some(constant) => constant,
            None => Constant::Special(special(name).ok_or_else(|| unknown(form.line, name))?),
        };
        self.constant(form.line, constant)
    }

    /// The address of a symbol, in its own space.
    fn symbol(&self, name: &str, offset: i64) -> Option<Constant> {
        if let Some(Binding::Frame(start)) = self.binding(name) {
            return Some(Constant::Local(start.wrapping_add_signed(offset)));
        }
        match self.symbols.get(name)? {
            Symbol::Table(start) => Some(Constant::Value(
                (TABLE_WINDOW | start).wrapping_add_signed(offset),
            )),
            Symbol::Shared(start) => Some(Constant::Value(start.wrapping_add_signed(offset))),
            Symbol::Function(_) => None,
        }
    }

    /// The base and the offset of an address.
    pub(super) fn address(
        &mut self,
        form: &Form<'_, 't>,
        operand: &Operand<'t>,
        space: Space,
    ) -> Result<(Slot, i64), ParseError> {
        let Operand::Address(base, offset) = operand else {
            return Err(form.wrong("expected an address in brackets"));
        };
        let name = match base {
            Base::Zero => return Ok((self.constant(form.line, Constant::Value(0))?, *offset)),
            Base::Name(name) => *name,
        };
        let is_frame = matches!(self.binding(name), Some(Binding::Frame(_)));
        if is_frame && !matches!(space, Space::Local | Space::Param) {
            return Err(form.wrong(format!("`{name}` lies in the frame")));
        }
        let bits = match self.binding(name) {
            Some(Binding::Registers { bits, .. }) => bits.max(32),
            _ => 64,
        };
        Ok((self.piece(form, Piece::Name(name), bits, 64)?, *offset))
    }

    /// A register that is written with a value of `bits` bits.
    pub(super) fn target(
        &mut self,
        form: &Form<'_, 't>,
        operand: &Operand<'t>,
        bits: u32,
    ) -> Result<Slot, ParseError> {
        match operand {
            Operand::Plain(Piece::Name(name)) => match self.register(form, name)? {
                (slot, have) if slot == 0 || have == bits => Ok(slot),
                (_, have) => Err(misfit(form, name, have, bits)),
            },
            _ => Err(form.wrong("expected a register to write to")),
        }
    }

    /// A register that is written, and its bits; slot 0 for `_`.
    pub(super) fn register(
        &self,
        form: &Form<'_, 't>,
        name: &str,
    ) -> Result<(Slot, u32), ParseError> {
        if name == "_" {
            return Ok((0, 64));
        }
        match self.binding(name) {
            Some(Binding::Registers { first, bits, .. }) if bits > 1 => Ok((first, bits)),
            Some(_) => Err(form.wrong(format!("`{name}` is no register for a value"))),
            None => Err(unknown(form.line, name)),
        }
    }

    /// A predicate register that is read.
    pub(super) fn predicate(&self, line: u32, name: &str) -> Result<Flag, ParseError> {
        match self.binding(name) {
            Some(Binding::Registers { first, bits: 1, .. }) => Ok(Flag {
                slot: first,
                flip: 0,
            }),
            _ => Err(unknown(line, name)),
        }
    }

    /// A predicate, negated or not, or a number that stands for one.
    pub(super) fn flag(
        &self,
        form: &Form<'_, 't>,
        operand: &Operand<'t>,
    ) -> Result<Flag, ParseError> {
        match operand {
            Operand::Plain(Piece::Name(name)) => self.predicate(form.line, name),
            Operand::Not(name) => Ok(self.predicate(form.line, name)?.not()),
            Operand::Plain(Piece::Number(0)) => Ok(Flag::FALSE),
            Operand::Plain(Piece::Number(_)) => Ok(Flag::TRUE),
            _ => Err(form.wrong("expected a predicate")),
        }
    }

    /// A predicate register that is written.
    pub(super) fn flag_target(&self, form: &Form<'_, 't>, name: &str) -> Result<Slot, ParseError> {
        match name {
            "_" => Ok(Flag::SINK),
            _ => Ok(self.predicate(form.line, name)?.slot),
        }
    }

    /// One destination, or two with a bar between them; the second is a predicate.
    pub(super) fn target_and_flag(
        &mut self,
        form: &Form<'_, 't>,
        operand: &Operand<'t>,
        bits: u32,
    ) -> Result<(Slot, Slot), ParseError> {
        match operand {
            Operand::Pair(first, second) => {
                let first = Operand::Plain(Piece::Name(first));
                let slot = self.target(form, &first, bits)?;
                Ok((slot, self.flag_target(form, second)?))
            }
            _ => Ok((self.target(form, operand, bits)?, Flag::SINK)),
        }
    }

    /// A number that must stand in the text.
    pub(super) fn immediate(
        &self,
        form: &Form<'_, 't>,
        operand: &Operand<'t>,
    ) -> Result<u64, ParseError> {
        match operand {
            Operand::Plain(Piece::Number(number)) => Ok(*number),
            _ => Err(form.wrong("expected a number")),
        }
    }
}

impl Flag {
    pub(super) fn not(self) -> Self {
        Self {
            flip: !self.flip,
            ..self
        }
    }
}

fn misfit(form: &Form<'_, '_>, name: &str, have: u32, need: u32) -> ParseError {
    form.wrong(format!("`{name}` has {have} bits, the operand {need}"))
}

/// Special registers that do not change while a kernel runs. Grids and blocks have one dimension.
fn special(name: &str) -> Option<Special> {
    Some(match name {
        "%tid.x" => Special::ThreadX,
        "%ntid.x" => Special::ThreadsX,
        "%ctaid.x" => Special::BlockX,
        "%nctaid.x" => Special::BlocksX,
        "%tid.y" | "%tid.z" | "%ctaid.y" | "%ctaid.z" => Special::Zero,
        "%ntid.y" | "%ntid.z" | "%nctaid.y" | "%nctaid.z" => Special::One,
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "WARP_SZ" => Special::Width,
        "%lanemask_eq" => Special::MaskEq,
        "%lanemask_le" => Special::MaskLe,
        "%lanemask_lt" => Special::MaskLt,
        "%lanemask_ge" => Special::MaskGe,
        "%lanemask_gt" => Special::MaskGt,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        "%total_smem_size" => Special::SharedBytes,
        _ => return None,
    })
}
