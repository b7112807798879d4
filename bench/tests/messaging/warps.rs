//! A kernel of one's own over the messaging API: lanes that post together and in part, more than
//! fits, one lane by itself, tagged messages, shared receives; one lane wide and 32 lanes wide,
//! with the engine in a kernel of its own and in this one.
#![expect(
    unsafe_code,
    reason = "kernels of the test get addresses and promise to know what is there"
)]

use std::marker::PhantomData;

use warpwire::pipelines::messaging::{EndpointConfig, Gather, Order, PairConfig, Payload, Remote};
use warpwire_core::block::{Header, Parameters, Steering};
use warpwire_core::format::Mlx5;
use warpwire_core::kernel::{Kernel, row};
use warpwire_core::kernels::{Apart, Party, Together};
use warpwire_core::messaging::{
    Channel, Counter, Expected, Progress, Request, SharedReceives, TagBlock, TagSlot, Tags,
};
use warpwire_device::{KernelRow, SharedWord, Simt, Solo, Wait};
use warpwire_gpu::executor::{Backend, Placement};
use warpwire_protocols::rdma::Attributes;
use warpwire_ring::mlx5::layout::Opcode;
use warpwire_ring::{Cause, DeviceAddress, memory};

use crate::ends::{Mode, Plan, SOON, SOURCE, Stage, TARGET, WRITTEN};

/// The parameters.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Warped {
    header: Header,
    steering: Steering,
    channel: DeviceAddress,
    engine: DeviceAddress,
    tags: DeviceAddress,
    shared: DeviceAddress,
    /// Words for what was found.
    found: DeviceAddress,
    local: Gather,
    remote: Remote,
}

// SAFETY: repr(C), a header first, made of integers only.
unsafe impl Parameters for Warped {
    const LAYOUT: u64 = 0x7761_7270_6564;

    fn steering(&self) -> &Steering {
        &self.steering
    }
}

struct Warps<M>(PhantomData<M>);

/// Words of `found`, and when they are all there.
const POSTED: u64 = 0;
const FITTED: u64 = 8;
const ALONE: u64 = 16;
const MATCHED: u64 = 24;
const SHARED: u64 = 32;
const OVER: u64 = 40;

impl<M: Party> Kernel for Warps<M> {
    type Parameters = Warped;

    unsafe fn run<S: Simt>(simt: &S, own: &Warped) -> Result<(), Cause> {
        // SAFETY: the channel, by the test's promise.
        let mut channel = unsafe { Channel::attach(own.channel) }?;
        // SAFETY: the engine, if it is the kernel's.
        let mut progress = unsafe { M::join(own.engine) }?;
        // SAFETY: the stop word.
        let stop = unsafe { SharedWord::attach(own.steering.stop) };
        let wait = Wait::within(simt, 30_000_000_000).abort_on(stop);
        let outcome = together(simt, own, &mut channel, &wait, &mut progress);
        let outcome = outcome.and_then(|()| {
            alone::<S, M>(simt, own, &mut channel, &wait)?;
            tagged(simt, own, &mut channel, &wait, &mut progress)?;
            shared(simt, own, &wait, &mut progress)
        });
        tell(
            simt,
            own,
            OVER,
            1 + outcome.err().map_or(0, |cause| cause as u64),
        );
        // The lanes agree on when to end.
        while M::SERVES && !simt.any(stop.load() != 0) {
            if !progress.progress(simt)? {
                simt.pause();
            }
        }
        channel.save(simt);
        M::leave(&mut progress, simt);
        Ok(())
    }
}

/// Lanes post together: every second one of 32 something; then all more than fits.
fn together<S: Simt, P: Progress>(
    simt: &S,
    own: &Warped,
    channel: &mut Channel,
    wait: &Wait,
    progress: &mut P,
) -> Result<(), Cause> {
    let mut counter = Counter::default();
    let mut posted = 0;
    for row in 0..32 / S::WIDTH {
        let number = u64::from(row * S::WIDTH + simt.lane());
        let bytes = (number + 1).to_le_bytes();
        let to = own.remote.offset(number * 8);
        let request = Request::put(Payload::Inline(&bytes), to);
        let mine = number.is_multiple_of(2).then_some(&request);
        let ticket = channel.post_waiting(simt, mine, wait, progress)?;
        if let Some(ticket) = ticket {
            counter.add(ticket);
        }
        posted += simt.sum(u32::from(ticket.is_some()));
    }
    channel.wait_counter(simt, &counter, wait, progress)?;
    tell(simt, own, POSTED, u64::from(posted));
    channel.quiet(simt, wait, progress)?;
    // Requests of three slots, one a lane, into an empty queue of 16: five fit, those of the first
    // lanes; nobody frees a slot between them.
    let long = [7; 150];
    let request = Request::put(Payload::Inline(&long), own.remote.offset(4096));
    let mut fitted = 0;
    for _ in 0..32 / S::WIDTH {
        let outcome = channel.write(simt, Some(&request));
        let lanes = simt.ballot(matches!(outcome, Ok(Some(_))));
        let others = simt.ballot(outcome == Err(Cause::NoResource));
        if lanes.trailing_ones() != lanes.count_ones() || lanes & others != 0 {
            return Err(Cause::LocalQpOperation);
        }
        fitted += lanes.count_ones();
    }
    tell(simt, own, FITTED, u64::from(fitted));
    channel.publish(simt);
    channel.quiet(simt, wait, progress)
}

