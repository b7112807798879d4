//! A driver that records what it is told, for tests: every call in order, an error at any of them,
//! and how many of the things that it made are still there.
#![expect(unsafe_code, reason = "keeps the signature of an unsafe method")]

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Mutex;

use crate::executor::cuda::code::{CallError, Code};
use crate::executor::cuda::driver::{
    Answer, Attribute, Context, DeviceBlock, DeviceHandle, Driver, Event, Function,
    FunctionAttribute, HostBlock, Kind, LoadError, Module, Nodes, Registration, Shape, Stream,
};
use crate::executor::cuda::session::lock;

/// What a slice does, in the double.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Slice {
    /// It ends after so many looks at its event.
    Ends(u32),
    /// It runs until [`Double::release`].
    Hangs,
    /// The kernel fails.
    Fails(Code),
}

/// A device that the double shows.
#[derive(Clone, Debug)]
pub(super) struct Fake {
    pub(super) name: &'static str,
    pub(super) attributes: BTreeMap<i32, i32>,
}

impl Fake {
    /// A data-centre card.
    pub(super) fn new() -> Self {
        let attributes = [
            (Attribute::MultiprocessorCount, 10),
            (Attribute::Integrated, 0),
            (Attribute::CanMapHostMemory, 1),
            (Attribute::PciBus, 0x1b),
            (Attribute::PciDevice, 0),
            (Attribute::UnifiedAddressing, 1),
            (Attribute::PciDomain, 0),
            (Attribute::CapabilityMajor, 9),
            (Attribute::CapabilityMinor, 0),
            (Attribute::StreamPriorities, 1),
            (Attribute::HostPointerForRegistered, 1),
            (Attribute::GpuDirectRdma, 1),
            (Attribute::DmaBuf, 0),
        ];
        Self {
            name: "Fake 9000",
            attributes: attributes.map(|(name, value)| (name as i32, value)).into(),
        }
    }

    pub(super) fn with(mut self, attribute: Attribute, value: i32) -> Self {
        self.attributes.insert(attribute as i32, value);
        self
    }
}

/// Plays a kernel: gets the number of the launch, from 0.
pub(super) type Kernel = Box<dyn FnMut(u64) -> Slice + Send>;

pub(super) struct State {
    pub(super) calls: Vec<String>,
    /// The call that fails, by its number.
    pub(super) fail: Option<(usize, Code)>,
    pub(super) version: u32,
    pub(super) nodes: Nodes,
    pub(super) devices: Vec<Fake>,
    pub(super) kernels: Vec<&'static str>,
    pub(super) log: &'static str,
    /// Blocks that a multiprocessor holds.
    pub(super) blocks: u32,
    /// How far the device sees host memory from where the host sees it.
    pub(super) shift: u64,
    pub(super) kernel: Option<Kernel>,
    next: u64,
    live: BTreeMap<&'static str, i64>,
    host: BTreeMap<u64, Box<[u64]>>,
    launches: u64,
    slice: Slice,
    /// Nothing hangs any more, whatever is launched after.
    is_released: bool,
}

pub(super) struct Double(Mutex<State>);

impl std::fmt::Debug for Double {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Double")
    }
}

impl Double {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State {
            calls: Vec::new(),
            fail: None,
            version: 12030,
            nodes: Nodes::Usable,
            devices: vec![Fake::new()],
            kernels: vec!["one", "two"],
            log: "",
            blocks: 2,
            shift: 0,
            kernel: None,
            next: 0x1000,
            live: BTreeMap::new(),
            host: BTreeMap::new(),
            launches: 0,
            slice: Slice::Ends(0),
            is_released: false,
        }))
    }

    /// Changes what it shows.
    pub(super) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.0));
    }

    /// Every call so far but for `cuCtxSetCurrent`, which each thread makes as often as it likes.
    pub(super) fn calls(&self) -> Vec<String> {
        let state = lock(&self.0);
        let calls = state.calls.iter();
        calls
            .filter(|call| *call != "cuCtxSetCurrent")
            .cloned()
            .collect()
    }

    /// How many calls there were, and the name of one.
    pub(super) fn count(&self) -> usize {
        lock(&self.0).calls.len()
    }

    pub(super) fn call_at(&self, number: usize) -> String {
        let call = lock(&self.0).calls[number].clone();
        call.split(' ').next().unwrap_or_default().to_owned()
    }

    /// What was made and not given back, by kind.
    pub(super) fn live(&self) -> BTreeMap<&'static str, i64> {
        let mut live = lock(&self.0).live.clone();
        live.retain(|_, count| *count != 0);
        live
    }

    /// Ends a slice that hangs, and those that would.
    pub(super) fn release(&self) {
        self.set(|state| {
            state.slice = Slice::Ends(0);
            state.is_released = true;
        });
    }

    fn call(&self, call: &'static str) -> Answer<()> {
        self.detailed(call, "")
    }

    fn detailed(&self, call: &'static str, detail: &str) -> Answer<()> {
        let mut state = lock(&self.0);
        let number = state.calls.len();
        let words = match detail {
            "" => call.to_owned(),
            detail => format!("{call} {detail}"),
        };
        state.calls.push(words);
        match state.fail {
            Some((failing, code)) if failing == number => Err(CallError { call, code }),
            _ => Ok(()),
        }
    }

    fn make(&self, kind: &'static str) -> u64 {
        let mut state = lock(&self.0);
        *state.live.entry(kind).or_default() += 1;
        state.next += 0x1000;
        state.next
    }

    fn unmake(&self, kind: &'static str) {
        *lock(&self.0).live.entry(kind).or_default() -= 1;
    }
}

