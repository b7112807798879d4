//! Pipeline files: reading them, and saying what is wrong with them.
//!
//! ```toml
//! name = "responder"            # for reports; optional
//! blocks = 1                    # blocks of the kernel; optional
//! duration = "10s"              # optional
//!
//! [nic.left]
//! open = "xdp:veth0"            # the grammar of NICs
//! mode = "native"               # any other key is an option of that kind of NIC
//! addresses = ["10.0.0.2"]      # for stages that answer
//!
//! [[receive]]
//! from = "left"
//!
//! [[receive.stage]]
//! do = "respond"                # one of `warpwire stages`
//! when = { kind = "arp" }       # only for frames that match; optional, for every stage
//!
//! [[generate]]                  # traffic to be made
//! from = "left"
//! rate = 1000                   # frames a second; as many as there are slots for if absent
//!
//! [[generate.frame]]
//! kind = "udp"                  # or arp, ping, tcp, dns, http, roce, cut
//! flows = 16
//! ```
//! A frame passes the stages of its NIC in order until one of them ends its way; a frame that comes
//! out at the far end is dropped and counted as `unclaimed`.

mod document;
mod generate;
mod nic;
mod problem;
mod receive;
mod rule;
mod stage;
mod values;

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use toml::de::DeTable;
use warpwire_core::spec::Spec;
use warpwire_core::stage::StageSet;

use document::{Document, Section, printable};

pub use generate::{FrameEntry, GenerateEntry};
pub use nic::NicEntry;
pub use problem::{Problem, Problems};
pub use receive::ReceiveEntry;
pub use stage::{GatherEntry, StageEntry};
pub use values::duration;

/// Blocks that one kernel may have.
pub const MAX_BLOCKS: u32 = 8;

/// What to write for a duration.
pub const DURATIONS: &str = "a time such as 10s, 500ms or 2m, longer than none and up to 366 days";

/// Threads that an executor may have.
const MAX_THREADS: u64 = 64;

/// Bytes that a pipeline file may have.
pub const MAX_BYTES: usize = 1 << 20;

/// A pipeline file that was read and found sound.
#[derive(Clone, Debug)]
pub struct PipelineFile {
    /// The name in reports.
    pub name: String,
    /// Blocks of each kernel; every block drives queue pairs of its own.
    pub blocks: u32,
    /// How long to run; until stopped if absent.
    pub duration: Option<Duration>,
    /// The NICs, in the order of the file.
    pub nics: Vec<NicEntry>,
    /// What is done with received frames, in the order of the file.
    pub receives: Vec<ReceiveEntry>,
    /// Traffic to be made, in the order of the file.
    pub generators: Vec<GenerateEntry>,
    /// Threads of the executor; one for each kernel and service, as far as there are processors, if
    /// absent.
    pub threads: Option<usize>,
    /// Decides all chance of the soft NICs.
    pub seed: u64,
}

/// The stages that a file may name, in the order of the kernel's table.
#[derive(Clone, Copy, Debug)]
pub struct Catalogue {
    specs: &'static [&'static Spec],
}

impl Catalogue {
    /// The stages of a set.
    pub const fn of<Set: StageSet>() -> Self {
        Self { specs: Set::SPECS }
    }

    /// What each stage says about itself.
    pub fn specs(&self) -> &'static [&'static Spec] {
        self.specs
    }

    /// The words for the stages.
    pub fn names(&self) -> Vec<&'static str> {
        self.specs.iter().map(|spec| spec.name).collect()
    }

    /// A stage by its word: its place, and what it says about itself.
    pub fn find(&self, word: &str) -> Option<(u32, &'static Spec)> {
        let place = self.specs.iter().position(|spec| spec.name == word)?;
        let spec = self.specs.get(place)?;
        Some((u32::try_from(place).ok()?, spec))
    }
}

impl PipelineFile {
    /// Reads and checks a file without touching any hardware.
    ///
    /// # Errors
    /// Everything that is wrong with it; a file that cannot be read counts as one problem in line
    /// 1.
    pub fn load(path: &Path, catalogue: &Catalogue) -> Result<Self, Problems> {
        let file = path.display().to_string();
        match read_bounded(path) {
            Ok(text) => Self::parse(&file, &text, catalogue),
            Err(error) => Err(Problems {
                file,
                list: vec![Problem {
                    line: 1,
                    column: 1,
                    field: "file".to_owned(),
                    problem: format!("cannot be read: {error}"),
                    cure: "name a readable file of UTF-8 text".to_owned(),
                }],
            }),
        }
    }

