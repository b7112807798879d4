//! Loads, stores, atomics, fences.

use super::form::{Form, Type};
use super::function::Decoder;
use super::tables;
use crate::count::Class;
use crate::memory::{Order, Scope};
use crate::module::{Access, Atomic, Op, Space, Update};
use crate::parse::{Operand, ParseError, Piece};

/// What stands between the head of an access and its type.
struct Modifiers {
    space: Space,
    order: Order,
    scope: Scope,
    elements: usize,
    /// What is none of the others: the operation of an atomic.
    rest: Option<&'static str>,
}

impl<'t> Decoder<'_, 't> {
    /// An instruction that accesses or orders memory, if it is one.
    pub(super) fn access(
        &mut self,
        form: &Form<'_, 't>,
    ) -> Result<Option<(Class, Op)>, ParseError> {
        Ok(Some(match form.head {
            "ld" | "ldu" => (Class::Load, self.load(form)?),
            "st" => (Class::Store, self.store(form)?),
            "atom" | "red" => (Class::Atomic, self.atomic(form)?),
            "fence" | "membar" => (Class::Fence, fence(form)?),
            "prefetch" | "prefetchu" | "discard" | "applypriority" => (Class::Other, Op::Nothing),
            _ => return Ok(None),
        }))
    }

    fn load(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let (kind, modifiers) = self.modified(form, &[])?;
        if matches!(modifiers.order, Order::Release) {
            return Err(form.unknown());
        }
        let [to, from] = form.take()?;
        let mut access = self.any_access(form, kind, &modifiers, from)?;
        let mut sign_bits = 0;
        for piece in pieces(form, to, modifiers.elements)? {
            let Piece::Name(name) = piece else {
                return Err(form.wrong("expected a register to write to"));
            };
            let (slot, have) = self.register(form, name)?;
            if have < kind.bits() {
                return Err(form.wrong(format!("`{name}` has {have} bits")));
            }
            if kind.is_signed() && slot != 0 {
                sign_bits = have as u8;
            }
            access.data.push(slot);
        }
        access.sign_bits = sign_bits;
        Ok(Op::Load(Box::new(access)))
    }

    fn store(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let (kind, modifiers) = self.modified(form, &[])?;
        if matches!(modifiers.order, Order::Acquire) {
            return Err(form.unknown());
        }
        let [to, from] = form.take()?;
        let mut access = self.any_access(form, kind, &modifiers, to)?;
        for piece in pieces(form, from, modifiers.elements)? {
            let slot = self.piece(form, *piece, kind.bits(), 64)?;
            access.data.push(slot);
        }
        Ok(Op::Store(Box::new(access)))
    }

    fn any_access(
        &mut self,
        form: &Form<'_, 't>,
        kind: Type,
        modifiers: &Modifiers,
        address: &Operand<'t>,
    ) -> Result<Access, ParseError> {
        let (base, offset) = self.address(form, address, modifiers.space)?;
        Ok(Access {
            space: modifiers.space,
            order: modifiers.order,
            scope: modifiers.scope,
            size: (kind.bits() / 8) as u8,
            sign_bits: 0,
            base,
            offset,
            data: Vec::new(),
        })
    }

    fn atomic(&mut self, form: &Form<'_, 't>) -> Result<Op, ParseError> {
        let (kind, modifiers) = self.modified(form, OPERATIONS)?;
        let name = modifiers.rest.ok_or_else(|| form.unknown())?;
        let update = match (name, kind) {
            ("cas", Type::Bits(16 | 32 | 64)) => Update::CompareExchange,
            _ => Update::Apply(tables::update(name, kind).ok_or_else(|| form.unknown())?),
        };
        let bits = kind.bits();
        let (d, address, values) = match (form.head, form.operands) {
            ("atom", [d, address, values @ ..]) => (self.target(form, d, bits)?, address, values),
            ("red", [address, values @ ..]) => (0, address, values),
            _ => return Err(form.wrong("operands are missing")),
        };
        let (a, b) = match (update, values) {
            (Update::Apply(_), [a]) => {
                let a = self.source(form, a, bits)?;
                (a, a)
            }
            (Update::CompareExchange, [a, b]) if form.head == "atom" => {
                (self.source(form, a, bits)?, self.source(form, b, bits)?)
            }
            _ => return Err(form.wrong("operands are missing or too many")),
        };
        let order = match modifiers.order {
            Order::Weak => Order::Relaxed,
            order => order,
        };
        let (base, offset) = self.address(form, address, modifiers.space)?;
        Ok(Op::Atomic(Box::new(Atomic {
            space: modifiers.space,
            order,
            scope: modifiers.scope,
            size: (bits / 8) as u8,
            update,
            d,
            base,
            offset,
            a,
            b,
        })))
    }

    /// The type, and what stands before it.
    fn modified(
        &self,
        form: &Form<'_, 't>,
        operations: &[&'static str],
    ) -> Result<(Type, Modifiers), ParseError> {
        let kind = form.kind()?;
        let mut found = Modifiers {
            space: Space::Generic,
            order: Order::Weak,
            scope: Scope::Gpu,
            elements: 1,
            rest: None,
        };
        for part in form.parts() {
            if let Some(space) = space(part) {
                found.space = space;
            } else if let Some(scope) = scope(part) {
                found.scope = scope;
            } else if let Some(&operation) = operations.iter().find(|&&name| name == part) {
                found.rest = Some(operation);
            } else {
                match part {
                    "v2" => found.elements = 2,
                    "v4" => found.elements = 4,
                    "v8" => found.elements = 8,
                    // `mmio.relaxed`: the first word says more.
                    "relaxed" if found.order == Order::Mmio => {}
                    "relaxed" => found.order = Order::Relaxed,
                    "acquire" => found.order = Order::Acquire,
                    "release" => found.order = Order::Release,
                    "acq_rel" => found.order = Order::AcquireRelease,
                    "volatile" => (found.order, found.scope) = (Order::Volatile, Scope::Sys),
                    "mmio" => found.order = Order::Mmio,
                    "weak" => {}
                    _ if is_hint(part) => {}
                    _ => return Err(form.unknown()),
                }
            }
        }
        if kind == Type::Predicate || found.elements * kind.bits() as usize > 256 {
            return Err(form.unknown());
        }
        Ok((kind, found))
    }
}

