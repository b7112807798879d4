//! The grammar of NICs, one everywhere: `KIND[:ADDRESS][,option=value]*`.

use std::fmt;
use std::str::FromStr;

use crate::error::Error;

/// The kinds of NIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum NicKind {
    /// The software NIC: a device model on a virtual switch. `soft` or `soft:NAME`.
    Soft,
    /// AF_XDP on a Linux interface. `xdp:IFACE`.
    Xdp,
    /// A memif 2.0 socket. `memif:SOCKET`.
    Memif,
    /// A capture file. `pcap:FILE`.
    Pcap,
    /// A DPDK port. `dpdk:DEVARGS`; the rest of the words are DPDK's, commas included.
    Dpdk,
    /// A ConnectX or BlueField port. `mlx5:DEVICE/PORT`.
    Mlx5,
    /// A DOCA device. `doca:PCI`.
    Doca,
    /// A NIC behind an agent. `agent:ADDRESS`.
    Agent,
}

impl NicKind {
    /// Every kind with the word for it and the shape of its address.
    pub const ALL: &[(NicKind, &str, &str)] = &[
        (Self::Soft, "soft", "soft[:NAME]"),
        (Self::Xdp, "xdp", "xdp:IFACE"),
        (Self::Memif, "memif", "memif:SOCKET"),
        (Self::Pcap, "pcap", "pcap:FILE"),
        (Self::Dpdk, "dpdk", "dpdk:DEVARGS"),
        (Self::Mlx5, "mlx5", "mlx5:DEVICE/PORT"),
        (Self::Doca, "doca", "doca:PCI"),
        (Self::Agent, "agent", "agent:ADDRESS"),
    ];

    /// The shapes of the words for what this build opens.
    pub(crate) fn shapes() -> String {
        let ours = [Self::Soft, Self::Xdp, Self::Memif, Self::Pcap];
        let shapes = Self::ALL.iter().filter(|(kind, ..)| ours.contains(kind));
        let shapes: Vec<&str> = shapes.map(|(.., shape)| *shape).collect();
        shapes.join(", ")
    }

    /// The word in the grammar.
    pub fn word(self) -> &'static str {
        Self::ALL
            .iter()
            .find(|(kind, ..)| *kind == self)
            .map_or("", |(_, word, _)| word)
    }
}

/// A NIC as words: its kind, its address, and options.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NicSpec {
    /// The kind.
    pub kind: NicKind,
    /// What stands after the colon; empty for a nameless `soft`.
    pub address: String,
    /// Options in the order given.
    pub options: Vec<(String, String)>,
}

