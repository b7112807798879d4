//! Work queues in, packets out: protocol engines driven over rings.
