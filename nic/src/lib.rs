//! Network interfaces behind one trait: software NIC, AF_XDP, memif.
