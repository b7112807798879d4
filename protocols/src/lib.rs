//! What bytes mean: headers, checksums and parsers, without I/O, clock or allocation.
