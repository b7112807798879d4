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
use crate::sensor::{self, Gathering, Records};
use warpwire_nic::Nic;

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
    /// Makes the files. Each has `most` rows at most, all if none. Refuses records that no frame
    /// of their NIC has room for.
    pub(super) fn create(
        file: &PipelineFile,
        nics: &[Box<dyn Nic>],
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
            if let Some(nic) = nics.get(receive.nic) {
                let name = log::name(file, receive.nic);
                check(&name, nic.caps().max_packet_bytes(), &entry.records)?;
            }
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

/// A record is one datagram, and lies in one packet of `most` bytes: fragments are not put
/// together.
fn check(nic: &str, most: u32, records: &Records) -> Result<(), sensor::Error> {
    let record = records.record_bytes();
    let packet = record.saturating_add(HEADER_BYTES);
    if packet <= most {
        return Ok(());
    }
    Err(sensor::Error::Setting {
        field: "samples",
        problem: format!(
            "a record of {record} bytes comes in a packet of {packet}, and NIC `{nic}` takes \
             {most} bytes a packet: fragments are not put together"
        ),
        cure: "write fewer, or give the interface at both ends a larger MTU, and the NIC room for \
               it"
        .to_owned(),
    })
}

/// Bytes of the headers of IPv4 and UDP: the least in front of a record.
const HEADER_BYTES: u32 = 28;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sensor::{ByteOrder, Conversion, Format};

    #[test]
    fn records_longer_than_a_frame_are_refused() {
        let records = |samples| {
            let format = Format::new(16, 0, 8, ByteOrder::Big).expect("a format");
            let conversion = Conversion {
                scale: 1.0,
                offset: 0.0,
                order: ByteOrder::Big,
            };
            Records::new(samples, format, conversion)
        };
        // 16 + 2 * 728 + 28 = 1500.
        assert!(check("a", 1500, &records(728)).is_ok());
        let refused = check("a", 1500, &records(729)).expect_err("too long");
        let refused = refused.to_string();
        assert!(refused.contains("samples"), "{refused}");
        assert!(refused.contains("1502"), "{refused}");
        assert!(refused.contains("1500 bytes a packet"), "{refused}");
    }
}