impl NicSpec {
    /// The value of an option, if it was given (the last one counts).
    pub fn option(&self, name: &str) -> Option<&str> {
        self.options
            .iter()
            .rev()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// An option as a number within `range`, or `default`.
    ///
    /// # Errors
    /// [`Error::Spec`] naming the option, what is wrong and the range.
    pub fn number(
        &self,
        name: &str,
        default: u64,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<u64, Error> {
        let Some(value) = self.option(name) else {
            return Ok(default);
        };
        match value.parse::<u64>() {
            Ok(number) if range.contains(&number) => Ok(number),
            _ => Err(self.wrong(
                name,
                format!(
                    "`{value}` is not a number from {} to {}",
                    range.start(),
                    range.end()
                ),
                format!("write {name}={default}"),
            )),
        }
    }

    /// An option as yes or no; a bare option means yes.
    ///
    /// # Errors
    /// [`Error::Spec`] naming the option.
    pub fn flag(&self, name: &str) -> Result<bool, Error> {
        match self.option(name) {
            None => Ok(false),
            Some("" | "yes" | "true" | "on") => Ok(true),
            Some("no" | "false" | "off") => Ok(false),
            Some(value) => Err(self.wrong(
                name,
                format!("`{value}` is neither yes nor no"),
                format!("write {name}=yes or leave it out"),
            )),
        }
    }

    /// Refuses options that the kind does not know.
    ///
    /// # Errors
    /// [`Error::Spec`] naming the first unknown option and the known ones.
    pub fn only(&self, known: &[&str]) -> Result<(), Error> {
        match self
            .options
            .iter()
            .find(|(key, _)| !known.contains(&key.as_str()))
        {
            None => Ok(()),
            Some((key, _)) => Err(self.wrong(
                key,
                "is not an option of this kind of NIC".to_owned(),
                format!("known options: {}", known.join(", ")),
            )),
        }
    }

    /// An error about one part of the words.
    pub fn wrong(&self, field: &str, problem: String, cure: String) -> Error {
        Error::Spec {
            spec: self.to_string(),
            field: field.to_owned(),
            problem,
            cure,
        }
    }
}

impl FromStr for NicSpec {
    type Err = Error;

    fn from_str(words: &str) -> Result<Self, Error> {
        let fail = |field: &str, problem: String, cure: String| Error::Spec {
            spec: words.to_owned(),
            field: field.to_owned(),
            problem,
            cure,
        };
        let end = words.find([':', ',']).unwrap_or(words.len());
        let (word, rest) = words.split_at(end);
        let Some(&(kind, _, shape)) = NicKind::ALL.iter().find(|(_, known, _)| *known == word)
        else {
            return Err(fail(
                "kind",
                format!("`{word}` is unknown"),
                format!("write one of {}", NicKind::shapes()),
            ));
        };
        let rest = rest.strip_prefix(':').unwrap_or(rest);
        let (address, tail) = match kind {
            NicKind::Dpdk => (rest, ""),
            _ => rest.split_once(',').unwrap_or((rest, "")),
        };
        if address.is_empty() && kind != NicKind::Soft {
            return Err(fail(
                "address",
                "is missing".to_owned(),
                format!("write {shape}"),
            ));
        }
        let mut options = Vec::new();
        for part in tail.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if key.is_empty() {
                let cure = "write option=value".to_owned();
                return Err(fail("options", format!("`{part}` has no name"), cure));
            }
            options.push((key.to_owned(), value.to_owned()));
        }
        Ok(Self {
            kind,
            address: address.to_owned(),
            options,
        })
    }
}

impl fmt::Display for NicSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.kind.word())?;
        if !self.address.is_empty() {
            write!(f, ":{}", self.address)?;
        }
        for (key, value) in &self.options {
            match value.as_str() {
                "" => write!(f, ",{key}")?,
                value => write!(f, ",{key}={value}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_and_written_back() {
        let cases = [
            ("soft", NicKind::Soft, "", 0),
            ("soft:left,queues=2", NicKind::Soft, "left", 1),
            ("xdp:veth0,mode=native,exclusive", NicKind::Xdp, "veth0", 2),
            (
                "memif:/run/a.sock,role=server",
                NicKind::Memif,
                "/run/a.sock",
                1,
            ),
            (
                "dpdk:net_null0,size=64,copy=1",
                NicKind::Dpdk,
                "net_null0,size=64,copy=1",
                0,
            ),
            ("mlx5:mlx5_0/1", NicKind::Mlx5, "mlx5_0/1", 0),
            ("agent:[::1]:7000", NicKind::Agent, "[::1]:7000", 0),
        ];
        for (words, kind, address, options) in cases {
            let spec: NicSpec = words.parse().expect(words);
            assert_eq!(
                (spec.kind, spec.address.as_str()),
                (kind, address),
                "{words}"
            );
            assert_eq!(spec.options.len(), options, "{words}");
            assert_eq!(spec.to_string(), words);
        }
    }

    #[test]
    fn wrong_words_name_field_and_cure() {
        let cases = [
            ("eth0", "kind", "xdp:IFACE"),
            ("xdp:", "address", "xdp:IFACE"),
            ("", "kind", "soft[:NAME]"),
            ("memif:/a,=3", "options", "option=value"),
        ];
        for (words, field, cure) in cases {
            let error = words.parse::<NicSpec>().expect_err(words).to_string();
            assert!(
                error.contains(field) && error.contains(cure),
                "{words}: {error}"
            );
        }
    }

    #[test]
    fn options_are_bounded_and_known() {
        let spec: NicSpec = "soft,queues=99,loud=maybe".parse().expect("parses");
        let error = spec
            .number("queues", 1, 1..=16)
            .expect_err("too many")
            .to_string();
        assert!(
            error.contains("queues") && error.contains("1 to 16"),
            "{error}"
        );
        assert!(spec.flag("loud").is_err());
        assert!(spec.only(&["queues"]).is_err());
        assert_eq!(spec.number("depth", 512, 1..=4096).expect("default"), 512);
    }
}
