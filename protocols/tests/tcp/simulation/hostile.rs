//! A fabric that loses, doubles, reorders, delays and damages: the stream is exact.

use warpwire_protocols::tcp::{Config, Connection};

use super::foreign::{Foreign, Setting};
use super::ours::Ours;
use super::{Dice, Fabric, SEEDS, Side, User, Weather, World, every_seed};

/// A weather of this seed.
fn weather(dice: &mut Dice) -> Weather {
    Weather {
        loss: dice.one(&[0, 10, 100, 500]),
        doubling: dice.one(&[0, 0, 100, 1000]),
        damage: dice.one(&[0, 0, 50, 200]),
        delay: dice.one(&[0, 0, 300, 3000]),
        late_ns: dice.one(&[100_000, 3_000_000, 30_000_000]),
        marks: dice.one(&[0, 0, 100]),
        way_ns: dice.one(&[10_000, 1_000_000, 20_000_000]),
        byte_ns: dice.one(&[0, 8, 80]),
        gather_ns: dice.one(&[0, 0, 20_000, 200_000]),
        ..Weather::FINE
    }
}

/// A configuration of this seed.
fn config(dice: &mut Dice) -> Config {
    let usual = Config::of_mtu(dice.one(&[576, 1500, 1500, 9000]), false);
    Config {
        receive_bytes: 1 << (12 + dice.below(7)),
        send_bytes: 1 << (12 + dice.below(7)),
        no_delay: dice.happens(3000),
        sack: dice.happens(7000),
        timestamps: dice.happens(6000),
        window_scaling: dice.happens(8000),
        ecn: dice.happens(5000),
        delayed_ack_ns: dice.one(&[0, 40_000_000, 40_000_000]),
        ..usual
    }
}

fn users(dice: &mut Dice, seed: u64) -> [User; 2] {
    let mut user = |seed| {
        let bytes = dice.one(&[0, 1, 5000, 60_000, 200_000]) as usize;
        let pause_ns = dice.one(&[0, 0, 2_000_000]);
        User::new(seed, bytes, pause_ns)
    };
    let mut users = [user(seed * 2), user(seed * 2 + 1)];
    // A cookie is not repeated, so that whoever opens must have something to say.
    if users[0].written.is_empty() {
        users[0].written = vec![7; 100];
    }
    users
}

/// Two ends of ours, which open as the seed says.
fn two(dice: &mut Dice, seed: u64, configs: [Config; 2]) -> [Box<dyn Side>; 2] {
    let trains = [dice.one(&[0, 0, 3000, 65_000]), dice.one(&[0, 0, 65_000])];
    let [first, second] = configs;
    let opens = Ours::connecting(0, first, trains[0], seed);
    let other = match seed % 4 {
        0 => Ours::connecting(1, second, trains[1], seed),
        1 => Ours::listening(1, second, trains[1], seed, 0),
        _ => Ours::listening(1, second, trains[1], seed, 16),
    };
    [Box::new(opens), Box::new(other)]
}

fn exact(mut world: World, what: &str) {
    let ends = world.run(MOST_STEPS);
    assert_eq!(world.is_exact(), [true; 2], "{what}: {ends:?}");
    for (end, side) in ends.iter().zip(&world.sides) {
        assert_eq!(*end, Ok(()), "{what}: {}", side.tell());
    }
}

fn ours(seed: u64) {
    let mut dice = Dice::new(seed.wrapping_mul(31));
    let weather = weather(&mut dice);
    let configs = [config(&mut dice), config(&mut dice)];
    let users = users(&mut dice, seed);
    let sides = two(&mut dice, seed, configs);
    let what = format!("{weather:?}, {configs:?}");
    println!("seed {seed}: {what}");
    let fabric = Fabric::new(seed, weather);
    exact(
        World {
            sides,
            users,
            fabric,
        },
        &what,
    );
}

#[test]
fn ours_and_ours_are_exact() {
    every_seed("ours_and_ours_are_exact", ours);
}

fn foreign(seed: u64) {
    let mut dice = Dice::new(seed.wrapping_mul(37) + 5);
    let weather = weather(&mut dice);
    let config = config(&mut dice);
    let setting = Setting {
        receive_bytes: 1 << (12 + dice.below(6)),
        send_bytes: 1 << (12 + dice.below(6)),
        mtu: dice.one(&[576, 1500]) as usize,
        reno: dice.happens(5000),
        timestamps: dice.happens(3000),
        nagle: dice.happens(5000),
        delays_ack: dice.happens(5000),
    };
    let users = users(&mut dice, seed);
    let train = dice.one(&[0, 0, 65_000]);
    let fabric = Fabric::new(seed, weather);
    let sides: [Box<dyn Side>; 2] = match seed % 2 {
        0 => [
            Box::new(Ours::connecting(0, config, train, seed)),
            Box::new(Foreign::new(1, setting, seed, fabric.now_ns)),
        ],
        _ => [
            Box::new(Foreign::new(0, setting, seed, fabric.now_ns)),
            Box::new(Ours::listening(1, config, train, seed, seed as u32 % 4 / 2)),
        ],
    };
    let what = format!("{weather:?}, {config:?}, {setting:?}");
    println!("seed {seed}: {what}");
    let mut world = World {
        sides,
        users,
        fabric,
    };
    let ends = world.run(MOST_STEPS);
    // smoltcp lingers for ten seconds alone: it may be gone when our last FIN comes again, and then
    // resets what is complete by then.
    assert_eq!(world.is_exact(), [true; 2], "{what}: {ends:?}");
}

