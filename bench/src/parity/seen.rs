//! What can be seen of a run from outside, and how two runs differ.

use std::fmt::Debug;

use warpwire_gpu::Arena;
use warpwire_ring::DeviceAddress;

/// Frames that left, and everything that was counted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Seen {
    /// Frames, by where they left.
    sent: Vec<(String, Vec<Vec<u8>>)>,
    /// Figures by their names.
    facts: Vec<(String, String)>,
    /// Rows of counters by their names.
    counts: Vec<(&'static str, Vec<u64>)>,
    /// Memory of queues, see [`image`].
    memory: Vec<u8>,
}

impl Seen {
    pub(super) fn sent(&mut self, place: &str, frames: Vec<Vec<u8>>) {
        self.sent.push((place.to_owned(), frames));
    }

    pub(super) fn fact(&mut self, name: impl Into<String>, value: impl Debug) {
        self.facts.push((name.into(), format!("{value:?}")));
    }

    pub(super) fn counts(&mut self, name: &'static str, values: Vec<u64>) {
        self.counts.push((name, values));
    }

    /// Rings, tables, buffers and marks of a wire as they were left, and other memory.
    pub(super) fn memory(&mut self, arenas: &[&Arena]) {
        let whole = |arena: &&Arena| {
            let whole = arena.whole();
            image(arena, whole.address, whole.length, arenas)
        };
        self.memory = arenas.iter().flat_map(whole).collect();
    }

    /// More memory: some bytes of an arena, in which may stand addresses of `arenas`.
    pub(super) fn more(
        &mut self,
        (arena, first, length): (&Arena, DeviceAddress, u64),
        arenas: &[&Arena],
    ) {
        self.memory.extend(image(arena, first, length, arenas));
    }

    /// Where a run differs from the one on the CPU, in few words.
    pub(super) fn compare(&self, cpu: &Self) -> Result<(), String> {
        if self == cpu {
            return Ok(());
        }
        let mut words = Vec::new();
        for ((place, found), (_, want)) in self.sent.iter().zip(&cpu.sent) {
            if found.len() != want.len() {
                words.push(format!(
                    "{place}: {} frames, not {}",
                    found.len(),
                    want.len()
                ));
            }
            let pairs = found.iter().zip(want);
            if let Some(at) = pairs.clone().position(|(found, want)| found != want) {
                words.push(format!(
                    "{place}: frame {at}: {}",
                    bytes(&found[at], &want[at])
                ));
            }
        }
        let pairs = self.facts.iter().zip(&cpu.facts);
        let differs = pairs.filter(|(found, want)| found != want);
        words.extend(
            differs.map(|((name, found), (other, want))| match name == other {
                true => format!("{name}: {found}, not {want}"),
                false => format!("{name} in the place of {other}"),
            }),
        );
        for ((name, found), (_, want)) in self.counts.iter().zip(&cpu.counts) {
            let pairs = (0..).zip(found.iter().zip(want));
            let differs = pairs.filter(|(_, (found, want))| found != want);
            let word = |(place, (found, want))| format!("{name} {place}: {found}, not {want}");
            words.extend(differs.map(word).take(MOST_WORDS + 1));
        }
        if self.memory.len() != cpu.memory.len() {
            words.push("memory of the queues that only one of them has".to_owned());
        } else if self.memory != cpu.memory {
            words.push(format!("queues: {}", bytes(&self.memory, &cpu.memory)));
        }
        let lengths = |seen: &Self| {
            let counts = seen.counts.iter().map(|(_, counts)| counts.len());
            counts.sum::<usize>() + seen.facts.len()
        };
        if lengths(self) != lengths(cpu) {
            words.push(format!("{} figures, not {}", lengths(self), lengths(cpu)));
        }
        let more = words.len().saturating_sub(MOST_WORDS);
        words.truncate(MOST_WORDS);
        if more > 0 {
            words.push(format!("and {more} more"));
        }
        Err(words.join("; "))
    }
}

/// Bytes of an arena; addresses in any of `arenas`, of either byte order, are offsets, so that what
/// lies elsewhere can be compared.
fn image(arena: &Arena, first: DeviceAddress, length: u64, arenas: &[&Arena]) -> Vec<u8> {
    let mut image = vec![0; length as usize];
    arena.read(first, &mut image).expect("inside");
    let offset = |value: u64| {
        arenas.iter().zip(0u64..).find_map(|(arena, place)| {
            let whole = arena.whole();
            let at = value.checked_sub(whole.address.value())?;
            (at < whole.length).then_some(at | place << 56 | 1 << 63)
        })
    };
    for word in image.as_chunks_mut::<8>().0 {
        if let Some(at) = offset(u64::from_le_bytes(*word)) {
            *word = at.to_le_bytes();
        } else if let Some(at) = offset(u64::from_be_bytes(*word)) {
            *word = at.to_be_bytes();
        }
    }
    image
}

/// Where two frames differ.
fn bytes(found: &[u8], want: &[u8]) -> String {
    let pairs = found.iter().zip(want);
    match pairs.clone().position(|(found, want)| found != want) {
        None => format!("{} bytes, not {}", found.len(), want.len()),
        Some(at) => {
            let some = |frame: &[u8]| {
                let end = frame.len().min(at + 8);
                frame[at..end]
                    .iter()
                    .map(|byte| format!("{byte:02x}"))
                    .collect::<String>()
            };
            format!("from byte {at} on {}, not {}", some(found), some(want))
        }
    }
}

const MOST_WORDS: usize = 6;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_told() {
        let seen = |frames: &[&[u8]], facts: &[(&str, u64)]| {
            let mut seen = Seen::default();
            let frames = frames.iter().map(|frame| frame.to_vec()).collect();
            seen.sent("out", frames);
            for (name, value) in facts {
                seen.fact(*name, value);
            }
            seen
        };
        let check = |found: &Seen, cpu: &Seen, words: &str| {
            assert_eq!(found.compare(cpu), Err(words.to_owned()));
        };
        let one = seen(&[b"abc", b"abd"], &[("head", 3)]);
        assert_eq!(one.compare(&one), Ok(()));
        let other = seen(&[b"abc"], &[("head", 3)]);
        check(&other, &one, "out: 1 frames, not 2");
        let other = seen(&[b"abc", b"axx"], &[("head", 4)]);
        let words = "out: frame 1: from byte 1 on 7878, not 6264; head: 4, not 3";
        check(&other, &one, words);
        let other = seen(&[b"abc", b"ab"], &[("tail", 3), ("more", 0)]);
        let words = "out: frame 1: 2 bytes, not 3; tail in the place of head; 2 figures, not 1";
        check(&other, &one, words);
        let (mut one, mut other) = (Seen::default(), Seen::default());
        one.counts("frames", vec![1, 2, 3]);
        other.counts("frames", vec![1, 5, 3, 9]);
        check(&other, &one, "frames 1: 5, not 2; 4 figures, not 3");
    }
}
