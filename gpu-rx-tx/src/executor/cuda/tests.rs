//! The executor over a double of the driver: calls, refusals, launches, and what is given back.
#![expect(
    unsafe_code,
    reason = "parameters carry the promise of memory that the tests own"
)]

use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpwire_device::{KernelRow, Lockstep, Scalar, VERDICT_OFFSET};
use warpwire_ring::{Cause, DeviceAddress, Location, Region};

use crate::arena::{Arena, ArenaError};
use crate::executor::Control;
use crate::executor::cuda::code::Code;
use crate::executor::cuda::double::{Double, Fake, Kernel, Slice};
use crate::executor::cuda::driver::{Attribute, Driver, Nodes};
use crate::executor::cuda::{
    BlockExit, Builder, CudaExecutor, Error, Foreign, Launch, Slices, device, devices,
};
use crate::executor::launch::{Grid, Parameters};

const NAMES: &[&str] = &["one", "two"];
const LAYOUT: u64 = 7;
const GRID: Grid = Grid {
    blocks: 2,
    warps: 1,
};
const LONG: Duration = Duration::from_secs(20);

/// Memory of a launch: a word of turns, stop word and heartbeats.
#[derive(Clone)]
struct Scene {
    arena: Arc<Arena>,
    control: Control,
    turns: DeviceAddress,
}

impl Scene {
    fn new() -> Self {
        let arena = Arc::new(Arena::new(8192, Location::PinnedHost).expect("maps"));
        let turns = arena.place(0u64).expect("fits").address;
        let control = Control::allocate(&arena, GRID.total()).expect("fits");
        Self {
            arena,
            control,
            turns,
        }
    }

    fn parameters(&self) -> Parameters {
        self.parameters_with(Vec::new())
    }

    fn parameters_with(&self, mut memory: Vec<Arc<Arena>>) -> Parameters {
        memory.push(Arc::clone(&self.arena));
        // SAFETY: the double runs no kernel.
        let parameters = unsafe { Parameters::new(self.turns, LAYOUT, memory) };
        parameters.control(self.control.clone())
    }

    /// What a block leaves that used its turns but for `spared`.
    fn beat(&self, block: u32, spared: u32) {
        let turns = self.arena.word(self.turns).expect("inside");
        let turns = turns.load(Ordering::Acquire) as u32;
        let beat = self.control.heartbeat_word(block).expect("one");
        beat.store(turns - 1 - spared, Ordering::Relaxed);
    }

    /// A kernel whose second block ends with a cause.
    fn causes(&self) -> Kernel {
        let scene = self.clone();
        Box::new(move |_| {
            scene.verdict(1, Cause::LocalLength);
            Slice::Ends(0)
        })
    }

    fn verdict(&self, block: u32, cause: Cause) {
        let beat = self.control.heartbeat_address(block).expect("one");
        let word = self.arena.half_word(beat.offset(VERDICT_OFFSET));
        word.expect("inside").store(cause as u32, Ordering::Relaxed);
    }

    /// A kernel that uses its turns, and is stopped in its slice number `last`.
    fn obedient(&self, last: u64) -> Kernel {
        let scene = self.clone();
        Box::new(move |number| {
            for block in 0..GRID.blocks {
                scene.beat(block, 0);
            }
            if number == last {
                scene.control.stop();
            }
            Slice::Ends(0)
        })
    }
}

fn row(name: &'static str) -> KernelRow {
    fn scalar(_: &Scalar<'_>, _: DeviceAddress) -> u32 {
        0
    }
    fn lockstep(_: &Lockstep<'_>, _: DeviceAddress) -> u32 {
        0
    }
    KernelRow {
        name,
        layout: LAYOUT,
        scalar,
        lockstep,
    }
}

fn open(double: &Arc<Double>) -> Result<CudaExecutor, Error> {
    let driver: Arc<dyn Driver> = Arc::clone(double) as _;
    Builder::default().open_with(driver, ".version 8.3", NAMES)
}

