//! Capture files: any bytes are records or an error, and records that are written are read back.

use warpwire_nic::pcap::{Format, MAX_RECORD_BYTES, Reader, Writer};

/// `data` is a capture file.
pub fn check(data: &[u8]) {
    let Ok(mut reader) = Reader::new(data) else {
        return;
    };
    let mut records = Vec::new();
    // Every record takes bytes from the file, so there are never more records than bytes.
    for _ in 0..=data.len() {
        match reader.next_record() {
            Ok(Some(record)) => {
                assert!(record.bytes.len() <= MAX_RECORD_BYTES);
                records.push((
                    record.timestamp_ns,
                    record.original_length,
                    record.bytes.to_vec(),
                ));
            }
            Ok(None) => return comes_back(&records),
            Err(error) => {
                assert!(!error.to_string().is_empty());
                return;
            }
        }
    }
    panic!("more records than bytes");
}

type Owned = (u64, u32, Vec<u8>);

fn comes_back(records: &[Owned]) {
    for format in [Format::Pcap, Format::Pcapng] {
        let mut file = Vec::new();
        let mut writer = Writer::new(&mut file, format).expect("memory takes all");
        for (timestamp_ns, original, bytes) in records {
            let written = writer.write_cut(*timestamp_ns, bytes, *original);
            written.expect("memory takes all");
        }
        writer.flush().expect("memory takes all");
        let mut reader = Reader::new(file.as_slice()).expect("our own head");
        for (timestamp_ns, original, bytes) in records {
            let record = reader.next_record().expect("our own record");
            let record = record.expect("as many as were written");
            assert_eq!(
                (record.original_length, record.bytes),
                (*original, &bytes[..])
            );
            // pcap counts seconds in 32 bits.
            if format == Format::Pcapng || timestamp_ns / NS <= u64::from(u32::MAX) {
                assert_eq!(record.timestamp_ns, *timestamp_ns);
            }
        }
        assert!(matches!(reader.next_record(), Ok(None)));
    }
}

const NS: u64 = 1_000_000_000;
