//! Packet stages and the kernels made of them.
