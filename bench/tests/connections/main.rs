//! A thousand connections, opened, used and closed, in the memory of a few. A process of its own:
//! its memory is measured.

#[path = "../messaging/ends.rs"]
#[expect(dead_code, reason = "the other tests of messages use the rest")]
mod ends;

use warpwire::pipelines::messaging::{EndpointConfig, Signal, Update};

use ends::{Mode, Plan, SIGNALS, SOON, SOURCE, Stage, TARGET, WRITTEN};

const CONNECTIONS: u64 = 1000;
const WARM_UP: u64 = 100;

#[test]
fn connections_come_and_go_in_constant_memory() {
    let plan = Plan {
        config: EndpointConfig {
            pairs: 4,
            log_send: 4,
            log_receive: 4,
            ..EndpointConfig::default()
        },
        ..Plan::new(Mode::Sliced)
    };
    let stage = Stage::new(&plan);
    let [own, peer] = &stage.sides;
    own.fill(SOURCE, 4096, 3);
    let mut before = 0;
    for number in 0..CONNECTIONS {
        if number == WARM_UP {
            before = resident_pages();
        }
        let [mut one, mut other] = stage.pairs();
        other.receive(&[peer.gather(TARGET, 4096)]).expect("room");
        let signal = Signal {
            at: peer.remote(SIGNALS),
            update: Update::Add(1),
        };
        one.put_signal(own.gather(SOURCE, 4096), peer.remote(WRITTEN), signal)
            .expect("room");
        one.send(own.gather(SOURCE, 100), None).expect("room");
        let message = other.wait_message(SOON).expect("comes");
        assert_eq!(message.length, 100);
        assert_eq!(peer.word(SIGNALS), number + 1);
        // Some are closed with a word, some just dropped; some with requests under way.
        match number % 3 {
            0 => {
                one.quiet(SOON).expect("completes");
                one.close().expect("closes");
                other.close().expect("closes");
            }
            1 => drop((other, one)),
            _ => {
                one.send(own.gather(SOURCE, 100), None).expect("room");
                drop((one, other));
            }
        }
    }
    let after = resident_pages();
    println!("{before} pages before, {after} after {CONNECTIONS} connections");
    assert!(after <= before + 64, "{before} pages became {after}");
    stage.stop();
}

/// Pages of the process in memory.
fn resident_pages() -> u64 {
    let words = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    let word = words.split_whitespace().nth(1).expect("two words");
    word.parse().expect("a number")
}
