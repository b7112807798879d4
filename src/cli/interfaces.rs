//! `warpwire interfaces`: what can be used as a NIC on this machine, and why not.

use std::io::{self, Write};

use warpwire_nic::interfaces::{Interface, interfaces};
use warpwire_nic::xdp::missing_capabilities;

use super::Failure;

/// List what can be used as a NIC on this machine, and why not
#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let list = interfaces().map_err(Failure::Interfaces)?;
    let missing = missing_capabilities();
    let mut out = io::stdout().lock();
    if arguments.json {
        let list: Vec<serde_json::Value> = list.iter().map(|one| as_json(one, &missing)).collect();
        let text = serde_json::to_string_pretty(&list).unwrap_or_default();
        writeln!(out, "{text}")?;
        return Ok(());
    }
    writeln!(out, "always: soft (device model), pcap:FILE, memif:SOCKET")?;
    for interface in &list {
        describe(&mut out, interface, &missing)?;
    }
    Ok(())
}

fn describe(out: &mut impl Write, interface: &Interface, missing: &[&str]) -> io::Result<()> {
    let Interface {
        name, driver, mtu, ..
    } = interface;
    let obstacles = obstacles(interface, missing);
    let verdict = if obstacles.is_empty() {
        "usable"
    } else {
        "not usable"
    };
    let driver = if driver.is_empty() { "virtual" } else { driver };
    writeln!(
        out,
        "xdp:{name}: {verdict}; {driver}, {}, mtu {mtu}, {} receive and {} transmit queues, XDP {}",
        mac(&interface.mac),
        interface.receive_queues,
        interface.transmit_queues,
        interface.xdp_mode(),
    )?;
    for obstacle in obstacles {
        writeln!(out, "    {obstacle}")?;
    }
    if let Some(hint) = interface.checksum_hint() {
        writeln!(out, "    note: {hint}")?;
    }
    Ok(())
}

/// Why this process cannot use an interface.
fn obstacles(interface: &Interface, missing: &[&str]) -> Vec<String> {
    let mut obstacles = interface.obstacles();
    if !missing.is_empty() {
        let missing = missing.join(", ");
        obstacles.push(format!(
            "this process lacks {missing}; run as root, or set them by setcap"
        ));
    }
    obstacles
}

fn as_json(interface: &Interface, missing: &[&str]) -> serde_json::Value {
    let obstacles = obstacles(interface, missing);
    serde_json::json!({
        "nic": format!("xdp:{}", interface.name),
        "usable": obstacles.is_empty(),
        "obstacles": obstacles,
        "driver": interface.driver,
        "mac": mac(&interface.mac),
        "mtu": interface.mtu,
        "receive_queues": interface.receive_queues,
        "transmit_queues": interface.transmit_queues,
        "default_route": interface.default_route,
        "xdp": interface.xdp_mode(),
    })
}

fn mac(bytes: &[u8; 6]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(":")
}
