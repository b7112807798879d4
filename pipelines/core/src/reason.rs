//! Why a frame's way ended without being sent: the parser's reasons and the pipeline's own.

use warpwire_protocols::DropReason;

/// The index of a drop counter: a [`DropReason`], or one of the pipeline's own reasons.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Reason(u32);

/// Declares the pipeline's own reasons, their names and explanations from one table.
macro_rules! reasons {
    ($($constant:ident $name:literal $explanation:literal;)*) => {
        /// The place of each of the pipeline's own reasons behind [`Reason::FIRST_OWN`].
        #[derive(Clone, Copy)]
        #[repr(u32)]
        #[expect(clippy::upper_case_acronyms, reason = "named like the constants that they number")]
        #[expect(non_camel_case_types, reason = "named like the constants that they number")]
        enum Place { $($constant,)* COUNT }

        impl Reason {
            $(#[doc = $explanation]
            pub const $constant: Self = Self(Self::FIRST_OWN + Place::$constant as u32);)*

            const OWN: &'static [(&'static str, &'static str)] = &[$(($name, $explanation),)*];
        }
    };
}

reasons! {
    UNCLAIMED "unclaimed" "no stage ended its way";
    FILTERED "filtered" "a filter refused it";
    DROPPED "dropped" "a drop stage took it";
    TTL_EXPIRED "ttl_expired" "its time to live was used up";
    TRANSMIT_FULL "transmit_full" "the transmit queue had no free slot";
    NOT_SENDABLE "not_sendable" "the transmit queue cannot send such a frame";
    UNREADABLE "unreadable" "its receive slot was at fault";
    TOO_LONG "too_long" "it spans more slots than a batch may have";
    GATHERED "gathered" "a gather stage took it";
    NO_PORT "no_port" "the block drives no queue of the NIC that it was sent to";
}

impl Reason {
    /// Counters in all.
    pub const COUNT: usize = 64;

    /// The index of the first of the pipeline's own reasons.
    pub const FIRST_OWN: u32 = 48;

    /// The parser's reason as a counter's index.
    #[inline(always)]
    pub const fn malformed(reason: DropReason) -> Self {
        Self(reason.index() as u32)
    }

    /// The index of this reason's counter, below [`Reason::COUNT`].
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0
    }

    /// The reason with this index, if there is one.
    pub fn from_index(index: u32) -> Option<Self> {
        let reason = Self(index);
        reason.describe().map(|_| reason)
    }

    /// A short name in snake case, for tables and metrics.
    pub fn name(self) -> &'static str {
        self.describe().map_or("unknown", |(name, _)| name)
    }

    /// One line that says what happened.
    pub fn explanation(self) -> &'static str {
        self.describe().map_or("unknown", |(_, text)| text)
    }

    fn describe(self) -> Option<(&'static str, &'static str)> {
        match self.0.checked_sub(Self::FIRST_OWN) {
            Some(own) => Self::OWN.get(own as usize).copied(),
            None => {
                let reason = DropReason::ALL.get(self.0 as usize)?;
                Some((reason.name(), reason.explanation()))
            }
        }
    }
}

const _: () = assert!(DropReason::COUNT <= Reason::FIRST_OWN as usize);
const _: () = assert!(Reason::FIRST_OWN as usize + Place::COUNT as usize <= Reason::COUNT);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_index_has_one_name_or_none() {
        let named: HashSet<_> = (0..Reason::COUNT as u32)
            .filter_map(Reason::from_index)
            .map(Reason::name)
            .collect();
        assert_eq!(named.len(), DropReason::COUNT + Place::COUNT as usize);
        assert_eq!(Reason::from_index(Reason::COUNT as u32), None);
        assert_eq!(Reason::malformed(DropReason::Icrc).name(), "icrc");
        assert_eq!(Reason::NO_PORT.name(), "no_port");
    }
}
