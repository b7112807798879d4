//! Congestion control: how much may be under way, and when it may leave.

mod cubic;
mod fixed_rate;

use super::config::Controller;
pub use cubic::Cubic;
pub use fixed_rate::FixedRate;

/// What an algorithm is told, and says. Bytes are payload.
pub trait Congestion {
    /// Bytes that may be under way.
    fn window(&self) -> u32;

    /// Below it the window grows fast, in bytes.
    fn threshold(&self) -> u32;

    /// Bytes were acknowledged while the window was what limited the sender.
    fn on_acknowledged(&mut self, progress: &Progress);

    /// Loss was seen, or the peer saw a mark; once a window.
    fn on_loss(&mut self, in_flight: u32, mss: u32);

    /// Nothing came back in time; `is_first` of several times for the same bytes.
    fn on_timeout(&mut self, in_flight: u32, mss: u32, is_first: bool);

    /// Nothing was sent for longer than the time before a repetition.
    fn on_idle(&mut self, mss: u32);

    /// Bytes leave.
    fn on_sent(&mut self, _now_ns: u64, _bytes: u32) {}

    /// Before this time nothing leaves, in ns.
    fn next_ns(&self) -> u64 {
        0
    }

    /// The longest train of segments in bytes.
    fn burst(&self) -> u32 {
        u32::MAX
    }
}

/// What came of acknowledgements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The time.
    pub now_ns: u64,
    /// Bytes that were acknowledged.
    pub bytes: u32,
    /// Smoothed round-trip time; 0 if it is not known.
    pub round_trip_ns: u64,
    /// Payload of a whole segment in bytes.
    pub mss: u32,
    /// The sender used its window.
    pub is_limited: bool,
}

/// The algorithm of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub(super) enum Control {
    Cubic(Cubic),
    FixedRate(FixedRate),
}

impl Control {
    /// One that has sent nothing.
    pub(super) fn new(controller: Controller, window: u32) -> Self {
        match controller {
            Controller::Cubic => Self::Cubic(Cubic::new(window)),
            Controller::FixedRate { bytes_per_s } => Self::FixedRate(FixedRate::new(bytes_per_s)),
        }
    }
}

macro_rules! dispatch {
    ($self:ident, $algorithm:ident => $call:expr) => {
        match $self {
            Control::Cubic($algorithm) => $call,
            Control::FixedRate($algorithm) => $call,
        }
    };
}

impl Congestion for Control {
    fn window(&self) -> u32 {
        dispatch!(self, one => one.window())
    }

    fn threshold(&self) -> u32 {
        dispatch!(self, one => one.threshold())
    }

    fn on_acknowledged(&mut self, progress: &Progress) {
        dispatch!(self, one => one.on_acknowledged(progress))
    }

    fn on_loss(&mut self, in_flight: u32, mss: u32) {
        dispatch!(self, one => one.on_loss(in_flight, mss))
    }

    fn on_timeout(&mut self, in_flight: u32, mss: u32, is_first: bool) {
        dispatch!(self, one => one.on_timeout(in_flight, mss, is_first))
    }

    fn on_idle(&mut self, mss: u32) {
        dispatch!(self, one => one.on_idle(mss))
    }

    fn on_sent(&mut self, now_ns: u64, bytes: u32) {
        dispatch!(self, one => one.on_sent(now_ns, bytes))
    }

    fn next_ns(&self) -> u64 {
        dispatch!(self, one => one.next_ns())
    }

    fn burst(&self) -> u32 {
        dispatch!(self, one => one.burst())
    }
}

/// The window to begin with, in bytes. RFC 6928 section 2.
pub(super) const fn initial_window(mss: u32) -> u32 {
    let least = if 2 * mss > 14_600 { 2 * mss } else { 14_600 };
    if 10 * mss < least { 10 * mss } else { least }
}

/// No window is larger, in bytes: RFC 7323 section 2.3.
const LARGEST_WINDOW: u32 = 1 << 30;
