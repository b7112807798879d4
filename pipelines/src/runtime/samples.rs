//! Draining the rings of samples into capture files.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;

use warpwire_nic::pcap::{Format, Writer, create_file};

use super::layout::SampleRecord;
use super::log::Log;
use crate::file::PipelineFile;
use crate::report::SampleReport;
use crate::runtime::Error;

/// The files of samples, and the rings that fill them.
pub(super) struct Samples {
    files: Vec<SampleFile>,
    /// Rings with the place of their file.
    rings: Vec<(usize, SampleRecord)>,
    /// Nanoseconds since 1970 at time 0 of the kernels' clock.
    epoch_ns: u64,
}

/// One file of samples.
struct SampleFile {
    path: PathBuf,
    writer: Writer<BufWriter<File>>,
    frames: u64,
    failure: Option<std::io::Error>,
}

impl Samples {
    /// Makes the files. Stages that name the same file share it.
    pub(super) fn create(
        file: &PipelineFile,
        records: Vec<SampleRecord>,
        now_ns: u64,
    ) -> Result<Self, Error> {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = since.map_or(0, |since| since.as_nanos() as u64);
        let mut samples = Self {
            files: Vec::new(),
            rings: Vec::new(),
            epoch_ns: since.saturating_sub(now_ns),
        };
        for record in records {
            let receive = file.receives.get(record.receive);
            let stage = receive.and_then(|receive| receive.stages.get(record.stage));
            let Some(path) = stage.and_then(|stage| stage.file.clone()) else {
                continue;
            };
            let place = samples.file(path)?;
            samples.rings.push((place, record));
        }
        Ok(samples)
    }

    fn file(&mut self, path: PathBuf) -> Result<usize, Error> {
        if let Some(place) = self.files.iter().position(|file| file.path == path) {
            return Ok(place);
        }
        let create = |path: &PathBuf| {
            let file = BufWriter::new(create_file(path)?);
            Writer::new(file, Format::Pcapng)
        };
        let writer = create(&path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        })?;
        self.files.push(SampleFile {
            path,
            writer,
            frames: 0,
            failure: None,
        });
        Ok(self.files.len() - 1)
    }

    /// Writes what lies in the rings; returns how many samples that were. A file that cannot be
    /// written any more is told at the end.
    pub(super) fn drain(&mut self) -> u64 {
        let mut drained = 0;
        for (place, record) in &self.rings {
            if let Some(file) = self.files.get_mut(*place) {
                drained += drain(record, file, self.epoch_ns);
            }
        }
        drained
    }

    /// Drains for the last time and closes the files. Frames that were handed to a file that cannot
    /// be written count as if it held them; the log says that it may not.
    pub(super) fn finish(mut self, log: &mut Log) -> Vec<SampleReport> {
        self.drain();
        for file in &mut self.files {
            let failure = file.failure.take();
            if let Some(source) = failure.or_else(|| file.writer.flush().err()) {
                let path = file.path.clone();
                log.fail(Error::File { path, source });
            }
        }
        let reports = self.files.into_iter().map(|file| SampleReport {
            file: file.path,
            frames: file.frames,
        });
        reports.collect()
    }
}

fn drain(record: &SampleRecord, file: &mut SampleFile, epoch_ns: u64) -> u64 {
    let drained = record.ring.drain(u32::MAX, |head, kept| {
        if file.failure.is_some() {
            return;
        }
        let time_ns = epoch_ns.saturating_add(head.time_ns);
        match file.writer.write_cut(time_ns, kept, head.length) {
            Ok(()) => file.frames += 1,
            Err(error) => file.failure = Some(error),
        }
    });
    u64::from(drained)
}
