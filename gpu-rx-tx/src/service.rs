//! Host-side work that runs beside kernels: NIC device models, kick proxies, the slow path.

/// Something that is polled on one of the executor's threads.
pub trait Service: Send {
    /// What it is, for reports and for the watchdog.
    fn name(&self) -> &str;

    /// Does up to about `budget` units of work (frames, descriptors or kicks) and returns how many
    /// it did; 0 tells the executor that the service is idle. Never blocks.
    fn run(&mut self, budget: u32) -> u32;
}