fn opened(kernel: Kernel) -> (Arc<Double>, CudaExecutor) {
    let double = Arc::new(Double::new());
    double.set(|state| state.kernel = Some(kernel));
    let executor = open(&double).expect("opens");
    (double, executor)
}

fn launch(executor: &CudaExecutor, scene: &Scene) -> Result<Launch, Error> {
    let slices = Slices::new(scene.turns);
    executor.launch(&row("one"), GRID, scene.parameters(), slices)
}

#[test]
fn the_good_way_makes_these_calls_and_leaves_nothing() {
    let scene = Scene::new();
    let (double, executor) = opened(scene.obedient(2));
    assert_eq!(executor.kernels().len(), 2);
    assert_eq!(executor.kernels()[0].registers, 104);
    let report = launch(&executor, &scene).expect("starts").join(LONG);
    let report = report.expect("ends");
    assert_eq!(report.slices, 3);
    assert_eq!(report.blocks, [BlockExit::Stopped; 2]);
    assert_eq!((report.cause(), report.emulated), (None, false));
    assert_eq!(report.device, "Fake 9000");
    drop(executor);
    let slice = ["cuLaunchKernel one 2x32", "cuEventRecord", "cuEventQuery"];
    let mut want = vec![
        "cuDriverGetVersion",
        "cuInit",
        "cuDeviceGetCount",
        "cuDeviceGet",
    ];
    want.push("cuDeviceGetName");
    want.extend(["cuDeviceGetAttribute"; 6]);
    want.push("cuDeviceTotalMem");
    want.extend(["cuDeviceGetAttribute"; 7]);
    want.extend(["cuDevicePrimaryCtxRetain", "cuModuleLoadDataEx"]);
    for name in ["cuModuleGetFunction one", "cuModuleGetFunction two"] {
        want.extend([name, "cuFuncLoad"]);
        want.extend(["cuFuncGetAttribute"; 4]);
    }
    want.push("cuOccupancyMaxActiveBlocksPerMultiprocessor 32");
    want.extend(["cuMemHostRegister 8192 Memory", "cuMemHostGetDevicePointer"]);
    want.extend([
        "cuCtxGetStreamPriorityRange",
        "cuStreamCreateWithPriority -5",
    ]);
    want.push("cuEventCreate");
    for _ in 0..3 {
        want.extend(slice);
    }
    want.extend(["cuEventDestroy", "cuStreamDestroy", "cuMemHostUnregister"]);
    want.extend(["cuModuleUnload", "cuDevicePrimaryCtxRelease"]);
    let calls = double.calls();
    let mut sorted = calls.clone();
    sorted.sort_unstable();
    let mut same = want.clone();
    same.sort_unstable();
    assert_eq!(sorted, same, "not the same calls");
    assert_eq!(calls, want, "not in this order");
    assert!(double.live().is_empty(), "{:?}", double.live());
}

/// Everything that an executor can do, once.
fn a_whole_life(double: &Arc<Double>, scene: &Scene) -> Result<(), Error> {
    let executor = open(double)?;
    let pinned = executor.pinned(100)?;
    let device = executor.device_memory(4096)?;
    let region = device.allocate(16, 16)?;
    device.write(region.address, &[1; 16])?;
    device.read(region.address, &mut [0; 16])?;
    device.copy_to(&*executor.device_memory(1024)?, 2)?;
    let slices = Slices::new(scene.turns).device_memory(device);
    let mut parameters = scene.parameters();
    parameters.memory.push(pinned);
    let launch = executor.launch(&row("two"), GRID, parameters, slices)?;
    launch.join(LONG)?;
    Ok(())
}

