//! Devices: which there are, and which one a kernel may run on.

use std::fmt;
use std::sync::Arc;

use crate::executor::cuda::code::{CallError, Code};
use crate::executor::cuda::driver::{Attribute, DeviceHandle, Driver, Nodes};
use crate::executor::cuda::error::Error;

/// A GPU, with what matters here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Device {
    /// Its place among the devices that the driver shows, from 0.
    pub ordinal: u32,
    /// Its name.
    pub name: String,
    /// Where it sits: domain, bus and device, as `lspci` writes them.
    pub pci: String,
    /// Its compute capability.
    pub capability: (u32, u32),
    /// Multiprocessors.
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory_bytes: u64,
    /// Its memory is the host's.
    pub integrated: bool,
    /// Kernels can reach host memory.
    pub maps_host_memory: bool,
    /// Host and device share one range of addresses.
    pub unified_addressing: bool,
    /// Registered host memory has one address for both.
    pub host_pointers: bool,
    /// Streams have priorities.
    pub priorities: bool,
    /// NICs can reach its memory (GPUDirect RDMA).
    pub gpu_direct_rdma: bool,
    /// Its memory can be handed to NICs as a dma-buf.
    pub dma_buf: bool,
}

impl Device {
    /// Whether the kernels that ship can run here, with rings in host memory.
    ///
    /// # Errors
    /// [`Error::Capability`] and [`Error::Unfit`].
    pub fn check(&self) -> Result<(), Error> {
        let (major, minor) = self.capability;
        if major < LEAST_CAPABILITY {
            return Err(Error::Capability {
                device: self.name.clone(),
                major,
                minor,
            });
        }
        let needs = [
            (self.maps_host_memory, "reach host memory"),
            (
                self.unified_addressing,
                "share addresses with the host (unified addressing)",
            ),
            (self.priorities, "give streams priorities"),
        ];
        match needs.iter().find(|(able, _)| !able) {
            None => Ok(()),
            Some((_, cannot)) => Err(Error::Unfit {
                device: self.name.clone(),
                cannot,
            }),
        }
    }

    pub(super) fn ask(driver: &dyn Driver, ordinal: u32) -> Result<(Self, DeviceHandle), Error> {
        let handle = driver.device(ordinal)?;
        let number = |attribute| driver.attribute(handle, attribute);
        let count = |attribute| number(attribute).map(|value| u32::try_from(value).unwrap_or(0));
        let is = |attribute| number(attribute).map(|value| value != 0);
        // Drivers that do not know an attribute have not got what it asks about.
        let may = |attribute| is(attribute).unwrap_or(false);
        let place = |attribute| count(attribute);
        let device = Self {
            ordinal,
            name: driver.device_name(handle)?,
            pci: format!(
                "{:04x}:{:02x}:{:02x}",
                place(Attribute::PciDomain)?,
                place(Attribute::PciBus)?,
                place(Attribute::PciDevice)?
            ),
            capability: (
                count(Attribute::CapabilityMajor)?,
                count(Attribute::CapabilityMinor)?,
            ),
            multiprocessors: count(Attribute::MultiprocessorCount)?,
            memory_bytes: driver.device_memory(handle)?,
            integrated: is(Attribute::Integrated)?,
            maps_host_memory: is(Attribute::CanMapHostMemory)?,
            unified_addressing: is(Attribute::UnifiedAddressing)?,
            host_pointers: may(Attribute::HostPointerForRegistered),
            priorities: is(Attribute::StreamPriorities)?,
            gpu_direct_rdma: may(Attribute::GpuDirectRdma),
            dma_buf: may(Attribute::DmaBuf),
        };
        Ok((device, handle))
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.capability;
        write!(
            f,
            "{} {} at {}, compute capability {major}.{minor}, {} multiprocessors, {} MiB",
            self.ordinal,
            self.name,
            self.pci,
            self.multiprocessors,
            self.memory_bytes >> 20
        )?;
        let flags = [
            (self.integrated, "integrated"),
            (self.maps_host_memory, "maps host memory"),
            (self.unified_addressing, "unified addressing"),
            (self.gpu_direct_rdma, "GPUDirect RDMA"),
            (self.dma_buf, "dma-buf"),
        ];
        for (_, word) in flags.iter().filter(|(is, _)| *is) {
            write!(f, ", {word}")?;
        }
        Ok(())
    }
}

/// Wakes the driver up and counts devices, at least one.
pub(super) fn start(driver: &Arc<dyn Driver>) -> Result<u32, Error> {
    let found = driver.version().map_err(|error| explain(driver, error))?;
    if found < LEAST_VERSION {
        return Err(Error::DriverTooOld {
            found,
            need: LEAST_VERSION,
        });
    }
    driver.init().map_err(|error| explain(driver, error))?;
    let count = driver
        .device_count()
        .map_err(|error| explain(driver, error))?;
    if count == 0 {
        return Err(Error::NoDevice);
    }
    Ok(count)
}

/// Every device that the driver shows.
pub(super) fn list(driver: &Arc<dyn Driver>) -> Result<Vec<Device>, Error> {
    let count = start(driver)?;
    let devices = (0..count).map(|ordinal| Device::ask(driver.as_ref(), ordinal));
    devices.map(|one| one.map(|(device, _)| device)).collect()
}

/// Why the driver does not start. It says the same for several causes; the device nodes tell them
/// apart.
fn explain(driver: &Arc<dyn Driver>, source: CallError) -> Error {
    let vague = [
        Code::NO_DEVICE,
        Code::OPERATING_SYSTEM,
        Code::NOT_PERMITTED,
        Code::UNKNOWN,
    ];
    if source.code == Code::STUB_LIBRARY {
        return Error::NoDriver {
            why: source.code.to_string(),
        };
    }
    if !vague.contains(&source.code) {
        return Error::Call(source);
    }
    match driver.nodes() {
        Nodes::Absent => Error::NoNodes { source },
        Nodes::Denied(path) => Error::Permission { path, source },
        Nodes::Usable if source.code == Code::NO_DEVICE => Error::NoDevice,
        Nodes::Usable => Error::Call(source),
    }
}

/// PTX ISA 8.3 came with CUDA 12.3, which is driver r545.
const LEAST_VERSION: u32 = 12030;

/// The PTX is for `sm_80`.
const LEAST_CAPABILITY: u32 = 8;
