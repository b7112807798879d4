//! The driver's library, loaded as it is at run time: a stand-in written in C takes its place in
//! processes of their own, with faults of its own.
#![expect(
    unsafe_code,
    reason = "parameters carry the promise of memory that the test owns"
)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use warpwire_device::{KernelRow, Lockstep, Scalar};
use warpwire_gpu::executor::cuda::{self, CudaExecutor, Slices, devices};
use warpwire_gpu::executor::{Control, Grid, Parameters};
use warpwire_ring::DeviceAddress;

/// Builds the stand-in into a folder of its own, or says why that cannot be done.
fn stand_in(name: &str, define: Option<&str>) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cuda/libcuda.c");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let mut compiler = Command::new("cc");
    compiler.args([
        "-shared",
        "-fPIC",
        "-Wall",
        "-Werror",
        "-Wno-stringop-truncation",
        "-o",
    ]);
    compiler.arg(folder.join("libcuda.so.1")).arg(source);
    compiler.args(define.map(|word| format!("-D{word}")));
    let output = compiler.output();
    let output = output.map_err(|error| format!("no C compiler `cc`: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    Ok(folder)
}

/// What the process says that finds its libraries in `folder`.
fn child(folder: &Path, told: &[(&str, &str)]) -> String {
    let program = std::env::current_exe().expect("has a path");
    let output = Command::new(program)
        .args(["--exact", "as_a_process_of_its_own", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder)
        .env(CHILD, "1")
        .envs(told.iter().copied())
        .output()
        .expect("starts");
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words}{said}");
    words
}

/// Where the library lies, what it is told, and a part of what comes of it.
type Case<'a> = (&'a Path, &'a [(&'a str, &'a str)], &'a str);

#[test]
fn refusals_and_launches_through_the_library() {
    let (whole, without) = match (
        stand_in("whole", None),
        stand_in("part", Some("WITHOUT_QUERY")),
    ) {
        (Ok(whole), Ok(without)) => (whole, without),
        (Err(why), _) | (_, Err(why)) => return warpwire_skip::installable(why),
    };
    let cases: &[Case<'_>] = &[
        (
            &whole,
            &[],
            "device: 0 Stand-in at 0001:01:01, compute capability 9.1, 1 multiprocessors, \
             3072 MiB, integrated, maps host memory, unified addressing, GPUDirect RDMA, dma-buf",
        ),
        (
            &whole,
            &[],
            "kernel: beat, 14 registers, 13 local bytes, 11 shared bytes, 10 threads",
        ),
        (&whole, &[], "copied: [7, 7, 7, 7, 0]"),
        (&whole, &[], "copied across: [7, 7, 7, 7, 0]"),
        (&whole, &[], "launch: 3 slices, [Stopped, Stopped]"),
        (
            &without,
            &[],
            "refused: executor cuda: libcuda.so.1 has no `cuEventQuery`; install NVIDIA's driver",
        ),
        (
            &whole,
            &[("STAND_IN_VERSION", "12020")],
            "refused: executor cuda: the driver knows CUDA 12.2, and the kernels (PTX ISA 8.3) \
             need CUDA 12.3; install NVIDIA's driver r545 or newer",
        ),
        (
            &whole,
            &[("STAND_IN_INIT", "802")],
            "refused: executor cuda: cuInit failed with error 802, CUDA_ERROR_SYSTEM_NOT_READY",
        ),
        (
            &whole,
            &[("STAND_IN_LOAD", "218")],
            "refused: the PTX cannot be loaded: cuModuleLoadDataEx failed with error 218, \
             CUDA_ERROR_INVALID_PTX: the PTX does not compile; its compiler says:\n\
             line 7: so it said",
        ),
        (
            &whole,
            &[("STAND_IN_QUERY", "716")],
            "refused: kernel `beat`: cuEventQuery failed with error 716, \
             CUDA_ERROR_MISALIGNED_ADDRESS",
        ),
    ];
    for (folder, told, want) in cases {
        let words = child(folder, told);
        assert!(words.contains(want), "{want}\nis not in\n{words}");
    }
    if Path::new("/dev/nvidiactl").exists() {
        return warpwire_skip::unobtainable("a machine without NVIDIA's device nodes");
    }
    let words = child(&whole, &[("STAND_IN_INIT", "100")]);
    let want = "refused: executor cuda: the driver's library is here but /dev/nvidiactl is not";
    assert!(words.contains(want), "{words}");
}

