//! What libFuzzer says of a run.

/// What a run came to.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Statistics {
    /// Inputs that were run.
    pub(super) executions: u64,
    /// Inputs that are worth keeping.
    pub(super) corpus: u64,
    /// Edges that were reached.
    pub(super) edges: u64,
    /// Files with inputs that fail.
    pub(super) findings: Vec<String>,
}

impl Statistics {
    /// Reads libFuzzer's lines: `#2000 NEW cov: 7 ft: 9 corp: 3/12b ...`, its final figures, and
    /// where it wrote what failed.
    pub(super) fn parse(text: &str) -> Self {
        let mut statistics = Self::default();
        for line in text.lines() {
            if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
                statistics.executions = count.trim().parse().unwrap_or(0);
            } else if let Some((_, file)) = line.split_once("Test unit written to ") {
                statistics.findings.push(file.trim().to_owned());
            } else if line.starts_with('#')
                && let (Some(edges), Some(corpus)) = (after(line, "cov:"), after(line, "corp:"))
            {
                statistics.edges = edges;
                statistics.corpus = corpus;
            }
        }
        statistics
    }
}

impl std::fmt::Display for Statistics {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            executions,
            edges,
            findings,
            ..
        } = self;
        let findings = findings.len();
        write!(
            out,
            "{executions} executions, {edges} edges, {findings} findings"
        )
    }
}

/// The number behind a word.
fn after(line: &str, word: &str) -> Option<u64> {
    let (_, rest) = line.split_once(word)?;
    let digits = rest.trim_start();
    let end = digits.find(|letter: char| !letter.is_ascii_digit());
    digits.get(..end.unwrap_or(digits.len()))?.parse().ok()
}

/// Of what a failing run wrote, the lines before its call stack.
pub(super) fn essence(text: &str) -> String {
    let is_progress = |line: &&str| line.starts_with(['#', '\t']) || line.starts_with("INFO:");
    let lines = text.lines().filter(|line| !is_progress(line));
    let told = lines.take_while(|line| !line.trim_start().starts_with("#0 "));
    told.take(MOST_LINES).collect::<Vec<_>>().join("\n")
}

const MOST_LINES: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "\
INFO: seed corpus: files: 2 min: 1b max: 9b total: 10b rss: 30Mb
#3\tINITED cov: 12 ft: 13 corp: 2/10b exec/s: 0 rss: 30Mb
#2048\tpulse  cov: 345 ft: 400 corp: 67/1234b lim: 20 exec/s: 1024 rss: 40Mb

thread '<unnamed>' panicked at bench/fuzz/src/parser.rs:9:5:
left is not right
==12== ERROR: libFuzzer: deadly signal
    #0 0x55 in __sanitizer_print_stack_trace
    #1 0x56 in somewhere
artifact_prefix='x/'; Test unit written to x/crash-01
stat::number_of_executed_units: 4096
";

    #[test]
    fn figures_and_findings_are_read() {
        let statistics = Statistics::parse(RUN);
        let expected = Statistics {
            executions: 4096,
            corpus: 67,
            edges: 345,
            findings: vec!["x/crash-01".to_owned()],
        };
        assert_eq!(statistics, expected);
        let words = "4096 executions, 345 edges, 1 findings";
        assert_eq!(statistics.to_string(), words);
        assert_eq!(Statistics::parse("#7\tNEW\n"), Statistics::default());
    }

    #[test]
    fn the_essence_is_what_the_panic_said() {
        let essence = essence(RUN);
        assert!(essence.contains("left is not right"), "{essence}");
        assert!(!essence.contains("somewhere") && !essence.contains("pulse"));
    }
}
