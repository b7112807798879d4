//! The calls of CUDA's driver that the executor makes, as a trait: the real library, and a double
//! that records them in tests.
#![expect(unsafe_code, reason = "launching carries the kernel's promise")]

use std::ffi::CStr;
use std::fmt;

use crate::executor::cuda::code::CallError;

/// What the driver answers.
pub(crate) type Answer<T> = Result<T, CallError>;

/// Something that the driver made. Whoever has it gives it back once, by value.
macro_rules! handle {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        $(
            $(#[$doc])*
            #[derive(PartialEq, Eq, Debug)]
            pub(crate) struct $name(pub(super) u64);
        )+
    };
}

handle! {
    /// The primary context of a device, retained.
    Context,
    /// A module that was loaded.
    Module,
    /// A stream.
    Stream,
    /// An event.
    Event,
}

/// A device, by the driver's own number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct DeviceHandle(pub(super) i32);

/// A kernel of a module, as long as the module is loaded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Function(pub(super) u64);

/// Memory of a device.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct DeviceBlock {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// Host memory that the driver allocated, locked, and mapped into the device.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct HostBlock {
    pub(super) address: u64,
    pub(super) bytes: u64,
}

/// Host memory of somebody else, locked and mapped into the device.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Registration {
    pub(super) address: u64,
}

/// Numbers of `CUdevice_attribute`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum Attribute {
    MultiprocessorCount = 16,
    Integrated = 18,
    CanMapHostMemory = 19,
    PciBus = 33,
    PciDevice = 34,
    UnifiedAddressing = 41,
    PciDomain = 50,
    CapabilityMajor = 75,
    CapabilityMinor = 76,
    StreamPriorities = 78,
    HostPointerForRegistered = 91,
    GpuDirectRdma = 116,
    DmaBuf = 124,
}

/// Numbers of `CUfunction_attribute`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i32)]
pub(crate) enum FunctionAttribute {
    MaxThreads = 0,
    SharedBytes = 1,
    LocalBytes = 3,
    Registers = 4,
}

/// How host memory is registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Ordinary memory of the process.
    Memory,
    /// Registers or memory of another device, mapped into the process.
    Io,
}

/// The state of `/dev/nvidia*`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Nodes {
    /// There are none.
    Absent,
    /// This one cannot be opened by this user.
    Denied(String),
    /// They are there and can be opened.
    Usable,
}

/// Why a module was not loaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LoadError {
    pub(crate) error: CallError,
    /// What the compiler said.
    pub(crate) log: String,
}

/// The calls. Those about memory, streams, events and kernels need the device's context to be
/// current on the calling thread.
pub(crate) trait Driver: fmt::Debug + Send + Sync {
    /// `/dev/nvidia*`; asked only to explain a refusal.
    fn nodes(&self) -> Nodes;

    /// The CUDA version that the driver knows, such as 12030.
    fn version(&self) -> Answer<u32>;
    fn init(&self) -> Answer<()>;
    fn device_count(&self) -> Answer<u32>;
    fn device(&self, ordinal: u32) -> Answer<DeviceHandle>;
    fn device_name(&self, device: DeviceHandle) -> Answer<String>;
    fn device_memory(&self, device: DeviceHandle) -> Answer<u64>;
    fn attribute(&self, device: DeviceHandle, attribute: Attribute) -> Answer<i32>;

    fn retain_context(&self, device: DeviceHandle) -> Answer<Context>;
    fn release_context(&self, device: DeviceHandle, context: Context) -> Answer<()>;
    fn set_current(&self, context: &Context) -> Answer<()>;
    /// The number of the highest priority of streams.
    fn highest_priority(&self) -> Answer<i32>;

    /// Compiles PTX for the device.
    fn load_module(&self, ptx: &CStr) -> Result<Module, LoadError>;
    fn unload_module(&self, module: Module) -> Answer<()>;
    fn function(&self, module: &Module, name: &CStr) -> Answer<Function>;
    /// Puts the code of a function onto the device now; drivers that know no such call have done
    /// so.
    fn finish_loading(&self, function: Function) -> Answer<()>;
    fn function_attribute(&self, function: Function, attribute: FunctionAttribute) -> Answer<u32>;
    /// Blocks of `threads` threads that a multiprocessor can hold at one time.
    fn blocks_a_multiprocessor(&self, function: Function, threads: u32) -> Answer<u32>;

    fn allocate_device(&self, bytes: u64) -> Answer<DeviceBlock>;
    fn free_device(&self, block: DeviceBlock) -> Answer<()>;
    fn zero(&self, block: &DeviceBlock) -> Answer<()>;
    /// Copies to `offset` bytes into the block; [`Code::INVALID_VALUE`](super::Code) if it does not
    /// fit.
    fn copy_in(&self, block: &DeviceBlock, offset: u64, bytes: &[u8]) -> Answer<()>;
    fn copy_out(&self, block: &DeviceBlock, offset: u64, into: &mut [u8]) -> Answer<()>;
    /// Copies the first bytes from block to block, behind what the stream has to do.
    fn copy_across(
        &self,
        from: &DeviceBlock,
        to: &DeviceBlock,
        bytes: u64,
        stream: &Stream,
    ) -> Answer<()>;

    fn allocate_host(&self, bytes: u64) -> Answer<HostBlock>;
    fn free_host(&self, block: HostBlock) -> Answer<()>;
    /// Locks memory and maps it into the device. Whoever calls keeps it mapped into the process
    /// until it is unregistered.
    fn register(&self, address: u64, bytes: u64, kind: Kind) -> Answer<Registration>;
    fn unregister(&self, registration: Registration) -> Answer<()>;
    /// Where the device sees host memory that was allocated or registered.
    fn device_pointer(&self, host: u64) -> Answer<u64>;

    fn create_stream(&self, priority: i32) -> Answer<Stream>;
    fn destroy_stream(&self, stream: Stream) -> Answer<()>;
    fn create_event(&self) -> Answer<Event>;
    fn destroy_event(&self, event: Event) -> Answer<()>;
    fn record(&self, event: &Event, stream: &Stream) -> Answer<()>;
    /// Whether everything before the event is done.
    fn is_done(&self, event: &Event) -> Answer<bool>;
    /// Starts a kernel with one pointer as its parameter.
    ///
    /// # Safety
    /// *The kernel's promise*, see `warpwire_device::KernelRow`, until the kernel returned.
    unsafe fn launch(
        &self,
        function: Function,
        shape: Shape,
        stream: &Stream,
        parameter: u64,
    ) -> Answer<()>;
}

/// The shape of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub(crate) blocks: u32,
    pub(crate) threads: u32,
}
