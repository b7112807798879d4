//! The GPU architectures that PTX is built for.

use serde::Deserialize;

use crate::Error;

/// A GPU architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Target {
    /// Ampere.
    #[serde(rename = "sm_80")]
    Sm80,
    /// Hopper.
    #[serde(rename = "sm_90")]
    Sm90,
    /// Blackwell.
    #[serde(rename = "sm_100")]
    Sm100,
}

impl Target {
    /// All of them; the first is the committed one.
    pub const ALL: [Self; 3] = [Self::Sm80, Self::Sm90, Self::Sm100];

    /// The version of PTX that the back end writes: the lowest that the target knows and that has
    /// what we use.
    #[must_use]
    pub fn features(self) -> &'static str {
        match self {
            Self::Sm80 | Self::Sm90 => "+ptx83",
            Self::Sm100 => "+ptx86",
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Self::Sm80 => "sm_80",
            Self::Sm90 => "sm_90",
            Self::Sm100 => "sm_100",
        })
    }
}

impl std::str::FromStr for Target {
    type Err = Error;

    fn from_str(word: &str) -> Result<Self, Error> {
        let found = Self::ALL
            .into_iter()
            .find(|target| target.to_string() == word);
        found.ok_or_else(|| {
            let known = Self::ALL.map(|target| target.to_string()).join(", ");
            Error::Environment(format!("`{word}` is not a target; write one of {known}"))
        })
    }
}
