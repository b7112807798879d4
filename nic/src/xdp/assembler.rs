//! A small assembler of eBPF: instructions, labels, and jumps that are resolved at the end.
//!
//! ```text
//!  7      0 7  4 3  0 15          0 31           0
//! +--------+----+----+-------------+--------------+
//! | opcode |src |dst |   offset    |  immediate   |   one 64-bit word, little-endian
//! +--------+----+----+-------------+--------------+
//! ```
//! Source: Documentation/bpf/standardization/instruction-set.rst of the kernel.

/// A register. `R0` carries results, `R1` the context at entry; calls destroy `R0` to `R5`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Register {
    R0,
    R1,
    R2,
    R3,
    R4,
    R5,
    R6,
    R7,
    R8,
    R9,
}

/// The width of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Width {
    Word = 0x00,
    Half = 0x08,
    Byte = 0x10,
    Double = 0x18,
}

/// What an arithmetic instruction does to its destination.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Operation {
    Add = 0x00,
    And = 0x50,
    ShiftLeft = 0x60,
    Move = 0xb0,
}

/// When a conditional jump is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum When {
    Equal = 0x10,
    Above = 0x20,
    BitsSet = 0x40,
    NotEqual = 0x50,
    Below = 0xa0,
}

/// A place in the program that jumps can name before it is reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Label(usize);

/// Why a program cannot be finished.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// A jump is farther than 32,767 instructions.
    TooFar,
    /// A label was named and never placed.
    Unplaced,
}

/// A program under construction.
#[derive(Debug, Default)]
pub(super) struct Assembler {
    code: Vec<u64>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    /// A label that is not placed yet.
    pub(super) fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    /// Places a label before the next instruction.
    pub(super) fn place(&mut self, label: Label) {
        let here = self.code.len();
        if let Some(place) = self.places.get_mut(label.0) {
            *place = Some(here);
        }
    }

    /// `to = *(width *)(from + offset)`
    pub(super) fn load(&mut self, width: Width, to: Register, from: Register, offset: i16) {
        self.emit(0x61 | width as u8, to as u8, from as u8, offset, 0);
    }

    /// `to = to <operation> from`, 64 bits.
    pub(super) fn with(&mut self, operation: Operation, to: Register, from: Register) {
        self.emit(0x0f | operation as u8, to as u8, from as u8, 0, 0);
    }

    /// `to = to <operation> value`, 64 bits, the value sign-extended.
    pub(super) fn with_value(&mut self, operation: Operation, to: Register, value: i32) {
        self.emit(0x07 | operation as u8, to as u8, 0, 0, value);
    }

    /// `to = to <operation> value` in the lower 32 bits; the upper ones become 0.
    pub(super) fn with_value_32(&mut self, operation: Operation, to: Register, value: u32) {
        self.emit(0x04 | operation as u8, to as u8, 0, 0, value as i32);
    }

    /// `to = value`, all 64 bits.
    pub(super) fn set(&mut self, to: Register, value: u64) {
        self.emit(0x18, to as u8, 0, 0, value as u32 as i32);
        self.emit(0, 0, 0, 0, (value >> 32) as u32 as i32);
    }

    /// `to = the map behind this file descriptor`
    pub(super) fn set_map(&mut self, to: Register, descriptor: i32) {
        const PSEUDO_MAP_FD: u8 = 1;
        self.emit(0x18, to as u8, PSEUDO_MAP_FD, 0, descriptor);
        self.emit(0, 0, 0, 0, 0);
    }

    /// Turns 16 bits in network order into a number.
    pub(super) fn swap_from_network_16(&mut self, register: Register) {
        self.emit(0xdc, register as u8, 0, 0, 16);
    }

