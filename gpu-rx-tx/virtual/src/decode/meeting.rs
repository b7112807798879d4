//! Instructions that lanes execute together.

use super::form::{Form, Type};
use super::function::Decoder;
use super::tables;
use crate::count::Class;
use crate::module::{Flag, Meeting, MeetingKind, Op};
use crate::parse::{Operand, ParseError, Piece};

impl<'t> Decoder<'_, 't> {
    /// An instruction of a whole warp or block, if it is one.
    pub(super) fn meeting(
        &mut self,
        form: &Form<'_, 't>,
    ) -> Result<Option<(Class, Op)>, ParseError> {
        let op = match form.head {
            "activemask" => {
                let [d] = form.take()?;
                let d = self.target(form, d, 32)?;
                Op::ActiveMask { d }
            }
            "shfl" => self.shuffle(form)?,
            "vote" => self.vote(form)?,
            "redux" => self.reduce(form)?,
            "match" => self.match_lanes(form)?,
            "elect" => self.elect(form)?,
            "bar" | "barrier" if form.name == "bar.warp.sync" => {
                let [mask] = form.take()?;
                let mask = self.source(form, mask, 32)?;
                meeting(MeetingKind::Sync, mask)
            }
            "bar" | "barrier" => self.barrier(form)?,
            _ => return Ok(None),
        };
        Ok(Some((Class::Sync, op)))
    }

    fn shuffle(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = match (form.middle, form.last) {
            ("sync.up", "b32") => MeetingKind::ShuffleUp,
            ("sync.down", "b32") => MeetingKind::ShuffleDown,
            ("sync.bfly", "b32") => MeetingKind::ShuffleButterfly,
            ("sync.idx", "b32") => MeetingKind::ShuffleIndex,
            _ => return Err(form.unknown()),
        };
        let [to, a, b, c, mask] = form.take()?;
        let (d, p) = self.target_and_flag(form, to, 32)?;
        Ok(Op::Meet(Box::new(Meeting {
            kind,
            d,
            p,
            a: self.source(form, a, 32)?,
            b: self.source(form, b, 32)?,
            c: self.source(form, c, 32)?,
            flag: Flag::TRUE,
            mask: self.source(form, mask, 32)?,
        })))
    }

    fn vote(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = match (form.middle, form.last) {
            ("sync.all", "pred") => MeetingKind::VoteAll,
            ("sync.any", "pred") => MeetingKind::VoteAny,
            ("sync.uni", "pred") => MeetingKind::VoteUniform,
            ("sync.ballot", "b32") => MeetingKind::Ballot,
            _ => return Err(form.unknown()),
        };
        let [to, flag, mask] = form.take()?;
        let (d, p) = match (kind, to) {
            (MeetingKind::Ballot, to) => (self.target(form, to, 32)?, Flag::SINK),
            (_, Operand::Plain(Piece::Name(p))) => (0, self.flag_target(form, p)?),
            _ => return Err(form.wrong("expected a predicate to write to")),
        };
        let flag = self.flag(form, flag)?;
        let mask = self.source(form, mask, 32)?;
        Ok(Op::Meet(Box::new(Meeting {
            d,
            p,
            flag,
            ..plain(kind, mask)
        })))
    }

    fn reduce(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = form.kind()?;
        let name = form.middle.strip_prefix("sync.").unwrap_or_default();
        let f = match (name, kind) {
            ("and" | "or" | "xor", Type::Bits(32)) => tables::update(name, kind),
            ("add" | "min" | "max", Type::Unsigned(32) | Type::Signed(32)) => {
                tables::update(name, kind)
            }
            _ => None,
        };
        let f = f.ok_or_else(|| form.unknown())?;
        let [d, a, mask] = form.take()?;
        let d = self.target(form, d, 32)?;
        let a = self.source(form, a, 32)?;
        let mask = self.source(form, mask, 32)?;
        Ok(Op::Meet(Box::new(Meeting {
            d,
            a,
            ..plain(MeetingKind::Reduce(f), mask)
        })))
    }

    fn match_lanes(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let kind = match form.middle {
            "any.sync" => MeetingKind::MatchAny,
            "all.sync" => MeetingKind::MatchAll,
            _ => return Err(form.unknown()),
        };
        let (Type::Bits(bits @ (32 | 64)), [to, a, mask]) = (form.kind()?, form.take()?) else {
            return Err(form.unknown());
        };
        let (d, p) = self.target_and_flag(form, to, 32)?;
        let a = self.source(form, a, bits)?;
        let mask = self.source(form, mask, 32)?;
        Ok(Op::Meet(Box::new(Meeting {
            d,
            p,
            a,
            ..plain(kind, mask)
        })))
    }

    fn elect(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let ("", "sync") = (form.middle, form.last) else {
            return Err(form.unknown());
        };
        let [to, mask] = form.take()?;
        let (d, p) = self.target_and_flag(form, to, 32)?;
        let mask = self.source(form, mask, 32)?;
        Ok(Op::Meet(Box::new(Meeting {
            d,
            p,
            ..plain(MeetingKind::Elect, mask)
        })))
    }

    /// The barrier of the block: number 0, over all its threads.
    fn barrier(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let parts = form.all_parts().filter(|&part| part != "cta");
        let aligned = match (form.head, parts.collect::<Vec<_>>().as_slice()) {
            ("bar", ["sync"]) | ("barrier", ["sync", "aligned"]) => true,
            ("barrier", ["sync"]) => false,
            _ => return Err(form.unknown()),
        };
        let (number, threads) = match form.operands {
            [number] => (number, None),
            [number, threads] => (number, Some(self.source(form, threads, 32)?)),
            _ => return Err(form.wrong("expected the number of a barrier")),
        };
        match self.immediate(form, number)? {
            0 => Ok(Op::Barrier { aligned, threads }),
            number => Err(form.wrong(format!("barrier {number}: a block has barrier 0 only"))),
        }
    }
}

fn meeting(kind: MeetingKind, mask: crate::module::Slot) -> Op {
    Op::Meet(Box::new(plain(kind, mask)))
}

/// A meeting that needs nothing but a mask.
fn plain(kind: MeetingKind, mask: crate::module::Slot) -> Meeting {
    Meeting {
        kind,
        d: 0,
        p: Flag::SINK,
        a: 0,
        b: 0,
        c: 0,
        flag: Flag::TRUE,
        mask,
    }
}
