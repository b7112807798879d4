//! The driver itself: `libcuda.so.1`, loaded when it is asked for and never before.
//!
//! Types, numbers and names are those of `cuda.h`, CUDA 12.3. The library stays loaded: it has
//! threads of its own.
#![expect(unsafe_code, reason = "calls a library that is found at run time")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fs::File;
use std::io::ErrorKind;
use std::mem::transmute;
use std::ptr::null_mut;

use crate::executor::cuda::code::{CallError, Code};
use crate::executor::cuda::driver::{
    Answer, Attribute, Context, DeviceBlock, DeviceHandle, Driver, Event, Function,
    FunctionAttribute, HostBlock, Kind, LoadError, Module, Nodes, Registration, Shape, Stream,
};
use crate::executor::cuda::error::Error;
use crate::executor::cuda::file;

/// What `cuda.h` calls a `CUdeviceptr`.
type Address = u64;
/// Contexts, modules, functions, streams and events are pointers to what the driver keeps.
type Opaque = *mut c_void;

macro_rules! calls {
    ($($field:ident = $symbol:literal ($($argument:ty),*);)+) => {
        /// The functions, found by name.
        struct Calls {
            $($field: unsafe extern "C" fn($($argument),*) -> u32,)+
            /// Since CUDA 12.4.
            load_function: Option<unsafe extern "C" fn(Opaque) -> u32>,
        }

        impl Calls {
            fn find(library: Opaque) -> Result<Self, Error> {
                Ok(Self {
                    $($field: {
                        let found = symbol(library, $symbol);
                        let found = found.ok_or(Error::NoCall {
                            call: $symbol.to_str().unwrap_or("a call"),
                        })?;
                        // SAFETY: this is the function's type in cuda.h.
                        unsafe {
                            transmute::<Opaque, unsafe extern "C" fn($($argument),*) -> u32>(found)
                        }
                    },)+
                    load_function: symbol(library, c"cuFuncLoad").map(|found| {
                        // SAFETY: this is the function's type in cuda.h.
                        unsafe { transmute::<Opaque, unsafe extern "C" fn(Opaque) -> u32>(found) }
                    }),
                })
            }
        }
    };
}

calls! {
    driver_version = c"cuDriverGetVersion" (*mut c_int);
    init = c"cuInit" (c_uint);
    device_count = c"cuDeviceGetCount" (*mut c_int);
    device = c"cuDeviceGet" (*mut c_int, c_int);
    device_name = c"cuDeviceGetName" (*mut c_char, c_int, c_int);
    device_memory = c"cuDeviceTotalMem_v2" (*mut usize, c_int);
    device_attribute = c"cuDeviceGetAttribute" (*mut c_int, c_int, c_int);
    retain = c"cuDevicePrimaryCtxRetain" (*mut Opaque, c_int);
    release = c"cuDevicePrimaryCtxRelease_v2" (c_int);
    set_current = c"cuCtxSetCurrent" (Opaque);
    priorities = c"cuCtxGetStreamPriorityRange" (*mut c_int, *mut c_int);
    load = c"cuModuleLoadDataEx"
        (*mut Opaque, *const c_void, c_uint, *mut c_int, *mut *mut c_void);
    unload = c"cuModuleUnload" (Opaque);
    function = c"cuModuleGetFunction" (*mut Opaque, Opaque, *const c_char);
    function_attribute = c"cuFuncGetAttribute" (*mut c_int, c_int, Opaque);
    occupancy = c"cuOccupancyMaxActiveBlocksPerMultiprocessor"
        (*mut c_int, Opaque, c_int, usize);
    allocate = c"cuMemAlloc_v2" (*mut Address, usize);
    free = c"cuMemFree_v2" (Address);
    set = c"cuMemsetD8_v2" (Address, u8, usize);
    copy_in = c"cuMemcpyHtoD_v2" (Address, *const c_void, usize);
    copy_out = c"cuMemcpyDtoH_v2" (*mut c_void, Address, usize);
    copy_across = c"cuMemcpyDtoDAsync_v2" (Address, Address, usize, Opaque);
    allocate_host = c"cuMemHostAlloc" (*mut *mut c_void, usize, c_uint);
    free_host = c"cuMemFreeHost" (*mut c_void);
    register = c"cuMemHostRegister_v2" (*mut c_void, usize, c_uint);
    unregister = c"cuMemHostUnregister" (*mut c_void);
    device_pointer = c"cuMemHostGetDevicePointer_v2" (*mut Address, *mut c_void, c_uint);
    create_stream = c"cuStreamCreateWithPriority" (*mut Opaque, c_uint, c_int);
    destroy_stream = c"cuStreamDestroy_v2" (Opaque);
    create_event = c"cuEventCreate" (*mut Opaque, c_uint);
    destroy_event = c"cuEventDestroy_v2" (Opaque);
    record = c"cuEventRecord" (Opaque, Opaque);
    query = c"cuEventQuery" (Opaque);
    launch = c"cuLaunchKernel"
        (Opaque, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, c_uint, Opaque,
         *mut *mut c_void, *mut *mut c_void);
}

