//! The words of an `xdp` NIC.

use warpwire_ring::Location;

use super::rules::Rules;
use crate::error::Error;
use crate::spec::NicSpec;

/// Which way the program shall be attached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum ModeWish {
    /// Native where the driver can, else generic.
    Automatic,
    /// Native or nothing.
    Native,
    /// Generic.
    Generic,
}

/// How frames get into our memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyWish {
    /// Zero copy where the driver can, else copied.
    Automatic,
    /// Copied by the kernel.
    Copy,
    /// Zero copy or nothing.
    Zero,
}

/// The options, checked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Options {
    pub(super) rules: Rules,
    pub(super) exclusive: bool,
    pub(super) mode: ModeWish,
    pub(super) copy: CopyWish,
    /// Queues to open; none means all that the interface has.
    pub(super) queues: Option<u32>,
    /// Slots of each ring.
    pub(super) depth: u32,
    /// Bytes of a chunk.
    pub(super) slot: u32,
    /// Where the memory shall lie.
    pub(super) location: Location,
    /// The network namespace that the interface lives in.
    pub(super) namespace: Option<String>,
}

impl Options {
    const OWN: &[&str] = &["mode", "copy", "queues", "depth", "slot", "memory", "netns"];

    pub(super) fn of(spec: &NicSpec) -> Result<Self, Error> {
        let known: Vec<&str> = Rules::OPTIONS.iter().chain(Self::OWN).copied().collect();
        spec.only(&known)?;
        let queues = match spec.option("queues") {
            None | Some("all") => None,
            Some(_) => Some(spec.number("queues", 1, 1..=MAX_QUEUES.into())? as u32),
        };
        let depth = spec.number("depth", DEFAULT_DEPTH, 64..=32768)?;
        if !depth.is_power_of_two() {
            let problem = format!("{depth} is not a power of two");
            let cure = format!("write depth={}", depth.next_power_of_two());
            return Err(spec.wrong("depth", problem, cure));
        }
        Ok(Self {
            rules: Rules::of(spec)?,
            exclusive: spec.flag("exclusive")?,
            mode: word(
                spec,
                "mode",
                &[
                    ("auto", ModeWish::Automatic),
                    ("native", ModeWish::Native),
                    ("generic", ModeWish::Generic),
                ],
            )?,
            copy: word(
                spec,
                "copy",
                &[
                    ("auto", CopyWish::Automatic),
                    ("always", CopyWish::Copy),
                    ("never", CopyWish::Zero),
                ],
            )?,
            queues,
            depth: depth as u32,
            slot: word(spec, "slot", &[("2048", 2048), ("4096", 4096)])?,
            location: word(
                spec,
                "memory",
                &[
                    ("host", Location::PageableHost),
                    ("pinned", Location::PinnedHost),
                ],
            )?,
            namespace: namespace(spec)?,
        })
    }
}

/// The name of a namespace, which is no path.
fn namespace(spec: &NicSpec) -> Result<Option<String>, Error> {
    let Some(name) = spec.option("netns") else {
        return Ok(None);
    };
    if name.is_empty() || name.starts_with('.') || name.contains('/') {
        let problem = format!("`{name}` is not the name of a network namespace");
        let cure = "write a name that `ip netns list` shows".to_owned();
        return Err(spec.wrong("netns", problem, cure));
    }
    Ok(Some(name.to_owned()))
}

/// One of a few words; the first is the default.
fn word<T: Copy>(spec: &NicSpec, name: &str, words: &[(&str, T)]) -> Result<T, Error> {
    let given = spec.option(name);
    let default = words.first().map(|(word, _)| *word).unwrap_or("");
    let wanted = given.unwrap_or(default);
    match words.iter().find(|(word, _)| *word == wanted) {
        Some((_, value)) => Ok(*value),
        None => {
            let list: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
            let problem = format!("`{wanted}` is none of {}", list.join(", "));
            Err(spec.wrong(name, problem, format!("write {name}={default}")))
        }
    }
}

/// Queues that one NIC may open.
pub(super) const MAX_QUEUES: u32 = 64;
const DEFAULT_DEPTH: u64 = 2048;

#[cfg(test)]
mod tests {
    use super::*;

    fn options(words: &str) -> Result<Options, String> {
        let spec: NicSpec = words.parse().map_err(|error: Error| error.to_string())?;
        Options::of(&spec).map_err(|error| error.to_string())
    }

    #[test]
    fn defaults_and_choices_are_read() {
        let got = options("xdp:v1,all").expect("reads");
        assert_eq!(
            (got.mode, got.copy),
            (ModeWish::Automatic, CopyWish::Automatic)
        );
        assert_eq!((got.queues, got.depth, got.slot), (None, 2048, 2048));
        let got = options(
            "xdp:v1,all,mode=generic,copy=always,queues=4,depth=512,slot=4096,\
             memory=pinned,netns=b",
        )
        .expect("reads");
        assert_eq!((got.mode, got.copy), (ModeWish::Generic, CopyWish::Copy));
        assert_eq!((got.queues, got.depth, got.slot), (Some(4), 512, 4096));
        assert_eq!(got.location, Location::PinnedHost);
        assert_eq!(got.namespace.as_deref(), Some("b"));
    }

    #[test]
    fn wrong_words_name_option_and_cure() {
        let cases = [
            ("xdp:v1,all,mode=fast", "mode", "mode=auto"),
            ("xdp:v1,all,copy=no", "copy", "copy=auto"),
            ("xdp:v1,all,queues=0", "queues", "1 to 64"),
            ("xdp:v1,all,depth=1000", "power of two", "depth=1024"),
            ("xdp:v1,all,slot=9000", "slot", "slot=2048"),
            ("xdp:v1,all,colour=red", "colour", "known options"),
        ];
        for (words, field, cure) in cases {
            let error = options(words).expect_err(words);
            assert!(
                error.contains(field) && error.contains(cure),
                "{words}: {error}"
            );
        }
    }
}