impl Driver for Double {
    fn nodes(&self) -> Nodes {
        lock(&self.0).nodes.clone()
    }

    fn version(&self) -> Answer<u32> {
        self.call("cuDriverGetVersion")?;
        Ok(lock(&self.0).version)
    }

    fn init(&self) -> Answer<()> {
        self.call("cuInit")
    }

    fn device_count(&self) -> Answer<u32> {
        self.call("cuDeviceGetCount")?;
        Ok(lock(&self.0).devices.len() as u32)
    }

    fn device(&self, ordinal: u32) -> Answer<DeviceHandle> {
        self.call("cuDeviceGet")?;
        Ok(DeviceHandle(ordinal as i32))
    }

    fn device_name(&self, device: DeviceHandle) -> Answer<String> {
        self.call("cuDeviceGetName")?;
        Ok(lock(&self.0).devices[device.0 as usize].name.to_owned())
    }

    fn device_memory(&self, _device: DeviceHandle) -> Answer<u64> {
        self.call("cuDeviceTotalMem")?;
        Ok(8 << 30)
    }

    fn attribute(&self, device: DeviceHandle, attribute: Attribute) -> Answer<i32> {
        self.call("cuDeviceGetAttribute")?;
        let state = lock(&self.0);
        Ok(state.devices[device.0 as usize].attributes[&(attribute as i32)])
    }

    fn retain_context(&self, _device: DeviceHandle) -> Answer<Context> {
        self.call("cuDevicePrimaryCtxRetain")?;
        Ok(Context(self.make("context")))
    }

    fn release_context(&self, _device: DeviceHandle, _context: Context) -> Answer<()> {
        self.unmake("context");
        self.call("cuDevicePrimaryCtxRelease")
    }

    fn set_current(&self, _context: &Context) -> Answer<()> {
        self.call("cuCtxSetCurrent")
    }

    fn highest_priority(&self) -> Answer<i32> {
        self.call("cuCtxGetStreamPriorityRange")?;
        Ok(-5)
    }

    fn load_module(&self, ptx: &CStr) -> Result<Module, LoadError> {
        assert!(!ptx.is_empty());
        let log = lock(&self.0).log.to_owned();
        self.call("cuModuleLoadDataEx")
            .map_err(|error| LoadError { error, log })?;
        Ok(Module(self.make("module")))
    }

    fn unload_module(&self, _module: Module) -> Answer<()> {
        self.unmake("module");
        self.call("cuModuleUnload")
    }

    fn function(&self, _module: &Module, name: &CStr) -> Answer<Function> {
        let name = name.to_str().expect("UTF-8");
        self.detailed("cuModuleGetFunction", name)?;
        let state = lock(&self.0);
        let place = state.kernels.iter().position(|kernel| *kernel == name);
        let place = place.ok_or(CallError {
            call: "cuModuleGetFunction",
            code: Code::NOT_FOUND,
        })?;
        Ok(Function(place as u64))
    }

    fn finish_loading(&self, _function: Function) -> Answer<()> {
        self.call("cuFuncLoad")
    }

    fn function_attribute(&self, _function: Function, attribute: FunctionAttribute) -> Answer<u32> {
        self.call("cuFuncGetAttribute")?;
        Ok(100 + attribute as u32)
    }

    fn blocks_a_multiprocessor(&self, _function: Function, threads: u32) -> Answer<u32> {
        let threads = threads.to_string();
        self.detailed("cuOccupancyMaxActiveBlocksPerMultiprocessor", &threads)?;
        Ok(lock(&self.0).blocks)
    }

