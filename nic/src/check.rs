//! Checks a NIC's words without touching the machine.

use crate::error::Error;
use crate::spec::{NicKind, NicSpec};
use crate::{memif, pcap, soft, xdp};

/// Checks the options of a NIC: their names, ranges and how they fit together. Nothing is opened.
///
/// # Errors
/// [`Error::Spec`] naming the option, what is wrong with it, and the cure.
pub fn check(spec: &NicSpec) -> Result<(), Error> {
    match spec.kind {
        NicKind::Soft => soft::check(spec),
        NicKind::Xdp => xdp::check(spec),
        NicKind::Memif => memif::check(spec),
        NicKind::Pcap => pcap::check(spec),
        NicKind::Dpdk | NicKind::Mlx5 | NicKind::Doca | NicKind::Agent => Err(spec.wrong(
            "kind",
            format!("`{}` cannot be opened by this build", spec.kind.word()),
            format!("write one of {}", NicKind::shapes()),
        )),
    }
}
