//! Receive leases, transmit credits, waits and warps for code that runs on a GPU or a CPU.
