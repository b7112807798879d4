//! `--capture FILE` of commands that send messages.

use warpwire_pipelines::messaging::Device;

use super::Failure;

/// Ends the capture of a device, if there is one, and says what it holds; then the outcome of what
/// was captured, which counts for more than a file that could not be written.
pub(super) fn end(device: &mut Device, outcome: Result<(), Failure>) -> Result<(), Failure> {
    let ended = device.end_capture();
    outcome?;
    if let Some(report) = ended? {
        eprint!("capture: {} packets sent", report.packets);
        match report.lost {
            0 => eprintln!(),
            lost => eprintln!("; {lost} more are not in the file: the host did not keep up"),
        }
    }
    Ok(())
}