/// One lane posts and waits by itself; the others go on where it left the queue.
fn alone<S: Simt, M: Party>(
    simt: &S,
    own: &Warped,
    channel: &mut Channel,
    wait: &Wait,
) -> Result<(), Cause> {
    // An engine that the warp steps together is not one lane's to step.
    if M::SERVES {
        return Ok(());
    }
    let mut outcome = Ok(());
    if simt.lane() == 5 % S::WIDTH {
        let solo = Solo(simt);
        let mut nothing = warpwire_core::messaging::Elsewhere;
        let ticket = channel.put_inline(&solo, b"by one lane", own.remote.offset(8192));
        outcome = ticket.and_then(|ticket| channel.wait(&solo, ticket, wait, &mut nothing));
        channel.save(&solo);
    }
    simt.sync_warp();
    // SAFETY: as before; the lane is done.
    *channel = unsafe { Channel::attach(own.channel) }?;
    let failed = simt.ballot(outcome.is_err());
    tell(simt, own, ALONE, 1 + u64::from(failed));
    outcome
}

/// Tagged messages, which the peer sent with tags 3, 1, 2.
fn tagged<S: Simt, P: Progress>(
    simt: &S,
    own: &Warped,
    channel: &mut Channel,
    wait: &Wait,
    progress: &mut P,
) -> Result<(), Cause> {
    // SAFETY: the block, by the test's promise.
    let mut tags = unsafe { Tags::attach(own.tags) }?;
    tags.start(simt, channel)?;
    let mut order = 0;
    for tag in 1..=3u32 {
        let into = Gather {
            address: own.local.address + u64::from(tag) * 1024,
            ..own.local
        };
        // SAFETY: memory of the test.
        let matched = match unsafe { tags.expect(simt, channel, (tag, u32::MAX), into) }? {
            Expected::Matched(matched) => matched,
            Expected::Waiting(_) => tags.wait(simt, channel, wait, progress)?,
        };
        order = order * 1000 + u64::from(matched.tag) * 100 + u64::from(matched.length % 100);
    }
    tags.save(simt);
    tell(simt, own, MATCHED, order);
    Ok(())
}

/// Receives of another queue pair, posted by lanes together and taken as they come.
fn shared<S: Simt, P: Progress>(
    simt: &S,
    own: &Warped,
    wait: &Wait,
    progress: &mut P,
) -> Result<(), Cause> {
    // SAFETY: the block, by the test's promise.
    let mut receives = unsafe { SharedReceives::attach(own.shared) }?;
    for row in 0..32 / S::WIDTH {
        let number = u64::from(row * S::WIDTH + simt.lane());
        let piece = [Gather {
            address: own.local.address + 8192 + number * 64,
            length: 64,
            ..own.local
        }];
        receives.post(simt, (number < 6).then_some(&piece[..]))?;
    }
    let mut sum = u64::from(receives.posted()) * 1_000_000;
    for _ in 0..4 {
        let arrival = receives.wait(simt, wait, progress)?;
        sum += u64::from(arrival.length) + u64::from(arrival.pair) * 1000;
    }
    receives.save(simt);
    tell(simt, own, SHARED, sum);
    Ok(())
}

fn tell<S: Simt>(simt: &S, own: &Warped, at: u64, value: u64) {
    if simt.is_leader() {
        // SAFETY: a word of the test's.
        unsafe { memory::store_release_u64(own.found.offset(at), value) };
    }
    simt.sync_warp();
}

