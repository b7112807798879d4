//! Several warps that run an end: whose a connection is, and that what is written comes out.

use warpwire_engine::Crew;
use warpwire_engine::streams::tables::{ABORT, CLOSED, RELEASE};

use crate::ends::{End, Plan};
use crate::exact::{Talk, bytes};
use crate::net::{Faults, Net};
use crate::wires::{Client, Memif, Mlx5, Server, Wire, Xdp};

/// Connections between ends of so many warps, which each have some bytes both ways.
fn check<W: Wire>(warps: [u32; 2], seed: u64, count: u16, amount: usize, faults: Faults) {
    let plans = warps.map(|warps| Plan {
        warps,
        places: PLACES,
        chunks: 2 * PLACES,
        chunk_bytes: 1 << 12,
        accepts: PLACES,
        config: warpwire_protocols::tcp::Config {
            receive_bytes: 1 << 12,
            send_bytes: 1 << 12,
            ..Plan::default().config
        },
        ..Plan::default()
    });
    let mut net = Net::<W>::of(&plans, seed, false);
    net.ends[1].listen(&net.clock, 0, 80, 64);
    net.faults = faults;
    let mut talks: Vec<[Talk; 2]> = Vec::new();
    for number in 0..count {
        let port = 40_000 + number;
        let path = net.ends[0].path_to(&net.ends[1], port);
        let back = net.ends[1].path_to(&net.ends[0], 80);
        let owners = [
            net.ends[0].owner(&path, 80),
            net.ends[1].owner(&back, u32::from(port)),
        ];
        let places = net.connected(port);
        for (place, owner) in places.iter().zip(owners) {
            assert_eq!(
                place / PLACES,
                owner as u32,
                "is where its segments come to"
            );
        }
        let talk = |end: usize| {
            let bytes = bytes(u32::from(number) * 2 + end as u32, amount);
            Talk::new(places[end], bytes)
        };
        talks.push([talk(0), talk(1)]);
    }
    net.until(600, |ends| {
        let mut done = true;
        for pair in &mut talks {
            for (talk, end) in pair.iter_mut().zip(&mut *ends) {
                done &= talk.step(end, 5001);
            }
        }
        done
    });
    for [one, other] in &talks {
        assert!(one.read == other.to_write && other.read == one.to_write);
    }
    for (place, end) in net.ends.iter_mut().enumerate() {
        talks
            .iter()
            .for_each(|pair| end.wish(pair[place].place(), RELEASE));
        let counters = end.counters();
        assert_eq!((counters.connected, counters.failed), (u64::from(count), 0));
        // No owner is without work, and none has it all.
        for owner in 0..end.owners() as usize {
            assert!(end.counters_of(owner).connected > 0, "owner {owner}");
        }
    }
    net.check_all(&plans);
}

/// Of each owner.
const PLACES: u32 = 256;

#[test]
fn each_connection_is_its_owners_over_every_format() {
    check::<Memif<Client>>([2, 2], 1, 24, 40_000, Faults::NONE);
    check::<Memif<Server>>([3, 1], 2, 24, 40_000, Faults::NONE);
    check::<Xdp>([1, 3], 3, 24, 40_000, Faults::NONE);
    check::<Mlx5<1>>([4, 4], 4, 24, 40_000, Faults::NONE);
    check::<Mlx5<4>>([4, 2], 5, 24, 40_000, Faults::NONE);
}

#[test]
fn whatever_the_network_does_to_a_crew() {
    for seed in 0..8 {
        let faults = Faults {
            loss: [1, 10, 50, 0][seed as usize % 4],
            doubles: 20,
            reorders: 30,
            corrupts: 10,
        };
        let warps = [[2, 4], [4, 4], [5, 1], [1, 3]][seed as usize % 4];
        check::<Memif<Client>>(warps, seed, 24, 20_000, faults);
    }
}

#[test]
fn a_crew_without_its_board_or_its_tables_is_refused() {
    let end = |warps| {
        let plan = Plan {
            warps,
            ..Plan::default()
        };
        End::<Memif<Client>>::new(&plan, 1, false)
    };
    let (alone, pair, three) = (end(1), end(2), end(3));
    for (end, blocks, warps, want) in [
        (&alone, 1, 1, true),
        (&alone, 0, 1, false),
        (&alone, 1, 2, false),
        (&pair, 1, 2, true),
        // Tables of a crew do for one warp, too.
        (&pair, 1, 1, true),
        (&pair, 1, 3, false),
        (&three, 2, 3, true),
        (&three, 1, 3, false),
        (&three, 2, 2, false),
        (&three, 2, 33, false),
    ] {
        let all = Crew::all(warps).map(|crew| end.is_attachable(blocks, crew));
        let all: Vec<bool> = all.collect();
        assert!(
            all.iter().all(|one| *one == want),
            "{blocks} for {warps}: {all:?}"
        );
    }
}

#[test]
fn as_many_warps_as_there_may_be() {
    check::<Memif<Client>>([32, 1], 1, 250, 1_000, Faults::NONE);
}

#[test]
fn what_an_owner_may_not_send_now_is_sent_later() {
    // Two slots to send by, four owners that all want to.
    let plan = Plan {
        warps: 5,
        ..Plan::default()
    };
    let mut net = Net::<Memif<Client>>::new(&plan, 1, false);
    net.ends[1].listen(&net.clock, 0, 80, 8);
    let places: Vec<[u32; 2]> = (0..8)
        .map(|number| net.connected(40_000 + number))
        .collect();
    for end in [0, 1] {
        for pair in &places {
            net.ends[end].write(pair[end], b"all the same");
            net.ends[end].wish(pair[end], ABORT | RELEASE);
        }
    }
    net.until(60, |ends| {
        let mut all = places.iter().flatten().zip([0, 1].into_iter().cycle());
        all.all(|(place, end)| {
            ends[end].generation(*place) == 0 || ends[end].flags(*place) & CLOSED != 0
        })
    });
    net.check_ends(&plan);
}
