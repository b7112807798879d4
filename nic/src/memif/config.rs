//! The words of a memif NIC, checked.

use std::fmt;
use std::time::Duration;

use warpwire_ring::memif::{RegionPlan, Role};

use crate::error::Error;
use crate::memif::message::Text;
use crate::spec::NicSpec;

/// What `memif:SOCKET` and its options ask for.
#[derive(Clone, Debug)]
pub(super) struct Config {
    /// Kind and address, for errors: never the secret.
    pub(super) nic: String,
    pub(super) address: String,
    pub(super) role: Role,
    pub(super) id: u32,
    pub(super) queues: u32,
    pub(super) depth: u32,
    pub(super) slot_bytes: u32,
    pub(super) secret: Secret,
    pub(super) name: Text<32>,
    pub(super) mac: [u8; 6],
    pub(super) limit: Duration,
}

/// What both ends must know, if the server has one. Never printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Secret(pub(super) Text<24>);

impl Secret {
    pub(super) fn is_set(&self) -> bool {
        self.0.0.iter().any(|byte| *byte != 0)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_set() { "set" } else { "none" })
    }
}

impl Config {
    /// Reads and checks the options.
    pub(super) fn new(spec: &NicSpec) -> Result<Self, Error> {
        spec.only(&OPTIONS)?;
        let role = match spec.option("role") {
            None | Some("client") => Role::Client,
            Some("server") => Role::Server,
            Some(other) => {
                return Err(spec.wrong(
                    "role",
                    format!("`{other}` is neither client nor server"),
                    "write role=client or role=server".to_owned(),
                ));
            }
        };
        if spec.address.len() > MAX_ADDRESS || spec.address.contains('\0') {
            return Err(spec.wrong(
                "address",
                format!("is longer than {MAX_ADDRESS} bytes or holds a zero byte"),
                "use a shorter path, or @NAME for an abstract socket".to_owned(),
            ));
        }
        let config = Self {
            nic: format!("memif:{}", spec.address),
            address: spec.address.clone(),
            role,
            id: spec.number("id", 0, 0..=u64::from(u32::MAX))? as u32,
            queues: spec.number("queues", 1, 1..=MAX_QUEUES)? as u32,
            depth: power_of_two(spec, "depth", 1024, 2..=1 << MAX_LOG2_DEPTH)?,
            slot_bytes: power_of_two(spec, "buffer", 2048, 64..=65536)?,
            secret: Secret(text(spec, "secret", "")?),
            name: text(spec, "name", "warpwire")?,
            mac: mac(spec, role)?,
            limit: Duration::from_millis(spec.number("wait_ms", 10_000, 1..=600_000)?),
        };
        if !config.plan().is_sound() {
            return Err(spec.wrong(
                "buffer",
                format!(
                    "{} queues of {} slots of {} bytes exceed the 4 GiB that a region can hold",
                    config.queues, config.depth, config.slot_bytes
                ),
                "write smaller queues, depth or buffer".to_owned(),
            ));
        }
        Ok(config)
    }

    /// The layout of our region, as client.
    pub(super) fn plan(&self) -> RegionPlan {
        RegionPlan {
            to_server: self.queues,
            to_client: self.queues,
            depth: self.depth,
            slot_bytes: self.slot_bytes,
        }
    }
}

fn power_of_two(
    spec: &NicSpec,
    option: &str,
    default: u64,
    range: std::ops::RangeInclusive<u64>,
) -> Result<u32, Error> {
    let value = spec.number(option, default, range)?;
    if value.is_power_of_two() {
        return Ok(value as u32);
    }
    let problem = format!("{value} is not a power of two");
    let cure = format!("write {option}={}", value.next_power_of_two() / 2);
    Err(spec.wrong(option, problem, cure))
}

fn text<const N: usize>(spec: &NicSpec, option: &str, default: &str) -> Result<Text<N>, Error> {
    let value = spec.option(option).unwrap_or(default);
    if value.len() <= N {
        return Ok(Text::new(value));
    }
    let problem = format!("is longer than {N} bytes");
    Err(spec.wrong(option, problem, "write a shorter one".to_owned()))
}

