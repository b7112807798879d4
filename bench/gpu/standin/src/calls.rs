//! The functions of `cuda.h` that the CUDA executor calls, by their names and types there.
#![expect(
    unsafe_code,
    reason = "functions of a C library, with the promises of cuda.h"
)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::slice;

use warpwire_gpu::executor::Grid;
use warpwire_ring::DeviceAddress;

use crate::NAME;
use crate::machine::{Answer, Loaded, Origin, code, machine};

/// A pointer to what the driver keeps; here a number.
type Handle = *mut c_void;

fn number(answer: Answer) -> u32 {
    answer.err().unwrap_or(0)
}

/// Writes where the caller says.
///
/// # Safety
/// The place is null or may be written.
unsafe fn put<T>(place: *mut T, value: Answer<T>) -> u32 {
    match value {
        Ok(_) if place.is_null() => code::INVALID_VALUE,
        Ok(value) => {
            // SAFETY: not null, and to be written by the caller's promise.
            unsafe { place.write(value) };
            0
        }
        Err(code) => code,
    }
}

fn to_handle(handle: u64) -> Handle {
    handle as Handle
}

/// Makes a function of the library. All of them take what `cuda.h` says.
macro_rules! calls {
    ($($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) $body:block)+) => {
        $(
            $(#[$doc])*
            ///
            /// # Safety
            /// As `cuda.h` says: pointers are null, or lead to what the call reads or writes.
            #[unsafe(no_mangle)]
            pub(crate) unsafe extern "C" fn $name($($argument: $type),*) -> u32 $body
        )+
    };
}

