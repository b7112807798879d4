//! The NIC's half of ConnectX queues, over rings that a hostile driver writes.
#![expect(unsafe_code, reason = "owns the memory that the NIC's keys open")]

use warpwire_ring::device_memory::{DeviceMemory, Grant, KeyTable, Place};
use warpwire_ring::mlx5::device::{CompletionQueue, Cursor, ReceiveQueue, SendQueue, Wqe};
use warpwire_ring::mlx5::layout::{Cqe, CqeOpcode, wqebbs};
use warpwire_ring::{DeviceAddress, Location, Region};

use super::wires::{Pages, put_bytes};
use crate::choices::Choices;

/// The bytes are what a driver writes to its rings, and what the NIC does in between.
pub fn check(data: &[u8]) {
    let mut choices = Choices::new(data);
    let Some(start) = choices.one(&super::STARTS) else {
        return;
    };
    let mut stand = Stand::new(start);
    // Every step takes bytes, so there are never more steps than bytes.
    while stand.step(&mut choices).is_some() {}
    stand.pages.check_marks();
}

struct Stand {
    pages: Pages,
    rings: DeviceAddress,
    grants: [Option<Grant>; 3],
    send: SendQueue,
    receive: ReceiveQueue,
    completions: CompletionQueue,
}

impl Stand {
    fn new(start: u64) -> Self {
        let mut pages = Pages::new(16 << 10);
        let mut grant = |bytes: u64, key: u32, writable: bool| {
            let region = Region {
                address: pages.cut(bytes as usize, 128),
                length: bytes,
                key,
                location: Location::Device,
            };
            Some(Grant { region, writable })
        };
        let grants = [
            grant(RINGS, KEY, true),
            grant(512, 0x0107, true),
            grant(512, 0x0203, false),
        ];
        let rings = grants[0].map_or(DeviceAddress::NULL, |grant| grant.region.address);
        let place = |at: u64| Place {
            key: KEY,
            address: rings.offset(at),
        };
        let (sends, receives) = (place(SENDS), place(RECEIVES));
        let (record, doorbell) = (place(RECORD), place(DOORBELL));
        let completions = CompletionQueue::new(place(COMPLETIONS), place(CONSUMER), LOG_DEPTH);
        Self {
            pages,
            rings,
            grants,
            send: SendQueue::new(sends, record, doorbell, NUMBER, LOG_DEPTH).at(start),
            receive: ReceiveQueue::new(receives, record, NUMBER, LOG_DEPTH, 2).at(start),
            completions: completions.at(start),
        }
    }

    fn step(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        match choices.below(6)? {
            0 => {
                let at = u64::from(choices.u32()?) % (RINGS / 4) * 4;
                put_bytes(&choices.u32()?.to_be_bytes(), self.rings.offset(at));
            }
            1 => self.post(choices)?,
            2 => {
                // What a driver's `ring` writes: index and number in one word.
                let word = u64::from(choices.u32()?.to_be()) | u64::from(choices.u32()?) << 32;
                put_bytes(&word.to_le_bytes(), self.rings.offset(DOORBELL));
            }
            3 => self.transmit(),
            4 => self.receive(choices.below(200)?),
            _ => self.complete(choices.u32()?),
        }
        Some(())
    }

    /// Writes a whole basic block, its head such that it can be the next, and rings for it.
    fn post(&mut self, choices: &mut Choices<'_>) -> Option<()> {
        let index = self.send.next().wrapping_add(u64::from(choices.below(4)?));
        let at = SENDS + index % (1 << LOG_DEPTH) * 64;
        let opcode = u32::from(choices.byte()?);
        let segments = u32::from(choices.byte()?);
        let head = [(index as u16 as u32) << 8 | opcode, NUMBER << 8 | segments];
        for (place, word) in (0..).zip(head) {
            put_bytes(&word.to_be_bytes(), self.rings.offset(at + place * 4));
        }
        for place in 2..16 {
            let word = match choices.below(3)? {
                0 => 0,
                1 => u32::from(choices.byte()?),
                _ => choices.u32()?,
            };
            put_bytes(&word.to_be_bytes(), self.rings.offset(at + place * 4));
        }
        // An address of the NIC's memory, which no bytes of a corpus could name.
        if let Some(Some(grant)) = self.grants.get(choices.below(4)? as usize) {
            let address = grant.region.address.offset(u64::from(choices.byte()?));
            let segment = u64::from(choices.below(2)?) * 16 + 32;
            put_bytes(
                &grant.region.key.to_be_bytes(),
                self.rings.offset(at + segment + 4),
            );
            let place = self.rings.offset(at + segment + 8);
            put_bytes(&address.value().to_be_bytes(), place);
        }
        let blocks = u64::from(wqebbs(segments & 0x3f));
        let end = index.wrapping_add(blocks) as u16;
        put_bytes(&u32::from(end).to_be_bytes(), self.rings.offset(RECORD + 4));
        let doorbell = head.map(u32::to_be_bytes).concat();
        put_bytes(&doorbell, self.rings.offset(DOORBELL));
        Some(())
    }

