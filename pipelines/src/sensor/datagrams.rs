//! A pipeline that gathers the datagrams of a sensor, and does nothing else.

use warpwire_nic::{NicKind, NicSpec};

use super::error::Error;
use super::files::Files;
use super::records::Records;
use crate::file::{Catalogue, GatherEntry, PipelineFile};
use crate::streaming::{self, InterfaceAddress, StreamConfig, refuse_owned, suited};

/// Where datagrams come to.
#[derive(Clone, Debug)]
pub struct Site {
    /// The NIC, such as `xdp:eth0`. AF_XDP takes the own addresses.
    pub nic: String,
    /// The own addresses: ARP, neighbour solicitations and pings are answered for them.
    pub addresses: Vec<InterfaceAddress>,
    /// The UDP port of the sensor; datagrams to others are dropped.
    pub port: u16,
}

/// The file of a pipeline that answers for the own addresses, verifies checksums, and gathers the
/// datagrams that come to a port: a record each. [`crate::Runtime`] runs it.
///
/// # Errors
/// [`Error::Setting`], see [`Records::check`]; [`Error::Streaming`] for addresses that the
/// operating system has, and for words that are no NIC; [`Error::Pipeline`].
pub fn datagrams(
    site: &Site,
    records: &Records,
    files: &Files,
    catalogue: &Catalogue,
) -> Result<PipelineFile, Error> {
    records.check()?;
    let config = StreamConfig::new(site.addresses.clone());
    let spec: NicSpec = site.nic.parse().map_err(streaming::Error::Nic)?;
    refuse_owned(&spec, &config)?;
    // What AF_XDP takes is said by the addresses of the file; what one below takes, by its words.
    let spec = match spec.kind {
        NicKind::Soft => suited(spec, &config),
        _ => spec,
    };
    let mut file = PipelineFile::parse("sensor", &text(site, &spec), catalogue)?;
    let stages = file.receives.iter_mut().flat_map(|one| &mut one.stages);
    for stage in stages.filter(|stage| stage.gather.is_some()) {
        stage.gather = Some(GatherEntry {
            records: *records,
            files: files.clone(),
        });
    }
    Ok(file)
}

/// The words of the file. What is gathered, and where to, is set once it was read.
fn text(site: &Site, spec: &NicSpec) -> String {
    let own = site.addresses.iter().map(|own| own.address.to_string());
    let own: Vec<String> = own.collect();
    let places = own.iter().map(|own| {
        let port = site.port;
        format!("{{ kind = \"udp\", destination = \"{own}\", destination_port = {port} }}")
    });
    let places: Vec<String> = places.collect();
    format!(
        "[nic.sensor]\nopen = {}\naddresses = {own:?}\n\
         [[receive]]\nfrom = \"sensor\"\n\
         [[receive.stage]]\ndo = \"respond\"\n\
         [[receive.stage]]\ndo = \"verify\"\n\
         [[receive.stage]]\ndo = \"gather\"\nwhen = [{}]\nrows_to = \"rows\"\nsamples = 1\n",
        // Strings of JSON are strings of TOML.
        serde_json::Value::from(spec.to_string()),
        places.join(", ")
    )
}
