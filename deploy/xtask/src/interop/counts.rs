//! Counts of frames by what is in them: the form in which both sides answer.

use std::collections::BTreeMap;

/// What frames are counted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// All frames, under the one key 0.
    Frames,
    /// The Ethernet type behind all tags.
    EtherType,
    /// The first tag's VLAN.
    Vlan,
    /// The second tag's VLAN.
    InnerVlan,
    /// The protocol behind the IP header and its extension headers.
    Protocol,
    /// TCP source port.
    TcpSourcePort,
    /// TCP destination port.
    TcpDestinationPort,
    /// UDP source port.
    UdpSourcePort,
    /// UDP destination port.
    UdpDestinationPort,
    /// Opcode of the base transport header of RoCEv2.
    BthOpcode,
}

impl Field {
    /// All of them, in the order of a frame.
    pub const ALL: [Self; 10] = [
        Self::Frames,
        Self::EtherType,
        Self::Vlan,
        Self::InnerVlan,
        Self::Protocol,
        Self::TcpSourcePort,
        Self::TcpDestinationPort,
        Self::UdpSourcePort,
        Self::UdpDestinationPort,
        Self::BthOpcode,
    ];

    /// The name, which is that of our counter.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frames => "frames",
            Self::EtherType => "ether_type",
            Self::Vlan => "vlan",
            Self::InnerVlan => "inner_vlan",
            Self::Protocol => "protocol",
            Self::TcpSourcePort => "tcp_source_port",
            Self::TcpDestinationPort => "tcp_destination_port",
            Self::UdpSourcePort => "udp_source_port",
            Self::UdpDestinationPort => "udp_destination_port",
            Self::BthOpcode => "bth_opcode",
        }
    }

    /// The field of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.name() == name)
    }

    const fn is_hexadecimal(self) -> bool {
        matches!(self, Self::EtherType | Self::BthOpcode)
    }
}

/// Numbers of frames by field and value. A value that no frame has is not there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    by_field: BTreeMap<Field, BTreeMap<u32, u64>>,
}

impl Counts {
    /// Counts `frames` more with this value.
    pub fn add(&mut self, field: Field, value: u32, frames: u64) {
        if frames > 0 {
            *self
                .by_field
                .entry(field)
                .or_default()
                .entry(value)
                .or_default() += frames;
        }
    }

    /// All frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.of(Field::Frames)
            .map_or(0, |values| values.values().sum())
    }

    fn of(&self, field: Field) -> Option<&BTreeMap<u32, u64>> {
        self.by_field.get(&field)
    }

    fn at(&self, field: Field, value: u32) -> u64 {
        let found = self.of(field).and_then(|values| values.get(&value));
        found.copied().unwrap_or(0)
    }

    /// What differs in a field, told by each side: values and their numbers of frames; nothing if
    /// they agree.
    #[must_use]
    pub fn difference(&self, other: &Self, field: Field) -> Option<(String, String)> {
        let values = [self, other]
            .into_iter()
            .filter_map(|side| side.of(field))
            .flat_map(BTreeMap::keys)
            .copied();
        let mut values: Vec<u32> = values
            .filter(|&value| self.at(field, value) != other.at(field, value))
            .collect();
        values.sort_unstable();
        values.dedup();
        let told = |side: &Self| {
            let words = values
                .iter()
                .map(|&value| words(field, value, side.at(field, value)));
            words.collect::<Vec<_>>().join(", ")
        };
        (!values.is_empty()).then(|| (told(self), told(other)))
    }
}

fn words(field: Field, value: u32, frames: u64) -> String {
    if field == Field::Frames {
        frames.to_string()
    } else if field.is_hexadecimal() {
        format!("{value:#06x}: {frames}")
    } else {
        format!("{value}: {frames}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_told() {
        let counts = |frames: &[(Field, u32, u64)]| {
            let mut counts = Counts::default();
            for &(field, value, number) in frames {
                counts.add(field, value, number);
            }
            counts
        };
        let ours = counts(&[
            (Field::Frames, 0, 7),
            (Field::EtherType, 0x0800, 5),
            (Field::EtherType, 0x0806, 1),
        ]);
        let judge = counts(&[
            (Field::Frames, 0, 7),
            (Field::EtherType, 0x0800, 5),
            (Field::EtherType, 0x0806, 2),
            (Field::EtherType, 0x88cc, 1),
        ]);
        assert_eq!(ours.difference(&judge, Field::Frames), None);
        let (we, they) = ours.difference(&judge, Field::EtherType).unwrap();
        assert_eq!(we, "0x0806: 1, 0x88cc: 0");
        assert_eq!(they, "0x0806: 2, 0x88cc: 1");
    }

    #[test]
    fn names_lead_back_to_fields() {
        for field in Field::ALL {
            assert_eq!(Field::named(field.name()), Some(field));
        }
    }
}
