//! bpf(2) without a library: a map of sockets, a program, a link, and test runs.
#![expect(unsafe_code, reason = "system calls and the descriptors they return")]

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// How a program is attached to an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// In the driver, before the kernel makes a socket buffer (`drv`).
    Native,
    /// In the network stack, on socket buffers; every interface has it (`skb`).
    Generic,
}

impl Mode {
    fn link_flags(self) -> u32 {
        match self {
            Self::Generic => 2,
            Self::Native => 4,
        }
    }
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_bytes: u32,
    value_bytes: u32,
    entries: u32,
}

#[repr(C)]
struct MapUpdate {
    map: u32,
    reserved: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C)]
#[derive(Default)]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_bytes: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    expected_attach: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach: u32,
    flags: u32,
}

#[repr(C)]
#[derive(Default)]
struct TestRun {
    program: u32,
    verdict: u32,
    bytes_in: u32,
    bytes_out: u32,
    data_in: u64,
    data_out: u64,
    repeat: u32,
    duration_ns: u32,
    context_bytes_in: u32,
    context_bytes_out: u32,
    context_in: u64,
    context_out: u64,
    flags: u32,
    cpu: u32,
    batch: u32,
    reserved: u32,
}

const _: () = assert!(size_of::<MapUpdate>() == 32);
const _: () = assert!(size_of::<ProgramLoad>() == 72);
const _: () = assert!(size_of::<TestRun>() == 80);

const MAP_CREATE: libc::c_int = 0;
const MAP_UPDATE: libc::c_int = 2;
const PROGRAM_LOAD: libc::c_int = 5;
const PROGRAM_TEST_RUN: libc::c_int = 10;
const LINK_CREATE: libc::c_int = 28;

const MAP_KIND_SOCKETS: u32 = 17;
const PROGRAM_KIND_XDP: u32 = 6;
const PROGRAM_SEES_FRAGMENTS: u32 = 1 << 5;
const ATTACH_XDP: u32 = 37;
const TEST_LIVE_FRAMES: u32 = 1 << 1;

/// One call. `attributes` is a struct of the union `bpf_attr`.
fn bpf<T>(command: libc::c_int, attributes: &mut T) -> io::Result<RawFd> {
    let pointer: *mut T = attributes;
    // SAFETY: the attributes are live and as long as said; what they point to is kept by the
    // callers.
    let result = unsafe { libc::syscall(libc::SYS_bpf, command, pointer, size_of::<T>()) };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as RawFd)
}

fn owned(descriptor: RawFd) -> OwnedFd {
    // SAFETY: bpf(2) just returned this descriptor; nobody else has it.
    unsafe { OwnedFd::from_raw_fd(descriptor) }
}

/// A map from queue number to AF_XDP socket.
pub(super) fn create_socket_map(queues: u32) -> io::Result<OwnedFd> {
    let mut attributes = MapCreate {
        kind: MAP_KIND_SOCKETS,
        key_bytes: 4,
        value_bytes: 4,
        entries: queues,
    };
    bpf(MAP_CREATE, &mut attributes).map(owned)
}

/// Puts the socket of a queue into the map.
pub(super) fn set_socket(map: &OwnedFd, queue: u32, socket: &OwnedFd) -> io::Result<()> {
    let value = socket.as_raw_fd();
    let mut attributes = MapUpdate {
        map: map.as_raw_fd() as u32,
        reserved: 0,
        key: &raw const queue as u64,
        value: &raw const value as u64,
        flags: 0,
    };
    bpf(MAP_UPDATE, &mut attributes).map(drop)
}

/// Why the kernel did not load a program.
#[derive(Debug)]
pub(super) struct LoadFault {
    pub(super) source: io::Error,
    /// What the verifier wrote.
    pub(super) log: String,
}

/// Loads an XDP program. `fragments`: it may see frames of several pieces.
pub(super) fn load(instructions: &[u64], fragments: bool) -> Result<OwnedFd, LoadFault> {
    let mut attributes = ProgramLoad {
        kind: PROGRAM_KIND_XDP,
        instruction_count: instructions.len() as u32,
        instructions: instructions.as_ptr() as u64,
        license: c"MIT OR Apache-2.0".as_ptr() as u64,
        flags: if fragments { PROGRAM_SEES_FRAGMENTS } else { 0 },
        name: *b"warpwire\0\0\0\0\0\0\0\0",
        expected_attach: ATTACH_XDP,
        ..ProgramLoad::default()
    };
    let source = match bpf(PROGRAM_LOAD, &mut attributes) {
        Ok(program) => return Ok(owned(program)),
        Err(source) => source,
    };
    let mut log = vec![0_u8; 1 << 16];
    attributes.log_level = 1;
    attributes.log_bytes = log.len() as u32;
    attributes.log = log.as_mut_ptr() as u64;
    if let Ok(program) = bpf(PROGRAM_LOAD, &mut attributes) {
        return Ok(owned(program));
    }
    let end = log.iter().position(|&byte| byte == 0).unwrap_or(log.len());
    log.truncate(end);
    let log = String::from_utf8_lossy(&log).into_owned();
    Err(LoadFault { source, log })
}

/// Attaches a program to an interface, for as long as the descriptor is open: the kernel detaches
/// it when the process ends, however it ends.
pub(super) fn attach(program: &OwnedFd, interface: u32, mode: Mode) -> io::Result<OwnedFd> {
    let mut attributes = LinkCreate {
        program: program.as_raw_fd() as u32,
        interface,
        attach: ATTACH_XDP,
        flags: mode.link_flags(),
    };
    bpf(LINK_CREATE, &mut attributes).map(owned)
}

/// Runs a program on `frame` and returns its verdict.
#[cfg(test)]
pub(super) fn verdict(program: &OwnedFd, frame: &[u8]) -> io::Result<u32> {
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        bytes_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat: 1,
        ..TestRun::default()
    };
    bpf(PROGRAM_TEST_RUN, &mut attributes)?;
    Ok(attributes.verdict)
}

/// Runs a program on `repeat` copies of `frame` and does to them what it says, `batch` at a time.
pub(super) fn run_live(program: &OwnedFd, frame: &[u8], repeat: u32, batch: u32) -> io::Result<()> {
    let mut attributes = TestRun {
        program: program.as_raw_fd() as u32,
        bytes_in: frame.len() as u32,
        data_in: frame.as_ptr() as u64,
        repeat,
        flags: TEST_LIVE_FRAMES,
        batch,
        ..TestRun::default()
    };
    bpf(PROGRAM_TEST_RUN, &mut attributes).map(drop)
}
