//! The operations: what each end does, and what must have come of it.

use warpwire_protocols::rdma::{Mtu, Service};
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::mlx5::post::Order;

use super::own::Own;
use super::puppet::{Its, Puppet, Received};
use super::{DST, SRC};

/// An operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Send,
    SendImmediate,
    Write,
    WriteImmediate,
    Read,
    FetchAdd,
    CompareSwap,
    /// One that finds something else there.
    CompareMiss,
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Asker {
    Ours,
    Theirs,
}

/// An operation of a size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Case {
    pub(super) operation: Operation,
    pub(super) asker: Asker,
    pub(super) size: u32,
}

/// All that a service has.
pub(super) fn cases(service: Service, mtu: Mtu, largest: u32) -> Vec<Case> {
    use Operation::*;
    let bytes = mtu.bytes();
    let sizes = [
        0,
        1,
        3,
        4,
        bytes - 1,
        bytes,
        bytes + 1,
        4 * bytes + 5,
        65536,
        1 << 20,
    ];
    let largest = match service {
        Service::Rc => largest,
        // More packets in a row than the other end's socket may hold.
        Service::Uc => largest.min(4 * bytes + 5),
        Service::Ud => bytes,
    };
    let operations: &[Operation] = match service {
        Service::Rc => &[Send, SendImmediate, Write, WriteImmediate, Read],
        Service::Uc => &[Send, SendImmediate, Write, WriteImmediate],
        Service::Ud => &[Send, SendImmediate],
    };
    let atomics: &[Operation] = match service {
        Service::Rc => &[FetchAdd, CompareSwap, CompareMiss],
        _ => &[],
    };
    let mut all = Vec::new();
    for asker in [Asker::Ours, Asker::Theirs] {
        for operation in operations.iter().copied() {
            let sizes = sizes.iter().copied().filter(|size| *size <= largest);
            all.extend(sizes.map(|size| Case {
                operation,
                asker,
                size,
            }));
        }
        all.extend(atomics.iter().map(|operation| Case {
            operation: *operation,
            asker,
            size: 8,
        }));
    }
    all
}

impl Case {
    /// Plays it; `seed` decides its bytes.
    pub(super) fn play(
        &self,
        own: &mut Own,
        puppet: &mut Puppet,
        its: &Its,
        seed: u32,
    ) -> Result<(), String> {
        use Operation::*;
        match (self.operation, self.asker) {
            (FetchAdd | CompareSwap | CompareMiss, Asker::Ours) => {
                self.our_atomic(own, puppet, its, seed)
            }
            (FetchAdd | CompareSwap | CompareMiss, Asker::Theirs) => {
                self.their_atomic(own, puppet, seed)
            }
            (Read, Asker::Ours) => {
                puppet.fill(SRC, self.size, seed)?;
                own.fill(DST + u64::from(self.size), GUARD, seed + 1)?;
                own.carry_out(self.order(its, SRC), self.size)?;
                own.check(DST, self.size, seed)?;
                own.check(DST + u64::from(self.size), GUARD, seed + 1)
            }
            (Read, Asker::Theirs) => {
                own.fill(SRC, self.size, seed)?;
                puppet.fill(DST + u64::from(self.size), GUARD, seed + 1)?;
                let (size, place) = (self.size, own.place(SRC));
                puppet.tell(&format!("read {DST} {size} {place}"))?;
                puppet.check(DST, self.size, seed)?;
                puppet.check(DST + u64::from(self.size), GUARD, seed + 1)
            }
            (_, Asker::Ours) => self.our_message(own, puppet, its, seed),
            (_, Asker::Theirs) => self.their_message(own, puppet, seed),
        }
    }

    fn has_immediate(&self) -> bool {
        matches!(
            self.operation,
            Operation::SendImmediate | Operation::WriteImmediate
        )
    }

    fn is_write(&self) -> bool {
        matches!(self.operation, Operation::Write | Operation::WriteImmediate)
    }

    /// Whether a receive is used up.
    fn is_received(&self) -> bool {
        self.operation != Operation::Write
    }

    /// Our request, about the puppet's memory at `at`.
    fn order(&self, its: &Its, at: u64) -> Order {
        let opcode = match self.operation {
            Operation::Send => Opcode::SEND,
            Operation::SendImmediate => Opcode::SEND_IMM,
            Operation::Write => Opcode::WRITE,
            Operation::WriteImmediate => Opcode::WRITE_IMM,
            Operation::Read => Opcode::READ,
            Operation::FetchAdd => Opcode::FETCH_ADD,
            Operation::CompareSwap | Operation::CompareMiss => Opcode::COMPARE_SWAP,
        };
        Order {
            immediate: IMMEDIATE,
            address: its.address + at,
            key: its.key,
            ..Order::new(opcode)
        }
    }

