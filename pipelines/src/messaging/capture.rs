//! Captures of what an endpoint sends: a pcapng file in which each packet says its operation.

use std::fs::File;
use std::io::{self, BufWriter};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use warpwire_gpu::Service;
use warpwire_gpu::executor::Clock;
use warpwire_nic::pcap::{Format, Writer, create_file};
use warpwire_protocols::parse::{Kind, parse_slow};
use warpwire_protocols::rdma::{EXTENDED_WORDS, Incoming};
use warpwire_protocols::wire::aeth::Syndrome;
use warpwire_protocols::wire::bth;
use warpwire_protocols::wire::opcode::ExtendedHeaders;

use crate::copies::CopyRing;

/// What a capture holds.
#[derive(Clone, Debug, Default)]
pub struct CaptureReport {
    /// Packets in the file.
    pub packets: u64,
    /// Packets that were sent and are not there: the host did not keep up.
    pub lost: u64,
    /// Why the file could not be written any more.
    pub failure: Option<String>,
}

/// A capture under way, to be put on a thread of an executor. What is left is written when it is
/// dropped.
pub(super) struct Capture {
    ring: CopyRing,
    writer: Writer<BufWriter<File>>,
    /// Nanoseconds since 1970 at time 0 of the engine's clock.
    epoch_ns: u64,
    /// Copies that were taken out of the ring.
    drained: u64,
    report: Arc<Mutex<CaptureReport>>,
}

impl Capture {
    /// Makes the file.
    pub(super) fn create(path: &Path, ring: CopyRing, clock: &Clock) -> io::Result<Self> {
        let file = BufWriter::new(create_file(path)?);
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let since = since.map_or(0, |since| since.as_nanos() as u64);
        Ok(Self {
            ring,
            writer: Writer::new(file, Format::Pcapng)?,
            epoch_ns: since.saturating_sub(clock.now_ns()),
            drained: 0,
            report: Arc::default(),
        })
    }

    /// What it holds, also once an executor has it.
    pub(super) fn report(&self) -> Arc<Mutex<CaptureReport>> {
        Arc::clone(&self.report)
    }

    /// Writes up to `most` packets; how many there were.
    fn drain(&mut self, most: u32) -> u32 {
        let (writer, epoch_ns) = (&mut self.writer, self.epoch_ns);
        let mut report = locked(&self.report);
        let count = self.ring.drain(most, |head, bytes| {
            let time_ns = epoch_ns.saturating_add(head.time_ns);
            match writer.write_with(time_ns, bytes, &describe(bytes)) {
                Ok(()) => report.packets += 1,
                Err(error) => {
                    report.failure.get_or_insert_with(|| error.to_string());
                }
            }
        });
        self.drained += u64::from(count);
        count
    }
}

fn locked(report: &Mutex<CaptureReport>) -> MutexGuard<'_, CaptureReport> {
    report.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Service for Capture {
    fn name(&self) -> &str {
        "capture of messages"
    }

    fn run(&mut self, budget: u32) -> u32 {
        self.drain(budget)
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        self.drain(u32::MAX);
        let flushed = self.writer.flush();
        let mut report = locked(&self.report);
        report.lost = self.ring.offered().saturating_sub(self.drained);
        if let Err(error) = flushed {
            report.failure.get_or_insert_with(|| error.to_string());
        }
    }
}

/// A packet of the transport in words: what it does, to whom, and where.
fn describe(frame: &[u8]) -> String {
    read(frame).unwrap_or_else(|| "not a packet of the transport".to_owned())
}

fn read(frame: &[u8]) -> Option<String> {
    let headers = parse_slow(frame, u32::try_from(frame.len()).ok()?).ok()?;
    if headers.kind != Kind::RoceV2 {
        return None;
    }
    let behind = usize::from(headers.payload);
    let transport = frame.get(behind.checked_sub(bth::Header::LENGTH)?..)?;
    let (header, rest) = bth::Header::split(transport).ok()?;
    let bth = bth::Repr::parse(header).ok()?;
    let (fours, _) = rest.as_chunks::<4>();
    let words = fours.iter().map(|four| u32::from_be_bytes(*four));
    let mut extended = [0; EXTENDED_WORDS];
    for (word, value) in extended.iter_mut().zip(words) {
        *word = value;
    }
    let length = headers
        .payload_length
        .checked_sub(bth::ICRC_LENGTH as u32)?;
    let packet = Incoming::new(&bth, &extended, length).ok()?;
    Some(in_words(&bth, &packet))
}

