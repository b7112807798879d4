//! What each kernel may use: `pipelines/kernels/policy.toml`.

use super::Target;
use crate::{Error, repository};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    /// Entry points. The first row that fits a name is the one that counts.
    #[serde(default, rename = "kernel")]
    pub kernels: Vec<KernelRule>,
    /// Functions that are not inlined. All rows that fit a symbol count.
    #[serde(default, rename = "function")]
    pub functions: Vec<FunctionRule>,
}

/// A row for entry points.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelRule {
    /// Name of the entry point; a `*` at the end stands for any rest.
    pub name: String,
    /// Hot: no local memory.
    pub hot: bool,
    /// Whether single bytes may be loaded.
    #[serde(default = "yes")]
    pub byte_loads: bool,
    /// Registers at most, by target.
    pub registers: BTreeMap<Target, u32>,
    /// Stack at most, for the kernel and what it calls.
    #[serde(default)]
    pub stack_bytes: u32,
    /// Spill stores and spill loads at most, each.
    #[serde(default)]
    pub spill_bytes: u32,
}

/// A row for outlined functions.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FunctionRule {
    /// Part of the symbol.
    pub part: String,
    /// Hot: no local memory.
    pub hot: bool,
    /// Whether single bytes may be loaded.
    #[serde(default = "yes")]
    pub byte_loads: bool,
}

fn yes() -> bool {
    true
}

impl Policy {
    /// Reads the file.
    pub fn read(path: &Path) -> Result<Self, Error> {
        Self::parse(&repository::text(path)?)
            .map_err(|error| Error::content(path, error.to_string()))
    }

    /// Parses the text.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The row for an entry point.
    #[must_use]
    pub fn kernel(&self, name: &str) -> Option<&KernelRule> {
        self.kernels.iter().find(|rule| rule.fits(name))
    }

    /// The rows for an outlined function.
    pub fn function<'a>(&'a self, symbol: &'a str) -> impl Iterator<Item = &'a FunctionRule> {
        self.functions
            .iter()
            .filter(move |rule| symbol.contains(&rule.part))
    }
}

impl KernelRule {
    /// Whether the row is about this entry point.
    #[must_use]
    pub fn fits(&self, name: &str) -> bool {
        match self.name.strip_suffix('*') {
            Some(start) => name.starts_with(start),
            None => self.name == name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        [[kernel]]
        name = "count_mlx5"
        hot = true
        registers = { sm_80 = 40, sm_90 = 41, sm_100 = 42 }
        [[kernel]]
        name = "count_*"
        hot = false
        registers = { sm_80 = 64 }
        stack_bytes = 16
        [[function]]
        part = "parse_fast"
        hot = true
        byte_loads = false
    "#;

    #[test]
    fn the_first_row_that_fits_counts() {
        let policy = Policy::parse(TEXT).unwrap();
        let check = |name: &str, registers: Option<u32>| {
            let rule = policy.kernel(name);
            assert_eq!(
                rule.map(|rule| rule.registers[&Target::Sm80]),
                registers,
                "{name}"
            );
        };
        check("count_mlx5", Some(40));
        check("count_memif", Some(64));
        check("drop", None);
        assert_eq!(policy.function("_RNv4core10parse_fast").count(), 1);
        assert_eq!(policy.function("_RNv4core10parse_slow").count(), 0);
    }

    #[test]
    fn mistakes_are_named() {
        let check = |text: &str, part: &str| {
            let error = Policy::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        };
        check("[[kernel]]\nname = 'a'\nhot = true\n", "registers");
        check(
            "[[kernel]]\nname = 'a'\nhot = true\nregisters = { sm_75 = 1 }\n",
            "sm_75",
        );
        check("[[kernels]]\nname = 'a'\n", "kernels");
    }
}