fn run(mode: Mode, backend: Backend) {
    const APART: KernelRow = row::<Warps<Apart>>("warps");
    const TOGETHER: KernelRow = row::<Warps<Together<Mlx5>>>("warps_mlx5");
    let plan = Plan {
        backend,
        attributes: Attributes {
            timeout: 19,
            ..Attributes::default()
        },
        config: EndpointConfig {
            pairs: 2,
            log_send: 4,
            log_receive: 3,
            ..EndpointConfig::default()
        },
        ..Plan::new(mode)
    };
    let stage = Stage::new(&plan);
    let [one, mut other] = stage.pairs();
    let [own, peer] = &stage.sides;
    // Messages that wait for receives: first the tagged ones, then those to another queue pair.
    peer.fill(SOURCE, 4096, 2);
    let receives = own.endpoint.shared_receives().expect("is one");
    let config = PairConfig::default();
    let there = own.endpoint.pair_on(&receives, config).expect("is free");
    let mut second = [there, peer.pair()];
    stage.connect(&mut second, 0xc125);
    let number = second[0].number();
    for (place, tag) in [3, 1, 2].into_iter().enumerate() {
        let bytes = peer.gather(SOURCE, 100 + place as u32);
        other.send(bytes, Some(tag)).expect("room");
    }
    for length in 1..=4 {
        second[1]
            .send(peer.gather(SOURCE, length), None)
            .expect("room");
    }
    let row = match mode {
        Mode::Sliced | Mode::Crew | Mode::Nic => &APART,
        Mode::Fused => &TOGETHER,
    };
    let mut found = DeviceAddress::NULL;
    let on = (&*stage.executor, Placement::Any);
    // SAFETY: the block is of the kernel's layout, and everything in it is there.
    let launched = unsafe {
        own.endpoint.launch(on, row, one, 16384, |arena, lent| {
            found = arena.place([0u64; 8])?.address;
            let slots = |count: usize| arena.place_all(&vec![TagSlot::default(); count]);
            let tags = TagBlock {
                header: TagBlock::HEADER,
                expected: slots(2)?.address,
                unexpected: slots(4)?.address,
                posted: arena.place_all(&[0u32; 8])?.address,
                slots: own.gather(TARGET, 4 * 256),
                slot_bytes: 256,
                slot_count: 4,
                expected_count: 2,
                receives: 8,
                order: 0,
            };
            Ok(Warped {
                header: Warped::HEADER,
                steering: Steering {
                    stop: lent.stop,
                    ..Steering::default()
                },
                channel: lent.channel,
                engine: lent.engine,
                tags: arena.place(tags)?.address,
                shared: arena.place(*receives.block())?.address,
                found,
                local: own.gather(TARGET + 0x1_0000, 512),
                remote: peer.remote(WRITTEN),
            })
        })
    };
    let (application, arena) = launched.expect("starts");
    let word = |at: u64| {
        let word = arena.word(found.offset(at)).expect("inside");
        word.load(std::sync::atomic::Ordering::Acquire)
    };
    let waited = application.wait_until(|| word(OVER) != 0, SOON);
    waited.unwrap_or_else(|error| panic!("{mode:?} {backend:?}: {error}"));
    let cause = Cause::from_number(word(OVER) as u32 - 1);
    assert_eq!(cause, None, "{mode:?} {backend:?}");
    let (mut one, _) = application.finish().expect("ends");
    assert_eq!(word(POSTED), 16);
    assert_eq!(word(FITTED), 5, "{mode:?} {backend:?}");
    for number in 0..32 {
        let want = if number % 2 == 0 { number + 1 } else { 0 };
        assert_eq!(peer.word(WRITTEN + number * 8), want, "lane {number}");
    }
    assert_eq!(peer.bytes(WRITTEN + 4096, 150), [7; 150]);
    if matches!(mode, Mode::Sliced | Mode::Crew) {
        assert_eq!(word(ALONE), 1);
        assert_eq!(peer.bytes(WRITTEN + 8192, 11), b"by one lane");
    }
    assert_eq!(word(MATCHED), 101_202_300);
    for (tag, length) in [(1, 101), (2, 102), (3, 100)] {
        let at = TARGET + 0x1_0000 + tag * 1024;
        assert_eq!(
            own.bytes(at, length),
            peer.bytes(SOURCE, length),
            "tag {tag}"
        );
    }
    let sum = 6_000_000 + 4 * 1000 * u64::from(number) + 10;
    assert_eq!(word(SHARED), sum);
    // The host goes on.
    let order = Order {
        address: peer.remote(WRITTEN).address,
        key: peer.region.key,
        ..Order::new(Opcode::WRITE)
    };
    let request = Request::new(order, Payload::Inline(b"host"));
    let ticket = one.post_waiting(&request, SOON).expect("room");
    one.wait_for(ticket, SOON).expect("completes");
    other.quiet(SOON).expect("completes");
    drop((one, other, second));
    stage.stop();
}

#[test]
fn one_lane() {
    run(Mode::Sliced, Backend::Scalar);
    run(Mode::Crew, Backend::Scalar);
    run(Mode::Fused, Backend::Scalar);
}

#[test]
fn lanes_of_a_warp() {
    run(Mode::Sliced, Backend::Lockstep { seed: 5 });
    run(Mode::Fused, Backend::Lockstep { seed: 6 });
    run(Mode::Crew, Backend::Lockstep { seed: 7 });
}
