//! Pipeline files: any text is a pipeline, or problems that name line, field and cure.

use warpwire_core::stages::BuiltIn;
use warpwire_pipelines::file::MAX_BYTES;
use warpwire_pipelines::{Catalogue, PipelineFile, Problem, Problems};

/// `data` is a pipeline file.
pub fn check(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let parsed = parse(&text);
    match &parsed {
        Ok(file) => sound(file),
        Err(problems) => complete(&text, problems),
    }
    let moved = format!("# A comment moves all lines by one.\n{text}");
    // A byte order mark is one at the very start only.
    if moved.len() > MAX_BYTES || text.starts_with('\u{feff}') {
        return;
    }
    match (parsed, parse(&moved)) {
        (Ok(before), Ok(after)) => same_but_for_lines(before, after),
        (Err(before), Err(after)) => same_problems(&before.list, &after.list),
        (before, after) => panic!("a comment decides: {before:?} and {after:?}"),
    }
}

fn parse(text: &str) -> Result<PipelineFile, Problems> {
    PipelineFile::parse("fuzz.toml", text, &Catalogue::of::<BuiltIn>())
}

/// What later parts of the house rely on.
fn sound(file: &PipelineFile) {
    let count = file.nics.len();
    let is_nic = |nic: usize| nic < count;
    for receive in &file.receives {
        assert!(is_nic(receive.nic) && receive.line > 0);
        for stage in &receive.stages {
            assert!(stage.to.is_none_or(is_nic) && stage.line > 0);
            let end = stage.when.first as usize + stage.when.count as usize;
            assert!(end <= receive.rules.len(), "rules that there are not");
        }
    }
    for generator in &file.generators {
        assert!(is_nic(generator.nic) && !generator.frames.is_empty());
    }
    let mut members: Vec<usize> = file.groups().concat();
    members.sort_unstable();
    assert!(members.into_iter().eq(0..count), "each NIC is in one group");
}

fn complete(text: &str, problems: &Problems) {
    assert!(!problems.list.is_empty(), "refused without a reason");
    let lines = text.matches('\n').count() + 1;
    for problem in &problems.list {
        assert!((1..=lines).contains(&problem.line), "{problem:?}");
        assert!(problem.column > 0, "{problem:?}");
        for words in [&problem.field, &problem.problem, &problem.cure] {
            assert!(!words.trim().is_empty(), "{problem:?}");
            assert!(!words.contains(char::is_control), "{problem:?}");
        }
    }
    let ordered = problems.list.is_sorted_by_key(|problem| problem.line);
    assert!(ordered, "not in the order of lines: {problems}");
    assert!(problems.to_string().contains("fuzz.toml:"));
}

fn same_but_for_lines(before: PipelineFile, mut after: PipelineFile) {
    for receive in &mut after.receives {
        receive.line -= 1;
        for stage in &mut receive.stages {
            stage.line -= 1;
        }
    }
    for generator in &mut after.generators {
        generator.line -= 1;
    }
    for nic in &mut after.nics {
        nic.line -= 1;
    }
    assert_eq!(format!("{before:?}"), format!("{after:?}"));
}

/// What belongs to no line stays in the first.
fn same_problems(before: &[Problem], after: &[Problem]) {
    let words = |list: &[Problem]| {
        let mut words: Vec<String> = list
            .iter()
            .map(|problem| format!("{} {} {}", problem.field, problem.problem, problem.cure))
            .collect();
        words.sort();
        words
    };
    assert_eq!(words(before), words(after));
    let first = |list: &[Problem]| list.iter().map(|problem| problem.line).max();
    let (before, after) = (first(before), first(after));
    assert!(
        after == before || after == before.map(|line| line + 1),
        "{before:?} {after:?}"
    );
}