/// The driver of this machine.
pub(super) struct Library {
    calls: Calls,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("libcuda.so.1")
    }
}

impl Library {
    /// Loads the library and finds every function.
    pub(super) fn open() -> Result<Self, Error> {
        if let Some(why) = NAME.to_str().ok().and_then(file::cut_short) {
            return Err(Error::NoDriver { why });
        }
        // SAFETY: the name is a C string; what the library does as it is loaded is the driver's.
        let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        if library.is_null() {
            return Err(Error::NoDriver { why: loader_says() });
        }
        let calls = Calls::find(library)?;
        Ok(Self { calls })
    }
}

/// Success, or the error that names the call.
fn answer(call: &'static str, code: u32) -> Answer<()> {
    match code {
        0 => Ok(()),
        code => Err(CallError {
            call,
            code: Code(code),
        }),
    }
}

/// A count that the driver gives as a signed number.
fn count(number: c_int) -> u32 {
    u32::try_from(number).unwrap_or(0)
}

impl Driver for Library {
    fn nodes(&self) -> Nodes {
        nodes(|path| File::options().read(true).write(true).open(path).map(drop))
    }

    fn version(&self) -> Answer<u32> {
        let mut version = 0;
        // SAFETY: the number is ours to be written.
        let code = unsafe { (self.calls.driver_version)(&mut version) };
        answer("cuDriverGetVersion", code)?;
        Ok(count(version))
    }

    fn init(&self) -> Answer<()> {
        // SAFETY: takes a number.
        answer("cuInit", unsafe { (self.calls.init)(0) })
    }

    fn device_count(&self) -> Answer<u32> {
        let mut devices = 0;
        // SAFETY: the number is ours to be written.
        let code = unsafe { (self.calls.device_count)(&mut devices) };
        answer("cuDeviceGetCount", code)?;
        Ok(count(devices))
    }

    fn device(&self, ordinal: u32) -> Answer<DeviceHandle> {
        let mut device = 0;
        let ordinal = c_int::try_from(ordinal).unwrap_or(c_int::MAX);
        // SAFETY: the number is ours to be written.
        let code = unsafe { (self.calls.device)(&mut device, ordinal) };
        answer("cuDeviceGet", code)?;
        Ok(DeviceHandle(device))
    }

