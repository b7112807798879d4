//! Memory arenas and the executors that run kernels.
