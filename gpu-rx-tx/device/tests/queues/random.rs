//! Random operation lists against naive models.

use proptest::prelude::*;

use crate::each;
use crate::hostile::{Op, survives};
use crate::model::{RxOp, TxOp, receive_agrees, transmit_agrees};
use crate::wires::{STARTS, Wire};

fn rx_op() -> impl Strategy<Value = RxOp> {
    prop_oneof![
        6 => (1_usize..10).prop_map(RxOp::Deliver),
        1 => Just(RxOp::DeliverBad),
        4 => (0_u32..9).prop_map(RxOp::Peek),
        3 => (0_usize..4).prop_map(RxOp::Release),
        2 => (0_usize..4).prop_map(RxOp::Lend),
        3 => (0_usize..8).prop_map(RxOp::GiveBack),
        1 => Just(RxOp::PutBack),
        1 => Just(RxOp::Restart),
    ]
}

fn tx_op() -> impl Strategy<Value = TxOp> {
    let send = (0_u32..6, 1_u32..4, 0_u32..3);
    prop_oneof![
        5 => send.prop_map(|(frames, parts, more)| TxOp::Send { frames, parts, more }),
        1 => (0_u32..4).prop_map(|frames| TxOp::SendCut { frames }),
        5 => (1_u32..6).prop_map(TxOp::Take),
        5 => (1_u32..6).prop_map(TxOp::Complete),
        1 => Just(TxOp::Poll),
        1 => Just(TxOp::Restart),
    ]
}

fn hostile_op() -> impl Strategy<Value = Op> {
    let poke = (
        any::<u32>(),
        any::<u64>(),
        prop::sample::select(&[1_u32, 2, 4, 8][..]),
    );
    let small = || prop_oneof![0_u32..4, 0_u32..600, any::<u32>()];
    let words = prop::array::uniform4(small());
    prop_oneof![
        3 => poke.prop_map(|(at, value, bytes)| Op::Poke { at, value, bytes }),
        8 => (any::<bool>(), words).prop_map(|(receive, words)| Op::Forge { receive, words }),
        4 => (0_u32..9).prop_map(Op::Peek),
        1 => (0_u32..9, 0_u32..9).prop_map(|(max, pauses)| Op::Wait { max, pauses }),
        3 => (0_usize..4).prop_map(Op::Release),
        2 => (0_usize..4).prop_map(Op::Lend),
        1 => (0_usize..4).prop_map(Op::Gather),
        3 => (0_usize..8).prop_map(Op::GiveBack),
        1 => Just(Op::PutBack),
        2 => (0_usize..4).prop_map(Op::Pass),
        4 => (0_u32..6, 1_u32..4).prop_map(|(frames, parts)| Op::Send { frames, parts }),
        1 => Just(Op::Poll),
        2 => Just(Op::Work),
        1 => Just(Op::Restart),
    ]
}

mod check {
    use super::*;

    pub(crate) fn receive_meets_a_naive_model<W: Wire>() {
        let ops = proptest::collection::vec(rx_op(), 1..120);
        let starts = proptest::sample::select(&STARTS[..]);
        let depths = proptest::sample::select(&[4_u32, 8, 32, 64][..]);
        let config = ProptestConfig {
            cases: 200,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        proptest!(config, |(depth in depths, start in starts, ops in ops)| {
            receive_agrees::<W>(depth, start, &ops);
        });
    }

    pub(crate) fn transmit_meets_a_naive_model<W: Wire>() {
        let ops = proptest::collection::vec(tx_op(), 1..120);
        let starts = proptest::sample::select(&STARTS[..]);
        let depths = proptest::sample::select(&[4_u32, 8, 32][..]);
        let config = ProptestConfig {
            cases: 200,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        proptest!(config, |(depth in depths, start in starts, ops in ops)| {
            transmit_agrees::<W>(depth, start, &ops);
        });
    }

    pub(crate) fn a_hostile_peer_is_survived<W: Wire>() {
        let ops = proptest::collection::vec(hostile_op(), 1..120);
        let starts = proptest::sample::select(&STARTS[..]);
        let depths = proptest::sample::select(&[4_u32, 8, 32][..]);
        let config = ProptestConfig {
            cases: 400,
            failure_persistence: None,
            ..ProptestConfig::default()
        };
        proptest!(config, |(depth in depths, start in starts, ops in ops)| {
            survives::<W>(depth, start, &ops);
        });
    }

    /// The buffer of the first slot is that of the second slot's descriptor, in memif's layout.
    pub(crate) fn a_buffer_over_the_next_descriptor_is_survived<W: Wire>() {
        let words = [0, 0, 50, 352];
        let (frames, parts) = (1, 2);
        let forged = Op::Forge {
            receive: false,
            words,
        };
        survives::<W>(4, STARTS[1], &[forged, Op::Send { frames, parts }]);
    }
}

each! {
    receive_meets_a_naive_model,
    transmit_meets_a_naive_model,
    a_hostile_peer_is_survived,
    a_buffer_over_the_next_descriptor_is_survived,
}
