//! Launches on an executor: threads, time, barriers, ends and errors are the executor's, the code
//! is PTX.
#![expect(
    unsafe_code,
    reason = "parameters carry the promise of memory that the tests own"
)]

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpwire_device::{KernelRow, Lockstep, Scalar};
use warpwire_gpu::executor::{
    Backend, Builder, Error, Exit, Grid, Launch, Parameters, Placement, Time,
};
use warpwire_gpu::{Arena, CpuExecutor};
use warpwire_ring::{DeviceAddress, Location};
use warpwire_virtual::{Module, VirtualGpu};

const TEXT: &str = "\
.version 8.3
.target sm_80
.address_size 64
.shared .align 8 .b8 room[256];

// Each warp adds its number to the block's memory; behind the barrier each sees the sum of all.
.visible .entry meet(.param .u64 memory)
{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [memory];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.b64 %rd2, room;
    cvt.u64.u32 %rd3, %r1;
    atom.shared.add.u64 %rd4, [%rd2], %rd3;
    bar.sync 0;
    ld.shared.u64 %rd4, [%rd2];
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd5, %r4, 8;
    add.u64 %rd5, %rd5, %rd1;
    st.global.b64 [%rd5], %rd4;
    ret;
}

// As above, but the second warp of each block exits before it comes to the barrier, and the third
// one later than the others arrive.
.visible .entry leave(.param .u64 memory)
{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [memory];
    mov.u32 %r1, %tid.x;
    shr.u32 %r2, %r1, 5;
    setp.eq.u32 %p1, %r2, 1;
    @%p1 bra DONE;
    setp.eq.u32 %p1, %r2, 2;
    @%p1 bra LATE;
    bar.sync 0;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mad.lo.s32 %r4, %r2, %r3, %r1;
    mul.wide.u32 %rd5, %r4, 8;
    add.u64 %rd5, %rd5, %rd1;
    st.global.b64 [%rd5], 1;
DONE:
    ret;
LATE:
    nanosleep.u32 32;
    nanosleep.u32 32;
    ret;
}

// Pauses until the word at the start of the memory is not 0.
.visible .entry wait(.param .u64 memory)
{
    .reg .pred %p<4>; .reg .b32 %r<8>; .reg .b64 %rd<8>;
    ld.param.u64 %rd1, [memory];
AGAIN:
    nanosleep.u32 32;
    ld.acquire.sys.global.u64 %rd2, [%rd1];
    setp.eq.u64 %p1, %rd2, 0;
    @%p1 bra AGAIN;
    ret;
}

// Never pauses.
.visible .entry spin(.param .u64 memory)
{
AGAIN:
    bra AGAIN;
}

.visible .entry stray(.param .u64 memory)
{
    .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %rd<4>;
    mov.u32 %r1, %laneid;
    setp.ne.u32 %p1, %r1, 9;
    mov.u64 %rd1, 16;
    @%p1 bra DONE;
    ld.global.b64 %rd2, [%rd1];
DONE:
    ret;
}

.visible .entry small(.param .u64 memory)
.maxntid 64, 1, 1
{
    ret;
}
";

/// Rows of kernels have code for CPUs; a virtual GPU does not use it.
fn row(name: &'static str) -> KernelRow {
    fn scalar(_: &Scalar<'_>, _: DeviceAddress) -> u32 {
        unreachable!("the backend is virtual")
    }
    fn lockstep(_: &Lockstep<'_>, _: DeviceAddress) -> u32 {
        unreachable!("the backend is virtual")
    }
    KernelRow {
        name,
        layout: 0,
        scalar,
        lockstep,
    }
}

fn builder(seed: u64) -> Builder {
    let module = Module::parse(TEXT).unwrap_or_else(|error| panic!("{error}"));
    CpuExecutor::builder()
        .backend(Backend::Virtual { seed })
        .program(Arc::new(VirtualGpu::new(module)))
}

fn launch(
    executor: &CpuExecutor,
    name: &'static str,
    grid: Grid,
    memory: &Arc<Arena>,
) -> Result<Launch, Error> {
    let address = memory.whole().address;
    // SAFETY: the kernels above use the memory at the address and nothing else; every access is
    // checked.
    let parameters = unsafe { Parameters::new(address, 0, vec![Arc::clone(memory)]) };
    executor.launch_on(&row(name), grid, parameters, Placement::Scattered)
}

fn arena() -> Arc<Arena> {
    Arc::new(Arena::new(8192, Location::Device).expect("maps"))
}

const PATIENCE: Duration = Duration::from_secs(20);
const GRID: Grid = Grid {
    blocks: 3,
    warps: 4,
};

