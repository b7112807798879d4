//! The kernels: the interpreter of pipelines, the transport of messages, streams and what serves
//! them, and plain ones that measure.

mod carry;
mod count;
mod gather;
mod gauge;
mod input;
mod measure;
mod output;
mod perform;
mod pipeline;
mod serve;
mod streams;
mod transmit;
mod transport;

pub use carry::{CarryParameters, CarryStreams};
pub use gather::{Gather, GatherParameters};
pub use gauge::{
    ClockStep, DESCRIPTOR_WORDS, IcrcSweep, ParseSweep, PublishTime, ROW, SweepCounters,
    SweepParameters, TimingCounters, TimingParameters, TimingPort, WINDOW_READS,
};
pub use measure::{MacSwap, MeasureCounters, MeasureParameters, MeasurePort, ReceiveCount};
pub use perform::{Apart, Party, Perform, ScriptParameters, Together};
pub use pipeline::Pipeline;
pub use serve::{Serve, ServeParameters};
pub use streams::{StreamParameters, Streams};
pub use transmit::{
    MAX_TEMPLATES, TEMPLATE_BYTES, Template, Transmit, TransmitCounters, TransmitParameters,
    TransmitPort,
};
pub use transport::{Sum, Transport, TransportParameters};

#[cfg(any(not(target_arch = "nvptx64"), feature = "entries"))]
pub mod entries;