/// The elements of a vector, which must be so many; a plain operand is one.
fn pieces<'o, 't>(
    form: &Form<'_, 't>,
    operand: &'o Operand<'t>,
    elements: usize,
) -> Result<&'o [Piece<'t>], ParseError> {
    let found = match operand {
        Operand::Plain(piece) => std::slice::from_ref(piece),
        Operand::Vector(pieces) => pieces,
        _ => return Err(form.wrong("expected registers")),
    };
    match found.len() == elements {
        true => Ok(found),
        false => Err(form.wrong(format!("{} elements, expected {elements}", found.len()))),
    }
}

fn fence(form: &Form<'_, '_>) -> Result<Op, ParseError> {
    let mut order = match form.head {
        "membar" => Order::Sequential,
        _ => Order::AcquireRelease,
    };
    let mut reach = Scope::Sys;
    for part in form.all_parts() {
        match part {
            "acq_rel" | "acquire" | "release" => {}
            "sc" => order = Order::Sequential,
            // Between ways to memory that are one here: at least as strong as everything else.
            "proxy" => order = Order::Sequential,
            "async" | "alias" | "gl" | "global" | "shared::cta" | "tensormap::generic" => {}
            _ => reach = scope(part).ok_or_else(|| form.unknown())?,
        }
    }
    Ok(Op::Fence(order, reach))
}

fn space(part: &str) -> Option<Space> {
    Some(match part {
        "global" => Space::Global,
        "const" => Space::Const,
        "shared" | "shared::cta" => Space::Shared,
        "local" => Space::Local,
        "param" | "param::func" | "param::entry" => Space::Param,
        _ => return None,
    })
}

fn scope(part: &str) -> Option<Scope> {
    Some(match part {
        "cta" => Scope::Cta,
        "cluster" => Scope::Cluster,
        "gpu" => Scope::Gpu,
        "sys" => Scope::Sys,
        _ => return None,
    })
}

/// Words that change nothing of what is computed.
fn is_hint(part: &str) -> bool {
    let caching = ["nc", "ca", "cg", "cs", "lu", "cv", "wb", "wt", "unified"];
    let level = ["L1::", "L2::"].iter().any(|level| part.starts_with(level));
    caching.contains(&part) || (level && part != "L2::cache_hint")
}

/// Operations of atomics.
const OPERATIONS: &[&str] = &[
    "and", "or", "xor", "exch", "cas", "add", "inc", "dec", "min", "max",
];