/// memif carries no address; without one given, each end gets a local one that stays the same from
/// run to run.
fn mac(spec: &NicSpec, role: Role) -> Result<[u8; 6], Error> {
    let Some(words) = spec.option("mac") else {
        let id = spec.number("id", 0, 0..=u64::from(u32::MAX))?;
        let hash = spec
            .address
            .bytes()
            .chain(id.to_le_bytes())
            .chain([role as u32 as u8])
            .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
        let [a, b, c, d, e, ..] = hash.to_be_bytes();
        return Ok([0x02, a, b, c, d, e]);
    };
    let bytes: Vec<u8> = words
        .split(':')
        .filter_map(|part| u8::from_str_radix(part, 16).ok())
        .collect();
    match <[u8; 6]>::try_from(bytes) {
        Ok(mac) if words.split(':').count() == 6 && mac[0] & 1 == 0 => Ok(mac),
        _ => Err(spec.wrong(
            "mac",
            format!("`{words}` is no unicast Ethernet address"),
            "write mac=02:00:00:00:00:01".to_owned(),
        )),
    }
}

/// The deepest ring that peers know: DPDK and VPP stop at 2^14.
pub(super) const MAX_LOG2_DEPTH: u32 = 14;

/// As many rings each way as fit a region of ours and the peers' limits.
const MAX_QUEUES: u64 = 255;

const MAX_ADDRESS: usize = 107;

const OPTIONS: [&str; 9] = [
    "role", "id", "queues", "depth", "buffer", "secret", "name", "mac", "wait_ms",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn config(words: &str) -> Result<Config, String> {
        let spec: NicSpec = words.parse().expect(words);
        Config::new(&spec).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_are_those_of_the_common_peers() {
        let config = config("memif:/run/a").expect("defaults");
        assert_eq!(config.role, Role::Client);
        assert_eq!((config.id, config.queues), (0, 1));
        assert_eq!((config.depth, config.slot_bytes), (1024, 2048));
        assert_eq!(config.mac[0], 2);
    }

    #[test]
    fn both_ends_differ_in_their_address_and_keep_it() {
        let client = config("memif:/run/a").expect("client");
        let server = config("memif:/run/a,role=server").expect("server");
        assert_ne!(client.mac, server.mac);
        assert_eq!(client.mac, config("memif:/run/a").expect("again").mac);
        let given = config("memif:/run/a,mac=02:00:00:00:0a:ff").expect("given");
        assert_eq!(given.mac, [2, 0, 0, 0, 10, 255]);
    }

    #[test]
    fn wrong_options_are_named_with_their_cure() {
        let long = "x".repeat(33);
        let cases = [
            ("role=both".to_owned(), "role", "role=client"),
            ("depth=1000".to_owned(), "depth", "depth=512"),
            ("depth=32768".to_owned(), "depth", "2 to 16384"),
            ("buffer=32".to_owned(), "buffer", "64 to 65536"),
            ("queues=0".to_owned(), "queues", "1 to 255"),
            (
                "queues=255,depth=16384,buffer=65536".to_owned(),
                "buffer",
                "smaller",
            ),
            (
                "secret=0123456789012345678901234".to_owned(),
                "secret",
                "24",
            ),
            (format!("name={long}"), "name", "32"),
            ("mac=01:00:00:00:00:01".to_owned(), "mac", "02:00"),
            ("mac=02:00:00:00:00".to_owned(), "mac", "02:00"),
            ("colour=red".to_owned(), "colour", "known options: role"),
        ];
        for (option, field, cure) in cases {
            let error = config(&format!("memif:/run/a,{option}")).expect_err(&option);
            assert!(
                error.contains(field) && error.contains(cure),
                "{option}: {error}"
            );
        }
        let error = config(&format!("memif:{}", "y".repeat(108))).expect_err("too long");
        assert!(error.contains("@NAME"), "{error}");
    }
}
