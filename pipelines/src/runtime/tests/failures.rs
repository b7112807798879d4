//! Runs that fail: what ends them, and what they leave to report.

use super::*;

warpwire_core::stage_set! {
    /// Stages that no kernel was built for.
    struct OtherStages: warpwire_core::stages::drop::Drop
}

/// Starts a text and runs it to its end.
fn outcome_of(
    text: &str,
    kit: &Kit,
    tick: impl FnMut(&Runtime<'_>),
) -> (Ended, crate::runtime::Outcome) {
    let file = PipelineFile::parse("test.toml", text, Kit::built_in().catalogue())
        .unwrap_or_else(|problems| panic!("{problems}"));
    let mut runtime = Runtime::start_with(&file, kit, scalar(1)).expect("starts");
    let stop = AtomicBool::new(false);
    let ended = runtime.run(Some(Duration::from_secs(20)), &stop, tick);
    (ended, runtime.finish())
}

/// Checks that one thing went wrong, in words with all parts.
fn assert_failure(outcome: &crate::runtime::Outcome, parts: &[&str]) {
    let [words] = outcome.report.failures.as_slice() else {
        panic!("{:?}", outcome.report.failures);
    };
    assert_eq!(outcome.failures.len(), 1);
    for part in parts {
        assert!(words.contains(part), "{part}: {words}");
    }
}

#[test]
fn a_damaged_capture_fails_the_run_and_leaves_the_counts() {
    let folder = Folder::new();
    let play = folder.file("cut.pcap");
    write(&play, &arrivals(3, 50));
    let bytes = std::fs::read(&play).expect("is there");
    std::fs::write(&play, &bytes[..bytes.len() - 1]).expect("can be written");
    let text = format!(
        "[nic.a]\nopen = \"pcap:{play}\"\n\
         [[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"drop\"\n"
    );
    let (ended, outcome) = outcome_of(&text, &Kit::built_in(), |_| {});
    assert_eq!(ended, Ended::Exhausted);
    assert_failure(&outcome, &["cut.pcap", "at byte", "the file was cut"]);
    assert_eq!(outcome.report.receives[0].received, 49);
    assert_eq!(outcome.report.nics[0].causes, outcome.report.failures);
}

#[test]
fn a_generator_that_dies_ends_the_run_and_leaves_the_counts() {
    let folder = Folder::new();
    let socket = folder.file("socket");
    // Nobody reads at the far end, whose side of the ring is broken after a while.
    let text = format!(
        "[nic.gen]\nopen = \"memif:{socket}\"\n\
         [nic.far]\nopen = \"memif:{socket}\"\nrole = \"server\"\n\
         [[generate]]\nfrom = \"gen\"\n[[generate.frame]]\nkind = \"udp\"\n"
    );
    let (ended, outcome) = outcome_of(&text, &Kit::built_in(), |runtime| {
        if runtime.elapsed() > Duration::from_millis(20) {
            let pair = &runtime.open.nics[0].queues()[0];
            let region = pair.memory.iter().find(|arena| arena.file().is_some());
            let region = region.expect("is shared");
            // The first ring of the region: its tail, which the far end writes.
            let tail = region.whole().address.offset(64);
            region
                .write(tail, &0x7777_u16.to_ne_bytes())
                .expect("is there");
        }
    });
    assert_eq!(ended, Ended::Failed);
    assert_failure(
        &outcome,
        &[
            "transmit_memif_client",
            "nic.gen: transmit queue 0",
            "ring corrupted",
            "both again",
        ],
    );
    let report = &outcome.report;
    assert!(report.generators[0].sent.frames > 0, "{report:?}");
    assert_eq!(report.nics[0].causes, report.failures);
    assert!(report.elapsed_s < 1.0, "{report:?}");
}

#[test]
fn a_pipeline_whose_queues_all_died_ends_and_one_that_cannot_start_too() {
    let folder = Folder::new();
    let socket = folder.file("socket");
    let text = format!(
        "[nic.here]\nopen = \"memif:{socket}\"\ndepth = 64\n\
         [nic.far]\nopen = \"memif:{socket}\"\ndepth = 64\nrole = \"server\"\n\
         [[receive]]\nfrom = \"here\"\n[[receive.stage]]\ndo = \"drop\"\n"
    );
    let (ended, outcome) = outcome_of(&text, &Kit::built_in(), |runtime| {
        let queue = &runtime.open.nics[0].queues()[0];
        let region = queue.memory.iter().find(|arena| arena.file().is_some());
        let region = region.expect("is shared");
        // The second ring of the region: its tail, which the far end writes.
        let tail = region.whole().address.offset(ring_bytes(64) + 64);
        region
            .write(tail, &0x7777_u16.to_ne_bytes())
            .expect("is there");
    });
    assert_eq!(ended, Ended::Failed);
    assert_failure(&outcome, &["nic.here: receive queue 0", "ring corrupted"]);
    let other = Kit::of::<OtherStages>(
        warpwire_core::kernels::entries::pipelines(),
        warpwire_core::kernels::entries::mixed_pipelines(),
    );
    let text = "[nic.a]\nopen = \"soft\"\npeer = \"loop\"\n\
                [[receive]]\nfrom = \"a\"\n[[receive.stage]]\ndo = \"drop\"\n";
    let (ended, outcome) = outcome_of(text, &other, |_| {});
    assert_eq!(ended, Ended::Failed);
    assert_failure(
        &outcome,
        &["pipeline_mlx5", "nic.a queue 0", "layout", "same source"],
    );
}
