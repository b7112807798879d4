//! TCP. RFC 9293 section 3.1.

use bitflags::bitflags;

bitflags! {
    /// The control bits, with the three ECN bits (RFC 3168, RFC 9768) above them.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    #[repr(transparent)]
    pub struct TcpFlags: u16 {
        /// No more data from the sender.
        const FIN = 0x001;
        /// Synchronise sequence numbers.
        const SYN = 0x002;
        /// Reset the connection.
        const RST = 0x004;
        /// Push.
        const PSH = 0x008;
        /// The acknowledgement number is valid.
        const ACK = 0x010;
        /// The urgent pointer is valid.
        const URG = 0x020;
        /// ECN echo.
        const ECE = 0x040;
        /// Congestion window reduced.
        const CWR = 0x080;
        /// Accurate ECN (formerly the nonce sum).
        const AE = 0x100;
    }
}
