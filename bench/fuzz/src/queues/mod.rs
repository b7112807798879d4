//! The queues of every format, driven by arbitrary operations: with an honest NIC against a model,
//! and with a hostile one.
//!
//! [`stages`] runs the pipeline kernel over them, [`device`] is the NIC's own half.
//!
//! The NICs, the model and what must hold are those of the property tests in warpwire-device; only
//! the operations come from bytes.

pub mod device;
mod ground;
pub mod stages;

#[path = "../../../../gpu-rx-tx/device/tests/queues/desk.rs"]
#[expect(dead_code, reason = "other tests of warpwire-device use the rest")]
mod desk;
#[path = "../../../../gpu-rx-tx/device/tests/queues/hostile.rs"]
mod hostile;
#[path = "../../../../gpu-rx-tx/device/tests/queues/model.rs"]
mod model;
#[path = "../../../../gpu-rx-tx/device/tests/queues/wires/mod.rs"]
#[expect(dead_code, reason = "other tests of warpwire-device use the rest")]
mod wires;

use crate::choices::Choices;
use hostile::{Op, survives};
use model::{RxOp, TxOp, receive_agrees, transmit_agrees};
use wires::{Client, Memif, Mlx5, STARTS, Server, Xdp};

/// Reads a wire, a depth, a starting index and operations, and plays them.
macro_rules! on_a_wire {
    ($data:expr, $read:ident, $play:ident) => {
        let mut choices = Choices::new($data);
        if let Some((wire, depth, start)) = queue(&mut choices) {
            let ops: Vec<_> = std::iter::from_fn(|| $read(&mut choices)).collect();
            match wire {
                0 => $play::<Memif<Client>>(depth, start, &ops),
                1 => $play::<Memif<Server>>(depth, start, &ops),
                2 => $play::<Xdp>(depth, start, &ops),
                3 => $play::<Mlx5<1>>(depth, start, &ops),
                _ => $play::<Mlx5<4>>(depth, start, &ops),
            }
        }
    };
}
/// An honest NIC: frames come in order and unchanged, each once, and what is given back is counted.
pub fn receive(data: &[u8]) {
    on_a_wire!(data, receive_op, receive_agrees);
}

/// An honest NIC: frames go out in order and unchanged, each once, and a full queue says so.
pub fn transmit(data: &[u8]) {
    on_a_wire!(data, transmit_op, transmit_agrees);
}

/// A NIC that writes what it likes to all memory that it shares with us.
pub fn hostile(data: &[u8]) {
    on_a_wire!(data, hostile_op, survives);
}

fn queue(choices: &mut Choices<'_>) -> Option<(u32, u32, u64)> {
    let wire = choices.below(5)?;
    let depth = choices.one(&[4, 8, 32, 64])?;
    Some((wire, depth, choices.one(&STARTS)?))
}

fn receive_op(choices: &mut Choices<'_>) -> Option<RxOp> {
    let kind = choices.below(8)?;
    Some(match kind {
        0 => RxOp::Deliver(choices.below(10)?.max(1) as usize),
        1 => RxOp::DeliverBad,
        2 => RxOp::Peek(choices.below(80)?),
        3 => RxOp::Release(choices.below(8)? as usize),
        4 => RxOp::Lend(choices.below(8)? as usize),
        5 => RxOp::GiveBack(choices.below(16)? as usize),
        6 => RxOp::PutBack,
        _ => RxOp::Restart,
    })
}

fn transmit_op(choices: &mut Choices<'_>) -> Option<TxOp> {
    let kind = choices.below(6)?;
    Some(match kind {
        0 => TxOp::Send {
            frames: choices.below(40)?,
            parts: choices.below(4)?.max(1),
            more: choices.below(4)?,
        },
        1 => TxOp::SendCut {
            frames: choices.below(8)?,
        },
        2 => TxOp::Take(choices.below(40)?),
        3 => TxOp::Complete(choices.below(40)?),
        4 => TxOp::Poll,
        _ => TxOp::Restart,
    })
}

fn hostile_op(choices: &mut Choices<'_>) -> Option<Op> {
    let kind = choices.below(13)?;
    Some(match kind {
        0 => Op::Poke {
            at: choices.u32()?,
            value: choices.u64()?,
            bytes: choices.one(&[1, 2, 4, 8])?,
        },
        1 | 2 => Op::Forge {
            receive: kind == 1,
            words: [
                choices.u32()?,
                choices.u32()?,
                choices.u32()?,
                choices.u32()?,
            ],
        },
        3 => Op::Peek(choices.below(80)?),
        4 => Op::Wait {
            max: choices.below(80)?,
            pauses: choices.below(9)?,
        },
        5 => Op::Release(choices.below(8)? as usize),
        6 => Op::Lend(choices.below(8)? as usize),
        7 => Op::Gather(choices.below(8)? as usize),
        8 => Op::GiveBack(choices.below(16)? as usize),
        9 => Op::PutBack,
        10 => Op::Pass(choices.below(8)? as usize),
        11 => Op::Send {
            frames: choices.below(40)?,
            parts: choices.below(4)?.max(1),
        },
        _ => choices.one(&[Op::Poll, Op::Restart, Op::Work])?,
    })
}