#[test]
fn every_call_may_fail_and_nothing_is_left() {
    let fine = Arc::new(Double::new());
    let scene = Scene::new();
    fine.set(|state| state.kernel = Some(scene.obedient(1)));
    a_whole_life(&fine, &scene).expect("goes well");
    assert!(fine.live().is_empty());
    let back = [
        "cuEventDestroy",
        "cuStreamDestroy",
        "cuMemHostUnregister",
        "cuMemFree",
        "cuMemFreeHost",
        "cuModuleUnload",
        "cuDevicePrimaryCtxRelease",
        // Before something is given back it may fail as well.
        "cuCtxSetCurrent",
    ];
    let mut named = 0;
    for number in 0..fine.count() {
        let double = Arc::new(Double::new());
        let scene = Scene::new();
        double.set(|state| {
            state.kernel = Some(scene.obedient(1));
            state.fail = Some((number, Code(719)));
        });
        let outcome = a_whole_life(&double, &scene);
        let call = double.call_at(number);
        match outcome {
            Ok(()) => assert!(
                back.contains(&call.as_str()) || call == "cuDeviceGetAttribute",
                "call {number}, {call}, failed unnoticed"
            ),
            Err(error) => {
                let words = error.to_string();
                assert!(words.contains(&call), "call {number}, {call}: {words}");
                assert!(
                    words.contains("error 719, CUDA_ERROR_LAUNCH_FAILED"),
                    "{words}"
                );
                named += 1;
            }
        }
        let (live, within) = (|| double.live(), Instant::now());
        while !live().is_empty() && within.elapsed() < LONG {
            std::thread::yield_now();
        }
        assert!(
            live().is_empty(),
            "call {number}, {call}, left {:?}",
            live()
        );
    }
    assert!(named > 30, "{named} errors");
}

/// Changes what the double shows, and names what opening then says.
type Refusal = (&'static str, fn(&Double), &'static str);

const REFUSALS: &[Refusal] = &[
    (
        "an old driver",
        |double| double.set(|state| state.version = 12020),
        "knows CUDA 12.2, and the kernels (PTX ISA 8.3) need CUDA 12.3; install NVIDIA's driver \
         r545 or newer",
    ),
    (
        "the stub",
        |double| double.set(|state| state.fail = Some((0, Code::STUB_LIBRARY))),
        "libcuda.so.1 is the stub for linking",
    ),
    (
        "no device nodes",
        |double| {
            double.set(|state| {
                state.fail = Some((1, Code::NO_DEVICE));
                state.nodes = Nodes::Absent;
            });
        },
        "/dev/nvidiactl is not (cuInit failed with error 100, CUDA_ERROR_NO_DEVICE: no device \
         that may be used); load the kernel module (`modprobe nvidia`)",
    ),
    (
        "no permission",
        |double| {
            double.set(|state| {
                state.fail = Some((1, Code::OPERATING_SYSTEM));
                state.nodes = Nodes::Denied("/dev/nvidia0".to_owned());
            });
        },
        "/dev/nvidia0 may not be opened for reading and writing",
    ),
    (
        "no device that may be used",
        |double| double.set(|state| state.fail = Some((1, Code::NO_DEVICE))),
        "finds no GPU; see what `nvidia-smi -L` lists",
    ),
    (
        "no device",
        |double| double.set(|state| state.devices.clear()),
        "finds no GPU",
    ),
    (
        "another failure",
        |double| double.set(|state| state.fail = Some((1, Code(802)))),
        "cuInit failed with error 802, CUDA_ERROR_SYSTEM_NOT_READY",
    ),
    (
        "an old device",
        |double| {
            let fake = Fake::new()
                .with(Attribute::CapabilityMajor, 7)
                .with(Attribute::CapabilityMinor, 5);
            double.set(|state| state.devices = vec![fake]);
        },
        "Fake 9000 has compute capability 7.5, and the kernels need 8.0 (Ampere)",
    ),
    (
        "a device that does not map host memory",
        |double| {
            let fake = Fake::new().with(Attribute::CanMapHostMemory, 0);
            double.set(|state| state.devices = vec![fake]);
        },
        "cannot reach host memory; choose another GPU",
    ),
    (
        "a device with addresses of its own",
        |double| {
            let fake = Fake::new().with(Attribute::UnifiedAddressing, 0);
            double.set(|state| state.devices = vec![fake]);
        },
        "cannot share addresses with the host",
    ),
    (
        "PTX that is too new",
        |double| double.set(|state| state.fail = Some((21, Code::UNSUPPORTED_PTX_VERSION))),
        "the PTX cannot be loaded: cuModuleLoadDataEx failed with error 222",
    ),
    (
        "PTX that does not compile",
        |double| {
            double.set(|state| {
                state.fail = Some((21, Code::INVALID_PTX));
                state.log = "ptxas application ptx input, line 3; fatal: no";
            });
        },
        "its compiler says:\nptxas application ptx input, line 3; fatal: no",
    ),
    (
        "a kernel that is not in the PTX",
        |double| double.set(|state| state.kernels = vec!["one"]),
        "kernel `two`: is not in the PTX that was loaded; build host and PTX from the same source",
    ),
];