    fn our_message(
        &self,
        own: &mut Own,
        puppet: &mut Puppet,
        its: &Its,
        seed: u32,
    ) -> Result<(), String> {
        own.fill(SRC, self.size, seed)?;
        // What was there before differs in every byte.
        puppet.fill(DST, self.size, seed + 128)?;
        puppet.fill(DST + u64::from(self.size), GUARD, seed + 1)?;
        if self.is_received() {
            let room = if self.is_write() { 0 } else { self.size };
            puppet.post(DST, room)?;
        }
        own.carry_out(self.order(its, DST), self.size)?;
        if self.is_received() {
            let got = puppet.receive()?;
            self.expect(got)?;
        }
        arrived(|| puppet.check(DST, self.size, seed))?;
        puppet.check(DST + u64::from(self.size), GUARD, seed + 1)
    }

    fn their_message(&self, own: &mut Own, puppet: &mut Puppet, seed: u32) -> Result<(), String> {
        puppet.fill(SRC, self.size, seed)?;
        own.fill(DST, self.size, seed + 128)?;
        own.fill(DST + u64::from(self.size), GUARD, seed + 1)?;
        if self.is_received() {
            let room = if self.is_write() { 0 } else { self.size };
            own.post(room)?;
        }
        let word = match self.operation {
            Operation::Send => "send",
            Operation::SendImmediate => "sendimm",
            Operation::Write => "write",
            _ => "writeimm",
        };
        let place = match self.is_write() {
            true => own.place(DST),
            false => "0 0".to_owned(),
        };
        let size = self.size;
        puppet.tell(&format!("{word} {SRC} {size} {place} {IMMEDIATE:x}"))?;
        if self.is_received() {
            let message = own.receive()?;
            let header = own.header();
            self.expect(Received {
                is_write: message.is_write,
                length: message.length - header,
                immediate: message.immediate,
            })?;
        }
        arrived(|| own.check(DST, self.size, seed))?;
        own.check(DST + u64::from(self.size), GUARD, seed + 1)
    }

    fn expect(&self, got: Received) -> Result<(), String> {
        let want = Received {
            is_write: self.is_write(),
            length: self.size,
            immediate: self.has_immediate().then_some(IMMEDIATE),
        };
        match got == want {
            true => Ok(()),
            false => Err(format!("completed as {got:?}, not as {want:?}")),
        }
    }

    /// Operands of an atomic on a word: what is added or put there, what must be there, and what is
    /// there then.
    fn operands(&self, before: u64) -> (u64, u64, u64) {
        let value = 0x0123_4567_89ab_cdef;
        match self.operation {
            Operation::FetchAdd => (value, 0, before.wrapping_add(value)),
            Operation::CompareSwap => (value, before, value),
            _ => (value, before ^ 1, before),
        }
    }

    fn our_atomic(
        &self,
        own: &mut Own,
        puppet: &mut Puppet,
        its: &Its,
        seed: u32,
    ) -> Result<(), String> {
        puppet.fill(DST, 8, seed)?;
        let before = puppet.word(DST)?;
        let (value, compare, after) = self.operands(before);
        let order = Order {
            value,
            compare,
            ..self.order(its, DST)
        };
        own.carry_out(order, 8)?;
        same("what we found", own.word(DST)?, before)?;
        same("what is there then", puppet.word(DST)?, after)
    }

    fn their_atomic(&self, own: &mut Own, puppet: &mut Puppet, seed: u32) -> Result<(), String> {
        own.fill(DST, 8, seed)?;
        let before = own.word(DST)?;
        let (value, compare, after) = self.operands(before);
        let place = own.place(DST);
        let words = match self.operation {
            Operation::FetchAdd => format!("fadd {DST} {place} {value:x}"),
            _ => format!("cswap {DST} {place} {compare:x} {value:x}"),
        };
        puppet.tell(&words)?;
        same("what they found", puppet.word(DST)?, before)?;
        same("what is there then", own.word(DST)?, after)
    }
}

/// Unreliable writes say nothing when they arrive: looks for them a while.
fn arrived(mut check: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let mut outcome = check();
    for _ in 0..LOOKS {
        if outcome.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
        outcome = check();
    }
    outcome
}

fn same(what: &str, have: u64, want: u64) -> Result<(), String> {
    match have == want {
        true => Ok(()),
        false => Err(format!("{what} is {have:#x}, not {want:#x}")),
    }
}

const IMMEDIATE: u32 = 0xcafe_0001;
/// Bytes behind a message that must stay as they are.
const GUARD: u32 = 16;
/// How often a byte is looked at that has not come yet.
const LOOKS: u32 = 10;