fn in_words(bth: &bth::Repr, packet: &Incoming) -> String {
    let (there, fields) = (packet.opcode.headers(), &packet.extended);
    let mut words = format!(
        "{} to queue pair {:#x}, PSN {}",
        packet.opcode.name().replace('_', " "),
        bth.destination_qp.value(),
        packet.psn.value()
    );
    if there.contains(ExtendedHeaders::RETH) {
        let (length, address, key) = (fields.length, fields.address, fields.key);
        words += &format!(", message of {length} bytes at {address:#x}, key {key:#x}");
    }
    if there.contains(ExtendedHeaders::ATOMIC_ETH) {
        let (value, compare) = (fields.value, fields.compare);
        let (address, key) = (fields.address, fields.key);
        words += &format!(", value {value:#x}, compare {compare:#x} at {address:#x}, key {key:#x}");
    }
    if there.contains(ExtendedHeaders::AETH) {
        let number = fields.aeth & 0x00ff_ffff;
        words += &match packet.syndrome() {
            Ok(Syndrome::Ack(_)) => ", acknowledged".to_owned(),
            Ok(Syndrome::ReceiverNotReady(timer)) => {
                format!(", receiver not ready for {} us", timer.microseconds())
            }
            Ok(Syndrome::Nak(nak)) => format!(", NAK: {nak:?}"),
            Err(_) => format!(", syndrome {:#x}", fields.aeth >> 24),
        };
        words += &format!(", MSN {number}");
    }
    if there.contains(ExtendedHeaders::ATOMIC_ACK_ETH) {
        words += &format!(", found {:#x}", fields.value);
    }
    if there.contains(ExtendedHeaders::IMM_DT) {
        words += &format!(", immediate {:#x}", fields.immediate);
    }
    if there.contains(ExtendedHeaders::IETH) {
        words += &format!(", takes key {:#x} away", fields.immediate);
    }
    if there.contains(ExtendedHeaders::DETH) {
        words += &format!(", from queue pair {:#x}", fields.source_qp);
    }
    if packet.payload > 0 {
        words += &format!(", {} bytes here", packet.payload);
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_say_their_operation() {
        // Ethernet, IPv4, UDP 4791, then: a WRITE ONLY of 8 bytes, and an acknowledgement.
        let network = |behind: usize| -> Vec<u8> {
            let udp = (8 + behind + 4) as u16;
            let ip = (20 + udp).to_be_bytes();
            let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
            frame.extend([0x45, 0, ip[0], ip[1], 0, 0, 0x40, 0, 64, 17, 0, 0]);
            let sum = |bytes: &[u8]| -> u32 {
                let pairs = bytes.chunks(2);
                pairs
                    .map(|two| u32::from(u16::from_be_bytes([two[0], two[1]])))
                    .sum()
            };
            let addresses = [10, 0, 0, 1, 10, 0, 0, 2];
            let total = sum(&frame[14..]) + sum(&addresses);
            let folded = !(((total >> 16) + (total & 0xffff)) as u16);
            frame[24..26].copy_from_slice(&folded.to_be_bytes());
            frame.extend(addresses);
            frame.extend(0xc123u16.to_be_bytes());
            frame.extend(4791u16.to_be_bytes());
            frame.extend(udp.to_be_bytes());
            frame.extend([0, 0]);
            frame
        };
        let packet = |transport: &[u8]| -> Vec<u8> {
            let mut frame = network(transport.len());
            frame.extend(transport);
            frame.extend([0; 4]);
            frame
        };
        let mut write = vec![0x0a, 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0x80, 0, 0, 5];
        write.extend(0x7f00_1000u64.to_be_bytes());
        write.extend(0x105u32.to_be_bytes());
        write.extend(8u32.to_be_bytes());
        write.extend([1; 8]);
        let told = describe(&packet(&write));
        let want =
            "to queue pair 0x11, PSN 5, message of 8 bytes at 0x7f001000, key 0x105, 8 bytes";
        assert!(
            told.contains(want) && told.starts_with("WRITE ONLY"),
            "{told}"
        );
        let ack = [
            0x11, 0x40, 0xff, 0xff, 0, 0, 0, 0x11, 0, 0, 0, 5, 0x1f, 0, 0, 3,
        ];
        let told = describe(&packet(&ack));
        assert!(told.ends_with("PSN 5, acknowledged, MSN 3"), "{told}");
        // Behind a tag it says the same.
        let untagged = packet(&write);
        let mut tagged = untagged.clone();
        tagged.splice(12..12, [0x81, 0, 0x71, 0x23]);
        assert_eq!(describe(&tagged), describe(&untagged));
        for cut in 0..write.len() {
            describe(&packet(&write[..cut]));
        }
        assert_eq!(describe(&[0; 60]), "not a packet of the transport");
    }
}
