//! Why an operation or a wait ended without its value.

use core::fmt;

macro_rules! causes {
    ($(
        $(#[$doc:meta])*
        $name:ident = $value:literal, $status:literal, $syndrome:literal, $text:literal;
    )*) => {
        /// Why an operation or a wait ended without its value.
        ///
        /// The words are those that users of verbs know: [`Cause::wc_status`] is the number of
        /// `enum ibv_wc_status`, [`Cause::syndrome`] the one in an mlx5 error completion.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u32)]
        pub enum Cause { $($(#[$doc])* $name = $value,)* }

        impl Cause {
            /// Every cause, in the order of their numbers.
            pub const ALL: &[Cause] = &[$(Cause::$name),*];

            /// The cause with this number, if there is one.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number { $($value => Some(Self::$name),)* _ => None }
            }

            /// The number of `enum ibv_wc_status` that says the same (21, general error, where none
            /// does).
            pub const fn wc_status(self) -> u32 {
                match self { $(Self::$name => $status,)* }
            }

            /// The mlx5 completion syndrome that says the same, if there is one.
            pub const fn syndrome(self) -> Option<u8> {
                let value: u8 = match self { $(Self::$name => $syndrome,)* };
                if value == 0 { None } else { Some(value) }
            }

            /// What happened, in a few words.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }

            /// The cause that an mlx5 error completion's syndrome names.
            pub const fn from_syndrome(syndrome: u8) -> Self {
                $(if $syndrome != 0 && syndrome == $syndrome { return Self::$name; })*
                Self::UnknownSyndrome
            }
        }
    };
}

causes! {
    /// The local buffer is shorter than the message.
    LocalLength = 1, 1, 0x01, "local length error";
    /// The queue pair cannot do this operation.
    LocalQpOperation = 2, 2, 0x02, "local queue pair operation error";
    /// A local key or range is wrong.
    LocalProtection = 3, 4, 0x04, "local protection error";
    /// The queue went to the error state before the operation ran.
    Flushed = 4, 5, 0x05, "flushed with the queue in error";
    /// Memory window bind failed.
    MemoryWindowBind = 5, 6, 0x06, "memory window bind error";
    /// The peer's answer makes no sense.
    BadResponse = 6, 7, 0x10, "bad response";
    /// Local access to a registered region was refused.
    LocalAccess = 7, 8, 0x11, "local access error";
    /// The peer calls the request invalid.
    RemoteInvalidRequest = 8, 9, 0x12, "remote invalid request";
    /// The peer refused the access: key, range or right.
    RemoteAccess = 9, 10, 0x13, "remote access error";
    /// The peer could not complete the operation.
    RemoteOperation = 10, 11, 0x14, "remote operation error";
    /// The peer did not answer within the retries.
    RetryExceeded = 11, 12, 0x15, "transport retries exceeded";
    /// The peer had no receive buffer within the retries.
    RnrRetryExceeded = 12, 13, 0x16, "receiver-not-ready retries exceeded";
    /// The peer aborted the operation.
    RemoteAborted = 13, 16, 0x22, "remote aborted";
    /// An error completion with a syndrome that we do not know.
    UnknownSyndrome = 14, 21, 0, "unknown completion syndrome";
    /// The deadline of the wait passed.
    DeadlineExceeded = 32, 20, 0, "deadline exceeded";
    /// The abort word of the wait was set.
    Aborted = 33, 21, 0, "aborted";
    /// The engine's heartbeat stands still.
    EngineNotRunning = 34, 21, 0, "engine not running";
    /// No free slot or credit: try again after completions were polled.
    NoResource = 35, 21, 0, "no free slot";
    /// The peer's ring index is impossible, or a descriptor points outside the queue's memory.
    RingCorrupted = 36, 21, 0, "ring corrupted by the peer";
    /// Host and device disagree about the layout of a block.
    LayoutMismatch = 37, 21, 0, "layout of host and device differ";
    /// The other end of the ring is gone.
    Disconnected = 38, 21, 0, "peer disconnected";
    /// The frame does not fit the slots that it may use.
    FrameTooLong = 39, 1, 0, "frame longer than the slots it may use";
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl core::error::Error for Cause {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_syndromes_come_back() {
        for &cause in Cause::ALL {
            assert_eq!(Cause::from_number(cause as u32), Some(cause));
            if let Some(syndrome) = cause.syndrome() {
                assert_eq!(Cause::from_syndrome(syndrome), cause);
            }
        }
        assert_eq!(Cause::from_number(0), None);
        assert_eq!(Cause::from_syndrome(0x77), Cause::UnknownSyndrome);
    }
}
