//! Reading captures, record by record.

use std::io::Read;

use super::{CaptureError, ETHERNET, MAX_RECORD_BYTES};

/// A captured frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record<'a> {
    /// When it was captured, in nanoseconds since 1970.
    pub timestamp_ns: u64,
    /// Bytes of the frame on the wire; more than `bytes` holds if the capture was limited.
    pub original_length: u32,
    /// The bytes that were kept.
    pub bytes: &'a [u8],
}

/// Reads a pcap or pcapng stream, whichever it is, of either byte order.
pub struct Reader<R> {
    source: R,
    offset: u64,
    big_endian: bool,
    kind: Kind,
    buffer: Vec<u8>,
}

enum Kind {
    /// Nanoseconds in a tick of the fraction.
    Pcap {
        tick_ns: u64,
    },
    Pcapng {
        interfaces: Vec<Interface>,
    },
}

#[derive(Clone, Copy)]
struct Interface {
    link_type: u16,
    snap_length: u32,
    /// Ticks in a second.
    ticks: u64,
    offset_s: i64,
}

const PCAP_MICROS: u32 = 0xa1b2_c3d4;
const PCAP_NANOS: u32 = 0xa1b2_3c4d;
const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const OLD_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const OPTION_RESOLUTION: u16 = 9;
const OPTION_OFFSET: u16 = 14;
const MAX_INTERFACES: usize = 4096;

impl<R: Read> Reader<R> {
    /// Reads the head of the stream.
    ///
    /// # Errors
    /// [`CaptureError`]: not a capture, cut, or not Ethernet.
    pub fn new(source: R) -> Result<Self, CaptureError> {
        let mut reader = Self {
            source,
            offset: 0,
            big_endian: false,
            kind: Kind::Pcap { tick_ns: 1 },
            buffer: Vec::new(),
        };
        if !reader.fill(4)? {
            return Err(CaptureError::Cut { offset: 0 });
        }
        let magic = reader.u32_at(0)?;
        for (value, big_endian) in [(magic, false), (magic.swap_bytes(), true)] {
            reader.big_endian = big_endian;
            match value {
                PCAP_MICROS => return reader.start_pcap(1000),
                PCAP_NANOS => return reader.start_pcap(1),
                SECTION => {
                    reader.kind = Kind::Pcapng {
                        interfaces: Vec::new(),
                    };
                    reader.section(0)?;
                    return Ok(reader);
                }
                _ => {}
            }
        }
        Err(CaptureError::Magic(magic.swap_bytes()))
    }

    fn start_pcap(mut self, tick_ns: u64) -> Result<Self, CaptureError> {
        if !self.fill(20)? {
            return Err(CaptureError::Cut { offset: 0 });
        }
        let link_type = self.u32_at(16)? as u16;
        if link_type != ETHERNET {
            return Err(CaptureError::LinkType(link_type));
        }
        self.kind = Kind::Pcap { tick_ns };
        Ok(self)
    }

