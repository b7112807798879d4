//! How a fabric and its parts are set up; and the options of `soft` NICs.

use super::uplink::UplinkWords;
use crate::error::Error;
use crate::spec::NicSpec;

/// A fabric: what its ports have in common.
#[derive(Clone, Debug)]
pub struct FabricConfig {
    /// Decides all chance.
    pub seed: u64,
    /// Frames that can be under way at a time on links that hold frames.
    pub frames_under_way: u32,
    /// Largest frame that any port passes, checksum sequence not counted.
    pub max_frame_bytes: u32,
}

impl Default for FabricConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            frames_under_way: 4096,
            max_frame_bytes: 9216,
        }
    }
}

/// What a link does to the frames that go to its port. The default is nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Impairments {
    /// Bits a second, preamble, checksum sequence and gap included; 0: no limit.
    pub rate_bps: u64,
    /// Bytes that may wait for a limited link; 0: 1 MiB.
    pub queue_bytes: u64,
    /// Nanoseconds under way.
    pub delay_ns: u64,
    /// Up to so many nanoseconds more. Alone it does not reorder.
    pub jitter_ns: u64,
    /// Frames lost, in a million.
    pub loss_ppm: u32,
    /// Frames that arrive twice, in a million.
    pub duplicate_ppm: u32,
    /// Frames that are held back while later ones pass, in a million.
    pub reorder_ppm: u32,
    /// How long these are held back, in nanoseconds.
    pub reorder_ns: u64,
    /// Frames with one bit flipped behind the Ethernet header, in a million.
    pub corrupt_ppm: u32,
    /// Frames marked as having met congestion, in a million.
    pub ecn_ppm: u32,
    /// Mark every frame when at least so many bytes wait for a limited link; 0: none.
    pub ecn_queue_bytes: u64,
}

impl Impairments {
    /// Whether the link is a plain wire.
    pub fn none(&self) -> bool {
        *self == Self::default()
    }
}

/// What hardware does for the driver.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Offloads {
    /// Look at the checksums of received frames.
    pub checksum: bool,
    /// Hash received frames; always on with several queues.
    pub hash: bool,
    /// Take VLAN tags off received frames.
    pub vlan_strip: bool,
}

impl Default for Offloads {
    fn default() -> Self {
        Self {
            checksum: true,
            hash: true,
            vlan_strip: false,
        }
    }
}

/// Frames that are tagged, and may be steered past the spreading. Fields that are given must match.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowRule {
    /// Ethernet type, behind VLAN tags that were taken off.
    pub ether_type: Option<u16>,
    /// UDP or TCP target port.
    pub target_port: Option<u16>,
    /// The tag that the completion carries, 24 bits, not 0.
    pub tag: u32,
    /// The queue to go to.
    pub queue: Option<u32>,
}

/// An adapter: a soft NIC's hardware.
#[derive(Clone, Debug)]
pub struct AdapterConfig {
    /// Queue pairs, 1 to 16.
    pub queues: u32,
    /// Slots of each queue; a power of two up to 32768.
    pub depth: u32,
    /// Bytes of a slot's buffer, a multiple of 64.
    pub slot_bytes: u32,
    /// Data segments that a receive slot is scattered over, 1 to 16; each has `slot_bytes /
    /// segments`.
    pub segments: u32,
    /// Largest frame that passes, checksum sequence not counted.
    pub max_frame_bytes: u32,
    /// What hardware does for the driver.
    pub offloads: Offloads,
    /// Flow rules; the first that matches counts.
    pub rules: Vec<FlowRule>,
}

impl Default for AdapterConfig {
    fn default() -> Self {
        Self {
            queues: 1,
            depth: 1024,
            slot_bytes: 2048,
            segments: 1,
            max_frame_bytes: 1518,
            offloads: Offloads::default(),
            rules: Vec::new(),
        }
    }
}

/// What the words of a `soft` NIC say.
#[derive(Clone, Debug)]
pub(super) struct SoftOptions {
    pub(super) adapter: AdapterConfig,
    pub(super) link: Impairments,
    pub(super) peer: Option<String>,
    pub(super) uplink: Option<UplinkWords>,
}

