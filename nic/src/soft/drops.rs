//! Reasons for which the model loses a frame. Each has a counter, and a lost frame is in exactly
//! one.

macro_rules! reasons {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        /// Why a frame was lost.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(usize)]
        pub enum Drop { $($(#[$doc])* $name,)* }

        impl Drop {
            /// Every reason, in the order of their counters.
            pub const ALL: &[Drop] = &[$(Drop::$name),*];

            /// The reason in a few words: the name of its counter.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

reasons! {
    /// No receive WQE was posted.
    NoReceiveSlot = "no receive slot posted";
    /// Longer than the receive slot's data segments together.
    TooLongForSlot = "longer than the receive slot";
    /// A receive WQE named memory that the model may not write.
    ReceiveDenied = "receive memory refused";
    /// The receive WQE completed with an injected error.
    ReceiveFault = "injected receive error";
    /// The receive queue, its index or its completion queue is broken.
    ReceiveQueueBroken = "receive queue broken";
    /// A send WQE that the queue cannot execute.
    MalformedSend = "malformed send";
    /// A send WQE named memory that the model may not read.
    SendDenied = "send memory refused";
    /// The send WQE completed with an injected error.
    SendFault = "injected send error";
    /// The send queue was in error.
    Flushed = "flushed with the queue in error";
    /// Shorter than an Ethernet header.
    Runt = "shorter than an Ethernet header";
    /// Longer than the port passes.
    TooLongForPort = "longer than the port passes";
    /// No port to send it to.
    NoPort = "no port to go to";
    /// The link lost it.
    Lost = "lost on the link";
    /// The link's queue was full.
    LinkFull = "link queue full";
    /// The fabric had no buffer to hold it.
    FabricFull = "fabric out of buffers";
    /// The uplink did not take it.
    UplinkFull = "uplink did not take it";
}

/// One counter a reason.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Drops {
    counts: [u64; Drop::ALL.len()],
}

impl Drops {
    /// Counts a frame.
    pub(super) fn count(&mut self, reason: Drop) {
        if let Some(count) = self.counts.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// Frames lost for this reason.
    pub(super) fn of(&self, reason: Drop) -> u64 {
        self.counts.get(reason as usize).copied().unwrap_or(0)
    }

    /// The reasons that occurred, with their counts.
    pub(super) fn named(&self) -> Vec<(&'static str, u64)> {
        let all = Drop::ALL
            .iter()
            .map(|&reason| (reason.text(), self.of(reason)));
        all.filter(|(_, count)| *count > 0).collect()
    }
}
