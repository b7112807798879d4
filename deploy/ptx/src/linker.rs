//! The linker that rustc calls for nvptx64: LLVM bitcode in, PTX out.
//!
//! rustc hands over bitcode objects, rlibs, and the names that must stay visible. Everything is
//! linked into one module, all other names become internal, the whole is optimised once more, and
//! LLVM's back end writes PTX.

use crate::Error;
use crate::Target;
use crate::process::{self, Show};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Set to the folder of LLVM's programs, this variable makes a binary that asks [`main`] a linker.
pub const LLVM_VARIABLE: &str = "WARPWIRE_PTX_LLVM";

/// Names the PTX version for the back end, as `+ptx83`.
pub const FEATURES_VARIABLE: &str = "WARPWIRE_PTX_FEATURES";

/// What happens between bitcode and PTX; part of the hash of the sources.
pub const RECIPE: &str = "llvm-link; internalize,globaldce,default<O3>,globaldce, no vectors for \
                          sm_100; llc -O3, copies up to 256 bytes unrolled";

/// Before the recipe, this makes an argument that only says which one is meant.
pub const RECIPE_WORD: &str = "--recipe=";

/// Links as rustc asks, if this process was started as a linker.
pub fn main() -> Option<Result<(), Error>> {
    let llvm = std::env::var_os(LLVM_VARIABLE)?;
    let features = std::env::var(FEATURES_VARIABLE).unwrap_or_default();
    let request = Request::parse(std::env::args_os().skip(1));
    Some(request.and_then(|request| request.link(Path::new(&llvm), &features)))
}

/// LLVM 22 takes vectors of two words for legal on sm_100, makes them of what stands side by side,
/// and then cannot reverse their bytes.
const NO_VECTORS: &str = "--vectorize-slp=false";

/// The back end makes loops over bytes of all copies above 64 bytes, however they are aligned:
/// seven instructions a byte. Results of several words that functions hand back are copied so.
const COPIES: &str = "--mem-intrinsic-expand-size=256";

/// What rustc wants linked.
#[derive(Debug, Default, PartialEq, Eq)]
struct Request {
    objects: Vec<PathBuf>,
    archives: Vec<PathBuf>,
    exports: Vec<String>,
    processor: String,
    output: PathBuf,
}

impl Request {
    fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Self, Error> {
        let mut request = Self::default();
        let mut words = words.into_iter();
        while let Some(word) = words.next() {
            let text = word.to_string_lossy().into_owned();
            let mut value = || {
                words.next().ok_or_else(|| {
                    Error::Environment(format!("rustc gave the linker `{text}` without a value"))
                })
            };
            match text.as_str() {
                "-o" => request.output = value()?.into(),
                "--target-cpu" => request.processor = value()?.to_string_lossy().into_owned(),
                "--export-symbol" => {
                    request
                        .exports
                        .push(value()?.to_string_lossy().into_owned());
                }
                // Search folders hold nothing for this target; the target is known.
                "-L" | "--target" => drop(value()?),
                "--debug" | "--release" => {}
                level if level.starts_with("-O") => {}
                recipe if recipe.strip_prefix(RECIPE_WORD) == Some(RECIPE) => {}
                path if path.ends_with(".rlib") => request.archives.push(word.into()),
                path if path.ends_with(".o") => request.objects.push(word.into()),
                other => {
                    return Err(Error::Environment(format!(
                        "rustc gave the linker `{other}`, which it does not know: \
                         this rustc is newer than the tool, teach deploy/ptx/src/linker.rs"
                    )));
                }
            }
        }
        request.checked()
    }

    fn checked(self) -> Result<Self, Error> {
        let lacks = [
            (self.output.as_os_str().is_empty(), "an output (-o)"),
            (
                self.processor.is_empty(),
                "a processor (--target-cpu): set -C target-cpu",
            ),
            (self.objects.is_empty(), "any object file"),
        ];
        match lacks.iter().find(|(lacks, _)| *lacks) {
            Some((_, what)) => Err(Error::Environment(format!(
                "rustc did not give the linker {what}"
            ))),
            None => Ok(self),
        }
    }

