//! Every kernel one lane wide and 32 lanes wide, over queues of every format: the same frames
//! leave, the same counts stay.

use warpwire_bench::parity::{self, Case, Machine};
use warpwire_core::kernels::entries;

#[test]
fn kernels_of_32_lanes_do_as_one_lane_does() {
    let mut cases = parity::kernels(parity::rows().map(|row| row.name), &parity::corpus());
    let seeds_of = |case: &Case| match case.subject.split('_').next() {
        // As many lanes as warps times 32 meet.
        _ if is_of_several_warps(case) => 3,
        Some("pipeline" | "transport" | "streams" | "serve" | "carry" | "gather") => 16,
        Some("perform") => 6,
        _ => 64,
    };
    let mut verdicts = Vec::new();
    for seeds in [64, 16, 6, 3] {
        let with_so_many = |case: &Case| seeds_of(case) == seeds;
        let (now, later): (Vec<_>, Vec<_>) = cases.into_iter().partition(with_so_many);
        verdicts.extend(parity::run_all(
            &now,
            &Machine::LOCKSTEP,
            0..seeds,
            2,
            |_| {},
        ));
        cases = later;
    }
    assert_eq!(
        verdicts.len(),
        54,
        "36 kernels, nine of them over two kinds of queues, one with five services, streams \
         also by several warps"
    );
    let failed: Vec<_> = verdicts
        .iter()
        .filter(|verdict| verdict.failure.is_some())
        .collect();
    assert!(failed.is_empty(), "{failed:#?}");
}

fn is_of_several_warps(case: &Case) -> bool {
    case.over.ends_with("warps")
}

#[test]
fn streams_of_several_warps_do_as_those_of_one() {
    let names = entries::streams().iter().map(|row| row.name);
    let cases = parity::kernels(names, &parity::corpus());
    let of_crews = cases.iter().filter(|case| is_of_several_warps(case));
    let mut count = 0;
    for case in of_crews {
        let verdict = case.run(&Machine::SCALAR, 0..6);
        assert!(verdict.failure.is_none(), "{verdict:#?}");
        count += 1;
    }
    assert_eq!(count, 5, "one for each kind of queues");
}

#[test]
fn a_kernel_without_comparison_and_one_that_is_absent_fail() {
    let names = entries::measuring().iter().map(|row| row.name);
    let cases = parity::kernels(names.chain(["mac_swap_carrier_pigeon"]), &parity::corpus());
    let failed = |name: &str| {
        let of_name = cases.iter().filter(|case| case.subject == name);
        let verdicts: Vec<_> = of_name
            .map(|case| case.run(&Machine::LOCKSTEP, 0..1))
            .collect();
        assert_eq!(verdicts.len(), 1, "{name}");
        verdicts[0]
            .failure
            .as_ref()
            .map(|failure| failure.what.clone())
    };
    let words = failed("mac_swap_carrier_pigeon").expect("fails");
    assert!(words.contains("no comparison"), "{words}");
    let words = failed("pipeline_mlx5").expect("fails");
    assert!(words.contains("no such entry point"), "{words}");
    assert_eq!(failed("mac_swap_xdp"), None);
}