#[test]
fn blocks_meet_whichever_threads_their_warps_are_on() {
    for (seed, time) in [
        (1, Time::Real),
        (2, Time::Real),
        (3, Time::Virtual { seed: 3 }),
        (4, Time::Virtual { seed: 4 }),
    ] {
        let executor = builder(seed)
            .threads(2)
            .clock(time)
            .build()
            .expect("builds");
        let memory = arena();
        let launch = launch(&executor, "meet", GRID, &memory).expect("launches");
        let report = launch.join(PATIENCE).expect("ends");
        assert_eq!(report.backend, Backend::Virtual { seed });
        for thread in 0..384 {
            let word = memory.word(memory.whole().address.offset(thread * 8));
            let word = word.expect("inside").load(Ordering::Relaxed);
            assert_eq!(word, (0..128).sum::<u64>(), "thread {thread}, {time:?}");
        }
        let ended = |exit| report.warps.iter().all(|warp| warp.exit == exit);
        assert!(ended(Exit::Returned(0)), "{report:?}");
    }
}

#[test]
fn a_barrier_does_not_wait_for_warps_that_returned() {
    for seed in 0..8 {
        let time = match seed % 2 {
            0 => Time::Real,
            _ => Time::Virtual { seed },
        };
        let executor = builder(seed).threads(2).clock(time);
        let executor = executor.build().expect("builds");
        let memory = arena();
        let launch = launch(&executor, "leave", GRID, &memory).expect("launches");
        let report = launch.join(PATIENCE).expect("ends");
        let ended = |exit| report.warps.iter().all(|warp| warp.exit == exit);
        assert!(ended(Exit::Returned(0)), "{report:?}");
        for thread in 0..384 {
            let word = memory.word(memory.whole().address.offset(thread * 8));
            let word = word.expect("inside").load(Ordering::Relaxed);
            let passed = matches!(thread % 128 / 32, 0 | 3);
            assert_eq!(word, u64::from(passed), "thread {thread}, {time:?}");
        }
    }
}

#[test]
fn pauses_let_the_world_go_on_and_are_counted() {
    let executor = builder(1).clock(Time::Virtual { seed: 1 });
    let executor = executor.build().expect("builds");
    let memory = arena();
    let launch = launch(&executor, "wait", Grid::ONE, &memory).expect("launches");
    executor
        .advance(Duration::from_micros(50))
        .expect("goes on");
    assert!(!launch.is_finished());
    let word = memory.word(memory.whole().address).expect("inside");
    word.store(1, Ordering::Release);
    let report = launch.join(PATIENCE).expect("ends");
    assert!(report.pauses() > 3, "{report:?}");
}

#[test]
fn a_launch_that_does_not_end_is_unwound_where_it_stands() {
    for (name, stand) in [("wait", "pausing before `ld.acquire"), ("spin", "at `bra`")] {
        let executor = builder(1).build().expect("builds");
        let memory = arena();
        let launch = launch(&executor, name, Grid::ONE, &memory).expect("launches");
        let error = launch
            .join(Duration::from_millis(30))
            .expect_err("too late");
        let text = error.to_string();
        assert!(matches!(error, Error::Deadline { .. }), "{text}");
        assert!(text.contains(stand), "{text}");
    }
}

#[test]
fn a_fault_names_kernel_warp_lane_and_line() {
    let executor = builder(1).build().expect("builds");
    let memory = arena();
    let launch = launch(&executor, "stray", Grid::ONE, &memory).expect("launches");
    let error = launch.join(PATIENCE).expect_err("goes astray");
    let line = TEXT.lines().position(|line| line.contains("ld.global.b64"));
    let line = line.expect("is there") + 1;
    assert_eq!(
        error.to_string(),
        format!(
            "kernel `stray`, block 0 warp 0 lane 9: null pointer: 8 bytes at 0x10, at \
             `ld.global.b64` in `stray`, line {line} of the PTX"
        )
    );
}

#[test]
fn what_can_not_run_is_refused() {
    let executor = builder(1).build().expect("builds");
    let memory = arena();
    let refused = |name, grid| {
        let error = launch(&executor, name, grid, &memory).expect_err("refused");
        error.to_string()
    };
    assert_eq!(
        refused("absent", Grid::ONE),
        "kernel `absent` cannot run on the virtual GPU: the PTX has no entry point `absent`"
    );
    let text = refused("small", GRID);
    assert!(
        text.contains("a block has 128 threads and the PTX allows 64"),
        "{text}"
    );
    let bare = CpuExecutor::builder().backend(Backend::Virtual { seed: 1 });
    let error = bare.build().expect_err("has no program");
    assert!(matches!(error, Error::NoProgram), "{error}");
}
