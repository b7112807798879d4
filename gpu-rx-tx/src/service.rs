//! Host-side work that runs beside kernels: NIC device models, kick proxies, the slow path.

/// Something that is polled on one of the executor's threads.
pub trait Service: Send {
    /// What it is, for reports and for the watchdog.
    fn name(&self) -> &str;

    /// Does up to about `budget` units of work (frames, descriptors or kicks) and returns how many
    /// it did; 0 tells the executor that the service is idle. Never blocks.
    fn run(&mut self, budget: u32) -> u32;

    /// In virtual time: when the service has its next event (a timed arrival, a delayed frame), in
    /// nanoseconds of the executor's clock. While everything else is idle, time goes there in large
    /// steps and never past it. Real time ignores it.
    fn next_event_ns(&self) -> Option<u64> {
        None
    }
}
