//! Devices for streams: a NIC by its words, with an endpoint on it.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use warpwire_gpu::executor::Clock;
use warpwire_nic::memif::Memif;
use warpwire_nic::{
    Counters, Nic, NicKind, NicSpec, Patience, Trouble, interfaces, namespace, soft, xdp,
};

use super::endpoint::{StreamEndpoint, lock};
use super::error::Error;
use super::settings::StreamConfig;

/// A NIC with an endpoint on it that whoever waits steps. Nobody else needs a thread. For tasks of
/// tokio, `Reactor::start` takes one.
pub struct StreamDevice {
    // In the order in which they must go.
    endpoint: StreamEndpoint,
    nic: Mutex<Box<dyn Nic>>,
    mtu: u16,
}

impl StreamDevice {
    /// Opens the NIC of these words, `xdp:IFACE` or another kind, and starts an endpoint there.
    /// AF_XDP takes the own addresses, unless the words say what is taken, and has slots for bursts
    /// of so many connections, unless they say how many. The MTU is what the NIC passes, up to that
    /// of `config`.
    ///
    /// # Errors
    /// A NIC that cannot be used; addresses that the operating system has; what
    /// [`StreamEndpoint::start_fused`] refuses.
    pub fn open(words: &str, config: &StreamConfig, patience: Duration) -> Result<Self, Error> {
        let spec = suited(words.parse()?, config);
        refuse_owned(&spec, config)?;
        let mut nic = open(&spec, patience).map_err(|error| error.named(words))?;
        let most = nic.caps().max_packet_bytes();
        let mtu = u16::try_from(most).unwrap_or(u16::MAX).min(config.mtu);
        let config = StreamConfig {
            mtu,
            ..config.clone()
        };
        let services = nic.take_services();
        let endpoint = StreamEndpoint::start_fused(Clock::machine(), &*nic, services, &config)?;
        let nic = Mutex::new(nic);
        Ok(Self { endpoint, nic, mtu })
    }

    /// The endpoint.
    pub const fn endpoint(&self) -> &StreamEndpoint {
        &self.endpoint
    }

    /// Bytes of the largest IP packet.
    pub const fn mtu(&self) -> u16 {
        self.mtu
    }

    /// What was chosen among several ways, and why.
    pub fn choices(&self) -> Vec<String> {
        lock(&self.nic).choices()
    }

    /// What its NIC counted so far.
    pub fn nic_counters(&self) -> Counters {
        lock(&self.nic).counters()
    }

    /// What has gone wrong with its NIC.
    pub fn troubles(&self) -> Vec<Trouble> {
        lock(&self.nic).troubles()
    }
}

impl AsRef<StreamEndpoint> for StreamDevice {
    fn as_ref(&self) -> &StreamEndpoint {
        &self.endpoint
    }
}

fn open(spec: &NicSpec, patience: Duration) -> Result<Box<dyn Nic>, warpwire_nic::Error> {
    Ok(match spec.kind {
        NicKind::Xdp => Box::new(xdp::open(spec)?),
        NicKind::Memif => {
            let until = Instant::now().checked_add(patience);
            Box::new(Memif::open_within(spec, Patience { stop: None, until })?)
        }
        NicKind::Soft if spec.option("uplink").or(spec.option("peer")).is_none() => {
            let problem = "is missing: nobody is at the other end".to_owned();
            let cure = "write soft,uplink=xdp:IFACE, tap:IFACE or memif:SOCKET".to_owned();
            return Err(spec.wrong("uplink", problem, cure));
        }
        NicKind::Soft => Box::new(soft::open(spec)?),
        _ => {
            let problem = "carries no streams".to_owned();
            let cure = "write xdp:IFACE, soft,uplink=... or memif:SOCKET".to_owned();
            return Err(spec.wrong("kind", problem, cure));
        }
    })
}

/// The words with the own addresses and the slots for AF_XDP, unless they say that themselves.
pub(crate) fn suited(mut spec: NicSpec, config: &StreamConfig) -> NicSpec {
    let takes = |key: &str| matches!(key, "flow" | "address" | "prefix" | "all" | "exclusive");
    let says = |words: &str| {
        let mut keys = words.split('+').map(|part| part.split('=').next());
        keys.any(|key| key.is_some_and(takes))
    };
    let own = config.addresses.iter().map(|own| own.address);
    match spec.kind {
        NicKind::Xdp => {
            if !spec.options.iter().any(|(key, _)| takes(key)) {
                let own = own.map(|address| ("address".to_owned(), address.to_string()));
                spec.options.extend(own);
            }
            let depth = depth(config.open);
            if depth > LEAST_DEPTH && spec.option("depth").is_none() {
                let depth = ("depth".to_owned(), depth.to_string());
                spec.options.push(depth);
            }
        }
        NicKind::Soft => {
            let uplink = spec
                .options
                .iter_mut()
                .find(|(key, words)| key == "uplink" && words.starts_with("xdp:") && !says(words));
            if let Some((_, words)) = uplink {
                own.for_each(|address| words.push_str(&format!("+address={address}")));
            }
        }
        _ => {}
    }
    spec
}