    fn transmit(&mut self) {
        // SAFETY: the regions are our own memory, used by one thread.
        let table = unsafe { KeyTable::new(&self.grants) };
        if let Ok(Some(doorbell)) = self.send.rung(&table) {
            let _ = self.send.accept(&table, doorbell);
        }
        let pending = self.send.pending();
        assert!(pending <= 1 << LOG_DEPTH, "more is pending than there is");
        for _ in 0..pending {
            if self.send.pending() == 0 {
                break;
            }
            let before = self.send.next();
            match self.send.fetch(&table) {
                Ok(wqe) => {
                    walk(&self.send, &table, &wqe);
                    self.send.advance(&wqe);
                }
                Err(_) => self.send.skip(),
            }
            assert_ne!(self.send.next(), before, "a queue that stands still");
        }
        assert_eq!(self.send.pending(), 0, "a queue that does not run dry");
    }

    fn receive(&mut self, length: u32) {
        // SAFETY: the regions are our own memory, used by one thread.
        let table = unsafe { KeyTable::new(&self.grants) };
        let Ok(posted) = self.receive.posted(&table) else {
            return;
        };
        assert!(posted <= 1 << LOG_DEPTH, "more is posted than there is");
        if posted == 0 {
            return;
        }
        for part in 0..5 {
            let Ok(Some(piece)) = self.receive.piece(&table, part) else {
                break;
            };
            assert!(part < 4 && piece.length > 0, "{piece:?}");
            let bytes = vec![0x5a; piece.length.min(length) as usize];
            let _ = table.write(piece.place, &bytes);
        }
        self.receive.advance();
    }

    fn complete(&mut self, counter: u32) {
        // SAFETY: the regions are our own memory, used by one thread.
        let table = unsafe { KeyTable::new(&self.grants) };
        let cqe = Cqe::new(CqeOpcode::REQUEST, counter.into());
        let before = self.completions.produced();
        let written = self.completions.write(&table, &cqe).is_ok();
        let after = before + u64::from(written);
        assert_eq!(self.completions.produced(), after);
    }
}

/// Reads all pieces of a send, as a NIC that puts them on a wire does.
fn walk(send: &SendQueue, table: &KeyTable<'_>, wqe: &Wqe) {
    let mut cursor = Cursor::default();
    let mut pieces = 0;
    let mut bytes = [0; 256];
    while let Ok(Some(piece)) = send.piece(table, wqe, &mut cursor) {
        assert!(piece.length > 0, "an empty piece");
        let here = bytes.len().min(piece.length as usize);
        let _ = table.read(piece.place, &mut bytes[..here]);
        pieces += 1;
        // Each segment is a piece, and inline ones that wrap around the ring are two.
        assert!(pieces <= 128, "a send of endless pieces");
    }
    if let Some(piece) = wqe.only_piece() {
        assert!(piece.length > 0, "an empty piece");
    }
}

const KEY: u32 = 0x0042;
const NUMBER: u32 = 0x00ab_cdef;
const LOG_DEPTH: u32 = 3;

/// Where things lie in the region of the rings.
const SENDS: u64 = 0;
const RECEIVES: u64 = 512;
const COMPLETIONS: u64 = 1024;
const RECORD: u64 = 1536;
const DOORBELL: u64 = 1544;
const CONSUMER: u64 = 1552;
const RINGS: u64 = 1560;
