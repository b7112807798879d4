//! Where device code serves: in whoever steps it, or in a kernel of its own.
#![expect(
    unsafe_code,
    reason = "attaching and launching carry the promise that all tables are live"
)]

use std::sync::Arc;
use std::time::Duration;

use warpwire_core::block::{Parameters as _, Steering};
use warpwire_core::kernels::ServeParameters;
use warpwire_core::serving::{ServeBlock, Server};
use warpwire_device::Scalar;
use warpwire_gpu::executor::{Clock, Control, Grid, Launch, Parameters, Placement};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_ring::{Cause, DeviceAddress, Location};

use super::super::driver::Thread;
use super::super::error::Error;
use super::layout::Layout;
use crate::runtime::Kit;

/// Where device code serves.
pub(super) enum Run {
    /// In whoever steps it: a server for each block.
    Stepped(Vec<Server<'static>>, Thread),
    /// In a kernel.
    Kernel(Launch),
}

impl Run {
    pub(super) fn stepped(layout: &Layout, clock: &Clock) -> Result<Self, Error> {
        let mut servers = Vec::new();
        for number in 0..layout.each.len() {
            let offset = (number * size_of::<ServeBlock>()) as u64;
            let block = layout.blocks.offset(offset).value() as *const ServeBlock;
            // SAFETY: that many blocks lie there, in memory that stays until all servers are gone,
            // and nobody changes them.
            let block = unsafe { &*block };
            // SAFETY: tables, seats, counters, site, pattern and pairs of the layout, which goes
            // after the servers as the endpoint's memory does; who has the endpoint's news has its
            // streams, and the rings of its listeners are the server's.
            let server = unsafe { Server::attach(block) };
            servers.push(server.map_err(|cause| Error::Ended { cause })?);
        }
        Ok(Self::Stepped(servers, Thread(clock.clone())))
    }

    /// `memory` is what the layout names besides itself.
    pub(super) fn kernel(
        layout: &Layout,
        mut memory: Vec<Arc<Arena>>,
        executor: &CpuExecutor,
        placement: Placement,
    ) -> Result<Self, Error> {
        let block_count = layout.each.len() as u32;
        let words = Arc::new(Arena::new(
            Control::bytes(block_count) as usize + 4096,
            Location::PinnedHost,
        )?);
        let control = Control::allocate(&words, block_count)?;
        let parameters = ServeParameters {
            header: ServeParameters::HEADER,
            steering: Steering {
                stop: control.stop_address(),
                heartbeats: DeviceAddress::NULL,
                turns: 0,
            },
            blocks: layout.blocks,
            block_count,
            reserved: 0,
        };
        let at = words.place(parameters)?.address;
        memory.extend([words, Arc::clone(&layout.arena)]);
        // SAFETY: such parameters lie there; blocks and all that they name lie in the memory of the
        // layout, of the endpoint and of the site; who has the endpoint's news has its streams, and
        // the rings of its listeners are the kernel's.
        let parameters = unsafe { Parameters::new(at, ServeParameters::LAYOUT, memory) };
        let grid = Grid {
            blocks: block_count,
            warps: 1,
        };
        let parameters = parameters.control(control);
        let launch = executor.launch_on(Kit::server()?, grid, parameters, placement)?;
        Ok(Self::Kernel(launch))
    }

    /// One turn. Says whether there was work here.
    pub(super) fn step(&mut self) -> bool {
        let Self::Stepped(servers, thread) = self else {
            return false;
        };
        let simt = Scalar::new(&*thread);
        let turns = servers.iter_mut().map(|server| server.turn(&simt));
        turns.fold(false, |any, busy| any | busy)
    }

    /// Why it ended, if it did by itself.
    pub(super) fn ended(&self) -> Option<Cause> {
        match self {
            Self::Kernel(launch) if launch.is_finished() => {
                Some(launch.report().cause().unwrap_or(Cause::EngineNotRunning))
            }
            _ => None,
        }
    }

    /// Ends it: nobody looks at its streams any more.
    pub(super) fn end(self) -> Result<(), Error> {
        match self {
            Self::Stepped(mut servers, thread) => {
                let simt = Scalar::new(&thread);
                servers.iter_mut().for_each(|server| server.leave(&simt));
            }
            Self::Kernel(launch) => {
                launch.stop();
                launch.join(END)?;
            }
        }
        Ok(())
    }
}

/// How long a kernel may take to end that was asked to.
const END: Duration = Duration::from_secs(5);