    fn device_name(&self, device: DeviceHandle) -> Answer<String> {
        let mut name = [0 as c_char; 128];
        let most = name.len() as c_int;
        // SAFETY: the bytes are ours to be written, and the call knows how many there are.
        let code = unsafe { (self.calls.device_name)(name.as_mut_ptr(), most, device.0) };
        answer("cuDeviceGetName", code)?;
        let bytes: Vec<u8> = name
            .iter()
            .take_while(|c| **c != 0)
            .map(|c| *c as u8)
            .collect();
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn device_memory(&self, device: DeviceHandle) -> Answer<u64> {
        let mut bytes = 0;
        // SAFETY: the number is ours to be written.
        let code = unsafe { (self.calls.device_memory)(&mut bytes, device.0) };
        answer("cuDeviceTotalMem", code)?;
        Ok(bytes as u64)
    }

    fn attribute(&self, device: DeviceHandle, attribute: Attribute) -> Answer<i32> {
        let mut value = 0;
        let number = attribute as c_int;
        // SAFETY: the number is ours to be written.
        let code = unsafe { (self.calls.device_attribute)(&mut value, number, device.0) };
        answer("cuDeviceGetAttribute", code)?;
        Ok(value)
    }

    fn retain_context(&self, device: DeviceHandle) -> Answer<Context> {
        let mut context = null_mut();
        // SAFETY: the pointer is ours to be written.
        let code = unsafe { (self.calls.retain)(&mut context, device.0) };
        answer("cuDevicePrimaryCtxRetain", code)?;
        Ok(Context(context as u64))
    }

    fn release_context(&self, device: DeviceHandle, _context: Context) -> Answer<()> {
        // SAFETY: the context was retained once and is given back once.
        let code = unsafe { (self.calls.release)(device.0) };
        answer("cuDevicePrimaryCtxRelease", code)
    }

    fn set_current(&self, context: &Context) -> Answer<()> {
        // SAFETY: the context is retained as long as the handle is there.
        let code = unsafe { (self.calls.set_current)(context.0 as Opaque) };
        answer("cuCtxSetCurrent", code)
    }

    fn highest_priority(&self) -> Answer<i32> {
        let (mut least, mut greatest) = (0, 0);
        // SAFETY: both numbers are ours to be written.
        let code = unsafe { (self.calls.priorities)(&mut least, &mut greatest) };
        answer("cuCtxGetStreamPriorityRange", code)?;
        Ok(greatest)
    }

    fn load_module(&self, ptx: &CStr) -> Result<Module, LoadError> {
        let mut module = null_mut();
        let mut log = vec![0u8; LOG_BYTES];
        let mut options = [ERROR_LOG, ERROR_LOG_BYTES];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), LOG_BYTES as *mut c_void];
        let text = ptx.as_ptr().cast();
        // SAFETY: two options and two values, of which the first is a buffer of the second's
        // length, ours to be written; the text ends with a zero.
        let code = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            (self.calls.load)(&mut module, text, 2, options, values)
        };
        match answer("cuModuleLoadDataEx", code) {
            Ok(()) => Ok(Module(module as u64)),
            Err(error) => {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                log.truncate(end);
                let log = String::from_utf8_lossy(&log).into_owned();
                Err(LoadError { error, log })
            }
        }
    }

    fn unload_module(&self, module: Module) -> Answer<()> {
        // SAFETY: the handle is given back once.
        let code = unsafe { (self.calls.unload)(module.0 as Opaque) };
        answer("cuModuleUnload", code)
    }

    fn function(&self, module: &Module, name: &CStr) -> Answer<Function> {
        let mut function = null_mut();
        let module = module.0 as Opaque;
        // SAFETY: the module is loaded, the name a C string, the pointer ours to be written.
        let code = unsafe { (self.calls.function)(&mut function, module, name.as_ptr()) };
        answer("cuModuleGetFunction", code)?;
        Ok(Function(function as u64))
    }

    fn finish_loading(&self, function: Function) -> Answer<()> {
        let Some(load) = self.calls.load_function else {
            return Ok(());
        };
        // SAFETY: the function's module is loaded.
        answer("cuFuncLoad", unsafe { load(function.0 as Opaque) })
    }

    fn function_attribute(&self, function: Function, attribute: FunctionAttribute) -> Answer<u32> {
        let mut value = 0;
        let number = attribute as c_int;
        let function = function.0 as Opaque;
        // SAFETY: the function's module is loaded; the number is ours to be written.
        let code = unsafe { (self.calls.function_attribute)(&mut value, number, function) };
        answer("cuFuncGetAttribute", code)?;
        Ok(count(value))
    }

    fn blocks_a_multiprocessor(&self, function: Function, threads: u32) -> Answer<u32> {
        let mut blocks = 0;
        let function = function.0 as Opaque;
        // SAFETY: the function's module is loaded; the number is ours to be written.
        let code = unsafe { (self.calls.occupancy)(&mut blocks, function, threads as c_int, 0) };
        answer("cuOccupancyMaxActiveBlocksPerMultiprocessor", code)?;
        Ok(count(blocks))
    }

    fn allocate_device(&self, bytes: u64) -> Answer<DeviceBlock> {
        let mut address = 0;
        // SAFETY: the address is ours to be written.
        let code = unsafe { (self.calls.allocate)(&mut address, bytes as usize) };
        answer("cuMemAlloc", code)?;
        Ok(DeviceBlock { address, bytes })
    }

    fn free_device(&self, block: DeviceBlock) -> Answer<()> {
        // SAFETY: the block is given back once.
        answer("cuMemFree", unsafe { (self.calls.free)(block.address) })
    }

    fn zero(&self, block: &DeviceBlock) -> Answer<()> {
        // SAFETY: so many bytes were allocated there.
        let code = unsafe { (self.calls.set)(block.address, 0, block.bytes as usize) };
        answer("cuMemsetD8", code)
    }

    fn copy_in(&self, block: &DeviceBlock, offset: u64, bytes: &[u8]) -> Answer<()> {
        let call = "cuMemcpyHtoD";
        let to = within(call, block, offset, bytes.len())?;
        // SAFETY: the bytes are readable, and as many lie within the block.
        let code = unsafe { (self.calls.copy_in)(to, bytes.as_ptr().cast(), bytes.len()) };
        answer(call, code)
    }

    fn copy_out(&self, block: &DeviceBlock, offset: u64, into: &mut [u8]) -> Answer<()> {
        let call = "cuMemcpyDtoH";
        let from = within(call, block, offset, into.len())?;
        // SAFETY: the bytes are ours to be written, and as many lie within the block.
        let code = unsafe { (self.calls.copy_out)(into.as_mut_ptr().cast(), from, into.len()) };
        answer(call, code)
    }

    fn copy_across(
        &self,
        from: &DeviceBlock,
        to: &DeviceBlock,
        bytes: u64,
        stream: &Stream,
    ) -> Answer<()> {
        let call = "cuMemcpyDtoDAsync";
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        let source = within(call, from, 0, length)?;
        let target = within(call, to, 0, length)?;
        let stream = stream.0 as Opaque;
        // SAFETY: as many bytes lie within both blocks, which whoever calls keeps until the stream
        // is done.
        let code = unsafe { (self.calls.copy_across)(target, source, length, stream) };
        answer(call, code)
    }

    fn allocate_host(&self, bytes: u64) -> Answer<HostBlock> {
        let mut address = null_mut();
        let flags = HOST_PORTABLE | HOST_DEVICE_MAP;
        // SAFETY: the pointer is ours to be written.
        let code = unsafe { (self.calls.allocate_host)(&mut address, bytes as usize, flags) };
        answer("cuMemHostAlloc", code)?;
        let address = address as u64;
        Ok(HostBlock { address, bytes })
    }

    fn free_host(&self, block: HostBlock) -> Answer<()> {
        // SAFETY: the block is given back once.
        let code = unsafe { (self.calls.free_host)(block.address as *mut c_void) };
        answer("cuMemFreeHost", code)
    }

    fn register(&self, address: u64, bytes: u64, kind: Kind) -> Answer<Registration> {
        let io = match kind {
            Kind::Memory => 0,
            Kind::Io => HOST_IO_MEMORY,
        };
        let flags = HOST_PORTABLE | HOST_DEVICE_MAP | io;
        // SAFETY: the driver checks that the pages are there and locks them.
        let code = unsafe { (self.calls.register)(address as *mut c_void, bytes as usize, flags) };
        answer("cuMemHostRegister", code)?;
        Ok(Registration { address })
    }

    fn unregister(&self, registration: Registration) -> Answer<()> {
        // SAFETY: the registration is given back once.
        let code = unsafe { (self.calls.unregister)(registration.address as *mut c_void) };
        answer("cuMemHostUnregister", code)
    }

    fn device_pointer(&self, host: u64) -> Answer<u64> {
        let mut address = 0;
        // SAFETY: the address is ours to be written; the driver looks the other one up.
        let code = unsafe { (self.calls.device_pointer)(&mut address, host as *mut c_void, 0) };
        answer("cuMemHostGetDevicePointer", code)?;
        Ok(address)
    }

    fn create_stream(&self, priority: i32) -> Answer<Stream> {
        let mut stream = null_mut();
        // SAFETY: the pointer is ours to be written.
        let code = unsafe { (self.calls.create_stream)(&mut stream, NON_BLOCKING, priority) };
        answer("cuStreamCreateWithPriority", code)?;
        Ok(Stream(stream as u64))
    }

    fn destroy_stream(&self, stream: Stream) -> Answer<()> {
        // SAFETY: the handle is given back once.
        let code = unsafe { (self.calls.destroy_stream)(stream.0 as Opaque) };
        answer("cuStreamDestroy", code)
    }

    fn create_event(&self) -> Answer<Event> {
        let mut event = null_mut();
        // SAFETY: the pointer is ours to be written.
        let code = unsafe { (self.calls.create_event)(&mut event, EVENT_WITHOUT_TIME) };
        answer("cuEventCreate", code)?;
        Ok(Event(event as u64))
    }

    fn destroy_event(&self, event: Event) -> Answer<()> {
        // SAFETY: the handle is given back once.
        let code = unsafe { (self.calls.destroy_event)(event.0 as Opaque) };
        answer("cuEventDestroy", code)
    }

    fn record(&self, event: &Event, stream: &Stream) -> Answer<()> {
        // SAFETY: both are alive.
        let code = unsafe { (self.calls.record)(event.0 as Opaque, stream.0 as Opaque) };
        answer("cuEventRecord", code)
    }

    fn is_done(&self, event: &Event) -> Answer<bool> {
        // SAFETY: the event is alive.
        let code = unsafe { (self.calls.query)(event.0 as Opaque) };
        match answer("cuEventQuery", code) {
            Ok(()) => Ok(true),
            Err(error) if error.code == Code::NOT_READY => Ok(false),
            Err(error) => Err(error),
        }
    }

    unsafe fn launch(
        &self,
        function: Function,
        shape: Shape,
        stream: &Stream,
        parameter: u64,
    ) -> Answer<()> {
        let mut parameter = parameter;
        let mut parameters: [*mut c_void; 1] = [(&raw mut parameter).cast()];
        let Shape { blocks, threads } = shape;
        let (function, stream) = (function.0 as Opaque, stream.0 as Opaque);
        // SAFETY: the kernel takes one pointer, which the driver copies during the call; what it
        // points to is the caller's promise.
        let code = unsafe {
            let parameters = parameters.as_mut_ptr();
            let extra = null_mut();
            (self.calls.launch)(
                function, blocks, 1, 1, threads, 1, 1, 0, stream, parameters, extra,
            )
        };
        answer("cuLaunchKernel", code)
    }
}

