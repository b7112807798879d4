//! VXLAN. RFC 7348 section 5.

/// The UDP destination port.
pub const UDP_PORT: u16 = 4789;

/// Bytes of the header.
pub const HEADER_LENGTH: usize = 8;

/// The bit of the first byte that says that the network identifier is valid.
pub const VALID_IDENTIFIER: u8 = 0x08;