#[test]
fn ours_and_smoltcp_are_exact() {
    every_seed("ours_and_smoltcp_are_exact", foreign);
}

/// A reader that sleeps for half a minute: the window is closed, and opens again.
fn sleeper(seed: u64) {
    let mut dice = Dice::new(seed.wrapping_mul(41) + 7);
    let weather = Weather {
        marks: 0,
        ..weather(&mut dice)
    };
    let configs = [config(&mut dice), config(&mut dice)].map(|config| Config {
        receive_bytes: config.receive_bytes.min(1 << 15),
        ..config
    });
    let mut users = [
        User::new(seed, 100_000, 0),
        User::new(seed + 1000, 100_000, 0),
    ];
    users[seed as usize % 2].sleep = Some((20_000, SLEEP_NS));
    let sides = two(&mut dice, seed, configs);
    let mut world = World {
        sides,
        users,
        fabric: Fabric::new(seed, weather),
    };
    let what = format!("{weather:?}, {configs:?}");
    println!("seed {seed}: {what}");
    let ends = world.run(MOST_STEPS);
    assert_eq!(world.is_exact(), [true; 2], "{what}: {ends:?}");
    // An open window is told at once, and if that is lost a probe asks soon.
    let last_ns = world.users.iter().map(|user| user.last_ns).max();
    let took_ns = last_ns.expect("there are two") - 1_000_000_000;
    assert!(took_ns > SLEEP_NS, "nobody slept");
}

#[test]
fn a_window_that_was_closed_for_long_opens_again() {
    every_seed("a_window_that_was_closed_for_long_opens_again", sleeper);
}

/// A way that becomes narrower while segments are under way.
fn narrow(seed: u64) {
    let mut dice = Dice::new(seed.wrapping_mul(47) + 13);
    let from_ns = 1_000_000_000 + dice.below(200_000_000);
    let mtu = dice.one(&[68, 296, 576, 1000, 1492]);
    // Of few bytes a segment, as many segments.
    let bytes = if mtu < 576 { 40_000 } else { 300_000 };
    let weather = Weather {
        narrow: Some((from_ns, mtu)),
        byte_ns: 800,
        ..weather(&mut dice)
    };
    let configs = [config(&mut dice), config(&mut dice)];
    let what = format!("{weather:?}, {configs:?}");
    println!("seed {seed}: {what}");
    let world = World {
        sides: two(&mut dice, seed, configs),
        users: [User::new(seed, bytes, 0), User::new(seed + 1000, bytes, 0)],
        fabric: Fabric::new(seed, weather),
    };
    exact(world, &what);
}

#[test]
fn a_way_that_narrows_costs_no_byte() {
    every_seed("a_way_that_narrows_costs_no_byte", narrow);
}

/// An end that gives up in the middle: the other hears of it, or finds out.
fn given_up(seed: u64) {
    let mut dice = Dice::new(seed.wrapping_mul(53) + 17);
    let weather = weather(&mut dice);
    let configs = [config(&mut dice), config(&mut dice)];
    let mut users = [
        User::new(seed, 200_000, 0),
        User::new(seed + 1000, 200_000, 0),
    ];
    let who = seed as usize / 4 % 2;
    users[who].gives_up = Some(dice.below(150_000) as usize);
    let mut world = World {
        sides: two(&mut dice, seed, configs),
        users,
        fabric: Fabric::new(seed, weather),
    };
    println!("seed {seed}: {weather:?}, {configs:?}");
    let ends = world.run(MOST_STEPS);
    assert!(!world.is_exact()[who], "it gave up");
    let told = |cause: &str| Err(format!("Some({cause})"));
    assert_eq!(ends[who], told("Aborted"));
    // Whoever has said and heard all by then is done.
    let heard = &ends[1 - who];
    assert_eq!(*heard, told("Reset"), "the other did not hear of it");
}

#[test]
fn an_end_that_gives_up_is_noticed() {
    every_seed("an_end_that_gives_up_is_noticed", given_up);
}

