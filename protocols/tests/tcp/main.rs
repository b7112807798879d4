//! TCP: by scripts, and between ends in memory over a fabric that loses, doubles, reorders and
//! delays, by seeds.

mod cases;
#[path = "../judges/dice.rs"]
mod dice;
mod end;
mod language;
mod run;
mod simulation;
mod words;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs a topic, every script from several first numbers, so that all of them wrap somewhere.
fn check(topic: &str) {
    let (_, cases) = cases::TOPICS
        .iter()
        .find(|(name, _)| *name == topic)
        .expect("is a topic");
    let only = std::env::var("WARPWIRE_TCP_CASE").unwrap_or_default();
    let mut failed = 0;
    for case in cases.iter().filter(|case| case.name.contains(&only)) {
        assert!(case.cites.contains("RFC "), "{}: cites nothing", case.name);
        for start in run::STARTS {
            let all = || run::run(case, start);
            let fault = match catch_unwind(AssertUnwindSafe(all)) {
                Ok(Ok(())) => continue,
                Ok(Err(fault)) => fault,
                Err(_) => "a panic, told above".to_owned(),
            };
            println!("{topic}: {}\n  [{}]\n  {fault}\n", case.name, case.cites);
            failed += 1;
            break;
        }
    }
    assert_eq!(
        failed, 0,
        "scripts of `{topic}` fail, told above; one alone: WARPWIRE_TCP_CASE='part of its name' \
         cargo test -p warpwire-protocols --test tcp {topic}"
    );
}

macro_rules! topics {
    ($($topic:ident)*) => {$(
        #[test]
        fn $topic() {
            check(stringify!($topic));
        }
    )*
        #[test]
        fn every_topic_is_run_and_the_table_is_long() {
            let named = [$(stringify!($topic)),*];
            let topics: Vec<&str> = cases::TOPICS.iter().map(|(name, _)| *name).collect();
            assert_eq!(topics, named);
            let all = || cases::TOPICS.iter().flat_map(|(_, cases)| cases.iter());
            assert!(all().count() >= 60, "only {} scripts", all().count());
            let names: std::collections::BTreeSet<_> = all().map(|case| case.name).collect();
            assert_eq!(names.len(), all().count(), "two scripts have one name");
        }
    };
}

topics! {
    handshake listen options data loss sack window close reset paws ecn idle pmtu reassembly
}
