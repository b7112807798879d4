//! PTX cut into modules: a kernel each, with what it reaches.
//!
//! The driver compiles a module on one processor, and every kernel of it anew with all that it
//! calls: minutes, for all kernels of the product. Cut apart, only the kernels that are asked for
//! are compiled, and side by side.

use std::collections::{BTreeSet, HashMap};

/// Some kernels, and PTX that has them.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Part<'names> {
    /// In the order of the names.
    pub(super) kernels: Vec<&'names str>,
    pub(super) ptx: String,
}

/// Cuts PTX into a part a kernel. Kernels that reach the same static stay together, as it is one
/// place in memory for them; and so do names that are not in the text.
///
/// Text that is not understood is one part, for the driver to judge.
pub(super) fn cut<'names>(ptx: &str, kernels: &[&'names str]) -> Vec<Part<'names>> {
    let Some(text) = Text::read(ptx) else {
        return vec![Part {
            kernels: kernels.to_vec(),
            ptx: ptx.to_owned(),
        }];
    };
    let mut groups: Vec<Group<'names>> = Vec::new();
    for &kernel in kernels {
        let mut group = Group {
            kernels: vec![kernel],
            units: text.reached(kernel),
        };
        let shares = |other: &Group<'_>| text.shares(&group.units, &other.units);
        let (joined, apart) = groups.into_iter().partition(shares);
        groups = apart;
        // Joined ones were named before.
        for before in Vec::into_iter(joined).rev() {
            let after = std::mem::replace(&mut group.kernels, before.kernels);
            group.kernels.extend(after);
            group.units.extend(before.units);
        }
        groups.push(group);
    }
    let part = |group: Group<'names>| Part {
        ptx: text.with(&group.units),
        kernels: group.kernels,
    };
    groups.into_iter().map(part).collect()
}

/// Kernels of one module, and its units by number.
struct Group<'names> {
    kernels: Vec<&'names str>,
    units: BTreeSet<usize>,
}

/// PTX as units: directives, functions and variables.
struct Text<'text> {
    units: Vec<Unit<'text>>,
    /// Those that have a name, a function's declarations and its body under one.
    named: HashMap<&'text str, Vec<usize>>,
}

struct Unit<'text> {
    text: &'text str,
    name: Option<&'text str>,
    /// Whether it may be a variable that somebody writes.
    is_static: bool,
}

impl<'text> Text<'text> {
    /// Splits a text. None if it has parts that hold on to functions from outside (tables of
    /// lines), or ends within one.
    fn read(ptx: &'text str) -> Option<Self> {
        let mut text = Self {
            units: Vec::new(),
            named: HashMap::new(),
        };
        let mut at = 0;
        while at < ptx.len() {
            let rest = &ptx[at..];
            let unit = Unit::first(rest)?;
            if let Some(name) = unit.name {
                text.named.entry(name).or_default().push(text.units.len());
            }
            at += unit.text.len();
            text.units.push(unit);
        }
        Some(text)
    }

    /// The units that a kernel consists of and reaches.
    fn reached(&self, kernel: &str) -> BTreeSet<usize> {
        let mut reached = BTreeSet::new();
        let mut open: Vec<usize> = self.named.get(kernel).cloned().unwrap_or_default();
        while let Some(unit) = open.pop() {
            if !reached.insert(unit) {
                continue;
            }
            let names = self.units[unit].text.split(|letter| !is_of_name(letter));
            open.extend(
                names
                    .filter_map(|name| self.named.get(name))
                    .flatten()
                    .filter(|unit| !reached.contains(unit)),
            );
        }
        reached
    }

    /// Whether both reach a static, or nothing.
    fn shares(&self, one: &BTreeSet<usize>, other: &BTreeSet<usize>) -> bool {
        let mut both = one.intersection(other);
        both.any(|unit| self.units[*unit].is_static) || (one.is_empty() && other.is_empty())
    }

    /// These units, and the directives for all.
    fn with(&self, units: &BTreeSet<usize>) -> String {
        let kept = self.units.iter().enumerate();
        let kept = kept.filter(|(index, unit)| unit.name.is_none() || units.contains(index));
        kept.map(|(_, unit)| unit.text).collect()
    }
}

