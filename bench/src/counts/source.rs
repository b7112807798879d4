//! From lines of PTX to lines of source: by the line tables of a PTX that was built with them.

use std::collections::BTreeMap;

use super::{Line, Row};

/// Where each line of a PTX comes from.
#[derive(Clone, Debug, Default)]
pub struct Sources {
    /// By line of the PTX, from 1: the place in the source, then the calls that it was inlined
    /// through, outermost last. As `path:line`.
    chains: Vec<Vec<String>>,
}

impl Sources {
    /// Reads the comments that LLVM writes behind its line directives.
    pub fn read(ptx: &str) -> Self {
        let mut chains = vec![Vec::new()];
        let mut current = Vec::new();
        for line in ptx.lines() {
            let words = line.trim_start();
            if let Some((_, comment)) = words
                .strip_prefix(".loc")
                .and_then(|rest| rest.split_once("// "))
            {
                current = chain(comment);
            } else if words.starts_with(".visible") || words.starts_with(".func") {
                current = Vec::new();
            }
            chains.push(current.clone());
        }
        Self { chains }
    }

    /// The place of a line, innermost of those that are not core's own, and the statement of the
    /// outermost function that it was inlined into: behind what every entry point has.
    fn ends(&self, line: &Line) -> (&str, &str) {
        let chain = self.chains.get(line.line as usize);
        let chain = chain.map_or(&[][..], Vec::as_slice);
        let inner = chain.iter().find(|place| !place.starts_with("core/"));
        let outer = chain.iter().rev().find(|place| !place.contains(ENTRY));
        let inner = inner.or(chain.first());
        let outer = outer.or(chain.last());
        (
            inner.map_or(NOT_TOLD, String::as_str),
            outer.map_or(NOT_TOLD, String::as_str),
        )
    }

    /// What the parts of a row did, the largest first: by the statement of the outermost function
    /// that they belong to, and by the place where they stand.
    pub fn parts(&self, row: &Row) -> Parts {
        let (mut statements, mut places) = (BTreeMap::new(), BTreeMap::new());
        for line in &row.lines {
            let (inner, outer) = self.ends(line);
            let add = |map: &mut BTreeMap<String, Part>, place: &str| {
                let part = map.entry(place.to_owned()).or_default();
                part.lanes += line.lanes;
                part.warps += line.warps;
                part.sectors += line.sectors;
                part.local_sectors += line.local_sectors;
            };
            add(&mut statements, outer);
            add(&mut places, inner);
        }
        Parts {
            statements: sorted(statements),
            places: sorted(places),
        }
    }
}

/// A part's figures, a packet.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Part {
    /// Lane-instructions.
    pub lanes: f64,
    /// Warp-instructions.
    pub warps: f64,
    /// Sectors of global memory.
    pub sectors: f64,
    /// Sectors of local memory.
    pub local_sectors: f64,
}

/// The parts of a row, by `path:line`.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Parts {
    /// By statements of outermost functions.
    pub statements: Vec<(String, Part)>,
    /// By the places where instructions stand.
    pub places: Vec<(String, Part)>,
}

fn sorted(map: BTreeMap<String, Part>) -> Vec<(String, Part)> {
    let mut parts: Vec<_> = map.into_iter().collect();
    let weight = |part: &Part| part.lanes + 32.0 * (part.sectors + part.local_sectors);
    parts.sort_by(|(_, one), (_, other)| weight(other).total_cmp(&weight(one)));
    parts
}

/// `a.rs:1:2 @[ b.rs:3:4 @[ c.rs:5:6 ] ]` as places without columns.
fn chain(comment: &str) -> Vec<String> {
    let places = comment.split("@[").map(|place| {
        let place = place.trim_matches([' ', ']']);
        let (place, _column) = place.rsplit_once(':').unwrap_or((place, ""));
        place
    });
    places
        .filter(|place| !place.ends_with(":0"))
        .map(|place| match place.split_once("library/core/src/") {
            Some((_, rest)) => format!("core/{rest}"),
            None => place.to_owned(),
        })
        .collect()
}

/// Where entry points check their parameters and call the kernel.
const ENTRY: &str = "core/src/kernel.rs";
const NOT_TOLD: &str = "not told";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_attributed_to_places_and_statements() {
        let ptx = "\
.visible .entry k(
)
{
 .loc 1 7 9 // ring/a.rs:7:9 @[ kernel/b.rs:20:5 @[ kernel/c.rs:3:1 ] ]
 ld.b32 %r1, [%rd1];
 .loc 2 0 9 // kernel/c.rs:0:9
 add.s32 %r1, %r1, 1;
 .loc 1 8 9 // /x/library/core/src/num.rs:8:9 @[ kernel/c.rs:3:1 ]
 add.s32 %r1, %r1, 1;
}
.func f()
 add.s32 %r1, %r1, 1;
";
        let sources = Sources::read(ptx);
        let line = |line, lanes| Line {
            line,
            function: String::new(),
            lanes,
            warps: 0.0,
            sectors: 0.0,
            local_sectors: 0.0,
        };
        let check = |number, ends| assert_eq!(sources.ends(&line(number, 1.0)), ends);
        check(5, ("ring/a.rs:7", "kernel/c.rs:3"));
        check(7, (NOT_TOLD, NOT_TOLD));
        check(9, ("kernel/c.rs:3", "kernel/c.rs:3"));
        check(12, (NOT_TOLD, NOT_TOLD));
        check(99, (NOT_TOLD, NOT_TOLD));
    }
}