    fn link(&self, llvm: &Path, features: &str) -> Result<(), Error> {
        let scratch = Scratch::new(self.output.with_extension("link"))?;
        let mut inputs = self.objects.clone();
        for (index, archive) in self.archives.iter().enumerate() {
            let folder = scratch.folder(&index.to_string())?;
            inputs.extend(extract(llvm, archive, &folder)?);
        }

        let linked = scratch.path.join("linked.bc");
        let mut command = Command::new(llvm.join("llvm-link"));
        run(command.args(&inputs).arg("-o").arg(&linked))?;

        let optimised = scratch.path.join("optimised.bc");
        let mut command = Command::new(llvm.join("opt"));
        command.arg("--passes=internalize,globaldce,default<O3>,globaldce");
        let exports = self.exports.join(",");
        command.arg(format!("--internalize-public-api-list={exports}"));
        if self.processor == Target::Sm100.to_string() {
            command.arg(NO_VECTORS);
        }
        run(command.arg(&linked).arg("-o").arg(&optimised))?;

        let mut command = Command::new(llvm.join("llc"));
        command.arg("-O3").arg(format!("-mcpu={}", self.processor));
        command.arg(format!("-mattr={features}")).arg(COPIES);
        run(command.arg(&optimised).arg("-o").arg(&self.output))
    }
}

/// Takes the bitcode objects out of an rlib; the rest of it is for the compiler.
fn extract(llvm: &Path, archive: &Path, folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut command = Command::new(llvm.join("llvm-ar"));
    let listing = process::run_well(command.arg("t").arg(archive), LIMIT, Show::Nothing)?;
    let members: Vec<&str> = listing
        .stdout
        .lines()
        .filter(|name| name.ends_with(".o"))
        .collect();
    if members.iter().collect::<BTreeSet<_>>().len() != members.len() {
        return Err(Error::content(
            archive,
            "two members of one name would overwrite each other",
        ));
    }
    if members.is_empty() {
        return Ok(Vec::new());
    }
    let mut command = Command::new(llvm.join("llvm-ar"));
    run(command
        .current_dir(folder)
        .arg("x")
        .arg(archive)
        .args(&members))?;
    Ok(members.iter().map(|name| folder.join(name)).collect())
}

fn run(command: &mut Command) -> Result<(), Error> {
    process::run_well(command, LIMIT, Show::Nothing).map(drop)
}

/// A folder that goes when the link is over, however it went.
struct Scratch {
    path: PathBuf,
}

impl Scratch {
    fn new(path: PathBuf) -> Result<Self, Error> {
        let scratch = Self { path };
        scratch.remove();
        std::fs::create_dir_all(&scratch.path)
            .map_err(|source| Error::file(&scratch.path, source))?;
        Ok(scratch)
    }

    fn folder(&self, name: &str) -> Result<PathBuf, Error> {
        let path = self.path.join(name);
        std::fs::create_dir(&path).map_err(|source| Error::file(&path, source))?;
        Ok(path)
    }

    fn remove(&self) {
        // It may not be there; whether it goes changes nothing about the PTX.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        self.remove();
    }
}

/// For one program of LLVM.
const LIMIT: Duration = Duration::from_secs(300);

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Request, Error> {
        Request::parse(words.split_whitespace().map(OsString::from))
    }

    #[test]
    fn what_rustc_says_is_understood() {
        let words = "--export-symbol a --export-symbol b /t/k.rcgu.o /t/libcore-1.rlib -L /t/raw \
                     --target nvptx64-nvidia-cuda --target-cpu sm_80 -o /t/k.ptx -O3 --debug";
        let expected = Request {
            objects: vec!["/t/k.rcgu.o".into()],
            archives: vec!["/t/libcore-1.rlib".into()],
            exports: vec!["a".into(), "b".into()],
            processor: "sm_80".into(),
            output: "/t/k.ptx".into(),
        };
        assert_eq!(parse(words).unwrap(), expected);
    }

    #[test]
    fn what_rustc_must_not_say_is_refused_by_name() {
        let check = |words: &str, part: &str| {
            let error = parse(words).unwrap_err().to_string();
            assert!(error.contains(part), "{words}: {error}");
        };
        check("a.o --target-cpu sm_80", "-o");
        check("a.o -o x", "--target-cpu");
        check("--target-cpu sm_80 -o x", "object");
        check("a.o --target-cpu sm_80 -o", "`-o` without a value");
        check("a.o --target-cpu sm_80 -o x --gc-sections", "--gc-sections");
        check("@arguments", "@arguments");
    }
}
