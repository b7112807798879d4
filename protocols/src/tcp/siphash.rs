//! SipHash-2-4 ("SipHash: a fast short-input PRF", Aumasson and Bernstein, 2012, section 2).

/// A hash of words of 64 bits under way.
#[derive(Clone, Copy)]
pub(super) struct SipHash {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl SipHash {
    pub(super) const fn new(key: [u64; 2]) -> Self {
        let [k0, k1] = key;
        Self {
            v0: k0 ^ 0x736f_6d65_7073_6575,
            v1: k1 ^ 0x646f_7261_6e64_6f6d,
            v2: k0 ^ 0x6c79_6765_6e65_7261,
            v3: k1 ^ 0x7465_6462_7974_6573,
        }
    }

    /// Takes eight bytes, the first one lowest.
    pub(super) const fn word(mut self, word: u64) -> Self {
        self.v3 ^= word;
        self = self.round().round();
        self.v0 ^= word;
        self
    }

    /// Takes the last word: the length of all in bytes in its highest byte, and below the bytes
    /// that fill no word.
    pub(super) const fn finish(self, last: u64) -> u64 {
        let mut end = self.word(last);
        end.v2 ^= 0xff;
        let end = end.round().round().round().round();
        end.v0 ^ end.v1 ^ end.v2 ^ end.v3
    }

    const fn round(mut self) -> Self {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v2 = self.v2.rotate_left(32);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The key of the paper's appendix A and of the reference vectors: bytes 00 to 0f.
    const KEY: [u64; 2] = [0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908];

    fn of(bytes: &[u8]) -> u64 {
        let (words, rest) = bytes.as_chunks::<8>();
        let hash = words.iter().fold(SipHash::new(KEY), |hash, word| {
            hash.word(u64::from_le_bytes(*word))
        });
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        last[7] = bytes.len() as u8;
        hash.finish(u64::from_le_bytes(last))
    }

    /// Of the messages 00, 00 01, 00 01 02 and so on: the table that the authors publish with the
    /// reference implementation, and of 15 bytes the paper's own example.
    #[test]
    fn published_vectors() {
        let cases: [(usize, u64); 6] = [
            (0, 0x726f_db47_dd0e_0e31),
            (1, 0x74f8_39c5_93dc_67fd),
            (2, 0x0d6c_8009_d9a9_4f5a),
            (7, 0xab02_00f5_8b01_d137),
            (8, 0x93f5_f579_9a93_2462),
            (15, 0xa129_ca61_49be_45e5),
        ];
        for (length, want) in cases {
            let message: Vec<u8> = (0..length as u8).collect();
            assert_eq!(of(&message), want, "{length} bytes");
        }
    }
}
