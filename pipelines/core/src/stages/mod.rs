//! The built-in stages, a file each.

pub mod classify;
pub mod count;
pub mod dns;
pub mod drop;
pub mod filter;
pub mod forward;
pub mod gather;
pub mod http;
pub mod reply;
pub mod respond;
pub mod rewrite;
pub mod sample;
pub mod spread;
pub mod verify;

/// Makes a [`StageSet`](crate::stage::StageSet) of the built-in stages and some more.
#[macro_export]
macro_rules! with_built_in_stages {
    ($(#[$meta:meta])* pub struct $name:ident; $($stage:ty),* $(,)?) => {
        $crate::stage_set! {
            $(#[$meta])*
            pub struct $name:
            $crate::stages::classify::Classify,
            $crate::stages::count::Count,
            $crate::stages::dns::Dns,
            $crate::stages::drop::Drop,
            $crate::stages::filter::Filter,
            $crate::stages::forward::Forward,
            $crate::stages::http::Http,
            $crate::stages::reply::Reply,
            $crate::stages::respond::Respond,
            $crate::stages::rewrite::Rewrite,
            $crate::stages::sample::Sample,
            $crate::stages::spread::Spread,
            $crate::stages::verify::Verify,
            $crate::stages::gather::Gather,
            $($stage,)*
        }
    };
}

crate::with_built_in_stages! {
    /// The built-in stages, in the order of the kernel's table.
    pub struct BuiltIn;
}

/// Lists a crate's own stages: makes the set `Stages` of them and the built-in ones, and the
/// kernels that run it. The one line that `warpwire kernel build` looks for, at the crate's root:
/// `warpwire_core::stages! { MyStage }`.
#[macro_export]
macro_rules! stages {
    ($($stage:ty),+ $(,)?) => {
        $crate::with_built_in_stages! {
            /// The built-in stages and those of this crate.
            pub struct Stages;
            $($stage),+
        }
        $crate::pipeline_kernels! {
            pub fn same, mixed: Stages
        }
    };
}