const KNOWN: [&str; 22] = [
    "queues",
    "depth",
    "slot",
    "segments",
    "mtu",
    "rx_checksum",
    "rx_hash",
    "vlan_strip",
    "peer",
    "uplink",
    "rate_mbps",
    "queue_kb",
    "delay_us",
    "jitter_us",
    "loss_ppm",
    "duplicate_ppm",
    "reorder_ppm",
    "reorder_us",
    "corrupt_ppm",
    "ecn_ppm",
    "ecn_queue_kb",
    "seed",
];

impl SoftOptions {
    pub(super) fn read(spec: &NicSpec) -> Result<Self, Error> {
        spec.only(&KNOWN)?;
        let default = AdapterConfig::default();
        let small = |name: &str, default: u32, range: std::ops::RangeInclusive<u64>| {
            spec.number(name, default.into(), range)
                .map(|value| value as u32)
        };
        let adapter = AdapterConfig {
            queues: small("queues", default.queues, 1..=16)?,
            depth: small("depth", default.depth, 2..=32768)?,
            slot_bytes: small("slot", default.slot_bytes, 64..=65536)?,
            segments: small("segments", default.segments, 1..=16)?,
            max_frame_bytes: small("mtu", default.max_frame_bytes - 18, 68..=9198)? + 18,
            offloads: Offloads {
                checksum: spec.option("rx_checksum").is_none() || spec.flag("rx_checksum")?,
                hash: spec.option("rx_hash").is_none() || spec.flag("rx_hash")?,
                vlan_strip: spec.flag("vlan_strip")?,
            },
            rules: Vec::new(),
        };
        check_sizes(spec, &adapter)?;
        let link = Self::link(spec)?;
        let peer = spec.option("peer").map(str::to_owned);
        let uplink = UplinkWords::of(spec)?;
        if peer.is_some() && uplink.is_some() {
            let problem = "a NIC has one plug, and peer is in it".to_owned();
            return Err(spec.wrong("uplink", problem, "leave one of the two out".to_owned()));
        }
        Ok(Self {
            adapter,
            link,
            peer,
            uplink,
        })
    }

    fn link(spec: &NicSpec) -> Result<Impairments, Error> {
        let ppm = |name: &str| {
            spec.number(name, 0, 0..=1_000_000)
                .map(|value| value as u32)
        };
        let times = |name: &str, unit: u64| {
            spec.number(name, 0, 0..=1_000_000_000)
                .map(|value| value * unit)
        };
        Ok(Impairments {
            rate_bps: times("rate_mbps", 1_000_000)?,
            queue_bytes: times("queue_kb", 1024)?,
            delay_ns: times("delay_us", 1000)?,
            jitter_ns: times("jitter_us", 1000)?,
            loss_ppm: ppm("loss_ppm")?,
            duplicate_ppm: ppm("duplicate_ppm")?,
            reorder_ppm: ppm("reorder_ppm")?,
            reorder_ns: times("reorder_us", 1000)?,
            corrupt_ppm: ppm("corrupt_ppm")?,
            ecn_ppm: ppm("ecn_ppm")?,
            ecn_queue_bytes: times("ecn_queue_kb", 1024)?,
        })
    }
}

/// A frame larger than a slot could never arrive: that is an error of the words, not of the frame.
fn check_sizes(spec: &NicSpec, adapter: &AdapterConfig) -> Result<(), Error> {
    let AdapterConfig {
        depth,
        slot_bytes,
        segments,
        max_frame_bytes,
        ..
    } = *adapter;
    if !depth.is_power_of_two() {
        let cure = format!("write depth={}", depth.next_power_of_two().min(32768));
        return Err(spec.wrong("depth", format!("{depth} is not a power of two"), cure));
    }
    let unit = segments * 64;
    if !slot_bytes.is_multiple_of(unit) {
        let problem =
            format!("{slot_bytes} is not a multiple of 64 in each of {segments} segments");
        let cure = format!("write slot={}", slot_bytes.next_multiple_of(unit));
        return Err(spec.wrong("slot", problem, cure));
    }
    if max_frame_bytes > slot_bytes {
        let problem = format!("a slot of {slot_bytes} bytes cannot hold {max_frame_bytes} bytes");
        let cure = format!("write slot={}", max_frame_bytes.next_multiple_of(unit));
        return Err(spec.wrong("slot", problem, cure));
    }
    Ok(())
}
