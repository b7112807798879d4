//! The scripts, by topic. Each cites what it is judged by.

mod close;
mod data;
mod ecn;
mod handshake;
mod idle;
mod listen;
mod loss;
mod options;
mod paws;
mod pmtu;
mod reassembly;
mod reset;
mod sack;
mod window;

/// A script.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    /// What demands it.
    pub(crate) cites: &'static str,
    /// How our end is set, in words.
    pub(crate) config: &'static str,
    pub(crate) script: &'static str,
}

const fn case(
    name: &'static str,
    cites: &'static str,
    config: &'static str,
    script: &'static str,
) -> Case {
    Case {
        name,
        cites,
        config,
        script,
    }
}

/// Every topic.
pub(crate) const TOPICS: &[(&str, &[Case])] = &[
    ("handshake", handshake::CASES),
    ("listen", listen::CASES),
    ("options", options::CASES),
    ("data", data::CASES),
    ("loss", loss::CASES),
    ("sack", sack::CASES),
    ("window", window::CASES),
    ("close", close::CASES),
    ("reset", reset::CASES),
    ("paws", paws::CASES),
    ("ecn", ecn::CASES),
    ("idle", idle::CASES),
    ("pmtu", pmtu::CASES),
    ("reassembly", reassembly::CASES),
];