/// Loading such a file would end the process with a signal.
#[test]
fn a_library_that_was_cut_short_is_refused() {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    let mut files = maps
        .lines()
        .filter_map(|line| line.split_whitespace().nth(5));
    let library = files.find(|path| path.contains("/libc.so") || path.contains("/libc-"));
    let Some(library) = library else {
        return warpwire_skip::unobtainable("a C library that is loaded at run time");
    };
    let bytes = std::fs::read(library).expect("can be read");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cut");
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    let file = folder.join("libcuda.so.1");
    for length in [64, 4096, bytes.len() / 2] {
        std::fs::write(&file, &bytes[..length]).expect("can be written");
        let words = child(&folder, &[]);
        let want = format!(
            "refused: executor cuda: libcuda.so.1 cannot be loaded ({} ends after {length} of",
            file.display()
        );
        assert!(words.contains(&want), "{want}\nis not in\n{words}");
    }
}

/// What the other tests start: uses the library and prints what came of it. Does nothing alone.
#[test]
fn as_a_process_of_its_own() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    if let Err(error) = use_it() {
        println!("refused: {error}");
    }
}

fn use_it() -> Result<(), cuda::Error> {
    for device in devices()? {
        println!("device: {device}");
    }
    let executor = CudaExecutor::builder().open(".version 8.3\n", &["beat"])?;
    for kernel in executor.kernels() {
        println!(
            "kernel: {}, {} registers, {} local bytes, {} shared bytes, {} threads",
            kernel.name,
            kernel.registers,
            kernel.local_bytes,
            kernel.shared_bytes,
            kernel.most_threads
        );
    }
    let device = executor.device_memory(64)?;
    let mut bytes = [1; 5];
    device.write(device.whole().address, &[7; 4])?;
    device.read(device.whole().address, &mut bytes)?;
    println!("copied: {bytes:?}");
    let grid = Grid {
        blocks: 2,
        warps: 2,
    };
    let arena = executor.pinned(8192)?;
    let control = Control::allocate(&arena, grid.total())?;
    let beats = control.heartbeat_address(0).map_or(0, DeviceAddress::value);
    let block = [0, beats, control.stop_address().value()];
    let block = arena.place_all(&block)?.address;
    // SAFETY: the stand-in takes such a block, in the arena that is named.
    let parameters = unsafe { Parameters::new(block, LAYOUT, vec![Arc::clone(&arena)]) };
    let parameters = parameters.control(control);
    let slices = Slices::new(block).device_memory(Arc::clone(&device));
    let launch = executor.launch(&row(), grid, parameters, slices)?;
    let report = launch.join(Duration::from_secs(20))?;
    println!("launch: {} slices, {:?}", report.slices, report.blocks);
    let other = executor.device_memory(64)?;
    device.copy_to(&other, 1)?;
    other.read(other.whole().address, &mut bytes)?;
    println!("copied across: {bytes:?}");
    Ok(())
}

fn row() -> KernelRow {
    fn scalar(_: &Scalar<'_>, _: DeviceAddress) -> u32 {
        0
    }
    fn lockstep(_: &Lockstep<'_>, _: DeviceAddress) -> u32 {
        0
    }
    KernelRow {
        name: "beat",
        layout: LAYOUT,
        scalar,
        lockstep,
    }
}

const LAYOUT: u64 = 5;
const CHILD: &str = "WARPWIRE_CUDA_STAND_IN";