calls! {
    /// CUDA 12.3.
    fn cuDriverGetVersion(version: *mut c_int) {
        // SAFETY: the caller's promise.
        unsafe { put(version, Ok(12030)) }
    }

    /// Takes no flags.
    fn cuInit(flags: c_uint) {
        number(if flags == 0 { Ok(()) } else { Err(code::INVALID_VALUE) })
    }

    /// One.
    fn cuDeviceGetCount(count: *mut c_int) {
        // SAFETY: the caller's promise.
        unsafe { put(count, Ok(1)) }
    }

    /// The device.
    fn cuDeviceGet(device: *mut c_int, ordinal: c_int) {
        let found = if ordinal == 0 { Ok(DEVICE) } else { Err(code::INVALID_DEVICE) };
        // SAFETY: the caller's promise.
        unsafe { put(device, found) }
    }

    /// Its name.
    fn cuDeviceGetName(name: *mut c_char, bytes: c_int, device: c_int) {
        let room = usize::try_from(bytes).unwrap_or(0);
        if device != DEVICE || name.is_null() || room <= NAME.len() {
            return code::INVALID_VALUE;
        }
        // SAFETY: so many bytes are there to be written.
        let place = unsafe { slice::from_raw_parts_mut(name.cast::<u8>(), room) };
        let words = NAME.bytes().chain([0]);
        place.iter_mut().zip(words).for_each(|(place, byte)| *place = byte);
        0
    }

    /// As much as a small card has; what there is decides the machine.
    fn cuDeviceTotalMem_v2(bytes: *mut usize, device: c_int) {
        let found = if device == DEVICE { Ok(MEMORY) } else { Err(code::INVALID_DEVICE) };
        // SAFETY: the caller's promise.
        unsafe { put(bytes, found) }
    }

    /// What the device can do.
    fn cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: c_int) {
        let found = match attribute {
            _ if device != DEVICE => Err(code::INVALID_DEVICE),
            MULTIPROCESSORS => Ok(2),
            MAJOR => Ok(8),
            INTEGRATED | MAPS_HOST_MEMORY | UNIFIED | PRIORITIES | HOST_POINTERS => Ok(1),
            _ => Ok(0),
        };
        // SAFETY: the caller's promise.
        unsafe { put(value, found) }
    }

    /// The one context.
    fn cuDevicePrimaryCtxRetain(context: *mut Handle, device: c_int) {
        let known = device == DEVICE;
        let found = known.then(|| to_handle(CONTEXT)).ok_or(code::INVALID_DEVICE);
        // SAFETY: the caller's promise.
        unsafe { put(context, found) }
    }

    /// Gives it back.
    fn cuDevicePrimaryCtxRelease_v2(device: c_int) {
        number(if device == DEVICE { Ok(()) } else { Err(code::INVALID_DEVICE) })
    }

    /// The one context, or none.
    fn cuCtxSetCurrent(context: Handle) {
        let known = context.is_null() || context as u64 == CONTEXT;
        number(if known { Ok(()) } else { Err(code::INVALID_CONTEXT) })
    }

    /// From 0 to -5.
    fn cuCtxGetStreamPriorityRange(least: *mut c_int, greatest: *mut c_int) {
        // SAFETY: the caller's promise.
        let code = unsafe { put(least, Ok(0)) };
        // SAFETY: as above.
        code.max(unsafe { put(greatest, Ok(HIGHEST)) })
    }

    /// Reads PTX; the first two options are where errors go.
    fn cuModuleLoadDataEx(
        module: *mut Handle,
        text: *const c_void,
        count: c_uint,
        options: *mut c_int,
        values: *mut *mut c_void
    ) {
        if text.is_null() {
            return code::INVALID_VALUE;
        }
        // SAFETY: PTX is a C string.
        let text = unsafe { CStr::from_ptr(text.cast()) };
        let loaded = text.to_str().map_err(|error| error.to_string());
        match loaded.and_then(Loaded::read) {
            // SAFETY: the caller's promise.
            Ok(loaded) => unsafe { put(module, Ok(to_handle(machine().load(loaded)))) },
            Err(why) => {
                // SAFETY: the caller's promise.
                unsafe { explain(&why, count, options, values) };
                code::INVALID_PTX
            }
        }
    }

    /// Forgets a module.
    fn cuModuleUnload(module: Handle) {
        let gone = machine().unload(module as u64);
        // Its threads end without the machine's lock.
        number(gone.map(drop))
    }

    /// A kernel by its name.
    fn cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char) {
        if name.is_null() {
            return code::INVALID_VALUE;
        }
        // SAFETY: a C string.
        let name = unsafe { CStr::from_ptr(name) };
        let name = name.to_str().map_err(|_| code::NOT_FOUND);
        let found = name.and_then(|name| machine().function(module as u64, name));
        // SAFETY: the caller's promise.
        unsafe { put(function, found.map(to_handle)) }
    }

    /// All is there from the start.
    fn cuFuncLoad(function: Handle) {
        number(machine().is_function(function as u64))
    }

    /// A block may have 1024 threads; nothing else is known.
    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle) {
        let known = machine().is_function(function as u64);
        let found = known.map(|()| if attribute == 0 { 1024 } else { 0 });
        // SAFETY: the caller's promise.
        unsafe { put(value, found) }
    }

    /// A few blocks.
    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        blocks: *mut c_int,
        function: Handle,
        threads: c_int,
        _shared: usize
    ) {
        let known = machine().is_function(function as u64);
        let fits = (1..=1024).contains(&threads);
        let found = known.map(|()| if fits { RESIDENT } else { 0 });
        // SAFETY: the caller's promise.
        unsafe { put(blocks, found) }
    }

    /// Memory of the device.
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) {
        let made = machine().allocate(Origin::Device, bytes);
        // SAFETY: the caller's promise.
        unsafe { put(address, made) }
    }

    /// Gives it back.
    fn cuMemFree_v2(address: u64) {
        number(machine().forget(Origin::Device, address))
    }

    /// Fills memory.
    fn cuMemsetD8_v2(address: u64, value: u8, bytes: usize) {
        let arena = machine().find(address, bytes as u64);
        number(arena.and_then(|arena| {
            let written = arena.write(DeviceAddress::new(address), &vec![value; bytes]);
            written.map_err(|_| code::INVALID_VALUE)
        }))
    }

    /// Copies to the device.
    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        if from.is_null() {
            return code::INVALID_VALUE;
        }
        // SAFETY: so many bytes may be read.
        let from = unsafe { slice::from_raw_parts(from.cast::<u8>(), bytes) };
        let arena = machine().find(to, bytes as u64);
        number(arena.and_then(|arena| {
            let written = arena.write(DeviceAddress::new(to), from);
            written.map_err(|_| code::INVALID_VALUE)
        }))
    }

    /// Copies from the device.
    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        if to.is_null() {
            return code::INVALID_VALUE;
        }
        // SAFETY: so many bytes may be written.
        let to = unsafe { slice::from_raw_parts_mut(to.cast::<u8>(), bytes) };
        let arena = machine().find(from, bytes as u64);
        number(arena.and_then(|arena| {
            let read = arena.read(DeviceAddress::new(from), to);
            read.map_err(|_| code::INVALID_VALUE)
        }))
    }

    /// Copies on the device, at once: the stream has nothing else to do.
    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: Handle) {
        let mut machine = machine();
        let idle = machine.is_idle(stream as u64);
        number(idle.and_then(|()| machine.copy(from, to, bytes)))
    }

    /// Memory of the host, mapped.
    fn cuMemHostAlloc(address: *mut *mut c_void, bytes: usize, flags: c_uint) {
        let mapped = if flags == MAPPED { Ok(()) } else { Err(code::INVALID_VALUE) };
        let made = mapped.and_then(|()| machine().allocate(Origin::Host, bytes));
        // SAFETY: the caller's promise.
        unsafe { put(address, made.map(to_handle)) }
    }

    /// Gives it back.
    fn cuMemFreeHost(address: *mut c_void) {
        number(machine().forget(Origin::Host, address as u64))
    }

    /// Maps memory of the program.
    fn cuMemHostRegister_v2(address: *mut c_void, bytes: usize, flags: c_uint) {
        let mapped = if flags == MAPPED { Ok(()) } else { Err(code::INVALID_VALUE) };
        number(mapped.and_then(|()| machine().register(address as u64, bytes)))
    }

    /// Forgets it.
    fn cuMemHostUnregister(address: *mut c_void) {
        number(machine().forget(Origin::Registered, address as u64))
    }

    /// The same address.
    fn cuMemHostGetDevicePointer_v2(device: *mut u64, host: *mut c_void, _flags: c_uint) {
        let found = machine().find(host as u64, 1);
        // SAFETY: the caller's promise.
        unsafe { put(device, found.map(|_| host as u64)) }
    }

    /// A stream that does not wait for the default one.
    fn cuStreamCreateWithPriority(stream: *mut Handle, flags: c_uint, priority: c_int) {
        let sound = flags == 1 && (HIGHEST..=0).contains(&priority);
        let made = match sound {
            true => Ok(to_handle(machine().create_stream())),
            false => Err(code::INVALID_VALUE),
        };
        // SAFETY: the caller's promise.
        unsafe { put(stream, made) }
    }

    /// Gives it back.
    fn cuStreamDestroy_v2(stream: Handle) {
        number(machine().destroy_stream(stream as u64))
    }

    /// An event.
    fn cuEventCreate(event: *mut Handle, _flags: c_uint) {
        let made = machine().create_event();
        // SAFETY: the caller's promise.
        unsafe { put(event, Ok(to_handle(made))) }
    }

    /// Gives it back.
    fn cuEventDestroy_v2(event: Handle) {
        number(machine().destroy_event(event as u64))
    }

    /// Waits for what the stream has to do.
    fn cuEventRecord(event: Handle, stream: Handle) {
        number(machine().record(event as u64, stream as u64))
    }

    /// Whether it is done.
    fn cuEventQuery(event: Handle) {
        number(machine().query(event as u64))
    }

    /// Starts a kernel with one pointer as its parameter.
    fn cuLaunchKernel(
        function: Handle,
        blocks_x: c_uint,
        blocks_y: c_uint,
        blocks_z: c_uint,
        threads_x: c_uint,
        threads_y: c_uint,
        threads_z: c_uint,
        shared: c_uint,
        stream: Handle,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void
    ) {
        let flat = [blocks_y, blocks_z, threads_y, threads_z] == [1; 4];
        let whole = threads_x > 0 && threads_x.is_multiple_of(32);
        if !flat || !whole || shared != 0 || parameters.is_null() || !extra.is_null() {
            return code::INVALID_VALUE;
        }
        // SAFETY: there is one parameter.
        let first = unsafe { parameters.read() };
        // SAFETY: it is a pointer to a pointer.
        let parameter = unsafe { first.cast::<u64>().read_unaligned() };
        let grid = Grid { blocks: blocks_x, warps: threads_x / 32 };
        let mut machine = machine();
        number(machine.launch(function as u64, grid, stream as u64, parameter))
    }
}

