//! Why a NIC cannot be opened, used or closed.

/// Errors by blame: the caller's words, the machine, or the peer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The NIC's name or one of its options is wrong.
    #[error("NIC `{spec}`: {field}: {problem}; {cure}")]
    Spec {
        /// The words that were given.
        spec: String,
        /// The part that is wrong.
        field: String,
        /// What is wrong with it.
        problem: String,
        /// What to write instead.
        cure: String,
    },
    /// The machine lacks something.
    #[error("NIC `{nic}`: {missing}; {cure}")]
    Unavailable {
        /// The NIC.
        nic: String,
        /// What is missing.
        missing: String,
        /// How to get it.
        cure: String,
    },
    /// A system call failed.
    #[error("NIC `{nic}`: {action}: {source}; {cure}")]
    System {
        /// The NIC.
        nic: String,
        /// What was tried.
        action: String,
        /// What the system said.
        source: std::io::Error,
        /// What usually helps.
        cure: String,
    },
    /// The other end broke the protocol, or went away.
    #[error("NIC `{nic}`: peer: {problem}")]
    Peer {
        /// The NIC.
        nic: String,
        /// What it did.
        problem: String,
    },
    /// Something did not happen in time.
    #[error("NIC `{nic}`: {action} took longer than {limit_ms} ms; {cure}")]
    Deadline {
        /// The NIC.
        nic: String,
        /// What was waited for.
        action: String,
        /// The limit.
        limit_ms: u64,
        /// What usually helps.
        cure: String,
    },
    /// Whoever opened it did not want to wait any longer.
    #[error("NIC `{nic}`: {action}: {reason}")]
    Stopped {
        /// The NIC.
        nic: String,
        /// What was waited for.
        action: String,
        /// Why the wait ended, with the cure if there is one.
        reason: &'static str,
    },
    /// Memory for queues could not be had.
    #[error("NIC `{nic}`: {source}")]
    Memory {
        /// The NIC.
        nic: String,
        /// Why.
        source: warpwire_gpu::arena::ArenaError,
    },
}

impl Error {
    /// The same of a NIC by other words: those that its user gave.
    #[must_use]
    pub fn named(mut self, words: &str) -> Self {
        let (Self::Spec { spec: name, .. }
        | Self::Unavailable { nic: name, .. }
        | Self::System { nic: name, .. }
        | Self::Peer { nic: name, .. }
        | Self::Deadline { nic: name, .. }
        | Self::Stopped { nic: name, .. }
        | Self::Memory { nic: name, .. }) = &mut self;
        words.clone_into(name);
        self
    }
}