#[test]
fn refusals_name_the_cause_and_the_cure() {
    for (case, change, want) in REFUSALS {
        let double = Arc::new(Double::new());
        change(&double);
        let error = open(&double).expect_err(case).to_string();
        assert!(error.contains(want), "{case}: {error}");
        assert!(double.live().is_empty(), "{case}: {:?}", double.live());
    }
    let double: Arc<dyn Driver> = Arc::new(Double::new());
    let error = Builder::default().device(3).open_with(double, "", NAMES);
    let error = error.expect_err("there is one").to_string();
    assert!(
        error.contains("no device 3; name one from 0 to 0"),
        "{error}"
    );
}

#[test]
fn devices_are_told_with_what_matters() {
    let double = Double::new();
    let slow = Fake::new().with(Attribute::Integrated, 1);
    double.set(|state| state.devices.push(slow));
    let driver: Arc<dyn Driver> = Arc::new(double);
    let devices = device::list(&driver).expect("two");
    let words: Vec<String> = devices.iter().map(ToString::to_string).collect();
    let one = "0 Fake 9000 at 0000:1b:00, compute capability 9.0, 10 multiprocessors, 8192 MiB, \
               maps host memory, unified addressing, GPUDirect RDMA";
    assert_eq!(words[0], one);
    assert!(words[1].contains("integrated"), "{}", words[1]);
}

#[test]
fn a_launch_must_fit_together() {
    let scene = Scene::new();
    let (double, executor) = opened(scene.obedient(0));
    let grid = |blocks| Grid { blocks, warps: 1 };
    let with = |kernel: KernelRow, grid, turns, parameters| {
        let outcome = executor.launch(&kernel, grid, parameters, Slices::new(turns));
        outcome.map(drop).expect_err("does not fit").to_string()
    };
    let turns = scene.turns;
    let three = with(row("three"), GRID, turns, scene.parameters());
    assert!(
        three.contains("kernel `three`: is not in the PTX"),
        "{three}"
    );
    let other = KernelRow {
        layout: 8,
        ..row("one")
    };
    let layout = with(other, GRID, turns, scene.parameters());
    assert!(layout.contains("has layout 0x0000000000000007"), "{layout}");
    let few = with(row("one"), grid(3), turns, scene.parameters());
    assert!(few.contains("2 heartbeats, the grid 3 warps"), "{few}");
    let elsewhere = with(row("one"), GRID, DeviceAddress::new(64), scene.parameters());
    assert!(
        elsewhere.contains("does not lie in host memory"),
        "{elsewhere}"
    );
    let arena = Arc::new(Arena::new(1 << 16, Location::PinnedHost).expect("maps"));
    let control = Control::allocate(&arena, 21).expect("fits");
    let many = scene.parameters().control(control);
    let many = with(row("one"), grid(21), turns, many);
    assert_eq!(
        many,
        "kernel `one`: 21 blocks of 32 threads cannot all be resident on the device: it holds 20, \
         of which other launches take 0; launch fewer blocks"
    );
    double.set(|state| state.fail = Some((state.calls.len() + 3, Code::OUT_OF_MEMORY)));
    let memory = with(row("one"), GRID, turns, scene.parameters());
    assert!(
        memory.contains("8192 bytes of host memory to lock cannot be had"),
        "{memory}"
    );
}

