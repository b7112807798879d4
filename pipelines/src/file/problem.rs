//! What is wrong with a pipeline file: where, which field, what, and what to write instead.

use std::fmt;

/// One thing that is wrong with a pipeline file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problem {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// The field, as a path: `receive[0].stage[2].to`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub cure: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            line,
            column,
            field,
            problem,
            cure,
        } = self;
        write!(f, "{line}:{column}: {field}: {problem}; {cure}")
    }
}

/// Everything that is wrong with a pipeline file, in the order of its lines. Never empty.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub struct Problems {
    /// The file's name, as it was given.
    pub file: String,
    /// The problems.
    pub list: Vec<Problem>,
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.list.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{problem}", self.file)?;
        }
        Ok(())
    }
}
