//! Why a frame was refused: one enum for the whole crate, which is also a counter index.

use core::fmt;

/// Declares the enum, its order, names and explanations from one table, so that they cannot part.
macro_rules! drop_reasons {
    ($($variant:ident $name:literal $explanation:literal;)*) => {
        /// Why a frame was refused. The discriminant is the index of its counter.
        ///
        /// `DropReason::ALL[reason.index()] == reason`, and every index is below
        /// [`DropReason::COUNT`].
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum DropReason {
            $(#[doc = $explanation] $variant,)*
        }

        impl DropReason {
            /// Every reason, in the order of the counters.
            pub const ALL: &'static [DropReason] = &[$(DropReason::$variant,)*];

            /// How many reasons there are: the length of a counter array.
            pub const COUNT: usize = Self::ALL.len();

            /// A short name in snake case, for tables and metrics.
            pub const fn name(self) -> &'static str {
                match self { $(DropReason::$variant => $name,)* }
            }

            /// One line that says what was found.
            pub const fn explanation(self) -> &'static str {
                match self { $(DropReason::$variant => $explanation,)* }
            }
        }
    };
}

drop_reasons! {
    TruncatedL2 "truncated_l2" "the frame ends inside the Ethernet header or a VLAN tag";
    TruncatedL3 "truncated_l3" "the frame ends inside the network header";
    TruncatedL4 "truncated_l4" "the datagram ends inside the transport header";
    NotAtHand "not_at_hand" "the bytes at hand (segment or capture limit) end inside a header";
    HeadersTooLong "headers_too_long" "the headers go past the bytes that the parser may look at";
    TooManyTags "too_many_tags" "more stacked VLAN tags than the parser follows";
    ArpFormat "arp_format" "ARP for other than Ethernet and IPv4, or an unknown operation";
    IpVersion "ip_version" "the version nibble disagrees with the Ethernet type";
    Ipv4HeaderLength "ipv4_header_length" "the IPv4 header length is below 20 bytes";
    IpLengthBelowHeader "ip_length_below_header" "the IP length is smaller than the IP header";
    IpLengthOverFrame "ip_length_over_frame" "the IP length goes past the end of the frame";
    Ipv4Checksum "ipv4_checksum" "the IPv4 header checksum is wrong";
    Ipv4Option "ipv4_option" "an IPv4 option has an illegal length";
    Jumbogram "jumbogram" "an IPv6 payload length of 0 before a payload: a jumbogram";
    ExtensionOrder "extension_order" "an IPv6 hop-by-hop header that is not the first";
    ExtensionCount "extension_count" "more IPv6 extension headers than the parser follows";
    ExtensionOption "extension_option" "an IPv6 extension option has an illegal length";
    FragmentRange "fragment_range" "a fragment that reaches past 65535 bytes";
    UdpLength "udp_length" "the UDP length is below 8 or larger than the datagram";
    TcpDataOffset "tcp_data_offset" "the TCP data offset is below 20 bytes or past the datagram";
    TcpOption "tcp_option" "a TCP option has an illegal length";
    L4Checksum "l4_checksum" "the UDP, TCP or ICMP checksum is wrong";
    IcmpFormat "icmp_format" "an ICMP message is shorter than its type demands";
    NdOption "nd_option" "a neighbour discovery option has an illegal length";
    NdHopLimit "nd_hop_limit" "neighbour discovery with a hop limit other than 255";
    VxlanFlags "vxlan_flags" "a VXLAN header without a valid network identifier";
    BthVersion "bth_version" "the transport version of a RoCE packet is not 0";
    BthOpcode "bth_opcode" "a RoCE opcode that is not defined";
    BthLength "bth_length" "a RoCE packet is shorter than its headers, pad and ICRC";
    AethSyndrome "aeth_syndrome" "an acknowledgement with a reserved syndrome";
    Icrc "icrc" "the invariant CRC of a RoCE packet is wrong";
    MadLength "mad_length" "a management datagram that is not 256 bytes long";
    MadFormat "mad_format" "a management datagram of another version, class, method or attribute";
    CmField "cm_field" "a connection message without IP addresses where they must be";
}

impl DropReason {
    /// The index of this reason's counter.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for DropReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.explanation())
    }
}

impl core::error::Error for DropReason {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_discriminant_is_the_counter_index() {
        for (index, reason) in DropReason::ALL.iter().enumerate() {
            assert_eq!(reason.index(), index);
        }
        assert_eq!(DropReason::COUNT, DropReason::ALL.len());
    }

    #[test]
    fn names_are_unique_snake_case_and_explained() {
        let names: HashSet<_> = DropReason::ALL.iter().map(|reason| reason.name()).collect();
        assert_eq!(names.len(), DropReason::COUNT);
        for reason in DropReason::ALL {
            let name = reason.name();
            assert!(
                name.chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            );
            assert!(reason.explanation().len() > 20, "{name}");
        }
    }
}