#[test]
fn launches_share_the_device_and_what_they_registered() {
    let (one, two) = (Scene::new(), Scene::new());
    let (double, executor) = opened(Box::new(|_| Slice::Hangs));
    let arena = Arc::new(Arena::new(4096, Location::Device).expect("maps"));
    let wide = Grid {
        blocks: 12,
        warps: 1,
    };
    let start = |scene: &Scene, grid| {
        let words = Arc::new(Arena::new(8192, Location::PinnedHost).expect("maps"));
        let control = Control::allocate(&words, 12).expect("fits");
        let mut parameters = scene.parameters().control(control);
        parameters.memory.push(Arc::clone(&arena));
        executor.launch(&row("one"), grid, parameters, Slices::new(scene.turns))
    };
    let first = start(&one, wide).expect("fits");
    let error = start(&two, wide).expect_err("does not fit").to_string();
    assert!(
        error.contains("it holds 20, of which other launches take 12"),
        "{error}"
    );
    let second = start(&two, GRID).expect("fits");
    let registrations = |calls: &[String]| {
        let of = |name: &str| calls.iter().filter(|call| call.starts_with(name)).count();
        (of("cuMemHostRegister 4096"), of("cuMemHostUnregister"))
    };
    assert_eq!(registrations(&double.calls()).0, 1, "one for both");
    assert!(
        first.report().emulated,
        "host memory stands for the device's"
    );
    first.stop();
    second.stop();
    double.release();
    first.join(LONG).expect("ends");
    second.join(LONG).expect("ends");
    drop(executor);
    assert!(double.live().is_empty(), "{:?}", double.live());
    // Two scenes, two controls, and the arena once.
    assert_eq!(registrations(&double.calls()).1, 5);
}

#[test]
fn foreign_memory_is_registered_where_it_lies() {
    let scene = Scene::new();
    let (double, executor) = opened(scene.obedient(0));
    let keep = Arc::new(vec![0u64; 512]);
    let rings = NonNull::from(&keep[0]).cast();
    // SAFETY: the vector keeps it, and the double maps nothing.
    let rings = unsafe { Arena::foreign(rings, 1024, Box::new(Arc::clone(&keep))) };
    let registers = Region {
        address: DeviceAddress::new(&raw const keep[256] as u64),
        length: 1024,
        ..Region::default()
    };
    // SAFETY: as above.
    let io = unsafe { Foreign::io(registers, Arc::clone(&keep) as _) };
    let slices = Slices::new(scene.turns).foreign(io);
    let parameters = scene.parameters_with(vec![Arc::new(rings)]);
    let launch = executor.launch(&row("one"), GRID, parameters, slices);
    launch.expect("starts").join(LONG).expect("ends");
    let calls = double.calls();
    for want in ["cuMemHostRegister 1024 Memory", "cuMemHostRegister 1024 Io"] {
        assert!(calls.iter().any(|call| call == want), "{want}: {calls:?}");
    }
    let of = |name: &str| calls.iter().position(|call| call.starts_with(name));
    assert!(
        of("cuMemHostUnregister") > of("cuEventDestroy"),
        "{calls:?}"
    );
    assert_eq!(Arc::strong_count(&keep), 1, "the launch let go of it");
    assert_eq!(double.live().get("registration"), None);
}

#[test]
fn a_launch_may_have_slices_of_its_own() {
    let scene = Scene::new();
    let (double, executor) = opened(scene.obedient(2));
    let slices = Slices::new(scene.turns)
        .first_turns(1)
        .pause(Duration::ZERO);
    let slices = slices.slice(Duration::ZERO);
    double.set(|state| state.calls.clear());
    let launch = executor.launch(&row("one"), GRID, scene.parameters(), slices);
    let report = launch.expect("starts").join(LONG).expect("ends");
    assert_eq!((report.slices, report.turns), (3, 6), "two turns a slice");
}

