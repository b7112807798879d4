//! What kernels do a packet, as a table for people and as JSON for programs.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use warpwire_bench::counts::source::{Parts, Sources};
use warpwire_bench::counts::{self, BATCH, DEFINITIONS, Row, TARGET};
use warpwire_virtual::{Module, Space, VirtualGpu};

/// Counts, and writes `path` and the text beside it. `lines` is the same PTX with line tables.
pub(super) fn write(path: &Path, ptx: &str, lines: Option<&str>) -> Result<(), String> {
    let gpu = gpu(ptx)?;
    let rows = counts::all(&gpu)?;
    let parts = match lines {
        None => Vec::new(),
        Some(text) => parts(text, &gpu)?,
    };
    let head = Head::new(ptx, lines.is_some());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let text = head.text() + &table(&rows) + &parts_in_words(&parts, &root);
    let record = json!({
        "what": WHAT,
        "commit": head.commit,
        "date": head.date,
        "ptx_sources": head.sources,
        "compiler": head.compiler,
        "definitions": DEFINITIONS.iter().copied().collect::<std::collections::BTreeMap<_, _>>(),
        "batch": BATCH,
        "pipeline": "classify, filter (2 rules), rewrite (MAC swap, TTL), reply",
        "target": {
            "kernel": TARGET.0,
            "frame_bytes": TARGET.1,
            "lane_instructions": TARGET.2[0],
            "sectors": TARGET.2[1],
        },
        "rows": rows.iter().map(of_row).collect::<Vec<_>>(),
        "parts": parts.iter().map(of_parts).collect::<Vec<_>>(),
    });
    let json = serde_json::to_string_pretty(&record).unwrap_or_default() + "\n";
    let beside = path.with_extension("txt");
    for (path, text) in [(path, &json), (&beside, &text)] {
        std::fs::write(path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    print!("{text}");
    println!("written to {} and {}", path.display(), beside.display());
    Ok(())
}

fn gpu(ptx: &str) -> Result<Arc<VirtualGpu>, String> {
    let module = Module::parse(ptx).map_err(|error| error.to_string())?;
    Ok(Arc::new(VirtualGpu::new(module)))
}

/// The rows whose parts are told, on the PTX with line tables.
fn parts(text: &str, plain: &VirtualGpu) -> Result<Vec<(Row, Parts)>, String> {
    let gpu = gpu(text)?;
    let (have, want) = (gpu.module().instructions(), plain.module().instructions());
    if have != want {
        return Err(format!(
            "the PTX with line tables has {have} instructions, and the other {want}: \
             build both from the same sources"
        ));
    }
    let sources = Sources::read(text);
    let rows = counts::for_parts(&gpu)?;
    let pair = |row: Row| {
        let parts = sources.parts(&row);
        (row, parts)
    };
    Ok(rows.into_iter().map(pair).collect())
}

/// What the figures belong to.
struct Head {
    commit: String,
    date: String,
    sources: String,
    compiler: String,
    has_parts: bool,
}

impl Head {
    fn new(ptx: &str, has_parts: bool) -> Self {
        let told = |mark: &str| {
            let line = ptx
                .lines()
                .take(10)
                .find_map(|line| line.strip_prefix(mark));
            line.map_or("not told".to_owned(), |words| words.trim().to_owned())
        };
        Self {
            commit: commit(),
            date: output("date", &["-u", "+%Y-%m-%d"]).unwrap_or_else(|| "unknown".to_owned()),
            sources: told("// sources: "),
            compiler: told("// compiler: "),
            has_parts,
        }
    }

    fn text(&self) -> String {
        let mut text = format!(
            "{WHAT}.\ncommit {}, {}; PTX of {}, {}\n\n",
            self.commit, self.date, self.sources, self.compiler
        );
        for (name, meaning) in DEFINITIONS {
            text.push_str(&wrapped(&format!("{name}: {meaning}.")));
        }
        if !self.has_parts {
            text.push_str("No parts: no PTX with line tables was given.\n");
        }
        text.push('\n');
        text
    }
}

fn commit() -> String {
    let git = |words: &[&str]| {
        output(
            "git",
            &[&["-C", env!("CARGO_MANIFEST_DIR")], words].concat(),
        )
    };
    let Some(commit) = git(&["rev-parse", "--short=12", "HEAD"]) else {
        return "unknown".to_owned();
    };
    match git(&["status", "--porcelain", "--untracked-files=no"]) {
        Some(changes) if changes.is_empty() => commit,
        _ => format!("{commit}, modified"),
    }
}

fn output(program: &str, words: &[&str]) -> Option<String> {
    let output = Command::new(program).args(words).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn table(rows: &[Row]) -> String {
    let mut text = format!(
        "{:26} {:20} {:>5}  {:>7} {:>7}  {:>7} {:>7} {:>7}  {:>7} {:>7}\n",
        "kernel",
        "over",
        "bytes",
        "instr.",
        "warp",
        "sectors",
        "loads",
        "stores",
        "local",
        "target"
    );
    for row in rows {
        let of = |space, direction| {
            let sectors = row.sectors.get(&(space, direction));
            sectors.copied().unwrap_or_default()
        };
        use warpwire_virtual::Direction::{Load, Store};
        let loads = of(Space::Global, Load) + of(Space::Const, Load);
        let _ = writeln!(
            text,
            "{:26} {:20} {:>5}  {:>7.1} {:>7.2}  {:>7.2} {:>7.2} {:>7.2}  {:>7.2} {:>7}",
            row.kernel,
            row.over,
            row.frame_bytes,
            row.lanes,
            row.warps,
            row.global_sectors(),
            loads,
            of(Space::Global, Store),
            row.local_sectors(),
            target(row),
        );
    }
    text
}

/// Whether a row reaches the target, if it has one.
fn target(row: &Row) -> &'static str {
    let (kernel, frame_bytes, [instructions, sectors]) = TARGET;
    if (row.kernel, row.frame_bytes) != (kernel, frame_bytes) || row.over != "mlx5" {
        return "";
    }
    match row.lanes <= instructions && row.global_sectors() <= sectors {
        true => "reached",
        false => "missed",
    }
}

fn of_row(row: &Row) -> Value {
    let classes = row.classes.iter();
    let classes = classes.map(|(class, lanes)| (format!("{class:?}").to_lowercase(), fine(*lanes)));
    let by_space = |map: &std::collections::BTreeMap<_, f64>| -> Value {
        let name = |(space, direction): &(Space, warpwire_virtual::Direction)| {
            format!("{space:?}_{direction:?}").to_lowercase()
        };
        map.iter()
            .map(|(kind, value)| (name(kind), fine(*value)))
            .collect()
    };
    json!({
        "kernel": row.kernel,
        "over": row.over,
        "frame_bytes": row.frame_bytes,
        "packets": row.packets,
        "lane_instructions": fine(row.lanes),
        "warp_instructions": fine(row.warps),
        "sectors": fine(row.global_sectors()),
        "local_sectors": fine(row.local_sectors()),
        "sectors_by_space": by_space(&row.sectors),
        "bytes_by_space": by_space(&row.bytes),
        "lane_instructions_by_class": classes.collect::<serde_json::Map<_, _>>(),
    })
}

fn of_parts((row, parts): &(Row, Parts)) -> Value {
    let list = |parts: &[(String, counts::source::Part)]| -> Vec<Value> {
        let part = |(place, part): &(String, counts::source::Part)| {
            json!({
                "place": place,
                "lane_instructions": fine(part.lanes),
                "warp_instructions": fine(part.warps),
                "sectors": fine(part.sectors),
                "local_sectors": fine(part.local_sectors),
            })
        };
        parts
            .iter()
            .filter(|(_, part)| counts(part))
            .map(part)
            .collect()
    };
    json!({
        "kernel": row.kernel,
        "over": row.over,
        "frame_bytes": row.frame_bytes,
        "statements": list(&parts.statements),
        "places": list(&parts.places),
    })
}

/// Whether a part is worth a line.
fn counts(part: &counts::source::Part) -> bool {
    part.lanes > 0.5 || part.sectors + part.local_sectors > 0.02
}

/// A sentence in lines of 100 columns at most.
fn wrapped(sentence: &str) -> String {
    let mut text = String::new();
    let mut column = 0;
    for word in sentence.split(' ') {
        if column > 0 && column + word.len() + 1 > 100 {
            text.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            text.push(' ');
            column += 1;
        }
        text.push_str(word);
        column += word.len();
    }
    text + "\n"
}

/// Rounded to what can be told apart.
fn fine(value: f64) -> Value {
    json!((value * 1000.0).round() / 1000.0)
}

/// The parts, with the text of the source that they stand for.
fn parts_in_words(parts: &[(Row, Parts)], root: &Path) -> String {
    let mut text = String::new();
    for (row, parts) in parts {
        let kinds = [
            ("by statement", &parts.statements, 25),
            ("by place", &parts.places, 40),
        ];
        for (what, list, most) in kinds {
            let _ = writeln!(
                text,
                "\n{} over {}, {} bytes, {what}: {:.1} instructions, {:.2} sectors\n\
                 {:>7} {:>6} {:>7} {:>6}  where",
                row.kernel,
                row.over,
                row.frame_bytes,
                row.lanes,
                row.global_sectors(),
                "instr.",
                "warp",
                "sectors",
                "local"
            );
            for (place, part) in list.iter().take(most).filter(|(_, part)| part.lanes > 0.05) {
                let _ = writeln!(
                    text,
                    "{:>7.2} {:>6.2} {:>7.2} {:>6.2}  {place}  {}",
                    part.lanes,
                    part.warps,
                    part.sectors,
                    part.local_sectors,
                    source(root, place)
                );
            }
        }
    }
    text
}

/// The line of source at a place, if it is one of ours.
fn source(root: &Path, place: &str) -> String {
    let line = place.rsplit_once(':').and_then(|(path, number)| {
        let text = std::fs::read_to_string(root.join(path)).ok()?;
        let number: usize = number.parse().ok()?;
        text.lines().nth(number.checked_sub(1)?).map(str::to_owned)
    });
    line.map_or(String::new(), |line| line.trim().to_owned())
}

const WHAT: &str = "counted on the virtual GPU, not measured on hardware";
