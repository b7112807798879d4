//! Benchmarks, end-to-end tests, simulation and fuzzing.
