//! Our answer about a capture: a pipeline plays it into a soft NIC, and the kernel classifies.

use super::captures::{Capture, Ours};
use super::counts::{Counts, Field};
use super::product::{Product, Report, Run};
use crate::Error;
use std::os::unix::fs::symlink;

/// Counts a capture by `warpwire run`.
///
/// # Errors
/// When the run fails for another reason than the capture's link type.
pub fn count(product: &Product, capture: &Capture) -> Result<Ours, Error> {
    show(product, capture)?;
    match product.run("classify", PIPELINE)? {
        Run::Report(report) => counts(&report).map(Ours::Ethernet),
        Run::Refused(words) => match link_type(&words) {
            Some(number) => Ok(Ours::LinkType(number)),
            None => Err(Error::content(&capture.path, words)),
        },
    }
}

/// Puts a capture where pipelines look for the file `capture`.
///
/// # Errors
/// When the folder cannot be written.
pub fn show(product: &Product, capture: &Capture) -> Result<(), Error> {
    let link = product.folder().join("capture");
    let _ = std::fs::remove_file(&link);
    symlink(&capture.path, &link).map_err(|source| Error::file(&link, source))
}

/// The link type that an error is about.
fn link_type(words: &str) -> Option<u16> {
    let (_, rest) = words.split_once("link type ")?;
    rest.split(' ').next()?.parse().ok()
}

fn counts(report: &Report) -> Result<Counts, Error> {
    let mut counts = Counts::default();
    counts.add(Field::Frames, 0, report.number("/nics/0/received/frames")?);
    for field in Field::ALL
        .into_iter()
        .filter(|field| *field != Field::Frames)
    {
        let pointer = format!("/receives/0/stages/0/counters/{}", field.name());
        for (key, frames) in report.table(&pointer)? {
            let value = match key.strip_prefix("0x") {
                Some(digits) => u32::from_str_radix(digits, 16).ok(),
                None => key.parse().ok(),
            };
            let problem = || Error::content("report", format!("{key} in {pointer}"));
            counts.add(field, value.ok_or_else(problem)?, frames);
        }
    }
    Ok(counts)
}

const PIPELINE: &str = r#"
name = "classify"

[nic.file]
open = "pcap:capture"

[[receive]]
from = "file"

[[receive.stage]]
do = "classify"

[[receive.stage]]
do = "drop"
"#;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_its_link_type() {
        assert_eq!(
            link_type("pcap:x: link type 113 is not Ethernet (1)"),
            Some(113)
        );
        assert_eq!(link_type("pcap:x: no such file"), None);
    }
}
