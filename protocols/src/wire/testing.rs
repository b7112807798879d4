//! What every header's tests share: `emit` writes every byte, and refuses a short buffer.

use super::BufferTooShort;
use std::vec::Vec;

/// Runs `emit` over buffers of zeros and of 0xA5, checks that it wrote the same `length` bytes and
/// nothing past them, and that one byte less is refused. Returns the bytes.
pub(crate) fn check_emit(
    length: usize,
    emit: impl Fn(&mut [u8]) -> Result<usize, BufferTooShort>,
) -> Vec<u8> {
    let mut zeros = vec![0x00; length + 8];
    let mut marks = vec![0xa5; length + 8];
    assert_eq!(emit(&mut zeros), Ok(length));
    assert_eq!(emit(&mut marks), Ok(length));
    assert_eq!(
        zeros[..length],
        marks[..length],
        "emit left a byte unwritten"
    );
    assert!(zeros[length..].iter().all(|byte| *byte == 0x00));
    assert!(marks[length..].iter().all(|byte| *byte == 0xa5));
    if length > 0 {
        let short = emit(&mut zeros[..length - 1]);
        assert_eq!(
            short,
            Err(BufferTooShort {
                need: length,
                have: length - 1
            })
        );
    }
    zeros.truncate(length);
    zeros
}

/// Bytes from hexadecimal text; spaces and line ends are skipped.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text
        .chars()
        .filter(|c| !c.is_whitespace())
        .map(|c| c.to_digit(16).expect("a hexadecimal digit") as u8)
        .collect();
    assert!(digits.len().is_multiple_of(2), "an odd number of digits");
    digits
        .chunks(2)
        .map(|pair| pair[0] << 4 | pair[1])
        .collect()
}