    fn allocate_device(&self, bytes: u64) -> Answer<DeviceBlock> {
        self.call("cuMemAlloc")?;
        let address = self.make("device memory") << 32;
        Ok(DeviceBlock { address, bytes })
    }

    fn free_device(&self, _block: DeviceBlock) -> Answer<()> {
        self.unmake("device memory");
        self.call("cuMemFree")
    }

    fn zero(&self, _block: &DeviceBlock) -> Answer<()> {
        self.call("cuMemsetD8")
    }

    fn copy_in(&self, _block: &DeviceBlock, offset: u64, bytes: &[u8]) -> Answer<()> {
        self.detailed("cuMemcpyHtoD", &format!("{offset}+{}", bytes.len()))
    }

    fn copy_out(&self, _block: &DeviceBlock, offset: u64, into: &mut [u8]) -> Answer<()> {
        into.fill(0xa5);
        self.detailed("cuMemcpyDtoH", &format!("{offset}+{}", into.len()))
    }

    fn copy_across(
        &self,
        _from: &DeviceBlock,
        _to: &DeviceBlock,
        bytes: u64,
        _stream: &Stream,
    ) -> Answer<()> {
        self.detailed("cuMemcpyDtoDAsync", &bytes.to_string())
    }

    fn allocate_host(&self, bytes: u64) -> Answer<HostBlock> {
        self.call("cuMemHostAlloc")?;
        self.make("host memory");
        let mut words = vec![u64::MAX; bytes.div_ceil(8) as usize].into_boxed_slice();
        let address = words.as_mut_ptr() as u64;
        lock(&self.0).host.insert(address, words);
        Ok(HostBlock { address, bytes })
    }

    fn free_host(&self, block: HostBlock) -> Answer<()> {
        self.unmake("host memory");
        let known = lock(&self.0).host.remove(&block.address);
        assert!(known.is_some());
        self.call("cuMemFreeHost")
    }

    fn register(&self, address: u64, bytes: u64, kind: Kind) -> Answer<Registration> {
        self.detailed("cuMemHostRegister", &format!("{bytes} {kind:?}"))?;
        self.make("registration");
        Ok(Registration { address })
    }

    fn unregister(&self, _registration: Registration) -> Answer<()> {
        self.unmake("registration");
        self.call("cuMemHostUnregister")
    }

    fn device_pointer(&self, host: u64) -> Answer<u64> {
        self.call("cuMemHostGetDevicePointer")?;
        Ok(host + lock(&self.0).shift)
    }

    fn create_stream(&self, priority: i32) -> Answer<Stream> {
        self.detailed("cuStreamCreateWithPriority", &priority.to_string())?;
        Ok(Stream(self.make("stream")))
    }

    fn destroy_stream(&self, _stream: Stream) -> Answer<()> {
        self.unmake("stream");
        self.call("cuStreamDestroy")
    }

    fn create_event(&self) -> Answer<Event> {
        self.call("cuEventCreate")?;
        Ok(Event(self.make("event")))
    }

    fn destroy_event(&self, _event: Event) -> Answer<()> {
        self.unmake("event");
        self.call("cuEventDestroy")
    }

    fn record(&self, _event: &Event, _stream: &Stream) -> Answer<()> {
        self.call("cuEventRecord")
    }

    fn is_done(&self, _event: &Event) -> Answer<bool> {
        self.call("cuEventQuery")?;
        let mut state = lock(&self.0);
        match state.slice {
            Slice::Ends(0) => Ok(true),
            Slice::Ends(looks) => {
                state.slice = Slice::Ends(looks - 1);
                Ok(false)
            }
            Slice::Hangs => Ok(false),
            Slice::Fails(code) => Err(CallError {
                call: "cuEventQuery",
                code,
            }),
        }
    }

    unsafe fn launch(
        &self,
        function: Function,
        shape: Shape,
        _stream: &Stream,
        _parameter: u64,
    ) -> Answer<()> {
        let Shape { blocks, threads } = shape;
        let name = lock(&self.0).kernels[function.0 as usize];
        self.detailed("cuLaunchKernel", &format!("{name} {blocks}x{threads}"))?;
        let (mut kernel, number) = {
            let mut state = lock(&self.0);
            state.launches += 1;
            (state.kernel.take(), state.launches - 1)
        };
        let slice = kernel
            .as_mut()
            .map_or(Slice::Ends(0), |kernel| kernel(number));
        self.set(|state| {
            state.kernel = kernel;
            state.slice = match slice {
                Slice::Hangs if state.is_released => Slice::Ends(0),
                slice => slice,
            };
        });
        Ok(())
    }
}
