//! Draining the tensors of stages that gather into files.
#![expect(
    unsafe_code,
    reason = "settling carries the promise that nobody else gathers"
)]

use super::layout::GatherRecord;
use super::log::{self, Log};
use crate::file::PipelineFile;
use crate::report::GatherReport;
use crate::runtime::Error;
use crate::sensor::Gathering;

/// The sensors of a run.
pub(super) struct Gathers {
    list: Vec<Gather>,
}

/// A stage that gathers.
struct Gather {
    nic: String,
    stage: String,
    gathering: Gathering,
}

impl Gathers {
    /// Makes the files. Each has `most` rows at most, all if none.
    pub(super) fn create(
        file: &PipelineFile,
        records: Vec<GatherRecord>,
        most: Option<u64>,
    ) -> Result<Self, Error> {
        let mut list = Vec::new();
        for record in records {
            let receive = file.receives.get(record.receive);
            let stage = receive.and_then(|receive| receive.stages.get(record.stage));
            let (Some(receive), Some(stage)) = (receive, stage) else {
                continue;
            };
            let Some(entry) = &stage.gather else {
                continue;
            };
            list.push(Gather {
                nic: log::name(file, receive.nic),
                stage: stage.name.clone(),
                gathering: Gathering::over(record.tensors, &entry.files, most)?,
            });
        }
        Ok(Self { list })
    }

    /// Writes the rows that are final. A file that cannot be written any more ends the run.
    pub(super) fn drain(&mut self) -> bool {
        let mut has_failed = false;
        for one in &mut self.list {
            one.gathering.drain();
            has_failed |= one.gathering.failure().is_some();
        }
        has_failed
    }

    /// Whether there are sensors, and all files have as many rows as they shall have.
    pub(super) fn are_full(&self) -> bool {
        let is_full = |one: &Gather| one.gathering.is_full();
        !self.list.is_empty() && self.list.iter().all(is_full)
    }

    /// What was gathered so far.
    pub(super) fn reports(&self) -> Vec<GatherReport> {
        let reports = self.list.iter().map(|one| GatherReport {
            nic: one.nic.clone(),
            stage: one.stage.clone(),
            rows_to: one.gathering.files().samples,
            headers_to: one.gathering.files().headers,
            figures: one.gathering.figures(),
            gap_list: one.gathering.gaps().to_vec(),
            gaps_unlisted: one.gathering.unlisted(),
        });
        reports.collect()
    }

    /// Settles what came, if the kernels ended, writes what waits, and says what that was.
    pub(super) fn finish(mut self, have_ended: bool, log: &mut Log) -> Vec<GatherReport> {
        for one in &mut self.list {
            if have_ended {
                // SAFETY: all kernels of the run ended, and these tensors were theirs alone.
                unsafe { one.gathering.settle() };
            }
            if let Err(error) = one.gathering.finish() {
                log.fail(error.into());
            }
        }
        self.reports()
    }
}
