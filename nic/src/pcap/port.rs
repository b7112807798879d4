//! A capture file as a port of a fabric: what it holds comes in, what goes out is written.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use super::{CaptureError, Format, Reader, Writer, create_file, open_file};
use crate::error::Error;
use crate::soft::Uplink;
use crate::trouble::{Severity, Trouble};

/// When recorded frames come in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Pace {
    /// As fast as the adapters take them: none is lost for want of a slot.
    #[default]
    AsTaken,
    /// At the distances in time at which they were captured, counted from the first.
    AsCaptured,
}

/// Plays one capture and records another; either may be missing.
pub struct CapturePort {
    name: String,
    source: Option<Reader<BufReader<File>>>,
    sink: Option<Writer<BufWriter<File>>>,
    pace: Pace,
    /// The frame that was read and is not due, with its time.
    next: Option<(u64, Vec<u8>)>,
    /// The fabric's time less the capture's, once the first frame came in.
    shift_ns: Option<i128>,
    epoch_ns: u64,
    now_ns: u64,
    counts: Counts,
    /// The files, for errors.
    paths: [PathBuf; 2],
    /// Why playing, and recording, ended early.
    failures: [Option<CaptureError>; 2],
}

/// Places in the lists of files.
const PLAY: usize = 0;
const RECORD: usize = 1;

#[derive(Default)]
struct Counts {
    played: u64,
    shortened: u64,
    too_long: u64,
    recorded: u64,
    failures: u64,
}

impl CapturePort {
    /// Opens the files. The first frame is read at once, so that a file which is no capture is
    /// refused here.
    ///
    /// # Errors
    /// [`Error::Unavailable`] naming the file and what is wrong with it.
    pub fn open(play: Option<&Path>, record: Option<&Path>, pace: Pace) -> Result<Self, Error> {
        let mut name = "capture".to_owned();
        let source = match play {
            None => None,
            Some(path) => {
                name = format!("pcap:{}", path.display());
                Some(open_source(path).map_err(|error| refuse(path, &error))?)
            }
        };
        let sink = match record {
            None => None,
            Some(path) => Some(open_sink(path).map_err(|error| refuse(path, &error))?),
        };
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let mut port = Self {
            name,
            source,
            sink,
            pace,
            next: None,
            shift_ns: None,
            epoch_ns: since.map_or(0, |since| since.as_nanos() as u64),
            now_ns: 0,
            counts: Counts::default(),
            paths: [play, record].map(|path| path.unwrap_or(Path::new("")).to_owned()),
            failures: [None, None],
        };
        port.read_ahead();
        match (&port.failures, play) {
            ([Some(error), _], Some(path)) => Err(refuse(path, error)),
            _ => Ok(port),
        }
    }

    /// Records with this time since 1970 for the fabric's time 0, instead of the time of opening.
    #[must_use]
    pub fn starting_at(mut self, epoch_ns: u64) -> Self {
        self.epoch_ns = epoch_ns;
        self
    }

    /// Whether everything was played.
    pub fn finished(&self) -> bool {
        self.next.is_none()
    }

    fn read_ahead(&mut self) {
        self.next = None;
        let Some(source) = &mut self.source else {
            return;
        };
        match source.next_record() {
            Ok(Some(record)) => {
                let shortened = record.original_length as usize > record.bytes.len();
                self.counts.shortened += u64::from(shortened);
                self.next = Some((record.timestamp_ns, record.bytes.to_vec()));
            }
            Ok(None) => self.source = None,
            Err(error) => {
                self.fail(PLAY, error);
                self.source = None;
            }
        }
    }

    fn fail(&mut self, file: usize, error: CaptureError) {
        self.counts.failures += 1;
        if let Some(failure) = self.failures.get_mut(file) {
            *failure = Some(error);
        }
    }

    /// Writes out what is left.
    fn end_record(&mut self) {
        if let Some(mut sink) = self.sink.take()
            && let Err(source) = sink.flush()
        {
            self.fail(RECORD, cannot_write(source));
        }
    }

