//! Queue pairs of an engine take turns: one that always has something to send does not keep another
//! waiting longer than its share.

use std::time::Duration;

use warpwire::pipelines::messaging::{EndpointConfig, Order, Pair, Payload, Work};
use warpwire_protocols::rdma::{Attributes, Mtu};
use warpwire_ring::mlx5::layout::Opcode;

use crate::ends::{Mode, Plan, SOURCE, Stage, TARGET, WRITTEN};
use crate::wire::{Frame, Wire};

/// What the greedy one always has more of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Backlog {
    /// Writes of its own.
    Writes,
    /// Answers to reads of its peer.
    Answers,
    /// Both.
    Both,
}

const LONG: u32 = 256 << 10;

/// As many long requests as fit, of which nobody hears.
fn stuff(pair: &mut Pair, opcode: Opcode, sides: [&crate::ends::Side; 2]) {
    let [own, peer] = sides;
    while pair.poll().is_some() {}
    let order = Order {
        address: peer.region.address + WRITTEN,
        key: peer.region.key,
        ..Order::new(opcode)
    };
    let at = if opcode == Opcode::READ {
        TARGET
    } else {
        SOURCE
    };
    let pieces = [own.gather(at, LONG)];
    let payload = Payload::Pieces(&pieces);
    while pair.free_sends() > 0 {
        pair.post(&[Work { order, payload }]).expect("room");
    }
}

fn wait_behind(backlog: Backlog, share: u32) {
    let plan = Plan {
        // A ring that is full before a window is.
        options: "mtu=9000,slot=9088,depth=64",
        config: EndpointConfig {
            share,
            log_send: 4,
            ..EndpointConfig::default()
        },
        attributes: Attributes {
            mtu: Mtu::M256,
            window: 1024,
            ..Attributes::default()
        },
        ..Plan::timeless(Mode::Fused)
    };
    let stage = Stage::new(&plan);
    let [own, peer] = &stage.sides;
    let [mut greedy, mut far] = stage.pairs();
    let mut modest = [own.pair(), peer.pair()];
    stage.connect(&mut modest, 0xc124);
    let [mut modest, beside] = modest;
    let wire = Wire::between(&stage);
    let mut most = 0;
    for round in 0..100u32 {
        if backlog != Backlog::Answers {
            stuff(&mut greedy, Opcode::WRITE, [own, peer]);
        }
        if backlog != Backlog::Writes {
            stuff(&mut far, Opcode::READ, [peer, own]);
        }
        stage.run_for(Duration::from_micros(20 + u64::from(round % 7)));
        // What left the engine before leaves the ring too, and is answered.
        for _ in 0..40 {
            stage.executor.advance(STEP).expect("goes on");
            peer.endpoint.step();
        }
        stage.executor.advance(STEP).expect("goes on");
        wire.take();
        let order = Order {
            address: peer.region.address + TARGET,
            key: peer.region.key,
            ..Order::new(Opcode::WRITE)
        };
        let payload = Payload::Inline(b"a word");
        modest.post(&[Work { order, payload }]).expect("room");
        let is_modest = |frame: &Frame| frame.queue_pair() == beside.number();
        let (mut before, mut others) = (0, 0);
        for step in 0.. {
            own.endpoint.step();
            stage.executor.advance(STEP).expect("goes on");
            let frames = wire.take();
            let mine = frames.iter().filter(|frame| frame.from == 0);
            others += mine.clone().filter(|frame| !is_modest(frame)).count();
            before += mine.take_while(|frame| !is_modest(frame)).count();
            if frames.iter().any(is_modest) {
                break;
            }
            assert!(step < 10, "{backlog:?}, share {share}: it never comes");
        }
        assert!(others > 0, "{backlog:?}, share {share}: nobody else sends");
        most = most.max(before as u32);
        while modest.poll().is_none() {
            (own.endpoint.idle())();
        }
    }
    println!("{backlog:?}, share {share}: {most} packets before it at most");
    let turn = share - 1..=share;
    assert!(
        turn.contains(&most),
        "{backlog:?}: a turn of the other, and no more"
    );
    drop((greedy, far, modest, beside));
    stage.stop();
}

/// Long enough for a link to take what a ring holds.
const STEP: Duration = Duration::from_micros(10);

#[test]
fn who_has_little_to_send_waits_for_a_turn_of_who_has_much() {
    for backlog in [Backlog::Writes, Backlog::Answers, Backlog::Both] {
        for share in [1, 3, 16, 64] {
            wait_behind(backlog, share);
        }
    }
}
