//! The CPU executor from outside: kernels, services, stops, stalls, lanes, virtual time, and its
//! speed.

mod launches;
mod lockstep;
mod scene;
mod services;
mod speed;
mod stops;
mod virtual_time;
