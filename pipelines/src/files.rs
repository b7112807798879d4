//! The files that a run reads and writes: none is overwritten that it reads, and none is written
//! twice.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::file::{PipelineFile, Problem, Problems, StageEntry};

/// A file that is read or written.
#[derive(Clone, Debug)]
pub struct FileUse {
    /// What names it: a field of the pipeline file, or a word of the command line.
    pub field: String,
    /// The file.
    pub path: PathBuf,
    /// Whether it is written.
    pub is_written: bool,
    /// The line in the pipeline file; 1 if it stands elsewhere.
    pub line: usize,
}

impl FileUse {
    /// The pipeline file itself, which a run reads.
    pub fn of_pipeline(path: &Path) -> Self {
        Self {
            field: "the pipeline file".to_owned(),
            path: path.to_owned(),
            is_written: false,
            line: 1,
        }
    }
}

/// Checks that no file that is written is another that is read or written, `others` included, by
/// their paths and by what lies there; `name` is the pipeline file's, for problems. Stages may
/// share a file that they name in the same words.
///
/// # Errors
/// Each such file, with both fields. Nothing was touched.
pub fn check(name: &str, file: &PipelineFile, others: &[FileUse]) -> Result<(), Problems> {
    let mut uses = others.to_vec();
    uses.extend(of_nics(file));
    let samples = uses.len();
    uses.extend(of_stages(file, samples_of));
    let samples = samples..uses.len();
    uses.extend(of_stages(file, rows_of));
    let identities: Vec<Identity> = uses.iter().map(|one| Identity::of(&one.path)).collect();
    let mut list = Vec::new();
    for (place, one) in uses.iter().enumerate() {
        for (other_place, other) in uses.iter().enumerate().take(place) {
            let are_samples = samples.contains(&place) && samples.contains(&other_place);
            let shared = are_samples && one.path == other.path;
            let same = identities.get(place) == identities.get(other_place);
            if !same || shared || !(one.is_written || other.is_written) {
                continue;
            }
            // The one that writes is to blame.
            let (writer, other) = if one.is_written {
                (one, other)
            } else {
                (other, one)
            };
            list.push(problem(writer, other));
        }
    }
    match list.is_empty() {
        true => Ok(()),
        false => Err(Problems {
            file: name.to_owned(),
            list,
        }),
    }
}

fn problem(writer: &FileUse, other: &FileUse) -> Problem {
    let verb = if other.is_written {
        "is written"
    } else {
        "is read"
    };
    Problem {
        line: writer.line,
        column: 1,
        field: writer.field.clone(),
        problem: format!(
            "would overwrite `{}`, which {verb} by {}",
            other.path.display(),
            other.field
        ),
        cure: "name a file of its own".to_owned(),
    }
}

fn of_nics(file: &PipelineFile) -> impl Iterator<Item = FileUse> {
    file.nics.iter().flat_map(|nic| {
        let files = warpwire_nic::files(&nic.spec).into_iter();
        files.map(|one| FileUse {
            field: format!("nic.{}.{}", nic.name, one.field),
            path: one.path,
            is_written: one.is_written,
            line: nic.line,
        })
    })
}

/// Files that stages write, with the fields that name them.
type OfStage = fn(&StageEntry) -> Vec<(&'static str, &PathBuf)>;

fn of_stages(file: &PipelineFile, of: OfStage) -> impl Iterator<Item = FileUse> {
    let receives = file.receives.iter().enumerate();
    receives.flat_map(move |(place, receive)| {
        let stages = receive.stages.iter();
        stages.flat_map(move |stage| {
            of(stage).into_iter().map(move |(field, path)| FileUse {
                field: format!("receive[{place}].stage `{}`.{field}", stage.name),
                path: path.clone(),
                is_written: true,
                line: receive.line,
            })
        })
    })
}

fn samples_of(stage: &StageEntry) -> Vec<(&'static str, &PathBuf)> {
    stage.file.iter().map(|path| ("file", path)).collect()
}

fn rows_of(stage: &StageEntry) -> Vec<(&'static str, &PathBuf)> {
    let files = stage.gather.iter().map(|gather| &gather.files);
    let named =
        files.flat_map(|files| [("rows_to", &files.samples), ("headers_to", &files.headers)]);
    named
        .filter_map(|(field, path)| Some((field, path.as_ref()?)))
        .collect()
}

/// What tells files apart.
#[derive(PartialEq, Eq, Debug)]
enum Identity {
    /// Device and inode of what is there.
    There(u64, u64),
    /// Of what is not there: device and inode of the folder, and the name.
    Absent(Option<(u64, u64)>, OsString),
}

impl Identity {
    fn of(path: &Path) -> Self {
        let inode = |path: &Path| {
            let found = fs::metadata(path).ok();
            found.map(|found| (found.dev(), found.ino()))
        };
        if let Some((device, inode)) = inode(path) {
            return Self::There(device, inode);
        }
        // A link to what is not there yet makes that when it is written.
        if let Ok(target) = fs::read_link(path) {
            let target = path.parent().unwrap_or(Path::new("")).join(target);
            return Self::named(&target, inode);
        }
        Self::named(path, inode)
    }

    fn named(path: &Path, inode: impl Fn(&Path) -> Option<(u64, u64)>) -> Self {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = inode(folder.unwrap_or(Path::new(".")));
        let name = path.file_name().unwrap_or(path.as_os_str());
        Self::Absent(folder, name.to_owned())
    }
}
