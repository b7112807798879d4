//! Instructions that compute on registers.

use super::form::{Form, Type};
use super::function::Decoder;
use super::tables;
use crate::alu::ones;
use crate::count::Class;
use crate::memory::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::module::{Carry, Clock, Comparison, Constant, Convert, Flag, Op, Space};
use crate::parse::{Operand, ParseError, Piece};

type Decoded = Result<Option<(Class, Op)>, ParseError>;

impl<'t> Decoder<'_, 't> {
    /// An instruction that touches registers only, if it is one.
    pub(super) fn compute(&mut self, form: &Form<'_, 't>) -> Decoded {
        let op = match form.head {
            "mov" => return self.mov(form).map(Some),
            "cvta" => self.cvta(form)?,
            "cvt" => self.convert(form)?,
            "setp" => self.setp(form)?,
            "selp" => self.selp(form)?,
            "isspacep" => self.isspacep(form)?,
            "addc" | "subc" | "madc" => self.carry(form)?,
            "add" | "sub" | "mad" if form.parts().any(|part| part == "cc") => self.carry(form)?,
            "bfi" => self.insert(form)?,
            "lop3" => self.lop3(form)?,
            "prmt" => self.permute(form)?,
            "and" | "or" | "xor" | "not" if form.last == "pred" => self.logic(form)?,
            "neg" | "abs" | "not" | "cnot" | "brev" | "popc" | "clz" | "bfind" => {
                self.unary(form)?
            }
            "add" | "sub" | "mul" | "div" | "rem" | "min" | "max" | "and" | "or" | "xor"
            | "shl" | "shr" | "bmsk" => self.binary(form)?,
            "mad" | "shf" | "bfe" => self.ternary(form)?,
            _ => return Ok(None),
        };
        Ok(Some((Class::Arithmetic, op)))
    }

    fn unary(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = form.kind()?;
        let [d, a] = form.take()?;
        let name = named(form);
        let (f, bits) = match tables::counting(name, kind) {
            Some(f) => (f, 32),
            None => {
                let f = tables::one(name, kind).ok_or_else(|| form.unknown())?;
                (f, kind.bits())
            }
        };
        let d = self.target(form, d, bits)?;
        let a = self.source(form, a, kind.bits())?;
        Ok(Op::One { f, d, a })
    }

    fn binary(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = form.kind()?;
        let [d, a, b] = form.take()?;
        let name = named(form);
        let f = tables::two(name, kind).ok_or_else(|| form.unknown())?;
        let bits = kind.bits();
        let result = match name {
            "mul.wide" => 2 * bits,
            _ => bits,
        };
        let d = self.target(form, d, result)?;
        let a = self.source(form, a, bits)?;
        let b = match form.head {
            "shl" | "shr" => self.source(form, b, 32)?,
            _ => self.source(form, b, bits)?,
        };
        Ok(Op::Two { f, d, a, b })
    }

    fn ternary(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = form.kind()?;
        let [d, a, b, c] = form.take()?;
        let name = named(form);
        let f = tables::three(name, kind).ok_or_else(|| form.unknown())?;
        let bits = kind.bits();
        // Widths of the result, of b and of c.
        let (wide, second, third) = match form.head {
            "bfe" => (bits, 32, 32),
            _ if name == "mad.wide" => (2 * bits, bits, 2 * bits),
            _ => (bits, bits, bits),
        };
        let d = self.target(form, d, wide)?;
        let a = self.source(form, a, bits)?;
        let b = self.source(form, b, second)?;
        let c = self.source(form, c, third)?;
        Ok(Op::Three { f, d, a, b, c })
    }

    fn permute(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        // `prmt.b32.mode`: the type stands before the mode.
        let mode = match (form.middle, form.last) {
            ("", "b32") => "",
            ("b32", mode) => mode,
            _ => return Err(form.unknown()),
        };
        let f = tables::permute(mode).ok_or_else(|| form.unknown())?;
        let [d, a, b, c] = form.take()?;
        let d = self.target(form, d, 32)?;
        let a = self.source(form, a, 32)?;
        let b = self.source(form, b, 32)?;
        let c = self.source(form, c, 32)?;
        Ok(Op::Three { f, d, a, b, c })
    }

    fn insert(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let bits = match (form.middle, form.last) {
            ("", "b32") => 32,
            ("", "b64") => 64,
            _ => return Err(form.unknown()),
        };
        let [d, a, b, position, length] = form.take()?;
        let d = self.target(form, d, bits)?;
        let from = [
            self.source(form, a, bits)?,
            self.source(form, b, bits)?,
            self.source(form, position, 32)?,
            self.source(form, length, 32)?,
        ];
        Ok(Op::Insert { bits, d, from })
    }

    fn lop3(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let ("", "b32") = (form.middle, form.last) else {
            return Err(form.unknown());
        };
        let [d, a, b, c, table] = form.take()?;
        let d = self.target(form, d, 32)?;
        let from = [
            self.source(form, a, 32)?,
            self.source(form, b, 32)?,
            self.source(form, c, 32)?,
        ];
        let table = self.immediate(form, table)?;
        let table = u8::try_from(table).map_err(|_| form.wrong("the table has eight bits"))?;
        Ok(Op::Lop3 { table, d, from })
    }

    fn carry(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = form.kind()?;
        let (head, reads) = match form.head.strip_suffix('c') {
            Some(head) => (head, true),
            None => (form.head, false),
        };
        let writes = form.parts().any(|part| part == "cc");
        let rest: Vec<&str> = form.parts().filter(|&part| part != "cc").collect();
        let name = match (head, rest.as_slice()) {
            ("add", []) => "add",
            ("sub", []) => "sub",
            ("mad", ["lo"]) => "mad.lo",
            ("mad", ["hi"]) => "mad.hi",
            _ => return Err(form.unknown()),
        };
        let f = tables::carrying(name, kind).ok_or_else(|| form.unknown())?;
        let bits = kind.bits();
        let (d, from) = match head {
            "mad" => {
                let [d, a, b, c] = form.take()?;
                (d, [a, b, c])
            }
            _ => {
                let [d, a, b] = form.take()?;
                (d, [a, b, b])
            }
        };
        let d = self.target(form, d, bits)?;
        let from = [
            self.source(form, from[0], bits)?,
            self.source(form, from[1], bits)?,
            self.source(form, from[2], bits)?,
        ];
        Ok(Op::Carry(Box::new(Carry {
            f,
            d,
            from,
            reads,
            writes,
        })))
    }

    fn setp(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = form.kind()?;
        let (name, combine) = match form.middle.split_once('.') {
            Some((name, combine)) => {
                let combine = tables::logic(combine).ok_or_else(|| form.unknown())?;
                (name, Some(combine))
            }
            None => (form.middle, None),
        };
        let f = tables::comparison(name, kind).ok_or_else(|| form.unknown())?;
        let (targets, a, b, with) = match (combine, form.operands) {
            (None, [targets, a, b]) => (targets, a, b, Flag::TRUE),
            (Some(_), [targets, a, b, c]) => (targets, a, b, self.flag(form, c)?),
            _ => return Err(form.wrong("operands are missing or too many")),
        };
        let (p, q) = match targets {
            Operand::Pair(p, q) => (self.flag_target(form, p)?, self.flag_target(form, q)?),
            Operand::Plain(Piece::Name(p)) => (self.flag_target(form, p)?, Flag::SINK),
            _ => return Err(form.wrong("expected a predicate to write to")),
        };
        Ok(Op::Compare(Box::new(Comparison {
            f,
            combine: combine.unwrap_or(|a, _| a),
            with,
            p,
            q,
            a: self.source(form, a, kind.bits())?,
            b: self.source(form, b, kind.bits())?,
        })))
    }

    fn selp(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let bits = value_bits(form)?;
        let [d, a, b, by] = form.take()?;
        Ok(Op::Select {
            d: self.target(form, d, bits)?,
            a: self.source(form, a, bits)?,
            b: self.source(form, b, bits)?,
            by: self.flag(form, by)?,
        })
    }

    /// Logic of predicates.
    fn logic(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let (p, a, b, f) = match form.head {
            "not" => {
                let [p, a] = form.take()?;
                let f: fn(u32, u32) -> u32 = |a, _| !a;
                (p, a, Flag::TRUE, f)
            }
            _ => {
                let [p, a, b] = form.take()?;
                let f = tables::logic(form.head).ok_or_else(|| form.unknown())?;
                (p, a, self.flag(form, b)?, f)
            }
        };
        let Operand::Plain(Piece::Name(p)) = p else {
            return Err(form.wrong("expected a predicate to write to"));
        };
        Ok(Op::Logic {
            f,
            p: self.flag_target(form, p)?,
            a: self.flag(form, a)?,
            b,
        })
    }

    fn convert(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let from = form.kind()?;
        if form.middle == "rn.f32" {
            let f = tables::to_float(from).ok_or_else(|| form.unknown())?;
            let [d, a] = form.take()?;
            let d = self.target(form, d, 32)?;
            let a = self.source(form, a, from.bits())?;
            return Ok(Op::One { f, d, a });
        }
        let (saturates, to) = match form.middle.strip_prefix("sat.") {
            Some(to) => (true, to),
            None => (false, form.middle),
        };
        let to = Type::of(to).ok_or_else(|| form.unknown())?;
        let is_int = |kind| matches!(kind, Type::Unsigned(_) | Type::Signed(_));
        if !is_int(from) || !is_int(to) {
            return Err(form.unknown());
        }
        let [d, a] = form.take()?;
        let Operand::Plain(Piece::Name(d)) = d else {
            return Err(form.wrong("expected a register to write to"));
        };
        let (d, have) = self.register(form, d)?;
        if have < to.bits() {
            return Err(form.wrong(format!("the destination has {have} bits")));
        }
        let a = self.wide_source(form, a, from.bits())?;
        let convert = Convert {
            from_bits: from.bits(),
            from_signed: from.is_signed(),
            to_bits: to.bits(),
            to_signed: to.is_signed(),
            saturates,
            register_bits: have,
        };
        Ok(match convert.as_mask() {
            Some(mask) => Op::Mask { d, a, mask },
            None => Op::Convert { d, a, convert },
        })
    }

    fn cvta(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let "u64" = form.last else {
            return Err(form.unknown());
        };
        let (back, space) = match form.middle.strip_prefix("to.") {
            Some(space) => (true, space),
            None => (false, form.middle),
        };
        let window = match space {
            "global" | "const" => 0,
            "local" | "param" => LOCAL_WINDOW,
            "shared" | "shared::cta" => SHARED_WINDOW,
            _ => return Err(form.unknown()),
        };
        let [d, a] = form.take()?;
        let d = self.target(form, d, 64)?;
        let a = self.source(form, a, 64)?;
        let by = match back {
            true => window.wrapping_neg(),
            false => window,
        };
        let b = self.constant(form.line, Constant::Value(by))?;
        let f = tables::two("add", Type::Unsigned(64)).ok_or_else(|| form.unknown())?;
        Ok(Op::Two { f, d, a, b })
    }

    fn isspacep(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let space = match form.last {
            "global" => Space::Global,
            "const" => Space::Const,
            "local" => Space::Local,
            "shared" | "shared::cta" => Space::Shared,
            _ => return Err(form.unknown()),
        };
        let [p, a] = form.take()?;
        let Operand::Plain(Piece::Name(p)) = p else {
            return Err(form.wrong("expected a predicate to write to"));
        };
        Ok(Op::IsSpace {
            p: self.flag_target(form, p)?,
            a: self.source(form, a, 64)?,
            space,
        })
    }

    fn mov(&mut self, form: &Form<'_, 't>) -> Result<(Class, Op), ParseError> {
        let [to, from] = form.take()?;
        if form.last == "pred" {
            let Operand::Plain(Piece::Name(p)) = to else {
                return Err(form.wrong("expected a predicate to write to"));
            };
            let (p, a) = (self.flag_target(form, p)?, self.flag(form, from)?);
            let f: fn(u32, u32) -> u32 = |a, _| a;
            let b = Flag::TRUE;
            return Ok((Class::Move, Op::Logic { f, p, a, b }));
        }
        let bits = value_bits(form)?;
        let op = match (to, from) {
            (Operand::Vector(parts), from) => {
                let bits_each = self.part_bits(form, bits, parts.len())?;
                let mut d = Vec::new();
                for part in parts {
                    d.push(self.target(form, &Operand::Plain(*part), bits_each)?);
                }
                let from = self.source(form, from, bits)?;
                let bits = bits_each;
                Op::Unpack { bits, d, from }
            }
            (to, Operand::Vector(parts)) => {
                let bits_each = self.part_bits(form, bits, parts.len())?;
                let mut from = Vec::new();
                for part in parts {
                    from.push(self.piece(form, *part, bits_each, bits_each)?);
                }
                let d = self.target(form, to, bits)?;
                let bits = bits_each;
                Op::Pack { bits, d, from }
            }
            (to, Operand::Plain(Piece::Name(name))) if clock(name).is_some() => {
                let (clock, have) = clock(name).unwrap_or((Clock::Nanoseconds, 64));
                if have != bits {
                    return Err(form.wrong(format!("`{name}` has {have} bits")));
                }
                let d = self.target(form, to, bits)?;
                Op::Clock { d, clock }
            }
            _ => Op::Copy {
                d: self.target(form, to, bits)?,
                a: self.source(form, from, bits)?,
            },
        };
        Ok((Class::Move, op))
    }

    /// Bits of each of the parts that a value is made of.
    fn part_bits(&self, form: &Form<'_, 't>, bits: u32, parts: usize) -> Result<u32, ParseError> {
        match (bits, parts) {
            (16, 2) | (32, 4) => Err(form.wrong("parts of eight bits are not known")),
            (32 | 64, 2) | (64, 4) => Ok(bits / parts as u32),
            _ => Err(form.wrong(format!("{parts} parts of {bits} bits"))),
        }
    }
}

