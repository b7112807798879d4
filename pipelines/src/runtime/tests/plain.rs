//! The kernels that measure, and generators: 32 lanes as one lane, in virtual time.

use super::*;

/// Runs a plain kernel on a NIC that a capture arrives at; gives what it sent and counted.
fn measure(kernel: Plain, list: &[(u64, Vec<u8>)], settings: Settings) -> (Vec<Vec<u8>>, Vec<u64>) {
    let folder = Folder::new();
    let [play, out] = ["play.pcap", "out.pcap"].map(|name| folder.file(name));
    write(&play, list);
    let text = format!(
        "[nic.a]\nopen = \"pcap:{play}\"\nrecord = \"{out}\"\npace = \"captured\"\n\
         [[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"drop\"\n"
    );
    let kit = Kit::built_in();
    let file = PipelineFile::parse("measure.toml", &text, kit.catalogue()).expect("reads");
    let mut open = open::open(&file, Patience::default()).expect("opens");
    let executor = executor(settings);
    if let Some(fabric) = &open.fabric {
        fabric.follow(Clock::Executor(executor.clock()));
    }
    for service in open.nics[0].take_services() {
        executor.add_service(service, Placement::Any).expect("runs");
    }
    let nic = open.nics.remove(0);
    let running = Measurement::start(&executor, kernel, nic.as_ref(), 0, Placement::Any);
    let running = running.expect("starts");
    executor
        .advance(Duration::from_millis(200))
        .expect("goes on");
    let counters = running.finish(Duration::from_secs(5)).expect("ends");
    executor.advance(Duration::from_millis(5)).expect("goes on");
    drop(executor);
    if let Some(fabric) = &open.fabric {
        fabric.detach(open.plays[0].port).expect("is written");
    }
    let mut counted = vec![counters.received, counters.not_sent, counters.malformed];
    counted.extend(counters.kinds);
    (read(&out), counted)
}

fn executor(settings: Settings) -> CpuExecutor {
    CpuExecutor::builder()
        .backend(settings.backend)
        .clock(settings.time)
        .build()
        .expect("threads can be had")
}

#[test]
fn plain_kernels_of_32_lanes_do_as_one_lane_does_for_64_seeds() {
    for seed in 0..64 {
        let list = arrivals(seed, 100);
        for kernel in [Plain::ReceiveCount, Plain::MacSwap] {
            let (sent, counted) = measure(kernel, &list, scalar(seed));
            let (sent_by_many, counted_by_many) = measure(kernel, &list, lockstep(seed));
            assert_same(&sent_by_many, &sent, &format!("{kernel:?}, seed {seed}"));
            assert_eq!(counted_by_many, counted, "{kernel:?}, seed {seed}");
            assert_eq!(counted[0], list.len() as u64, "{kernel:?}, seed {seed}");
            if kernel == Plain::MacSwap {
                let swapped = |frame: &[u8]| {
                    let frame = padded(frame);
                    [&frame[6..12], &frame[..6], &frame[12..]].concat()
                };
                let want: Vec<Vec<u8>> = list.iter().map(|(_, frame)| swapped(frame)).collect();
                assert_same(&sent, &want, &format!("seed {seed}"));
            }
        }
    }
}

/// Generates frames at one end of a memif socket, runs a plain kernel at the other, and counts what
/// comes back: what the kernel counted, and what came back by kind.
fn across_memif(kernel: Plain, roles: [&str; 2], settings: Settings) -> [Vec<u64>; 2] {
    let folder = Folder::new();
    let socket = folder.file("socket");
    let [near, far] = roles;
    let text = format!(
        "[nic.near]\nopen = \"memif:{socket}\"\nrole = \"{near}\"\n\
         [nic.far]\nopen = \"memif:{socket}\"\nrole = \"{far}\"\n\
         [[generate]]\nfrom = \"near\"\ncount = {ACROSS}\nrate = 1_000_000\n\
         [[generate.frame]]\nkind = \"udp\"\nweight = 3\nflows = 7\n\
         [[generate.frame]]\nkind = \"ping\"\nlength = 99\n\
         [[generate.frame]]\nkind = \"roce\"\n"
    );
    let kit = Kit::built_in();
    let file = PipelineFile::parse("memif.toml", &text, kit.catalogue())
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut open = open::open(&file, Patience::default()).expect("opens");
    let executor = executor(settings);
    for service in open.nics.iter_mut().flat_map(|nic| nic.take_services()) {
        executor.add_service(service, Placement::Any).expect("runs");
    }
    let [near, far] = [0, 1].map(|place| open.nics[place].as_ref());
    let start = |kernel, nic| {
        Measurement::start(&executor, kernel, nic, 0, Placement::Any).expect("starts")
    };
    let (there, back) = (start(kernel, far), start(Plain::ReceiveCount, near));
    let generator = &file.generators[0];
    let generator = Generation::start(&executor, generator, near, Placement::Any).expect("starts");
    executor
        .advance(Duration::from_millis(20))
        .expect("goes on");
    assert!(generator.is_finished(), "all frames were sent");
    let limit = Duration::from_secs(5);
    assert_eq!(generator.finish(limit).expect("ends"), ACROSS);
    [there, back].map(|running| {
        let counters = running.finish(limit).expect("ends");
        assert_eq!((counters.malformed, counters.not_sent), (0, 0));
        [&[counters.received], &counters.kinds[..]].concat()
    })
}

/// Frames that are sent across.
const ACROSS: u64 = 100;

#[test]
fn plain_kernels_and_generators_over_memif_do_as_one_lane_does_for_64_seeds() {
    for seed in 0..64 {
        for roles in [["client", "server"], ["server", "client"]] {
            for (kernel, returns) in [(Plain::ReceiveCount, 0), (Plain::MacSwap, ACROSS)] {
                let what = format!("{kernel:?} as {}, seed {seed}", roles[1]);
                let one = across_memif(kernel, roles, scalar(seed));
                let many = across_memif(kernel, roles, lockstep(seed));
                assert_eq!(many, one, "{what}");
                let [there, back] = one;
                assert_eq!((there[0], back[0]), (ACROSS, returns), "{what}");
            }
        }
    }
}

#[test]
fn generators_of_32_lanes_send_what_one_lane_sends_for_64_seeds() {
    let run = |seed, settings| {
        let folder = Folder::new();
        let out = folder.file("out.pcapng");
        let text = format!(
            "seed = {seed}\n\
             [nic.gen]\nopen = \"soft\"\npeer = \"end\"\n\
             [nic.end]\nopen = \"soft\"\npeer = \"gen\"\n\
             [[generate]]\nfrom = \"gen\"\ncount = 200\nrate = {}\n\
             [[generate.frame]]\nkind = \"udp\"\nweight = 3\nflows = 7\n\
             [[generate.frame]]\nkind = \"ping\"\nflows = 3\nlength = 99\n\
             [[generate.frame]]\nkind = \"roce\"\n\
             [[receive]]\nfrom = \"end\"\n\
             [[receive.stage]]\ndo = \"sample\"\nfile = \"{out}\"\n\
             [[receive.stage]]\ndo = \"verify\"\n\
             [[receive.stage]]\ndo = \"drop\"\n",
            100_000 + seed * 10_000,
        );
        let report = run_text(&text, settings);
        assert_eq!(report.receives[0].dropped["dropped"], 200, "{report:?}");
        read(&out)
    };
    for seed in 0..64 {
        let one = run(seed, scalar(seed));
        let many = run(seed, lockstep(seed));
        assert_same(&many, &one, &format!("seed {seed}"));
    }
}
