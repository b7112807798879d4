//! A packet generator inside the kernel: frames that an XDP program redirects out of an interface.
//!
//! The kernel itself makes the frames (`BPF_PROG_TEST_RUN` with live frames), so the generator
//! costs far less than a sending socket. A veth peer receives them only while it polls: with a
//! native XDP program attached, or with `ethtool -K PEER gro on`; otherwise they vanish uncounted.

use std::io;
use std::os::fd::OwnedFd;

use super::assembler::Register::{R0, R1, R2};
use super::assembler::{Assembler, Operation, When};
use super::bpf;
use crate::error::Error;

/// Frames of one content that go out of one interface.
#[derive(Debug)]
pub struct LiveFrames {
    program: OwnedFd,
    frame: Vec<u8>,
    batch: u32,
}

/// What the generator does with each frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Sends it out of the interface with this index.
    Out(u32),
    /// Sends some out of an interface, chosen at random, and drops the others: a smaller load
    /// at the same cost.
    Thinned {
        /// The interface's index.
        interface: u32,
        /// How many of 1024 frames are sent.
        of_1024: u32,
    },
}

impl LiveFrames {
    /// Frames per call of the program's batch; the kernel allows 256.
    pub const BATCH: u32 = 64;

    /// Prepares `frame` (14 to 3520 bytes) to go `way`.
    ///
    /// # Errors
    /// [`Error::System`] if the kernel is older than 5.18 or the process lacks CAP_NET_ADMIN and
    /// CAP_BPF, [`Error::Spec`] for a frame that does not fit.
    pub fn new(way: Way, frame: &[u8]) -> Result<Self, Error> {
        if !(14..=3520).contains(&frame.len()) {
            return Err(Error::Spec {
                spec: NAME.to_owned(),
                field: "frame".to_owned(),
                problem: format!("{} bytes", frame.len()),
                cure: "generate frames of 14 to 3520 bytes".to_owned(),
            });
        }
        let fail = |action: &str, source| Error::System {
            nic: NAME.to_owned(),
            action: action.to_owned(),
            source,
            cure: "run as root on Linux 5.18 or later".to_owned(),
        };
        let instructions = program(way)
            .map_err(|fault| fail("assemble", io::Error::other(format!("{fault:?}"))))?;
        let program =
            bpf::load(&instructions, false).map_err(|fault| fail("load", fault.source))?;
        Ok(Self {
            program,
            frame: frame.to_vec(),
            batch: Self::BATCH,
        })
    }

    /// Sends `count` frames and returns when the kernel has handed them all over. Each call sets
    /// buffers up and takes them down again, which takes milliseconds: send many frames a call.
    ///
    /// # Errors
    /// What the kernel said.
    pub fn send(&self, count: u32) -> io::Result<()> {
        bpf::run_live(&self.program, &self.frame, count, self.batch)
    }
}

const NAME: &str = "live frames";

fn program(way: Way) -> Result<Vec<u64>, super::assembler::Fault> {
    const RANDOM: i32 = 7;
    const REDIRECT: i32 = 23;
    const XDP_DROP: i32 = 1;
    let mut code = Assembler::default();
    let end = code.label();
    let interface = match way {
        Way::Out(interface) => interface,
        Way::Thinned { interface, of_1024 } => {
            let send = code.label();
            code.call(RANDOM);
            code.with_value(Operation::And, R0, 1023);
            code.jump_if_value(R0, When::Below, of_1024, send);
            code.with_value(Operation::Move, R0, XDP_DROP);
            code.jump(end);
            code.place(send);
            interface
        }
    };
    code.with_value(Operation::Move, R1, interface as i32);
    code.with_value(Operation::Move, R2, 0);
    code.call(REDIRECT);
    code.place(end);
    code.exit();
    code.finish()
}