/// The name without its type.
fn named<'t>(form: &Form<'_, 't>) -> &'t str {
    let with_dot = form.last.len() + 1;
    let length = form.name.len().saturating_sub(with_dot);
    form.name.get(..length).unwrap_or(form.name)
}

/// The type of a value in a register.
fn value_bits(form: &Form<'_, '_>) -> Result<u32, ParseError> {
    match (form.middle, form.kind()?.bits()) {
        ("", bits @ (16 | 32 | 64)) => Ok(bits),
        _ => Err(form.unknown()),
    }
}

/// Special registers that change, and their bits.
fn clock(name: &str) -> Option<(Clock, u32)> {
    Some(match name {
        "%globaltimer" => (Clock::Nanoseconds, 64),
        "%globaltimer_lo" => (Clock::NanosecondsLow, 32),
        "%globaltimer_hi" => (Clock::NanosecondsHigh, 32),
        "%clock64" => (Clock::Cycles, 64),
        "%clock" => (Clock::CyclesLow, 32),
        "%clock_hi" => (Clock::CyclesHigh, 32),
        _ => return None,
    })
}

impl Convert {
    /// The bits to keep, where a conversion does nothing else.
    fn as_mask(&self) -> Option<u64> {
        let kept = self.from_bits.min(self.to_bits);
        let grows = self.from_signed && self.to_bits > self.from_bits;
        let fills = self.to_signed && self.register_bits > self.to_bits;
        let signs = fills && self.to_bits <= self.from_bits;
        (!self.saturates && !grows && !signs).then(|| ones(kept))
    }
}
