//! The C compiler's view of `linux/if_xdp.h` against ours.

use std::collections::BTreeMap;
use std::mem::offset_of;
use std::path::Path;
use std::process::Command;

use warpwire_ring::xdp::{
    Descriptor, FLAG_NEED_WAKEUP, METADATA_BYTES, METADATA_CHECKSUM, OPTION_CONTINUED,
    OPTION_METADATA,
};

/// Sizes, offsets and constants that the rings use, by their C names.
fn ours() -> Vec<(&'static str, u64)> {
    vec![
        ("sizeof xdp_desc", size_of::<Descriptor>() as u64),
        ("xdp_desc.addr", offset_of!(Descriptor, address) as u64),
        ("xdp_desc.len", offset_of!(Descriptor, length) as u64),
        ("xdp_desc.options", offset_of!(Descriptor, options) as u64),
        ("XDP_RING_NEED_WAKEUP", FLAG_NEED_WAKEUP.into()),
        ("XDP_PKT_CONTD", OPTION_CONTINUED.into()),
        ("XDP_TX_METADATA", OPTION_METADATA.into()),
        ("XDP_TXMD_FLAGS_CHECKSUM", METADATA_CHECKSUM),
        ("sizeof xsk_tx_metadata", METADATA_BYTES.into()),
        ("xsk_tx_metadata.flags", 0),
        ("xsk_tx_metadata.request.csum_start", 8),
        ("xsk_tx_metadata.request.csum_offset", 10),
    ]
}

/// What the header says, or why it cannot be asked.
fn theirs() -> Result<BTreeMap<String, u64>, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/c_layout_xdp.c");
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c_layout_xdp");
    let compiled = Command::new("cc")
        .arg(source)
        .arg("-o")
        .arg(&program)
        .output();
    let compiled = compiled.map_err(|error| format!("no C compiler `cc`: {error}"))?;
    if !compiled.status.success() {
        let said = String::from_utf8_lossy(&compiled.stderr).into_owned();
        return Err(format!(
            "no usable linux/if_xdp.h (install linux-libc-dev): {said}"
        ));
    }
    let run = Command::new(&program)
        .output()
        .expect("the program just built runs");
    let lines = String::from_utf8(run.stdout).expect("names and numbers");
    let pair = |line: &str| {
        let (name, value) = line.rsplit_once(' ').expect("name and value");
        (name.to_owned(), value.parse().expect("a number"))
    };
    Ok(lines.lines().map(pair).collect())
}

#[test]
fn sizes_offsets_and_constants_equal_the_header() {
    let theirs = match theirs() {
        Ok(theirs) => theirs,
        Err(why) => return warpwire_skip::installable(why),
    };
    assert!(
        theirs.len() >= 5,
        "the header always has the descriptor: {theirs:?}"
    );
    let mut absent = Vec::new();
    for (name, value) in ours() {
        match theirs.get(name) {
            Some(theirs) => assert_eq!(*theirs, value, "{name}"),
            None => absent.push(name),
        }
    }
    if !absent.is_empty() {
        warpwire_skip::unobtainable(format!("not in this linux/if_xdp.h: {}", absent.join(", ")));
    }
    let names: Vec<_> = ours().into_iter().map(|(name, _)| name).collect();
    let unknown: Vec<_> = theirs
        .keys()
        .filter(|name| !names.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}
