//! The program's way onto the interface.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::bpf::{self, Mode};
use super::machine::KernelVersion;
use super::open::{LIMITS, Setup, retry};
use super::options::ModeWish;
use super::program::{Plan, XDP_PASS, compile};
use crate::Error;
use crate::interfaces::Interface;

/// The program on the interface, and the map that it looks sockets up in.
pub(super) struct Attached {
    pub(super) mode: Mode,
    pub(super) link: OwnedFd,
    pub(super) map: OwnedFd,
    /// Why this mode.
    pub(super) why: String,
}

/// Why an interface's driver runs no XDP, where the kernel says that it does not.
fn no_native(interface: &Interface) -> String {
    match interface.driver == VETH {
        // The driver itself has it.
        true => format!(
            "{VETH} has native XDP only where an end has as many receive queues as its peer has \
             transmit queues, and {} has {}",
            interface.name, interface.receive_queues
        ),
        false => format!("driver {} has no native XDP", interface.driver),
    }
}

impl Setup<'_> {
    pub(super) fn attach(&self, interface: &Interface, count: u32) -> Result<Attached, Error> {
        let map = bpf::create_socket_map(count.max(interface.receive_queues))
            .map_err(|source| self.system("make a map of sockets", source, LIMITS))?;
        let tries = self.modes(interface);
        let mut refusal = None;
        for (mode, why) in tries {
            match self.attach_as(interface, &map, mode) {
                Ok(link) => {
                    return Ok(Attached {
                        mode,
                        link,
                        map,
                        why,
                    });
                }
                Err(error) => refusal = Some(error),
            }
        }
        Err(refusal.unwrap_or_else(|| {
            let cure = match interface.driver == VETH {
                true => format!(
                    "write mode=generic, or give {name} as many receive queues as its peer has \
                     transmit queues: `ethtool -L {name} rx N`",
                    name = interface.name
                ),
                false => "write mode=generic".to_owned(),
            };
            self.unavailable(no_native(interface), cure)
        }))
    }

    /// Modes to try in order, each with the reason for it.
    fn modes(&self, interface: &Interface) -> Vec<(Mode, String)> {
        let driver = &interface.driver;
        let native = |why: String| (Mode::Native, why);
        let generic = |why: String| (Mode::Generic, why);
        match (self.options.mode, interface.native) {
            (ModeWish::Generic, _) => vec![generic("as asked".to_owned())],
            (ModeWish::Native, Some(native)) if !native.redirect => vec![],
            (ModeWish::Native, _) => vec![native("as asked".to_owned())],
            (ModeWish::Automatic, Some(known)) if known.redirect => {
                vec![native(format!("driver {driver} supports it"))]
            }
            (ModeWish::Automatic, Some(_)) => {
                vec![generic(no_native(interface))]
            }
            (ModeWish::Automatic, None) => vec![
                native(format!("driver {driver} took it")),
                generic(format!("driver {driver} refused native XDP")),
            ],
        }
    }

    fn attach_as(
        &self,
        interface: &Interface,
        map: &OwnedFd,
        mode: Mode,
    ) -> Result<OwnedFd, Error> {
        let plan = Plan {
            rules: &self.options.rules,
            mac: interface.mac,
            sockets: map.as_raw_fd(),
            without_socket: XDP_PASS,
        };
        let instructions = compile(&plan).map_err(|fault| {
            let source = io::Error::other(format!("{fault:?}"));
            self.system("assemble the XDP program", source, "declare fewer flows")
        })?;
        let program =
            bpf::load(&instructions, self.fragments(interface, mode)).map_err(|fault| {
                let source = io::Error::new(
                    fault.source.kind(),
                    format!("{}: {}", fault.source, fault.log),
                );
                self.system("load the XDP program", source, LIMITS)
            })?;
        let name = &interface.name;
        retry(|| bpf::attach(&program, interface.index, mode)).map_err(|source| {
            let cure = match source.raw_os_error() {
                Some(libc::EBUSY | libc::EEXIST) => {
                    format!(
                        "one program has an interface: end what runs there, such as another \
                         warpwire; one that its owner left goes by `ip link set {name} xdp off`"
                    )
                }
                _ => format!("write mode=generic, or lower the MTU of {name}"),
            };
            self.system(&format!("attach the XDP program ({mode:?})"), source, &cure)
        })
    }

    /// Whether the program may see frames of several pieces.
    fn fragments(&self, interface: &Interface, mode: Mode) -> bool {
        match (mode, interface.native) {
            (Mode::Native, Some(native)) => native.receive_segments,
            _ => self.kernel >= KernelVersion::MULTI_BUFFER,
        }
    }
}

const VETH: &str = "veth";
