//! `--capture FILE` of commands that send messages.

use std::fs::OpenOptions;
use std::path::Path;

use warpwire_pipelines::messaging::Device;

use super::Failure;

/// Whether the file can be written, before anybody waits for anybody.
pub(super) fn check(path: Option<&Path>) -> Result<(), Failure> {
    let Some(path) = path else {
        return Ok(());
    };
    let is_new = !path.exists();
    let mut options = OpenOptions::new();
    let opened = options.write(true).create(true).truncate(false).open(path);
    opened.map_err(|source| Failure::File {
        path: path.to_owned(),
        source,
    })?;
    if is_new {
        // It comes again with the first packet.
        let _ = std::fs::remove_file(path);
    }
    Ok(())
}

/// Ends the capture of a device, if there is one, and says what it holds; then the outcome of what
/// was captured, which counts for more than a file that could not be written.
///
/// A device whose interface is not as it was tells that first: then it is not the peer who is to be
/// asked.
pub(super) fn end(device: &mut Device, outcome: Result<(), Failure>) -> Result<(), Failure> {
    let ended = device.end_capture();
    if let Err(failure) = outcome {
        device.look()?;
        return Err(failure);
    }
    if let Some(report) = ended? {
        eprint!("capture: {} packets sent", report.packets);
        match report.lost {
            0 => eprintln!(),
            lost => eprintln!("; {lost} more are not in the file: the host did not keep up"),
        }
    }
    Ok(())
}
