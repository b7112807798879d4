//! Cases of a comparison: what we say, what the judge says, and why a difference is right.

use crate::table::Table;

/// One question put to both sides.
#[derive(Clone, Debug)]
pub struct Case {
    /// What was asked.
    pub name: String,
    /// Our answer.
    pub ours: String,
    /// The judge's answer.
    pub judge: String,
    /// Why the two may differ; none means that they must not.
    pub explanation: Option<String>,
}

/// What a case comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Both say the same.
    Same,
    /// They differ, and the case says why that is right.
    Explained,
    /// They differ.
    Differs,
    /// They agree where the case explains a difference: the explanation is out of date.
    Stale,
}

impl Case {
    /// Compares the two answers.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.ours == self.judge, &self.explanation) {
            (true, None) => Verdict::Same,
            (true, Some(_)) => Verdict::Stale,
            (false, Some(_)) => Verdict::Explained,
            (false, None) => Verdict::Differs,
        }
    }

    /// Whether the case counts as passed.
    #[must_use]
    pub fn is_right(&self) -> bool {
        matches!(self.verdict(), Verdict::Same | Verdict::Explained)
    }
}

/// The cases as a table, one a row.
#[must_use]
pub fn table(cases: &[Case]) -> Table {
    let mut table = Table::new(&["case", "ours", "judge", "verdict", "explanation"]);
    for case in cases {
        let verdict = match case.verdict() {
            Verdict::Same => "same",
            Verdict::Explained => "explained",
            Verdict::Differs => "DIFFERS",
            Verdict::Stale => "STALE EXPLANATION",
        };
        let explanation = case.explanation.as_deref().unwrap_or("");
        table.row([
            case.name.as_str(),
            &case.ours,
            &case.judge,
            verdict,
            explanation,
        ]);
    }
    table
}

/// Prints the table and the closing line; whether every case is right.
#[must_use]
pub fn conclude(cases: &[Case]) -> bool {
    let passed = cases.iter().filter(|case| case.is_right()).count();
    println!(
        "{}{passed} passed, {} failed",
        table(cases),
        cases.len() - passed
    );
    passed == cases.len() && !cases.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_needs_an_explanation_and_an_explanation_a_difference() {
        let check = |ours: &str, judge: &str, why: Option<&str>, verdict, right| {
            let case = Case {
                name: "frames".into(),
                ours: ours.into(),
                judge: judge.into(),
                explanation: why.map(str::to_owned),
            };
            assert_eq!((case.verdict(), case.is_right()), (verdict, right));
        };
        check("1", "1", None, Verdict::Same, true);
        check(
            "1",
            "2",
            Some("truncated capture"),
            Verdict::Explained,
            true,
        );
        check("1", "2", None, Verdict::Differs, false);
        check("1", "1", Some("truncated capture"), Verdict::Stale, false);
    }

    #[test]
    fn no_cases_prove_nothing() {
        assert!(!conclude(&[]));
    }
}
