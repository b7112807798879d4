//! The list of entry points, for the built-in stages.
#![cfg_attr(
    target_arch = "nvptx64",
    expect(
        unsafe_code,
        reason = "entry points are unsafe functions with fixed names"
    )
)]

use crate::format::{MemifClient, MemifServer, Mlx5, Xdp};
use crate::kernels::{
    Apart, CarryStreams, ClockStep, Gather, IcrcSweep, MacSwap, ParseSweep, Perform, PublishTime,
    ReceiveCount, Serve, Streams, Together, Transmit, Transport,
};
use crate::stages::BuiltIn;

crate::kernel! {
    /// The kernels that measure, for each ring format.
    pub fn measuring:
    /// Receives, parses and counts, over mlx5 queues.
    receive_count_mlx5 = ReceiveCount<Mlx5>,
    /// Receives, parses and counts, over AF_XDP rings.
    receive_count_xdp = ReceiveCount<Xdp>,
    /// Receives, parses and counts, over memif rings of ours.
    receive_count_memif_client = ReceiveCount<MemifClient>,
    /// Receives, parses and counts, over memif rings of the peer.
    receive_count_memif_server = ReceiveCount<MemifServer>,
    /// Exchanges Ethernet addresses and sends back, over mlx5 queues.
    mac_swap_mlx5 = MacSwap<Mlx5>,
    /// Exchanges Ethernet addresses and sends back, over AF_XDP rings.
    mac_swap_xdp = MacSwap<Xdp>,
    /// Exchanges Ethernet addresses and sends back, over memif rings of ours.
    mac_swap_memif_client = MacSwap<MemifClient>,
    /// Exchanges Ethernet addresses and sends back, over memif rings of the peer.
    mac_swap_memif_server = MacSwap<MemifServer>,
    /// Generates frames, over mlx5 queues.
    transmit_mlx5 = Transmit<Mlx5>,
    /// Generates frames, over AF_XDP rings.
    transmit_xdp = Transmit<Xdp>,
    /// Generates frames, over memif rings of ours.
    transmit_memif_client = Transmit<MemifClient>,
    /// Generates frames, over memif rings of the peer.
    transmit_memif_server = Transmit<MemifServer>,
}

crate::kernel! {
    /// The transport of messages, for each ring format.
    pub fn transports:
    /// Carries out the work queues of messages, over mlx5 queues.
    transport_mlx5 = Transport<Mlx5>,
    /// Carries out the work queues of messages, over AF_XDP rings.
    transport_xdp = Transport<Xdp>,
    /// Carries out the work queues of messages, over memif rings of ours.
    transport_memif_client = Transport<MemifClient>,
    /// Carries out the work queues of messages, over memif rings of the peer.
    transport_memif_server = Transport<MemifServer>,
}

crate::kernel! {
    /// Streams: engines of TCP for each ring format, and what carries them over messages.
    pub fn streams:
    /// Terminates TCP, over mlx5 queues.
    streams_mlx5 = Streams<Mlx5>,
    /// Terminates TCP, over AF_XDP rings.
    streams_xdp = Streams<Xdp>,
    /// Terminates TCP, over memif rings of ours.
    streams_memif_client = Streams<MemifClient>,
    /// Terminates TCP, over memif rings of the peer.
    streams_memif_server = Streams<MemifServer>,
    /// Carries streams over queue pairs.
    carry_streams = CarryStreams,
}

crate::kernel! {
    /// Gatherers of records, whatever carries their streams.
    pub fn gatherers:
    /// Gathers records out of streams into tensors.
    gather_streams = Gather,
}

crate::kernel! {
    /// Applications over streams, whatever carries them.
    pub fn servers:
    /// Serves streams: echo, discard, source, files over HTTP/1.1.
    serve_streams = Serve,
}

crate::kernel! {
    /// Applications that carry out scripts of messages: beside an engine that runs elsewhere, and
    /// with the engine of each ring format in the same warp.
    pub fn applications:
    /// Carries out a script beside an engine that runs elsewhere.
    perform = Perform<Apart>,
    /// Carries out a script, and the work queues, over mlx5 queues.
    perform_mlx5 = Perform<Together<Mlx5>>,
    /// Carries out a script, and the work queues, over AF_XDP rings.
    perform_xdp = Perform<Together<Xdp>>,
    /// Carries out a script, and the work queues, over memif rings of ours.
    perform_memif_client = Perform<Together<MemifClient>>,
    /// Carries out a script, and the work queues, over memif rings of the peer.
    perform_memif_server = Perform<Together<MemifServer>>,
}

crate::kernel! {
    /// The kernels that measure the machine.
    pub fn gauges:
    /// Takes the step of the clock.
    gauge_clock = ClockStep,
    /// Takes the time from publishing to completion.
    gauge_publish = PublishTime,
    /// Parses frames in memory.
    gauge_parse = ParseSweep,
    /// Checks the invariant CRC of frames in memory.
    gauge_icrc = IcrcSweep,
}

crate::pipeline_kernels! {
    pub fn pipelines, mixed_pipelines: BuiltIn
}