    /// The next frame; nothing at the end.
    ///
    /// # Errors
    /// [`CaptureError`]; what follows cannot be read either.
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        match self.kind {
            Kind::Pcap { tick_ns } => self.next_pcap(tick_ns),
            Kind::Pcapng { .. } => self.next_pcapng(),
        }
    }

    fn next_pcap(&mut self, tick_ns: u64) -> Result<Option<Record<'_>>, CaptureError> {
        let offset = self.offset;
        if !self.fill(16)? {
            return Ok(None);
        }
        let seconds = u64::from(self.u32_at(0)?);
        let timestamp_ns = seconds * 1_000_000_000 + u64::from(self.u32_at(4)?) * tick_ns;
        let (length, original_length) = (self.u32_at(8)? as usize, self.u32_at(12)?);
        if length > MAX_RECORD_BYTES {
            return Err(CaptureError::Record {
                offset,
                problem: "longer than any frame",
            });
        }
        if !self.fill(length)? && length > 0 {
            return Err(CaptureError::Cut { offset });
        }
        Ok(Some(Record {
            timestamp_ns,
            original_length,
            bytes: &self.buffer,
        }))
    }

    fn next_pcapng(&mut self) -> Result<Option<Record<'_>>, CaptureError> {
        loop {
            let offset = self.offset;
            if !self.fill(4)? {
                return Ok(None);
            }
            let kind = self.u32_at(0)?;
            if kind == SECTION || kind.swap_bytes() == SECTION {
                self.section(offset)?;
                continue;
            }
            self.block(offset)?;
            let found = match kind {
                INTERFACE => {
                    self.interface(offset)?;
                    None
                }
                ENHANCED_PACKET => Some(self.packet(offset, 20, self.u32_at(0)?)?),
                OLD_PACKET => Some(self.packet(offset, 20, u32::from(self.u16_at(0)?))?),
                SIMPLE_PACKET => Some(self.simple_packet(offset)?),
                _ => None,
            };
            if let Some((timestamp_ns, original_length, start, length)) = found {
                let bytes = self.buffer.get(start..start + length);
                let problem = "the packet is longer than its block";
                let bytes = bytes.ok_or(CaptureError::Record { offset, problem })?;
                return Ok(Some(Record {
                    timestamp_ns,
                    original_length,
                    bytes,
                }));
            }
        }
    }

    /// A section's header, whose type was read: byte order, and all interfaces forgotten.
    fn section(&mut self, offset: u64) -> Result<(), CaptureError> {
        if !self.fill(8)? {
            return Err(CaptureError::Cut { offset });
        }
        self.big_endian = false;
        self.big_endian = match self.u32_at(4)? {
            BYTE_ORDER => false,
            other if other.swap_bytes() == BYTE_ORDER => true,
            _ => {
                return Err(CaptureError::Record {
                    offset,
                    problem: "the byte order is unknown",
                });
            }
        };
        let length = self.u32_at(0)? as usize;
        self.kind = Kind::Pcapng {
            interfaces: Vec::new(),
        };
        self.body(offset, length, 12)
    }

    /// Any other block, whose type was read: its body comes to the buffer.
    fn block(&mut self, offset: u64) -> Result<(), CaptureError> {
        if !self.fill(4)? {
            return Err(CaptureError::Cut { offset });
        }
        let length = self.u32_at(0)? as usize;
        self.body(offset, length, 8)
    }

    /// The rest of a block of `length` bytes of which `read` were read; the trailer is cut off.
    fn body(&mut self, offset: u64, length: usize, read: usize) -> Result<(), CaptureError> {
        let wrong = |problem| CaptureError::Record { offset, problem };
        if length < read + 4 || !length.is_multiple_of(4) {
            return Err(wrong("the block's length is impossible"));
        }
        if length > MAX_RECORD_BYTES + 4096 {
            return Err(wrong("longer than any frame"));
        }
        if !self.fill(length - read)? {
            return Err(CaptureError::Cut { offset });
        }
        let end = self.buffer.len() - 4;
        if self.u32_at(end)? as usize != length {
            return Err(wrong("the block's two lengths differ"));
        }
        self.buffer.truncate(end);
        Ok(())
    }

    fn interface(&mut self, offset: u64) -> Result<(), CaptureError> {
        let mut interface = Interface {
            link_type: self.u16_at(0)?,
            snap_length: self.u32_at(4)?,
            ticks: 1_000_000,
            offset_s: 0,
        };
        let mut at = 8;
        while let (Ok(code), Ok(length)) = (self.u16_at(at), self.u16_at(at + 2)) {
            let value = self.buffer.get(at + 4..at + 4 + usize::from(length));
            match (code, value) {
                (0, _) => break,
                (OPTION_RESOLUTION, Some(&[resolution])) => {
                    interface.ticks = ticks(resolution).ok_or(CaptureError::Record {
                        offset,
                        problem: "the time resolution is impossible",
                    })?;
                }
                (OPTION_OFFSET, Some(value)) => {
                    if let Ok(bytes) = <[u8; 8]>::try_from(value) {
                        interface.offset_s = match self.big_endian {
                            true => i64::from_be_bytes(bytes),
                            false => i64::from_le_bytes(bytes),
                        };
                    }
                }
                _ => {}
            }
            at += 4 + usize::from(length).next_multiple_of(4);
        }
        if let Kind::Pcapng { interfaces } = &mut self.kind {
            if interfaces.len() >= MAX_INTERFACES {
                return Err(CaptureError::Record {
                    offset,
                    problem: "too many interfaces",
                });
            }
            interfaces.push(interface);
        }
        Ok(())
    }

    fn described(&self, offset: u64, number: u32) -> Result<Interface, CaptureError> {
        let Kind::Pcapng { interfaces } = &self.kind else {
            return Err(CaptureError::Magic(0));
        };
        let problem = "the packet's interface was not described";
        let interface = interfaces.get(number as usize);
        let interface = *interface.ok_or(CaptureError::Record { offset, problem })?;
        if interface.link_type != ETHERNET {
            return Err(CaptureError::LinkType(interface.link_type));
        }
        Ok(interface)
    }

    /// Time, original length, start and length of a packet block with a head of `head` bytes.
    fn packet(
        &self,
        offset: u64,
        head: usize,
        interface: u32,
    ) -> Result<(u64, u32, usize, usize), CaptureError> {
        let interface = self.described(offset, interface)?;
        let stamp = u64::from(self.u32_at(4)?) << 32 | u64::from(self.u32_at(8)?);
        let nanos = u128::from(stamp) * 1_000_000_000 / u128::from(interface.ticks);
        let shift = i128::from(interface.offset_s) * 1_000_000_000;
        let timestamp_ns = u64::try_from(nanos as i128 + shift).unwrap_or(0);
        Ok((
            timestamp_ns,
            self.u32_at(16)?,
            head,
            self.u32_at(12)? as usize,
        ))
    }

    fn simple_packet(&self, offset: u64) -> Result<(u64, u32, usize, usize), CaptureError> {
        let interface = self.described(offset, 0)?;
        let original = self.u32_at(0)?;
        let kept = match interface.snap_length {
            0 => original,
            limit => original.min(limit),
        };
        Ok((0, original, 4, kept as usize))
    }

    /// The next `length` bytes to the buffer; false at the very end of the stream.
    fn fill(&mut self, length: usize) -> Result<bool, CaptureError> {
        let offset = self.offset;
        self.buffer.clear();
        self.buffer.resize(length, 0);
        let mut filled = 0;
        while let Some(rest) = self
            .buffer
            .get_mut(filled..)
            .filter(|rest| !rest.is_empty())
        {
            match self.source.read(rest) {
                Ok(0) if filled == 0 => return Ok(false),
                Ok(0) => return Err(CaptureError::Cut { offset }),
                Ok(count) => filled += count,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(source) => {
                    let action = format!("cannot read at byte {offset}");
                    return Err(CaptureError::File { action, source });
                }
            }
        }
        self.offset += length as u64;
        Ok(true)
    }

    fn short(&self) -> CaptureError {
        CaptureError::Record {
            offset: self.offset,
            problem: "shorter than its fields",
        }
    }

    fn u32_at(&self, at: usize) -> Result<u32, CaptureError> {
        let bytes = self.buffer.get(at..).and_then(|rest| rest.first_chunk());
        let bytes: [u8; 4] = *bytes.ok_or_else(|| self.short())?;
        Ok(if self.big_endian {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        })
    }

    fn u16_at(&self, at: usize) -> Result<u16, CaptureError> {
        let bytes = self.buffer.get(at..).and_then(|rest| rest.first_chunk());
        let bytes: [u8; 2] = *bytes.ok_or_else(|| self.short())?;
        Ok(if self.big_endian {
            u16::from_be_bytes(bytes)
        } else {
            u16::from_le_bytes(bytes)
        })
    }
}

/// Ticks in a second, by the option's byte: a power of ten, or of two if the top bit is set.
fn ticks(resolution: u8) -> Option<u64> {
    let power = u32::from(resolution & 0x7f);
    if resolution & 0x80 == 0 {
        10u64.checked_pow(power)
    } else {
        2u64.checked_pow(power)
    }
}