    /// Reads and checks a file's text; `file` is its name in problems.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(file: &str, text: &str, catalogue: &Catalogue) -> Result<Self, Problems> {
        let document = Document::new(text);
        let read = if text.len() > MAX_BYTES {
            let cure = format!("write at most {MAX_BYTES} bytes");
            let problem = format!("has more than {MAX_BYTES} bytes");
            document.note(0..0, "file", problem, cure);
            None
        } else {
            parse_toml(&document, text).map(|table| read(file, &table, &document, catalogue))
        };
        match read {
            Some(pipeline) if document.noted() == 0 => Ok(pipeline),
            _ => Err(Problems {
                file: file.to_owned(),
                list: document.into_problems(),
            }),
        }
    }

    /// Puts files that stages write, and that are named without a folder, into this one.
    pub fn place_files_in(&mut self, folder: &Path) {
        let stages = self.receives.iter_mut().flat_map(|one| &mut one.stages);
        for stage in stages {
            let rows = stage.gather.as_mut().map(|gather| &mut gather.files);
            let rows = rows
                .into_iter()
                .flat_map(|files| [&mut files.samples, &mut files.headers]);
            for path in rows.flatten().chain(&mut stage.file) {
                *path = folder.join(&*path);
            }
        }
    }

    /// Puts a stage in front of every receive that samples all frames into one file.
    pub fn capture_all(&mut self, path: &Path, catalogue: &Catalogue) {
        for receive in &mut self.receives {
            let line = receive.line;
            if let Some(stage) = StageEntry::capture(path, line, catalogue) {
                receive.stages.insert(0, stage);
            }
        }
    }

    /// A NIC's place by its name.
    pub fn nic(&self, name: &str) -> Option<usize> {
        self.nics.iter().position(|nic| nic.name == name)
    }
}

/// Reads a text of at most one byte more than a pipeline file may have: that is too many for the
/// parser, however much there is.
fn read_bounded(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    // A pipe or a device might keep who opens it waiting for ever.
    if !std::fs::metadata(path)?.is_file() {
        let why = "it is not a regular file";
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidInput, why));
    }
    let file = std::fs::File::open(path)?;
    file.take(MAX_BYTES as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

fn parse_toml<'t>(document: &Document<'_>, text: &'t str) -> Option<toml::Spanned<DeTable<'t>>> {
    let error = match DeTable::parse(text) {
        Ok(table) => return Some(table),
        Err(error) => error,
    };
    let span = error.span().unwrap_or(0..0);
    let mut problem = error.message().trim().replace('\n', "; ");
    let mut cure = "see toml.io for the syntax";
    if problem == "duplicate key" {
        let key = text.get(span.clone()).unwrap_or_default();
        problem = format!("`{}` is there twice", printable(key));
        cure = "leave one of them out";
    }
    document.note(span, "toml", problem, cure.to_owned());
    None
}

fn read<'d>(
    file: &str,
    table: &'d toml::Spanned<DeTable<'d>>,
    document: &'d Document<'d>,
    catalogue: &Catalogue,
) -> PipelineFile {
    let root = Section::root(document, table);
    let stem = Path::new(file)
        .file_stem()
        .map_or_else(|| file.into(), |stem| stem.to_string_lossy());
    let name = root.take("name").and_then(|entry| entry.text("a name"));
    let blocks = root
        .take("blocks")
        .and_then(|entry| entry.number(1..=u64::from(MAX_BLOCKS)));
    let span = root
        .take("duration")
        .and_then(|entry| entry.read(DURATIONS, duration));
    let number = |key, low, high| root.take(key).and_then(|entry| entry.number(low..=high));
    let threads = number("threads", 1, MAX_THREADS);
    let seed = number("seed", 0, u64::MAX);
    let nics = nic::read_all(&root);
    let generators = generate::read_all(&root, &nics);
    let receives = receive::read_all(&root, &nics, catalogue);
    if receives.is_empty() && generators.is_empty() && document.noted() == 0 {
        let cure = "write [[receive]] with from = \"NIC\" and [[receive.stage]] tables";
        root.note(
            "receive",
            "is missing, and [[generate]] too".to_owned(),
            cure.to_owned(),
        );
    }
    root.finish();
    let pipeline = PipelineFile {
        name: name.map_or_else(|| stem.into_owned(), str::to_owned),
        blocks: blocks.map_or(1, |blocks| blocks as u32),
        duration: span,
        nics,
        receives,
        generators,
        threads: threads.map(|threads| threads as usize),
        seed: seed.unwrap_or(1),
    };
    if document.noted() == 0 {
        receive::check_queues(&root, &pipeline);
    }
    pipeline
}

#[cfg(test)]
mod tests;