#[test]
fn one_slice_alone_leaves_the_block_and_asks_for_nothing() {
    let scene = Scene::new();
    let (double, executor) = opened(Box::new(|_| Slice::Ends(1)));
    let word = scene.arena.word(scene.turns).expect("is there");
    word.store(77, Ordering::Relaxed);
    let memory = vec![Arc::clone(&scene.arena)];
    double.set(|state| state.calls.clear());
    // SAFETY: the double runs no kernel.
    let parameters = unsafe { Parameters::new(DeviceAddress::NULL, LAYOUT, memory) };
    let launch = executor.launch(&row("one"), GRID, parameters, Slices::once());
    let report = launch.expect("starts").join(LONG).expect("ends");
    assert_eq!(report.slices, 1);
    assert_eq!(report.blocks, [BlockExit::Returned(None); 2]);
    assert_eq!(word.load(Ordering::Relaxed), 77);
    let calls = double.calls();
    let registered = calls
        .iter()
        .filter(|call| call.starts_with("cuMemHostRegister"));
    assert_eq!(registered.count(), 1, "the launch's own memory: {calls:?}");
    let kernel = |double: &Double| double.set(|state| state.kernel = Some(scene.causes()));
    kernel(&double);
    let launch = executor.launch(&row("one"), GRID, scene.parameters(), Slices::once());
    let report = launch.expect("starts").join(LONG).expect("ends");
    assert_eq!(report.cause(), Some(Cause::LocalLength), "it told");
}

#[test]
fn copies_on_the_device_end() {
    let (double, executor) = opened(Box::new(|_| Slice::Ends(0)));
    let (one, other) = (executor.device_memory(100), executor.device_memory(60));
    let (one, other) = (one.expect("fits"), other.expect("fits"));
    double.set(|state| state.calls.clear());
    one.copy_to(&other, 2).expect("ends");
    let copies = double.calls();
    let copies = copies.iter().filter(|call| call.starts_with("cuMemcpy"));
    let copies: Vec<_> = copies.collect();
    assert_eq!(copies, ["cuMemcpyDtoDAsync 60"; 2]);
    assert_eq!(double.live().get("stream"), None, "{:?}", double.live());
}

#[test]
fn blocks_that_end_by_themselves_end_the_launch() {
    type Play = fn(&Scene);
    let cases: &[(Play, Result<Vec<BlockExit>, &str>)] = &[
        (
            |scene| {
                scene.beat(0, 5);
                scene.beat(1, 3);
            },
            Ok(vec![BlockExit::Returned(None); 2]),
        ),
        (
            |scene| {
                scene.beat(0, 0);
                scene.verdict(1, Cause::LayoutMismatch);
            },
            Ok(vec![
                BlockExit::Stopped,
                BlockExit::Returned(Some(Cause::LayoutMismatch)),
            ]),
        ),
        (
            |scene| scene.beat(0, 0),
            Err("block 1 returned before its first turn"),
        ),
    ];
    for (play, want) in cases {
        let (scene, play) = (Scene::new(), *play);
        let played = scene.clone();
        let (_double, executor) = opened(Box::new(move |_| {
            play(&played);
            Slice::Ends(1)
        }));
        let outcome = launch(&executor, &scene).expect("starts").join(LONG);
        match (outcome, want) {
            (Ok(report), Ok(exits)) => {
                assert_eq!((&report.blocks, report.slices), (exits, 1));
            }
            (Err(error), Err(words)) => {
                assert!(error.to_string().contains(words), "{error}");
            }
            (outcome, want) => panic!("{outcome:?} instead of {want:?}"),
        }
    }
}

#[test]
fn blocks_that_have_done_all_wait_for_the_last_one() {
    let scene = Scene::new();
    let played = scene.clone();
    let (_double, executor) = opened(Box::new(move |number| {
        played.beat(0, 1);
        played.beat(1, u32::from(number == 2));
        Slice::Ends(1)
    }));
    let launch = launch(&executor, &scene).expect("starts");
    let report = launch.join(LONG).expect("ends");
    assert_eq!(report.blocks, vec![BlockExit::Returned(None); 2]);
    assert_eq!(report.slices, 3);
}

