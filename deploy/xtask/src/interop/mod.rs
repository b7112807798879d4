//! Our answers against those of outside judges.

pub mod bytes;
pub mod captures;
pub mod cases;
pub mod counts;
pub mod differences;
pub mod linux;
pub mod memif;
pub mod namespaces;
pub mod packets;
pub mod play;
pub mod product;
pub mod roce;
pub mod tcp;
pub mod testpmd;
pub mod tshark;

use crate::Error;

/// What is judged.
#[derive(clap::Subcommand, Debug)]
pub enum Subject {
    /// Packets: counts, bytes, checksums, hosts and load generators as peers.
    Packets(packets::Options),
    /// RDMA: Linux's Soft-RoCE in virtual machines as the peer.
    Roce(roce::Options),
    /// TCP: Linux and its programs as peers of services of ours.
    Tcp(tcp::Options),
}

/// `cargo xtask interop`.
///
/// # Errors
/// What kept the judges from being heard.
pub fn main(subject: &Subject) -> Result<bool, Error> {
    match subject {
        Subject::Packets(options) => packets::main(options),
        Subject::Roce(options) => roce::main(options),
        Subject::Tcp(options) => tcp::main(options),
    }
}
