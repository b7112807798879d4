//! The device model and the switch, driven through their queues.
#![expect(
    unsafe_code,
    reason = "attaches to the queues of NICs that the test opened"
)]

mod bursts;
mod faults;
mod frames;
mod links;
mod offloads;
mod paths;
mod rig;
mod uplinks;

use super::SoftNic;
use crate::Nic;
use crate::host_port::HostPort;

/// A host at every queue of a NIC.
fn attach(nic: &SoftNic) -> Vec<HostPort> {
    nic.queues()
        .iter()
        // SAFETY: this is the only driver, and the rig keeps NIC and driver together.
        .map(|pair| unsafe { HostPort::attach(pair) }.expect("attaches"))
        .collect()
}