impl<'text> Unit<'text> {
    /// The unit that a text begins with.
    fn first(rest: &'text str) -> Option<Self> {
        let line = rest.find('\n').map_or(rest.len(), |end| end + 1);
        let first = rest[..line].trim_start();
        let whole_line = ["//", ".version", ".target", ".address_size", ".file"];
        if first.is_empty() || whole_line.iter().any(|word| first.starts_with(word)) {
            return Some(Self {
                text: &rest[..line],
                name: None,
                is_static: false,
            });
        }
        if !first.starts_with('.') || first.starts_with(".section") {
            return None;
        }
        let head = &rest[..rest.find(['{', ';', '='])?];
        let is_function = head.contains(".func") || head.contains(".entry");
        let spaces = [".global", ".const", ".shared"];
        if !is_function && !spaces.iter().any(|space| head.contains(space)) {
            return None;
        }
        let name = match is_function {
            true => function(head),
            false => variable(head),
        }?;
        let length = match is_function {
            true => body(rest)?,
            false => rest.find(';')? + 1,
        };
        Some(Self {
            text: &rest[..length],
            name: Some(name),
            // What the compiler makes for itself has a dot in its name, which no Rust name has; in
            // PTX it is written so.
            is_static: !is_function && !name.contains("_$_"),
        })
    }
}

/// The name in a function's head: behind what it returns, before what it takes.
fn function(head: &str) -> Option<&str> {
    let (_, rest) = head
        .split_once(".entry")
        .or_else(|| head.split_once(".func"))?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(returned) => returned.split_once(')')?.1.trim_start(),
        None => rest,
    };
    let end = rest
        .find(|letter| !is_of_name(letter))
        .unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// The name in a variable's head: its last word, less a size.
fn variable(head: &str) -> Option<&str> {
    let (plain, _) = head.split_once('[').unwrap_or((head, ""));
    plain.split_whitespace().next_back()
}

/// How long a function is: to the brace that ends it, or to the semicolon of a declaration.
fn body(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut is_comment = false;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '\n' => is_comment = false,
            _ if is_comment => {}
            '/' if before == '/' => is_comment = true,
            '{' => depth += 1,
            '}' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at + 1);
                }
            }
            ';' if depth == 0 => return Some(at + 1),
            _ => {}
        }
        before = letter;
    }
    None
}

fn is_of_name(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$' | '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "\
// made
.version 8.3
.target sm_80
.address_size 64
.func (.param .b32 back) leaf
(
.param .b32 leaf_0
)
;
.func alone();
.global .align 8 .b8 anon_$_1[4] = {1, 2, 3, 4};
.global .align 4 .u32 COUNT;
.visible .entry a(
.param .u64 a_0
)
{
call.uni (r), leaf, (p); // }
{ .reg .b32 x; }
}
.func (.param .b32 back) leaf(.param .b32 leaf_0)
{
mov.u64 r, anon_$_1;
}
.visible .entry b()
{
mov.u64 r, COUNT;
}
.func alone() { ret; }
.visible .entry c() { call alone; call leaf; mov.u64 r, COUNT; }
.visible .entry d() { ret; }
";

    fn has(part: &Part<'_>, words: &[&str]) -> Vec<bool> {
        words.iter().map(|word| part.ptx.contains(word)).collect()
    }

    #[test]
    fn a_kernel_has_what_it_reaches_and_nothing_else() {
        let parts = cut(PTX, &["a"]);
        assert_eq!(parts.len(), 1);
        let words = [".version", "anon_$_1[4]", "back) leaf(", "entry a("];
        assert_eq!(has(&parts[0], &words), [true; 4], "{}", parts[0].ptx);
        let words = ["COUNT", "alone", "entry b", "entry c", "entry d"];
        assert_eq!(has(&parts[0], &words), [false; 5], "{}", parts[0].ptx);
    }

    #[test]
    fn kernels_that_share_a_static_stay_together() {
        let parts = cut(PTX, &["nowhere", "b", "a", "c", "d", "lost"]);
        let kernels: Vec<_> = parts.iter().map(|part| part.kernels.clone()).collect();
        assert_eq!(
            kernels,
            [
                vec!["a"],
                vec!["b", "c"],
                vec!["d"],
                vec!["nowhere", "lost"]
            ]
        );
        assert!(parts[3].ptx.trim_end().ends_with(".address_size 64"));
    }

    #[test]
    fn what_is_not_understood_stays_whole() {
        for text in [
            "",
            "nonsense",
            ".version 8.3",
            ".visible .entry a() {",
            ".visible .entry a() { ret; }\n.section .debug_info\n{\n}\n",
            ".func",
            ".alias a, b;",
            ".global",
            ".entry ;",
        ] {
            let parts = cut(text, &["a", "b"]);
            assert_eq!(
                parts.iter().map(|part| part.kernels.len()).sum::<usize>(),
                2
            );
        }
        let whole = ".entry a() { ret; }\n.section .debug_info\n{\n}\n";
        assert_eq!(cut(whole, &["a"])[0].ptx, whole);
    }
}
