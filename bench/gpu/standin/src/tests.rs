//! The library as a program uses it: what it refuses, and what it does.
#![expect(
    unsafe_code,
    reason = "calls a C interface with pointers to the test's own values"
)]

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::thread;
use std::time::{Duration, Instant};

use crate::calls::*;

const TEXT: &CStr = c"\
.version 8.3
.target sm_80
.address_size 64

.visible .entry add(.param .u64 memory)
{
    .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [memory];
    mov.u32 %r1, %tid.x;
    cvt.u64.u32 %rd2, %r1;
    atom.relaxed.sys.global.add.u64 %rd3, [%rd1], %rd2;
    ret;
}

.visible .entry stray(.param .u64 memory)
{
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [memory];
    ld.global.b64 %rd2, [%rd1+1073741824];
    ret;
}
";

/// Handles of a program.
struct Bench {
    module: *mut c_void,
    stream: *mut c_void,
    event: *mut c_void,
}

impl Bench {
    fn new() -> Self {
        let (mut module, mut stream, mut event) = (null_mut(), null_mut(), null_mut());
        let text = TEXT.as_ptr().cast();
        // SAFETY: the places are the test's own, the text is a C string.
        let code = unsafe { cuModuleLoadDataEx(&mut module, text, 0, null_mut(), null_mut()) };
        assert_eq!(code, 0, "loads");
        // SAFETY: as above.
        assert_eq!(unsafe { cuStreamCreateWithPriority(&mut stream, 1, -5) }, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { cuEventCreate(&mut event, 2) }, 0);
        Self {
            module,
            stream,
            event,
        }
    }

    fn function(&self, name: &CStr) -> (u32, *mut c_void) {
        let mut function = null_mut();
        // SAFETY: as above.
        let code = unsafe { cuModuleGetFunction(&mut function, self.module, name.as_ptr()) };
        (code, function)
    }

    fn launch(&self, name: &CStr, blocks: u32, threads: u32, memory: u64) -> u32 {
        let (_, function) = self.function(name);
        let mut parameter = memory;
        let mut parameters: [*mut c_void; 1] = [(&raw mut parameter).cast()];
        let (place, none) = (parameters.as_mut_ptr(), null_mut());
        let stream = self.stream;
        // SAFETY: as above; the kernels check nothing and every access is checked.
        unsafe {
            cuLaunchKernel(
                function, blocks, 1, 1, threads, 1, 1, 0, stream, place, none,
            )
        }
    }

    /// How the stream ends.
    fn wait(&self) -> u32 {
        // SAFETY: both handles are alive.
        assert_eq!(unsafe { cuEventRecord(self.event, self.stream) }, 0);
        let begun = Instant::now();
        loop {
            // SAFETY: the handle is alive.
            match unsafe { cuEventQuery(self.event) } {
                600 if begun.elapsed() < Duration::from_secs(20) => thread::yield_now(),
                code => return code,
            }
        }
    }
}

fn read(address: u64) -> (u32, u64) {
    let mut value = 0u64;
    // SAFETY: eight bytes of the test's own.
    let code = unsafe { cuMemcpyDtoH_v2((&raw mut value).cast(), address, 8) };
    (code, value)
}

/// One test, because the library has one state: the last part breaks it for good.
#[test]
fn what_a_program_asks_is_done_or_refused() {
    let bench = Bench::new();
    let mut memory = 0;
    // SAFETY: the place is the test's own.
    assert_eq!(unsafe { cuMemAlloc_v2(&mut memory, 4096) }, 0);
    // SAFETY: takes an address and a number.
    assert_eq!(unsafe { cuMemsetD8_v2(memory, 0, 4096) }, 0);
    assert_eq!(bench.launch(c"add", 2, 64, memory), 0);
    assert_eq!(bench.wait(), 0);
    assert_eq!(read(memory), (0, 2 * (0..64).sum::<u64>()));
    // SAFETY: takes addresses and a number.
    let copied = unsafe { cuMemcpyDtoDAsync_v2(memory + 8, memory, 8, bench.stream) };
    assert_eq!((copied, read(memory + 8)), (0, read(memory)));

    let mut own = vec![0u64; 1024];
    let place: *mut c_void = own.as_mut_ptr().cast();
    // SAFETY: the memory outlives its registration.
    let register = |flags| unsafe { cuMemHostRegister_v2(place, 8192, flags) };
    // SAFETY: takes an address.
    let unregister = || unsafe { cuMemHostUnregister(place) };
    // SAFETY: takes a handle.
    let no_stream = unsafe { cuStreamDestroy_v2(null_mut()) };
    // SAFETY: takes a handle.
    let no_event = unsafe { cuEventQuery(null_mut()) };
    // SAFETY: takes an address.
    let not_freed = unsafe { cuMemFree_v2(memory + 8) };
    let refusals = [
        ("a name that is not there", bench.function(c"absent").0, 500),
        (
            "a block of 33 threads",
            bench.launch(c"add", 1, 33, memory),
            1,
        ),
        (
            "a block of 2048 threads",
            bench.launch(c"add", 1, 2048, memory),
            1,
        ),
        ("memory that is not there", read(memory + 4096).0, 1),
        ("memory that is not registered", unregister(), 713),
        ("memory that is not mapped", register(0), 1),
        ("memory", register(3), 0),
        ("the same memory again", register(3), 712),
        ("its end", unregister(), 0),
        ("free of nothing", not_freed, 1),
        ("a stream that is none", no_stream, 400),
        ("an event that is none", no_event, 400),
    ];
    for (what, code, want) in refusals {
        assert_eq!(code, want, "{what}");
    }

    assert_eq!(bench.launch(c"stray", 1, 32, memory), 0);
    assert_eq!(bench.wait(), 700, "the access is found");
    assert_eq!(bench.launch(c"add", 1, 32, memory), 700, "and stays");
}
