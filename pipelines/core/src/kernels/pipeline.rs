//! The interpreter: every block polls its ports and runs the stages of each over what it finds.
#![expect(
    unsafe_code,
    reason = "a kernel reads its blocks by the addresses that it is given"
)]

use core::marker::PhantomData;

use warpwire_device::{CopyBlock, Frame, Reader, SharedCounters, Simt};
use warpwire_ring::{Cause, Receive};

use crate::block::{
    Block, BlockCounters, Parameters, PipelineParameters, Port, PortCounters, Steering,
};
use crate::context::add;
use crate::format::RingFormat;
use crate::kernel::{Course, Kernel};
use crate::kernels::count::{IDLE_TURNS, TURNS};
use crate::kernels::input::{Input, Outputs};
use crate::kernels::output::Output;
use crate::program::{MAX_PORTS, Op, Program};
use crate::reason::Reason;
use crate::rule::Rule;
use crate::stage::StageSet;

/// The pipeline kernel for the stages of `Set`, over ports of one or two ring formats. A block is
/// one warp.
#[derive(Clone, Copy, Debug)]
pub struct Pipeline<Set, Near, Far>(PhantomData<(Set, Near, Far)>);

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for PipelineParameters {
    const LAYOUT: u64 = {
        use warpwire_ring::layout::fold;
        let mut hash = warpwire_ring::layout_hash!(PipelineParameters {
            steering,
            stages,
            blocks,
            block_count,
        });
        let parts = [
            warpwire_ring::layout_hash!(Block {
                ports,
                counters,
                near,
                far,
                outputs
            }),
            warpwire_ring::layout_hash!(Port {
                receive,
                transmit,
                program,
                mac,
                flags,
                nic,
                queue,
            }),
            warpwire_ring::layout_hash!(Program {
                ops,
                rules,
                addresses,
                op_count,
                rule_count
            }),
            warpwire_ring::layout_hash!(Op {
                kind,
                when,
                counters,
                counter_count,
                samples,
                args
            }),
            warpwire_ring::layout_hash!(Rule {
                looks,
                kinds,
                vlan,
                qp,
                version,
                source
            }),
            warpwire_ring::layout_hash!(CopyBlock {
                written,
                depth,
                offered,
                slots,
                slot_bytes,
                read
            }),
            warpwire_ring::layout_hash!(PortCounters {
                drops,
                receive_cause,
                transmit_cause
            }),
        ];
        let mut index = 0;
        while index < parts.len() {
            hash = fold(hash, parts[index] as usize);
            index += 1;
        }
        hash
    };

    #[inline(always)]
    fn steering(&self) -> &Steering {
        &self.steering
    }
}

impl<Set: StageSet, Near: RingFormat, Far: RingFormat> Kernel for Pipeline<Set, Near, Far> {
    type Parameters = PipelineParameters;

    unsafe fn run<S: Simt>(simt: &S, parameters: &PipelineParameters) -> Result<(), Cause> {
        let number = simt.block();
        if parameters.stages != Set::LAYOUT || number >= parameters.block_count || simt.warps() != 1
        {
            return Err(Cause::LayoutMismatch);
        }
        let offset = u64::from(number) * size_of::<Block>() as u64;
        let address = parameters.blocks.offset(offset);
        // SAFETY: the kernel's promise: that many blocks lie there, and nobody writes them.
        let block = unsafe { &*(address.value() as *const Block) };
        // SAFETY: the kernel's promise for stop word and heartbeats.
        let course = unsafe { Course::attach(&parameters.steering, number) };
        // SAFETY: the block's counters, live by the kernel's promise.
        let counters = unsafe { SharedCounters::attach(block.counters, BlockCounters::ENTRIES) };
        // SAFETY: passed on.
        unsafe { run_block::<S, Set, Near, Far>(simt, block, counters, course) }
    }
}

/// The transmit queues of a block, of both formats.
struct Senders<Near: RingFormat, Far: RingFormat> {
    near: [Option<Output<Near::Transmit>>; MAX_PORTS],
    far: [Option<Output<Far::Transmit>>; MAX_PORTS],
    split: u32,
}