/// Says why PTX was not read, where the options want it.
///
/// # Safety
/// As many options and values are there as `count` says; the log is as long as its length says.
unsafe fn explain(why: &str, count: c_uint, options: *mut c_int, values: *mut *mut c_void) {
    if count != 2 || options.is_null() || values.is_null() {
        return;
    }
    // SAFETY: two options.
    let options = unsafe { slice::from_raw_parts(options, 2) };
    // SAFETY: two values.
    let values = unsafe { slice::from_raw_parts(values, 2) };
    let ([ERROR_LOG, ERROR_LOG_BYTES], [log, bytes]) = (options, values) else {
        return;
    };
    let room = *bytes as usize;
    if log.is_null() || room == 0 {
        return;
    }
    // SAFETY: the log is that long.
    let log = unsafe { slice::from_raw_parts_mut(log.cast::<u8>(), room) };
    let words = why.bytes().take(room - 1).chain([0]);
    log.iter_mut()
        .zip(words)
        .for_each(|(place, byte)| *place = byte);
}

const DEVICE: c_int = 0;
const CONTEXT: u64 = 8;
const MEMORY: usize = 1 << 30;
/// Blocks that a multiprocessor holds.
const RESIDENT: c_int = 8;
const HIGHEST: c_int = -5;

/// `CU_MEMHOSTALLOC_PORTABLE` and `_DEVICEMAP`, or those for registered memory.
const MAPPED: c_uint = 3;

/// Numbers of `CUdevice_attribute`.
const MULTIPROCESSORS: c_int = 16;
const INTEGRATED: c_int = 18;
const MAPS_HOST_MEMORY: c_int = 19;
const UNIFIED: c_int = 41;
const MAJOR: c_int = 75;
const PRIORITIES: c_int = 78;
const HOST_POINTERS: c_int = 91;

/// `CU_JIT_ERROR_LOG_BUFFER` and `CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES`.
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;
