//! The stages and kernels that a command is made with.

use warpwire_core::kernels::entries;
use warpwire_core::stage::StageSet;
use warpwire_core::stages::BuiltIn;
use warpwire_device::KernelRow;
use warpwire_ring::memif::Role;
use warpwire_ring::{Format, QueueBlock};

use crate::file::Catalogue;
use crate::runtime::Error;

/// The stages that pipeline files may name, and the kernels that run them on the CPU executor.
#[derive(Clone, Copy, Debug)]
pub struct Kit {
    catalogue: Catalogue,
    layout: u64,
    tables: [&'static [KernelRow]; 3],
}

impl Kit {
    /// The built-in stages.
    pub const fn built_in() -> Self {
        Self::of::<BuiltIn>(entries::pipelines(), entries::mixed_pipelines())
    }

    /// The stages of `Set`, with the kernels that `pipeline_kernels!` made for it.
    pub const fn of<Set: StageSet>(
        same: &'static [KernelRow],
        mixed: &'static [KernelRow],
    ) -> Self {
        Self {
            catalogue: Catalogue::of::<Set>(),
            layout: Set::LAYOUT,
            tables: [same, mixed, entries::measuring()],
        }
    }

    /// The stages.
    pub const fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// What host and kernel must agree on about the stages.
    pub const fn layout(&self) -> u64 {
        self.layout
    }

    /// Every kernel.
    pub fn kernels(&self) -> impl Iterator<Item = &'static KernelRow> {
        self.tables.into_iter().flatten()
    }

    /// The names of the kernels that PTX of these stages has: queues of one format only.
    pub fn device_kernels(&self) -> Vec<&'static str> {
        let [same, _, measuring] = self.tables;
        same.iter().chain(measuring).map(|row| row.name).collect()
    }

    /// The transport of messages over queues of a format.
    ///
    /// # Errors
    /// [`Error::NoKernel`].
    pub fn transport(word: &str) -> Result<&'static KernelRow, Error> {
        let name = format!("transport_{word}");
        let row = entries::transports().iter().find(|row| row.name == name);
        row.ok_or(Error::NoKernel { name })
    }

    /// The engine of streams over queues of a format.
    ///
    /// # Errors
    /// [`Error::NoKernel`].
    pub fn streams(word: &str) -> Result<&'static KernelRow, Error> {
        let name = format!("streams_{word}");
        let row = entries::streams().iter().find(|row| row.name == name);
        row.ok_or(Error::NoKernel { name })
    }

    /// The server of streams, whatever carries them.
    ///
    /// # Errors
    /// [`Error::NoKernel`].
    pub fn server() -> Result<&'static KernelRow, Error> {
        let name = "serve_streams";
        let row = entries::servers().iter().find(|row| row.name == name);
        row.ok_or_else(|| Error::NoKernel {
            name: name.to_owned(),
        })
    }

    /// A kernel that is an application of messages.
    ///
    /// # Errors
    /// [`Error::NoKernel`].
    pub fn application(name: &str) -> Result<&'static KernelRow, Error> {
        let row = entries::applications().iter().find(|row| row.name == name);
        row.ok_or_else(|| Error::NoKernel {
            name: name.to_owned(),
        })
    }

    /// A kernel by its name.
    ///
    /// # Errors
    /// [`Error::NoKernel`].
    pub fn kernel(&self, name: &str) -> Result<&'static KernelRow, Error> {
        let found = self.kernels().find(|row| row.name == name);
        found.ok_or_else(|| Error::NoKernel {
            name: name.to_owned(),
        })
    }
}

/// The word for a queue's format in the names of kernels; `None` for one that no kernel knows.
pub fn format_word(queue: &QueueBlock) -> Option<&'static str> {
    if queue.format == Format::Mlx5 as u32 {
        return Some("mlx5");
    }
    if queue.format == Format::Xdp as u32 {
        return Some("xdp");
    }
    match Role::of(queue)? {
        Role::Client => Some("memif_client"),
        Role::Server => Some("memif_server"),
    }
}

/// The words in the order in which they stand in the names of kernels for two formats.
pub(super) const FORMAT_WORDS: [&str; 4] = ["mlx5", "xdp", "memif_client", "memif_server"];
