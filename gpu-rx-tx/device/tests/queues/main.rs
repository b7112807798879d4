//! Receive leases, transmit credits and waits over the rings of every format, at width 1.
//!
//! `wires` has the queues of each format with the format's other half as the NIC; each test runs
//! over all of them.

mod desk;
mod ground;
mod hostile;
mod model;
mod payload;
mod random;
mod receive;
mod transmit;
mod waits;
mod wires;

/// A test for each format: `each! { name }` runs `check::name::<W>()` for every wire `W`.
macro_rules! each {
    ($($name:ident),* $(,)?) => { $(
        mod $name {
            #[test]
            fn memif_client() {
                super::check::$name::<crate::wires::Memif<crate::wires::Client>>();
            }

            #[test]
            fn memif_server() {
                super::check::$name::<crate::wires::Memif<crate::wires::Server>>();
            }

            #[test]
            fn xdp() {
                super::check::$name::<crate::wires::Xdp>();
            }

            #[test]
            fn mlx5() {
                super::check::$name::<crate::wires::Mlx5<1>>();
            }

            #[test]
            fn mlx5_scattered() {
                super::check::$name::<crate::wires::Mlx5<4>>();
            }
        }
    )* };
}
pub(crate) use each;