    fn due_ns(&mut self, timestamp_ns: u64, now_ns: u64) -> u64 {
        let shift = i128::from(now_ns) - i128::from(timestamp_ns);
        let shift = *self.shift_ns.get_or_insert(shift);
        u64::try_from(i128::from(timestamp_ns) + shift).unwrap_or(0)
    }
}

impl Uplink for CapturePort {
    fn name(&self) -> &str {
        &self.name
    }

    fn send(&mut self, frame: &[u8]) -> bool {
        let Some(sink) = &mut self.sink else {
            return false;
        };
        match sink.write(self.epoch_ns.saturating_add(self.now_ns), frame) {
            Ok(()) => {
                self.counts.recorded += 1;
                true
            }
            Err(source) => {
                self.fail(RECORD, cannot_write(source));
                // Not flushed once more: what the file lacks is told.
                self.sink = None;
                false
            }
        }
    }

    fn receive(&mut self, into: &mut [u8], now_ns: u64) -> Option<usize> {
        let &(timestamp_ns, ref frame) = self.next.as_ref()?;
        let length = frame.len();
        if self.pace == Pace::AsCaptured && self.due_ns(timestamp_ns, now_ns) > now_ns {
            return None;
        }
        let taken = match (&self.next, into.get_mut(..length)) {
            (Some((_, frame)), Some(into)) => {
                into.copy_from_slice(frame);
                self.counts.played += 1;
                Some(length)
            }
            _ => {
                self.counts.too_long += 1;
                None
            }
        };
        self.read_ahead();
        taken
    }

    fn patient(&self) -> bool {
        self.pace == Pace::AsTaken
    }

    fn round(&mut self, now_ns: u64) -> bool {
        self.now_ns = now_ns;
        false
    }

    fn next_due_ns(&self) -> Option<u64> {
        let (timestamp_ns, _) = self.next.as_ref()?;
        let shift = self.shift_ns.filter(|_| self.pace == Pace::AsCaptured)?;
        u64::try_from(i128::from(*timestamp_ns) + shift).ok()
    }

    fn counters(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("frames played", self.counts.played),
            ("played shortened by the capture", self.counts.shortened),
            ("too long to play", self.counts.too_long),
            ("frames recorded", self.counts.recorded),
            ("capture failures", self.counts.failures),
        ]
    }

    fn troubles(&self) -> Vec<Trouble> {
        let cures = [
            "what came before was played; repair the file, or capture again",
            "what came before is in the file; check the space on its disk",
        ];
        let failed = self.failures.iter().zip(&self.paths).zip(cures);
        failed
            .filter_map(|((failure, path), cure)| {
                let error = Error::Unavailable {
                    nic: format!("pcap:{}", path.display()),
                    missing: failure.as_ref()?.to_string(),
                    cure: cure.to_owned(),
                };
                Some(Trouble {
                    severity: Severity::Failure,
                    error,
                })
            })
            .collect()
    }

    fn close(&mut self) -> Result<(), Error> {
        self.end_record();
        let first = self.troubles().into_iter().next();
        first.map_or(Ok(()), |trouble| Err(trouble.error))
    }
}

fn open_source(path: &Path) -> Result<Reader<BufReader<File>>, CaptureError> {
    let file = open_file(path).map_err(|source| CaptureError::File {
        action: "cannot open".to_owned(),
        source,
    })?;
    Reader::new(BufReader::new(file))
}

fn open_sink(path: &Path) -> Result<Writer<BufWriter<File>>, CaptureError> {
    let create = || Writer::new(BufWriter::new(create_file(path)?), Format::of(path));
    create().map_err(|source| CaptureError::File {
        action: "cannot create".to_owned(),
        source,
    })
}

fn cannot_write(source: std::io::Error) -> CaptureError {
    let action = "cannot write".to_owned();
    CaptureError::File { action, source }
}

fn refuse(path: &Path, error: &CaptureError) -> Error {
    Error::Unavailable {
        nic: format!("pcap:{}", path.display()),
        missing: error.to_string(),
        cure: "name a readable pcap or pcapng file of Ethernet frames".to_owned(),
    }
}
