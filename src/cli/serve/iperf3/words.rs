//! What both ends of iperf3 say on their control connection: states of one byte, and JSON behind
//! its length in four bytes, the highest first.

use serde::{Deserialize, Serialize};

/// A state, as a byte says it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(i8)]
pub(super) enum State {
    TestStart = 1,
    TestRunning = 2,
    TestEnd = 4,
    ParameterExchange = 9,
    CreateStreams = 10,
    ServerTerminate = 11,
    ClientTerminate = 12,
    ExchangeResults = 13,
    DisplayResults = 14,
    Done = 16,
    AccessDenied = -1,
    ServerError = -2,
}

impl State {
    pub(super) const fn byte(self) -> u8 {
        (self as i8).cast_unsigned()
    }
}

/// Why a client is not served any more.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("it wants {0}, and only TCP is served; leave out `{1}`")]
    Protocol(&'static str, &'static str),
    #[error("it wants {0} streams; take 1 to {MOST_STREAMS}")]
    Streams(u64),
    #[error("it wants us to send by `{0}`, and we have `{CONGESTION}`; leave out `-C`")]
    Congestion(String),
    #[error("it wants to leave out the first {0} s; take {MOST_OMITTED} at most")]
    Omit(u64),
    #[error("its JSON has {0} bytes, more than {MOST_WORDS}")]
    Long(u32),
    #[error("its JSON: {0}")]
    Json(#[from] serde_json::Error),
    #[error("its control connection said {0}, which is not expected {1}")]
    Message(i8, &'static str),
    #[error("it did nothing for {0} s {1}")]
    Silent(u64, &'static str),
    #[error("it left {0}")]
    Left(&'static str),
    #[error(transparent)]
    Stream(#[from] warpwire_pipelines::streaming::Error),
}

impl Refusal {
    /// How iperf3 numbers it, with the system's error, if the client is still to be told.
    pub(super) const fn code(&self) -> Option<(i32, i32)> {
        Some(match self {
            Self::Protocol(..) => (131, 0),
            Self::Streams(_) => (6, 0),
            // No such file, as Linux says of controllers that it does not have.
            Self::Congestion(_) => (134, 2),
            Self::Omit(_) => (12, 0),
            Self::Long(_) | Self::Json(_) => (114, 0),
            Self::Message(..) => (110, 0),
            Self::Silent(..) | Self::Left(_) | Self::Stream(_) => return None,
        })
    }
}

/// What a client wants.
#[derive(Clone, PartialEq, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Parameters {
    udp: bool,
    sctp: bool,
    /// Seconds at the beginning that do not count.
    pub(super) omit: u64,
    /// Streams in each direction.
    parallel: u64,
    /// The server sends.
    pub(super) reverse: bool,
    /// Both send.
    pub(super) bidirectional: bool,
    /// Bits a second for each stream; zero for as many as there can be.
    pub(super) bandwidth: f64,
    congestion: Option<String>,
}

impl Parameters {
    pub(super) fn parse(words: &[u8]) -> Result<Self, Refusal> {
        let asked: Self = serde_json::from_slice(words)?;
        let sends = asked.reverse || asked.bidirectional;
        let is_ours = |name: &String| name.as_str() == CONGESTION;
        match &asked.congestion {
            _ if asked.udp => Err(Refusal::Protocol("UDP", "-u")),
            _ if asked.sctp => Err(Refusal::Protocol("SCTP", "--sctp")),
            _ if !(1..=MOST_STREAMS).contains(&asked.parallel) => {
                Err(Refusal::Streams(asked.parallel))
            }
            _ if asked.omit > MOST_OMITTED => Err(Refusal::Omit(asked.omit)),
            Some(name) if sends && !is_ours(name) => Err(Refusal::Congestion(name.clone())),
            _ => Ok(asked),
        }
    }

    /// For each stream in the order in which they are opened, whether the server sends.
    pub(super) fn directions(&self) -> impl Iterator<Item = bool> + use<> {
        let count = self.parallel as usize;
        let first = self.reverse && !self.bidirectional;
        let second = self.bidirectional.then_some(true);
        let second = second.into_iter().cycle().take(count);
        std::iter::repeat_n(first, count).chain(second)
    }
}

/// What a server tells of a test.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Results {
    pub(super) cpu_util_total: f64,
    pub(super) cpu_util_user: f64,
    pub(super) cpu_util_system: f64,
    /// 1 if it sends and counts them, -1 if not.
    pub(super) sender_has_retransmits: i32,
    pub(super) congestion_used: &'static str,
    pub(super) streams: Vec<StreamResult>,
}

/// What a server tells of a stream.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct StreamResult {
    pub(super) id: usize,
    pub(super) bytes: u64,
    /// -1 if it did not send.
    pub(super) retransmits: i64,
    /// These three are for datagrams.
    pub(super) jitter: f64,
    pub(super) errors: u64,
    pub(super) packets: u64,
    /// Seconds since the test began.
    pub(super) start_time: f64,
    pub(super) end_time: f64,
}

/// The number of a stream by its place in the order of opening: iperf3 leaves out 2.
pub(super) const fn stream_id(index: usize) -> usize {
    match index {
        0 => 1,
        _ => index + 2,
    }
}

/// Bytes that begin every connection of a client, the same on all of them.
pub(super) const COOKIE_BYTES: usize = 37;
/// Bytes of the longest JSON that is read.
pub(super) const MOST_WORDS: u32 = 1 << 18;
pub(super) const CONGESTION: &str = "cubic";
const MOST_STREAMS: u64 = 128;
const MOST_OMITTED: u64 = 600;