/// What opening the driver's device nodes says. Other users' GPUs may be denied as long as one is
/// not.
fn nodes(open: impl Fn(&str) -> std::io::Result<()>) -> Nodes {
    let denied = |opened: &std::io::Result<()>| {
        let error = opened.as_ref().err();
        error.is_some_and(|error| error.kind() == ErrorKind::PermissionDenied)
    };
    let control = open(CONTROL_NODE);
    if denied(&control) {
        return Nodes::Denied(CONTROL_NODE.to_owned());
    }
    if control.is_err() {
        return Nodes::Absent;
    }
    let mut refused = None;
    for path in (0..MOST_NODES).map(|number| format!("/dev/nvidia{number}")) {
        let opened = open(&path);
        if opened.is_ok() {
            refused = None;
            break;
        }
        if denied(&opened) {
            refused.get_or_insert(path);
        }
    }
    if refused.is_none() && denied(&open(MEMORY_NODE)) {
        refused = Some(MEMORY_NODE.to_owned());
    }
    refused.map_or(Nodes::Usable, Nodes::Denied)
}

/// Where in a block a copy goes, if it stays within.
fn within(call: &'static str, block: &DeviceBlock, offset: u64, length: usize) -> Answer<u64> {
    let end = offset.checked_add(length as u64);
    match end {
        Some(end) if end <= block.bytes => Ok(block.address + offset),
        _ => Err(CallError {
            call,
            code: Code::INVALID_VALUE,
        }),
    }
}

