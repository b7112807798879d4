//! How a request ended, in the words that users of verbs know, and why a packet was not taken.

use core::fmt;

/// How a request ended. The discriminants are those of `ibv_wc_status`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[repr(u8)]
pub enum Status {
    /// As it should.
    #[default]
    Success = 0,
    /// A message was longer than the receive, or a request longer than the peer takes.
    LocalLength = 1,
    /// The request is not what the queue pair can do.
    LocalQpOperation = 2,
    /// Memory that the request names may not be used by it.
    LocalProtection = 4,
    /// The queue pair had failed before, or was reset.
    Flushed = 5,
    /// The peer answered with what was not asked for.
    BadResponse = 7,
    /// The peer's write or atomic met memory that it may not use.
    LocalAccess = 8,
    /// The peer says that the request breaks the rules.
    RemoteInvalidRequest = 9,
    /// The peer says that its memory may not be used so.
    RemoteAccess = 10,
    /// The peer says that it could not do it.
    RemoteOperation = 11,
    /// The peer did not answer, however often it was asked.
    RetryExceeded = 12,
    /// The peer had no receive, however often it was asked.
    RnrRetryExceeded = 13,
}

impl Status {
    /// Every status.
    pub const ALL: [Self; 12] = [
        Self::Success,
        Self::LocalLength,
        Self::LocalQpOperation,
        Self::LocalProtection,
        Self::Flushed,
        Self::BadResponse,
        Self::LocalAccess,
        Self::RemoteInvalidRequest,
        Self::RemoteAccess,
        Self::RemoteOperation,
        Self::RetryExceeded,
        Self::RnrRetryExceeded,
    ];

    /// The status of a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|one| *one as u8 == number)
    }

    /// A sentence without its end.
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LocalLength => "local length error",
            Self::LocalQpOperation => "local queue pair operation error",
            Self::LocalProtection => "local protection error",
            Self::Flushed => "work request flushed",
            Self::BadResponse => "bad response",
            Self::LocalAccess => "local access error",
            Self::RemoteInvalidRequest => "remote invalid request",
            Self::RemoteAccess => "remote access error",
            Self::RemoteOperation => "remote operation error",
            Self::RetryExceeded => "transport retry counter exceeded",
            Self::RnrRetryExceeded => "receiver-not-ready retry counter exceeded",
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.explanation())
    }
}

/// Declares the notes, their order, names and explanations from one table.
macro_rules! notes {
    ($($variant:ident $name:literal $explanation:literal;)*) => {
        /// What was special about a packet: why it was not taken, or that it was answered without
        /// being taken. The discriminant is the index of its counter.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Note {
            $(#[doc = $explanation] $variant,)*
        }

        impl Note {
            /// Every note, in the order of the counters.
            pub const ALL: &'static [Note] = &[$(Note::$variant,)*];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// A short name in snake case, for tables and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(Note::$variant => $name,)* }
            }

            /// One line that says what was found.
            pub const fn explanation(self) -> &'static str {
                match self { $(Note::$variant => $explanation,)* }
            }
        }
    };
}

notes! {
    WrongState "wrong_state" "the queue pair is not in a state that takes such packets";
    WrongClass "wrong_class" "the opcode is of another service than the queue pair";
    PartitionKey "partition_key" "the partition key is not the queue pair's";
    DatagramKey "datagram_key" "the key of a datagram is not the queue pair's";
    WrongSource "wrong_source" "a connected queue pair's packet from another address";
    UnknownQueuePair "unknown_queue_pair" "no queue pair has the number";
    Unsupported "unsupported" "a defined opcode that is not supported: refused";
    Duplicate "duplicate" "a request that was carried out before: answered again";
    DuplicateGone "duplicate_gone" "a repeated read or atomic whose result is no longer kept";
    Ahead "ahead" "a request after a gap: asked for what is missing, or silently dropped";
    Early "early" "a write after a gap, placed at once: asked for what is missing";
    Order "order" "a middle or last packet without a first, or a first within a message: refused";
    Length "length" "a payload that does not fit the packet's place in its message: refused";
    TooLong "too_long" "a message longer than the receive: refused";
    Access "access" "key, bounds or rights: refused";
    Misaligned "misaligned" "an atomic off its alignment: refused";
    TooManyReads "too_many_reads" "more reads and atomics at once than agreed: refused";
    NoReceive "no_receive" "no receive was posted: asked to try again, or dropped";
    BadReceive "bad_receive" "a receive names memory that it may not use: refused";
    StaleResponse "stale_response" "a response to what was answered before";
    Unasked "unasked" "a response to what was never sent";
    LostResponse "lost_response" "a response that shows that an earlier one was lost";
    BadResponse "bad_response" "a response that does not fit its request";
    Resumed "resumed" "an unreliable message that was cut short by the next";
    Congestion "congestion" "a notification of congestion";
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn notes_are_indices_with_names_of_their_own() {
        let names: HashSet<_> = Note::ALL.iter().map(|note| note.name()).collect();
        assert_eq!(names.len(), Note::COUNT);
        for (index, note) in Note::ALL.iter().enumerate() {
            assert_eq!(*note as usize, index);
            assert!(note.explanation().len() > 20);
        }
    }

    #[test]
    fn statuses_come_back_from_their_numbers() {
        for status in Status::ALL {
            assert_eq!(Status::from_number(status as u8), Some(status));
        }
        assert_eq!(Status::from_number(3), None);
    }
}