    /// Jumps always.
    pub(super) fn jump(&mut self, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x05, 0, 0, 0, 0);
    }

    /// Jumps when two registers compare so, 64 bits unsigned.
    pub(super) fn jump_if(&mut self, left: Register, when: When, right: Register, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x0d | when as u8, left as u8, right as u8, 0, 0);
    }

    /// Jumps when the lower 32 bits of a register compare so with a value.
    pub(super) fn jump_if_value(&mut self, left: Register, when: When, right: u32, to: Label) {
        self.jumps.push((self.code.len(), to));
        self.emit(0x06 | when as u8, left as u8, 0, 0, right as i32);
    }

    /// Calls a helper by its number.
    pub(super) fn call(&mut self, helper: i32) {
        self.emit(0x85, 0, 0, 0, helper);
    }

    /// Returns `R0`.
    pub(super) fn exit(&mut self) {
        self.emit(0x95, 0, 0, 0, 0);
    }

    /// The program with its jumps resolved.
    ///
    /// # Errors
    /// A [`Fault`].
    pub(super) fn finish(mut self) -> Result<Vec<u64>, Fault> {
        for &(at, Label(label)) in &self.jumps {
            let place = self.places.get(label).copied().flatten();
            let distance = place.ok_or(Fault::Unplaced)? as i64 - at as i64 - 1;
            let offset = i16::try_from(distance).map_err(|_| Fault::TooFar)?;
            if let Some(word) = self.code.get_mut(at) {
                *word |= u64::from(offset as u16) << 16;
            }
        }
        Ok(self.code)
    }

    fn emit(&mut self, opcode: u8, to: u8, from: u8, offset: i16, value: i32) {
        let registers = u64::from(to | from << 4);
        let word = u64::from(opcode) | registers << 8;
        let word = word | u64::from(offset as u16) << 16 | u64::from(value as u32) << 32;
        self.code.push(word);
    }
}

#[cfg(test)]
mod tests {
    use super::Register::{R0, R1, R2, R7};
    use super::*;

    #[test]
    fn instructions_have_the_bytes_of_the_specification() {
        let mut program = Assembler::default();
        let end = program.label();
        program.load(Width::Word, R2, R1, 16);
        program.load(Width::Byte, R0, R7, -3);
        program.with(Operation::Move, R7, R2);
        program.with_value(Operation::Add, R7, 14);
        program.with_value_32(Operation::And, R7, 0xffff_ff00);
        program.set(R1, 0x1122_3344_5566_7788);
        program.jump_if(R2, When::Above, R7, end);
        program.jump_if_value(R2, When::NotEqual, 6, end);
        program.swap_from_network_16(R2);
        program.call(51);
        program.place(end);
        program.exit();
        let bytes: Vec<[u8; 8]> = program
            .finish()
            .expect("labels are placed")
            .into_iter()
            .map(u64::to_le_bytes)
            .collect();
        let want = [
            [0x61, 0x12, 16, 0, 0, 0, 0, 0],
            [0x71, 0x70, 0xfd, 0xff, 0, 0, 0, 0],
            [0xbf, 0x27, 0, 0, 0, 0, 0, 0],
            [0x07, 0x07, 0, 0, 14, 0, 0, 0],
            [0x54, 0x07, 0, 0, 0x00, 0xff, 0xff, 0xff],
            [0x18, 0x01, 0, 0, 0x88, 0x77, 0x66, 0x55],
            [0, 0, 0, 0, 0x44, 0x33, 0x22, 0x11],
            [0x2d, 0x72, 3, 0, 0, 0, 0, 0],
            [0x56, 0x02, 2, 0, 6, 0, 0, 0],
            [0xdc, 0x02, 0, 0, 16, 0, 0, 0],
            [0x85, 0, 0, 0, 51, 0, 0, 0],
            [0x95, 0, 0, 0, 0, 0, 0, 0],
        ];
        assert_eq!(bytes, want);
    }

    #[test]
    fn jumps_too_far_and_labels_nowhere_are_faults() {
        let mut program = Assembler::default();
        let nowhere = program.label();
        program.jump(nowhere);
        assert_eq!(program.finish(), Err(Fault::Unplaced));
        let mut program = Assembler::default();
        let far = program.label();
        program.jump(far);
        (0..40_000).for_each(|_| program.exit());
        program.place(far);
        assert_eq!(program.finish(), Err(Fault::TooFar));
    }
}
