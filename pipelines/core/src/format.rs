//! Ring formats as types: kernels are monomorphised for them.

use warpwire_device::{Frame, Reader};
use warpwire_ring::{Receive, Transmit, memif, mlx5, xdp};

use crate::packet::Rest;

/// The two halves of a ring format.
pub trait RingFormat {
    /// The receive queue's driver.
    type Receive: Receive;
    /// The transmit queue's driver.
    type Transmit: Transmit;

    /// Where the pieces of a frame behind its first one come from.
    fn rest<'a>(reader: &'a Reader<Self::Receive>, frame: Frame<'a>) -> Rest<'a>;
}

/// ConnectX queues, of a NIC or of the software NIC.
#[derive(Clone, Copy, Debug)]
pub struct Mlx5;

/// The rings of a Linux AF_XDP socket.
#[derive(Clone, Copy, Debug)]
pub struct Xdp;

/// memif rings whose memory is ours.
#[derive(Clone, Copy, Debug)]
pub struct MemifClient;

/// memif rings whose memory is the peer's.
#[derive(Clone, Copy, Debug)]
pub struct MemifServer;

impl RingFormat for Mlx5 {
    type Receive = mlx5::Rx;
    type Transmit = mlx5::Tx;

    #[inline(always)]
    fn rest<'a>(reader: &'a Reader<Self::Receive>, frame: Frame<'a>) -> Rest<'a> {
        Rest::Mlx5(reader, frame)
    }
}

impl RingFormat for Xdp {
    type Receive = xdp::RxQueue;
    type Transmit = xdp::TxQueue;

    #[inline(always)]
    fn rest<'a>(reader: &'a Reader<Self::Receive>, frame: Frame<'a>) -> Rest<'a> {
        Rest::Xdp(reader, frame)
    }
}

impl RingFormat for MemifClient {
    type Receive = memif::ClientRx;
    type Transmit = memif::ClientTx;

    #[inline(always)]
    fn rest<'a>(reader: &'a Reader<Self::Receive>, frame: Frame<'a>) -> Rest<'a> {
        Rest::MemifClient(reader, frame)
    }
}

impl RingFormat for MemifServer {
    type Receive = memif::ServerRx;
    type Transmit = memif::ServerTx;

    #[inline(always)]
    fn rest<'a>(reader: &'a Reader<Self::Receive>, frame: Frame<'a>) -> Rest<'a> {
        Rest::MemifServer(reader, frame)
    }
}
