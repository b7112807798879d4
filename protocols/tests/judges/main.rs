//! What others say about the same bytes: scapy, etherparse, Linux Soft-RoCE and tcpdump's captures;
//! and what must hold for any bytes at all.

mod captures;
mod connections;
mod etherparse_agrees;
mod invariant_crc;
mod properties;
mod scapy_agrees;
