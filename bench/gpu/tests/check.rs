//! The whole check, as a program: without a GPU, with wrong arguments, and from end to end with a
//! stand-in for the driver that runs the kernels on the virtual GPU.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::Value;

/// What a run gave: its status, and what it printed.
struct Seen {
    status: Option<i32>,
    out: String,
    error: String,
}

impl Seen {
    fn of(output: &Output) -> Self {
        Self {
            status: output.status.code(),
            out: String::from_utf8_lossy(&output.stdout).into_owned(),
            error: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// An empty folder of this test's own.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder can be made");
    folder
}

/// Runs the script over what is packed in a folder.
fn check(packed: &Path, libraries: &Path, words: &[&str]) -> Seen {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("check");
    let output = Command::new("sh")
        .arg(script)
        .arg("--binaries")
        .arg(packed)
        .args(words)
        .env("LD_LIBRARY_PATH", libraries)
        .current_dir(packed)
        .output()
        .expect("starts");
    Seen::of(&output)
}

/// The program, the PTX and the programs of comparisons, as they are packed for another machine.
fn packed(name: &str) -> PathBuf {
    let folder = folder(name);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let link = |from: &Path, to: &str| {
        std::os::unix::fs::symlink(from, folder.join(to)).expect("links can be made");
    };
    link(
        Path::new(env!("CARGO_BIN_EXE_warpwire-gpu-check")),
        "warpwire-gpu-check",
    );
    link(&root.join("pipelines/kernels/warpwire.ptx"), "warpwire.ptx");
    link(&root.join("bench/fuzz/corpus/stages"), "corpus");
    folder
}

/// A folder in which the stand-in lies as the driver's library.
fn stand_in(name: &str) -> PathBuf {
    let folder = folder(name);
    // Cargo builds the library for this test's sake, and puts it beside this test.
    let own = std::env::current_exe().expect("has a path");
    let library = own.with_file_name("libwarpwire_standin.so");
    assert!(library.exists(), "{} is not there", library.display());
    let link = folder.join("libcuda.so.1");
    std::os::unix::fs::symlink(library, link).expect("links can be made");
    folder
}

#[test]
fn without_a_gpu_it_says_so() {
    if Path::new("/dev/nvidiactl").exists() {
        println!("skipped: this machine has NVIDIA's device nodes");
        return;
    }
    let packed = packed("without");
    let seen = check(&packed, &folder("without-libraries"), &[]);
    assert_eq!(seen.status, Some(3), "{}{}", seen.out, seen.error);
    let lines: Vec<&str> = seen.error.lines().collect();
    let one = matches!(lines[..], [line] if line.contains("install NVIDIA's driver"));
    assert!(one, "not one sentence with the cure: {}", seen.error);
    assert_eq!(seen.out, "");
    assert!(
        !packed.join("gpu-check.json").exists(),
        "a record of nothing"
    );
}

#[test]
fn wrong_arguments_are_told_apart() {
    let (packed, library) = (packed("wrong"), stand_in("wrong-library"));
    for (words, want) in [
        (
            &["--frequency", "7"][..],
            "unexpected argument '--frequency'",
        ),
        (&["--seconds", "1"], "1 is not in 2..=290"),
        (
            &["--device", "1"],
            "--device 1: there is no such GPU; name one from 0 to 0",
        ),
        (&["--corpus", "absent"], "absent: No such file or directory"),
        (
            &["--ptx", "absent.ptx"],
            "absent.ptx: No such file or directory",
        ),
    ] {
        let seen = check(&packed, &library, words);
        assert_eq!(seen.status, Some(2), "{words:?}: {}", seen.error);
        assert!(seen.error.contains(want), "{words:?}: {}", seen.error);
    }
    let nowhere = Command::new("sh")
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("check"))
        .args(["--binaries", "nowhere"])
        .output();
    let nowhere = Seen::of(&nowhere.expect("starts"));
    assert_eq!(nowhere.status, Some(2), "{}", nowhere.error);
}

/// Every part runs, through the CUDA executor and the stand-in, and nothing looks like hardware.
#[test]
fn the_whole_check_on_a_stand_in() {
    let (packed, library) = (packed("whole"), stand_in("whole-library"));
    let seen = check(&packed, &library, &["--quick"]);
    let words = format!("{}{}", seen.out, seen.error);
    assert_eq!(seen.status, Some(0), "{words}");
    assert!(seen.out.contains("NOT HARDWARE"), "{words}");
    let record = std::fs::read(packed.join("gpu-check.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("is JSON");
    assert_eq!(record["passed"], true, "{words}");
    assert_eq!(record["device"]["on_hardware"], false);
    let name = record["device"]["name"].as_str().expect("a name");
    assert!(name.contains("stand-in"), "{name}");
    assert_eq!(record["ptx"]["sources"].as_str().map(str::len), Some(64));
    let parts = record["parts"].as_array().expect("parts");
    let names: Vec<&str> = parts
        .iter()
        .filter_map(|part| part["name"].as_str())
        .collect();
    assert_eq!(names, PARTS);
    for part in parts {
        assert_eq!(part["on_hardware"], false, "{part}");
        assert_eq!(part["passed"], true, "{part}");
        assert_ne!(part["values"], Value::Null, "{part}");
    }
    let of = |name: &str| {
        let part = parts.iter().find(|part| part["name"] == name);
        part.map(|part| &part["values"]).expect("is there")
    };
    let comparisons = of("parity")["comparisons"].as_array().expect("comparisons");
    for kernel in &parts[0]["values"]["kernels"].as_array().expect("kernels")[..] {
        for machine in ["virtual", "cuda"] {
            let compared = |row: &&Value| {
                row["kernel"] == kernel["name"] && row["machine"] == machine && row["seeds"] == 1
            };
            let name = &kernel["name"];
            assert!(
                comparisons.iter().any(|row| compared(&row)),
                "{name} on {machine}"
            );
        }
    }
    assert!(of("clock")["step_ns"]["p50"].as_u64() > Some(0));
    assert_eq!(of("latency")["doorbells"], 300);
    assert!(of("sweeps")["parse_64"]["ratio_to_copy"].as_f64() > Some(0.0));
    assert!(of("slices")["launch_a_batch"]["launches"].as_u64() > Some(10));
    let rates = of("rates")["rates"].as_array().expect("rates");
    assert_eq!(
        rates.len(),
        16,
        "two directions, three sizes and one of them twice, two numbers of blocks"
    );
}

/// Kernels that do not what their names say are found, on the device and on the virtual GPU.
#[test]
fn a_wrong_kernel_is_found() {
    let (packed, library) = (packed("swapped"), stand_in("swapped-library"));
    let ptx = std::fs::read_to_string(packed.join("warpwire.ptx")).expect("is there");
    let swapped = ptx
        .replace(".entry gauge_parse(", ".entry gauge_other(")
        .replace(".entry gauge_icrc(", ".entry gauge_parse(")
        .replace(".entry gauge_other(", ".entry gauge_icrc(");
    assert_ne!(swapped, ptx);
    std::fs::write(packed.join("swapped.ptx"), swapped).expect("can be written");
    // One program is enough here.
    let program = std::fs::read_dir(packed.join("corpus")).expect("is there");
    let program = program.map(|entry| entry.expect("can be read").path());
    let program = program.max_by_key(|path| std::fs::metadata(path).map_or(0, |file| file.len()));
    let few = packed.join("few");
    std::fs::create_dir(&few).expect("a folder can be made");
    std::fs::copy(program.expect("one"), few.join("program")).expect("can be copied");
    let words = ["--quick", "--ptx", "swapped.ptx", "--corpus", "few"];
    let seen = check(&packed, &library, &words);
    assert_eq!(seen.status, Some(1), "{}{}", seen.out, seen.error);
    let record = std::fs::read(packed.join("gpu-check.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("is JSON");
    let parts = record["parts"].as_array().expect("parts");
    let parity = parts.iter().find(|part| part["name"] == "parity");
    let parity = parity.expect("was compared");
    let rows = parity["values"]["comparisons"].as_array().expect("rows");
    let wrong = rows.iter().filter(|row| row["difference"].is_string());
    let mut wrong: Vec<_> = wrong
        .map(|row| (row["kernel"].as_str(), row["machine"].as_str()))
        .collect();
    wrong.sort_unstable();
    let want = ["gauge_icrc", "gauge_parse"]
        .map(|kernel| ["cuda", "virtual"].map(|machine| (Some(kernel), Some(machine))));
    assert_eq!(wrong, want.concat(), "{parity}");
}

/// Sizes for a GPU take a stand-in too long: the check ends all the same, and says what is missing.
#[test]
fn the_deadline_holds() {
    let (packed, library) = (packed("late"), stand_in("late-library"));
    let begun = Instant::now();
    let seen = check(&packed, &library, &["--seconds", "2"]);
    let took = begun.elapsed();
    assert_eq!(seen.status, Some(1), "{}{}", seen.out, seen.error);
    assert!(took < Duration::from_secs(20), "{took:?}");
    let record = std::fs::read(packed.join("gpu-check.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("is JSON");
    assert_eq!(record["passed"], false);
    let parts = record["parts"].as_array().expect("parts");
    let reasons = parts.iter().filter_map(|part| part["failure"].as_str());
    let reasons: Vec<&str> = reasons.collect();
    assert!(!reasons.is_empty(), "{record}");
}

/// A part that fails is in the record, and the others run all the same.
#[test]
fn a_failure_is_recorded() {
    let (packed, library) = (packed("broken"), stand_in("broken-library"));
    let ptx = packed.join("broken.ptx");
    std::fs::write(&ptx, ".version 8.3\n.target sm_80\nnonsense\n").expect("can be written");
    let seen = check(&packed, &library, &["--quick", "--ptx", "broken.ptx"]);
    assert_eq!(seen.status, Some(1), "{}{}", seen.out, seen.error);
    let record = std::fs::read(packed.join("gpu-check.json")).expect("a record");
    let record: Value = serde_json::from_slice(&record).expect("is JSON");
    assert_eq!(record["passed"], false);
    let part = &record["parts"][0];
    assert_eq!(
        (&part["name"], &part["passed"]),
        (&"load".into(), &false.into())
    );
    let why = part["failure"].as_str().expect("a reason");
    assert!(why.contains("line 3 of the PTX"), "{why}");
}

const PARTS: &[&str] = &[
    "load", "parity", "clock", "latency", "sweeps", "slices", "rates",
];