/// A function of a library.
fn symbol(library: Opaque, name: &CStr) -> Option<Opaque> {
    // SAFETY: the library is loaded and the name is a C string.
    let found = unsafe { libc::dlsym(library, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}

/// Why the last library could not be loaded.
fn loader_says() -> String {
    // SAFETY: reads this thread's own message.
    let words: *const c_char = unsafe { libc::dlerror() };
    if words.is_null() {
        return "the dynamic loader does not say why".to_owned();
    }
    // SAFETY: a C string that lives until the next call of the loader on this thread.
    let words = unsafe { CStr::from_ptr(words) };
    words.to_string_lossy().into_owned()
}

const NAME: &CStr = c"libcuda.so.1";

/// The nodes that every process opens, and GPUs' own that are looked at.
const CONTROL_NODE: &str = "/dev/nvidiactl";
const MEMORY_NODE: &str = "/dev/nvidia-uvm";
const MOST_NODES: u32 = 16;

/// Bytes that the compiler may say.
const LOG_BYTES: usize = 16 << 10;

/// `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

/// `CU_MEMHOSTALLOC_*` and `CU_MEMHOSTREGISTER_*`, which have the same values.
const HOST_PORTABLE: c_uint = 1;
const HOST_DEVICE_MAP: c_uint = 2;
const HOST_IO_MEMORY: c_uint = 4;

/// `CU_STREAM_NON_BLOCKING`: does not wait for the application's default stream.
const NON_BLOCKING: c_uint = 1;

/// `CU_EVENT_DISABLE_TIMING`.
const EVENT_WITHOUT_TIME: c_uint = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[test]
    fn device_nodes_tell_what_is_wrong() {
        // Nodes that can be opened, and nodes that may not.
        let cases: &[(&[&str], &[&str], Nodes)] = &[
            (&[], &[], Nodes::Absent),
            (&["/dev/nvidia0"], &[], Nodes::Absent),
            (
                &[],
                &["/dev/nvidiactl"],
                Nodes::Denied("/dev/nvidiactl".to_owned()),
            ),
            (
                &["/dev/nvidiactl"],
                &["/dev/nvidia1", "/dev/nvidia2"],
                Nodes::Denied("/dev/nvidia1".to_owned()),
            ),
            (
                &["/dev/nvidiactl", "/dev/nvidia3"],
                &["/dev/nvidia1"],
                Nodes::Usable,
            ),
            (
                &["/dev/nvidiactl", "/dev/nvidia3"],
                &["/dev/nvidia1", "/dev/nvidia-uvm"],
                Nodes::Denied("/dev/nvidia-uvm".to_owned()),
            ),
            (&["/dev/nvidiactl"], &[], Nodes::Usable),
        ];
        for (usable, denied, want) in cases {
            let found = nodes(|path| match path {
                path if usable.contains(&path) => Ok(()),
                path if denied.contains(&path) => Err(io::ErrorKind::PermissionDenied.into()),
                _ => Err(io::ErrorKind::NotFound.into()),
            });
            assert_eq!(found, *want, "{usable:?} {denied:?}");
        }
    }
}