impl<Near: RingFormat, Far: RingFormat> Outputs for Senders<Near, Far> {
    #[inline(always)]
    fn send<S: Simt, R: Receive>(
        &mut self,
        simt: &S,
        port: u32,
        reader: &Reader<R>,
        frame: Option<(Frame<'_>, u32)>,
        room: u32,
    ) -> Option<Reason> {
        let absent = frame.is_some().then_some(Reason::NO_PORT);
        if port < self.split {
            match self.near.get_mut(port as usize) {
                Some(Some(output)) => output.send(simt, reader, frame, room),
                _ => absent,
            }
        } else {
            match self.far.get_mut((port - self.split) as usize) {
                Some(Some(output)) => output.send(simt, reader, frame, room),
                _ => absent,
            }
        }
    }

    #[inline(always)]
    fn close<S: Simt>(&mut self, simt: &S, counters: SharedCounters) {
        for output in self.near.iter_mut().map_while(Option::as_mut) {
            output.close(simt, counters);
        }
        for output in self.far.iter_mut().map_while(Option::as_mut) {
            output.close(simt, counters);
        }
    }
}

/// *Collective.* Runs one block.
///
/// # Safety
/// *The kernel's promise* for the block and all that it points to.
unsafe fn run_block<S: Simt, Set: StageSet, Near: RingFormat, Far: RingFormat>(
    simt: &S,
    block: &Block,
    counters: SharedCounters,
    mut course: Course,
) -> Result<(), Cause> {
    let (near, far) = (block.near as usize, block.far as usize);
    let sound = near <= MAX_PORTS && far <= MAX_PORTS && !block.ports.is_null();
    if !sound {
        return Err(Cause::LayoutMismatch);
    }
    let first = block.ports.value() as *const Port;
    // SAFETY: the block's ports, live by the kernel's promise.
    let ports = unsafe { core::slice::from_raw_parts(first, near + far) };
    let (near_ports, far_ports) = ports.split_at_checked(near).unwrap_or((ports, &[]));
    let split = block.near;
    let mut senders = Senders::<Near, Far> {
        // SAFETY: the ports' queues, by the kernel's promise.
        near: unsafe { attach_outputs(near_ports) }?,
        // SAFETY: as above.
        far: unsafe { attach_outputs(far_ports) }?,
        split,
    };
    // SAFETY: the ports' queues and programs, by the kernel's promise.
    let mut near: Inputs<'_, Near> = unsafe { attach_inputs(near_ports, 0) }?;
    // SAFETY: as above.
    let mut far: Inputs<'_, Far> = unsafe { attach_inputs(far_ports, split) }?;
    while course.goes_on(simt) {
        let mut found = false;
        for input in near.iter_mut().flatten() {
            found |= input.turn::<S, Set>(simt, block, &mut senders);
        }
        for input in far.iter_mut().flatten() {
            found |= input.turn::<S, Set>(simt, block, &mut senders);
        }
        if simt.is_leader() {
            add(simt, counters, TURNS, 1);
            if !found {
                add(simt, counters, IDLE_TURNS, 1);
            }
        }
        if found {
            simt.give_way();
        } else {
            simt.pause();
        }
    }
    near.iter_mut().flatten().for_each(|input| input.save(simt));
    far.iter_mut().flatten().for_each(|input| input.save(simt));
    senders
        .near
        .iter_mut()
        .flatten()
        .for_each(|output| output.save(simt));
    senders
        .far
        .iter_mut()
        .flatten()
        .for_each(|output| output.save(simt));
    Ok(())
}

type Inputs<'a, F> = [Option<Input<'a, F>>; MAX_PORTS];

/// # Safety
/// *The kernel's promise* for the ports' queues.
unsafe fn attach_outputs<T: warpwire_ring::Transmit>(
    ports: &[Port],
) -> Result<[Option<Output<T>>; MAX_PORTS], Cause> {
    let mut outputs = [const { None }; MAX_PORTS];
    for (slot, port) in outputs.iter_mut().zip(ports) {
        // SAFETY: passed on.
        *slot = Some(unsafe { Output::attach(port) }?);
    }
    Ok(outputs)
}

/// Ports without stages are not received from.
///
/// # Safety
/// *The kernel's promise* for the ports' queues and programs.
unsafe fn attach_inputs<F: RingFormat>(ports: &[Port], first: u32) -> Result<Inputs<'_, F>, Cause> {
    let mut inputs = [const { None }; MAX_PORTS];
    for ((slot, port), number) in inputs.iter_mut().zip(ports).zip(first..) {
        if port.program.op_count > 0 {
            // SAFETY: passed on.
            *slot = Some(unsafe { Input::attach(port, number) }?);
        }
    }
    Ok(inputs)
}