#[test]
fn a_kernel_that_fails_is_named() {
    let scene = Scene::new();
    let (double, executor) = opened(Box::new(|_| Slice::Fails(Code::ILLEGAL_ADDRESS)));
    let error = launch(&executor, &scene).expect("starts").join(LONG);
    assert_eq!(
        error.expect_err("failed").to_string(),
        "kernel `one`: cuEventQuery failed with error 700, CUDA_ERROR_ILLEGAL_ADDRESS: a kernel \
         accessed memory that is not there"
    );
    drop(executor);
    assert!(double.live().is_empty(), "{:?}", double.live());
}

#[test]
fn a_slice_that_does_not_end_meets_the_deadline() {
    let scene = Scene::new();
    let (double, executor) = opened(Box::new(|_| Slice::Hangs));
    let launch = launch(&executor, &scene).expect("starts");
    assert!(!launch.wait(Duration::from_millis(5)));
    let error = launch.join(Duration::from_millis(5)).expect_err("hangs");
    let words = error.to_string();
    assert!(words.contains("slice 1 still runs"), "{words}");
    assert!(matches!(error, Error::Deadline { .. }));
    drop(executor);
    let live = double.live();
    assert_eq!(
        live.get("registration"),
        Some(&1),
        "the kernel may use it: {live:?}"
    );
    double.release();
    let within = Instant::now();
    while !double.live().is_empty() && within.elapsed() < LONG {
        std::thread::yield_now();
    }
    assert!(double.live().is_empty(), "{:?}", double.live());
}

#[test]
fn memory_of_the_driver_is_zeroed_bounded_and_freed() {
    let double = Arc::new(Double::new());
    let executor = open(&double).expect("opens");
    let pinned = executor.pinned(5000).expect("fits");
    assert!(!pinned.emulated());
    assert!(pinned.whole().address.is_aligned(4096));
    let mut bytes = vec![1; pinned.whole().length as usize];
    pinned
        .read(pinned.whole().address, &mut bytes)
        .expect("inside");
    assert!(bytes.iter().all(|byte| *byte == 0) && bytes.len() == 8192);
    let device = executor.device_memory(100).expect("fits");
    let one = device.allocate(10, 1).expect("fits");
    let two = device.allocate(64, 32).expect("fits");
    assert_eq!(two.address.value() - one.address.value(), 32);
    assert_eq!(two.location, Location::Device);
    assert!(matches!(
        device.allocate(5, 1),
        Err(ArenaError::Exhausted { need: 5, have: 4 })
    ));
    assert!(matches!(
        device.allocate(1, 512),
        Err(ArenaError::Alignment(512))
    ));
    assert!(
        device.write(two.address, &[0; 69]).is_err(),
        "beyond the end"
    );
    device.write(two.address, &[0; 68]).expect("inside");
    assert!(double.calls().contains(&"cuMemcpyHtoD 32+68".to_owned()));
    double.set(|state| state.shift = 4096);
    let error = executor.pinned(1).expect_err("is elsewhere").to_string();
    assert!(error.contains("rings hold the host's addresses"), "{error}");
    drop((pinned, device, executor));
    assert!(double.live().is_empty(), "{:?}", double.live());
}

/// What this machine itself says. With a GPU it lists it; without one the refusal has a cure.
#[test]
fn this_machine_has_a_gpu_or_says_why_not() {
    match devices() {
        Ok(devices) => assert!(!devices.is_empty()),
        Err(error) => {
            let words = error.to_string();
            assert!(words.starts_with("executor cuda: "), "{words}");
            assert!(words.contains("; "), "a cure: {words}");
            if let Error::NoDriver { why } = error {
                assert!(why.contains("libcuda.so.1"), "{why}");
            }
        }
    }
}