/// Slots for a segment of each connection at a time and some more, within bounds.
fn depth(open: u32) -> u32 {
    let wanted = open.saturating_mul(2).clamp(LEAST_DEPTH, MOST_DEPTH);
    wanted.next_power_of_two()
}

/// Refuses addresses that the operating system has where the NIC is, if that is AF_XDP: both would
/// answer.
pub(crate) fn refuse_owned(spec: &NicSpec, config: &StreamConfig) -> Result<(), Error> {
    let uplink = spec.option("uplink").filter(|_| spec.kind == NicKind::Soft);
    let below = uplink.filter(|words| words.starts_with("xdp:"));
    let below: Option<NicSpec> = below
        .map(|words| words.replace('+', ",").parse())
        .transpose()?;
    let spec = below.as_ref().unwrap_or(spec);
    if spec.kind != NicKind::Xdp {
        return Ok(());
    }
    let look = || Ok::<_, std::io::Error>((interfaces::addresses()?, interfaces::interfaces()?));
    let found = match spec.option("netns") {
        Some(name) => namespace::within(name, look).and_then(|found| found),
        None => look(),
    };
    // Where that cannot be read, opening the NIC says why.
    let Ok((owned, links)) = found else {
        return Ok(());
    };
    let addresses = config.addresses.iter().map(|own| own.address);
    for address in addresses {
        if let Some(owner) = owned.iter().find(|one| one.address == address) {
            let link = links.iter().find(|link| link.index == owner.interface);
            return Err(Error::Owned {
                address,
                interface: link.map_or("an interface", |link| &link.name).to_owned(),
            });
        }
    }
    Ok(())
}

/// Slots of an AF_XDP queue that does not say how many.
const LEAST_DEPTH: u32 = 2048;
/// Slots beyond which memory for them is better spent otherwise.
const MOST_DEPTH: u32 = 16384;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_added_where_nothing_says_what_is_taken() {
        let own = ["10.0.0.2/24", "fd00::2/64"].map(|own| own.parse().expect("is one"));
        let config = StreamConfig::new(own.to_vec());
        for (words, want) in [
            ("xdp:v1", "xdp:v1,address=10.0.0.2,address=fd00::2"),
            (
                "xdp:v1,netns=a",
                "xdp:v1,netns=a,address=10.0.0.2,address=fd00::2",
            ),
            ("xdp:v1,all", "xdp:v1,all"),
            (
                "soft,uplink=xdp:v1+queues=1,loss_ppm=5",
                "soft,uplink=xdp:v1+queues=1+address=10.0.0.2+address=fd00::2,loss_ppm=5",
            ),
            ("soft,uplink=xdp:v1+all", "soft,uplink=xdp:v1+all"),
            ("soft,uplink=tap:t", "soft,uplink=tap:t"),
            ("memif:/tmp/a", "memif:/tmp/a"),
        ] {
            let spec = suited(words.parse().expect(words), &config);
            assert_eq!(spec.to_string(), want);
        }
    }

    #[test]
    fn many_connections_have_many_slots() {
        let own = "10.0.0.2/24".parse().expect("is one");
        for (words, open, want) in [
            ("xdp:v1,all", 512, "xdp:v1,all"),
            ("xdp:v1,all", 3000, "xdp:v1,all,depth=8192"),
            ("xdp:v1,all", 1 << 18, "xdp:v1,all,depth=16384"),
            ("xdp:v1,all,depth=64", 1 << 18, "xdp:v1,all,depth=64"),
        ] {
            let config = StreamConfig {
                open,
                ..StreamConfig::new(vec![own])
            };
            let spec = suited(words.parse().expect(words), &config);
            assert_eq!(spec.to_string(), want);
        }
    }

    #[test]
    fn a_nic_that_carries_no_streams_is_named() {
        let config = StreamConfig::new(vec!["10.0.0.2/24".parse().expect("is one")]);
        for (words, want) in [
            ("dpdk:net_null0", "carries no streams"),
            ("soft,seed=3", "uplink: is missing"),
        ] {
            let opened = StreamDevice::open(words, &config, Duration::ZERO);
            let said = opened.err().expect("is none").to_string();
            assert!(said.contains(want), "{words}: {said}");
        }
    }
}