/// A fabric that is dark, for a while or for good: exact, or a beginning and a cause.
fn dark(seed: u64) {
    let mut dice = Dice::new(seed.wrapping_mul(43) + 11);
    let for_good = seed.is_multiple_of(2);
    let time_ns = match for_good {
        true => u64::MAX >> 2,
        false => 1_000_000_000 * (1 + dice.below(60)),
    };
    let from_ns = 1_000_000_000 + dice.below(400_000_000);
    let weather = Weather {
        dark: Some((from_ns, time_ns)),
        byte_ns: 800,
        ..weather(&mut dice)
    };
    let configs = [config(&mut dice), config(&mut dice)].map(|config| Config {
        user_timeout_ns: 120_000_000_000,
        handshake_timeout_ns: 120_000_000_000,
        keep_alive: Some(warpwire_protocols::tcp::KeepAlive {
            idle_ns: 60_000_000_000,
            interval_ns: 10_000_000_000,
            probes: 6,
        }),
        ..config
    });
    let users = [
        User::new(seed, 1_000_000, 0),
        User::new(seed + 1000, 1_000_000, 0),
    ];
    let opens = Ours::connecting(0, configs[0], 0, seed);
    let listens = Ours::listening(1, configs[1], 0, seed, 16);
    let what = format!("{weather:?}, {configs:?}");
    println!("seed {seed}: {what}");
    let mut world = World {
        sides: [Box::new(opens), Box::new(listens)],
        users,
        fabric: Fabric::new(seed, weather),
    };
    let ends = world.run(MOST_STEPS);
    let exact = world.is_exact();
    match for_good {
        true => assert!(ends.iter().any(Result::is_err), "{what}: nobody noticed"),
        false => assert_eq!((exact, ends), ([true; 2], [Ok(()), Ok(())]), "{what}"),
    }
}

#[test]
fn a_dark_fabric_delays_a_stream_or_ends_it_with_a_cause() {
    every_seed(
        "a_dark_fabric_delays_a_stream_or_ends_it_with_a_cause",
        dark,
    );
}

/// What 64 streams of a megabyte took over a link of 100 Mbit/s with 10 ms there and back.
struct Lossy {
    timeouts: u32,
    repeated: u32,
    /// Of each stream, in order.
    times_ns: Vec<u64>,
}

const LOSSY_BYTES: usize = 1_000_000;

fn lossy(loss: u64, config: Config) -> Lossy {
    let (mut timeouts, mut repeated, mut times_ns) = (0, 0, Vec::new());
    for seed in 0..SEEDS {
        let weather = Weather {
            loss,
            byte_ns: 80,
            ..Weather::FINE
        };
        let mut world = World {
            sides: [
                Box::new(Ours::connecting(0, config, 0, seed)),
                Box::new(Ours::listening(1, config, 0, seed, 4)),
            ],
            users: [
                User::new(seed, LOSSY_BYTES, 0),
                User::new(seed + 1000, 0, 0),
            ],
            fabric: Fabric::new(seed, weather),
        };
        let ends = world.run(MOST_STEPS);
        assert_eq!(world.is_exact(), [true; 2], "seed {seed}: {ends:?}");
        let figures = world.sides[0].figures().expect("is one of ours");
        timeouts += figures.timeouts;
        repeated += figures.retransmits;
        times_ns.push(world.users[1].last_ns - 1_000_000_000);
    }
    times_ns.sort_unstable();
    Lossy {
        timeouts,
        repeated,
        times_ns,
    }
}

#[test]
fn what_is_lost_is_mended_without_waiting_for_timers() {
    let usual = Config::of_mtu(1500, false);
    let without = Config {
        sack: false,
        ..usual
    };
    // At worst SYN and first data are lost several times: 3, 6, 12 seconds (RFC 6298 section 5.7).
    // Losses in 10,000; timeouts of 64 streams, milliseconds of the median and of the worst.
    for (name, loss, config, timeouts, median_ms, worst_ms) in [
        ("0.1 %", 10, usual, 4, 200, 3500),
        ("1 %", 100, usual, 8, 600, 3500),
        ("5 %", 500, usual, 64, 4000, 20_000),
        (
            "1 %, without selective acknowledgements",
            100,
            without,
            64,
            1500,
            6000,
        ),
    ] {
        let took = lossy(loss, config);
        let segments = SEEDS as usize * LOSSY_BYTES / 1448;
        let [median, worst] =
            [SEEDS as usize / 2, SEEDS as usize - 1].map(|at| took.times_ns[at] / 1_000_000);
        println!(
            "{name}: {} timeouts, {} repetitions of {segments}; {median} ms, {worst} at worst",
            took.timeouts, took.repeated
        );
        assert!(
            took.timeouts <= timeouts,
            "{name}: {} timeouts",
            took.timeouts
        );
        let most = segments * (loss as usize * 3 / 2 + 20) / 10_000;
        assert!(
            took.repeated as usize <= most,
            "{name}: {} repetitions, {most} at most",
            took.repeated
        );
        assert!(
            median <= median_ms && worst <= worst_ms,
            "{name}: {median} and {worst} ms"
        );
    }
}

#[test]
fn a_connection_has_one_size() {
    const fn is_plain<T: Copy>() {}
    // Without a pointer to anything, it holds nothing else.
    is_plain::<Connection>();
    assert!(size_of::<Connection>() <= 768 && align_of::<Connection>() == 128);
}

const MOST_STEPS: u64 = 3_000_000;
const SLEEP_NS: u64 = 30_000_000_000;
