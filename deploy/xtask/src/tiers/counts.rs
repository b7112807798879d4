//! How many tests passed, failed and were skipped.

use crate::process::{self, Outcome, SKIPPED};
use std::collections::BTreeSet;
use std::process::Command;

/// Counts of tests. A skipped test is not a passed one, though its harness says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) passed: usize,
    pub(super) failed: usize,
    pub(super) skipped: usize,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl Counts {
    /// A command that is one check by itself.
    pub(super) fn of_check(command: &Command, outcome: &Outcome) -> Self {
        if outcome.is_success() {
            return Self {
                passed: 1,
                ..Self::default()
            };
        }
        println!("{}: {}", process::in_words(command), outcome.end_in_words());
        Self {
            failed: 1,
            ..Self::default()
        }
    }

    /// A table of cases: what its closing line says, and the judges that were not heard.
    pub(super) fn of_cases(outcome: &Outcome) -> Self {
        let last = outcome.stdout.lines().last().unwrap_or("");
        let skips = outcome.stderr.lines();
        let mut counts = Self {
            passed: number_before(last, " passed"),
            failed: number_before(last, " failed"),
            skipped: skips.filter(|line| line.starts_with(SKIPPED)).count(),
        };
        if !outcome.is_success() && counts.failed == 0 {
            counts.failed = 1;
        }
        counts
    }

    /// A program of tests: what its harness says, less the tests that skipped themselves.
    pub(super) fn of_tests(outcome: &Outcome) -> Self {
        let mut counts = Self::of_text(&outcome.stdout, &outcome.stderr);
        // A crash, a deadline or a harness of its own kind leaves no failed count.
        if !outcome.is_success() && counts.failed == 0 {
            counts.failed = 1;
        }
        if outcome.is_success() && counts == Self::default() && !has_result(&outcome.stdout) {
            counts.passed = 1;
        }
        counts
    }

    fn of_text(stdout: &str, stderr: &str) -> Self {
        let skips: BTreeSet<&str> = stderr
            .lines()
            .filter_map(|line| line.strip_prefix(SKIPPED)?.split_once(": "))
            .map(|(name, _)| name)
            .collect();
        let mut counts = Self::default();
        for line in stdout.lines().filter(|line| line.starts_with(RESULT)) {
            counts.passed += number_before(line, " passed");
            counts.failed += number_before(line, " failed");
            counts.skipped += number_before(line, " ignored");
        }
        // Under a failing skip the harness has counted a failure already.
        let passed_skips = skips.len().min(counts.passed);
        counts.passed -= passed_skips;
        counts.skipped += passed_skips;
        counts
    }
}

fn has_result(stdout: &str) -> bool {
    stdout.lines().any(|line| line.starts_with(RESULT))
}

fn number_before(line: &str, word: &str) -> usize {
    let before = line.split_once(word).map_or("", |(before, _)| before);
    before
        .rsplit(' ')
        .next()
        .and_then(|digits| digits.parse().ok())
        .unwrap_or(0)
}

/// How the closing line of Rust's test harness begins.
const RESULT: &str = "test result: ";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_tests_are_not_passed_ones() {
        let check = |stdout: &str, stderr: &str, (passed, failed, skipped)| {
            let counts = Counts::of_text(stdout, stderr);
            assert_eq!(
                counts,
                Counts {
                    passed,
                    failed,
                    skipped
                }
            );
        };
        let result = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out";
        check(result, "", (12, 0, 1));
        check(
            result,
            "SKIPPED a: no root\nSKIPPED a: again\nSKIPPED b: no gpu\n",
            (10, 0, 3),
        );
        check(&format!("{result}\nx\n{result}\n"), "", (24, 0, 2));
        check(
            "test result: FAILED. 3 passed; 2 failed; 0 ignored;",
            "",
            (3, 2, 0),
        );
        check("nothing here", "", (0, 0, 0));
    }
}
