//! PTX as text: its functions and their instructions.

/// A PTX module, split into functions.
#[derive(Debug, Default)]
pub(super) struct Module<'text> {
    /// Functions with a body.
    pub(super) functions: Vec<Function<'text>>,
    /// Names of functions that are declared `.extern`, to be found elsewhere at load.
    pub(super) externs: Vec<&'text str>,
}

/// A function with its body.
#[derive(Debug)]
pub(super) struct Function<'text> {
    /// The symbol.
    pub(super) name: &'text str,
    /// Whether the host can launch it.
    pub(super) is_entry: bool,
    /// Line number from 1, and the line without comment and surrounding space.
    pub(super) lines: Vec<(usize, &'text str)>,
}

/// The same module without comments, indentation and empty lines: a third smaller.
#[must_use]
pub(super) fn without_comments(text: &str) -> String {
    let mut dense = String::with_capacity(text.len());
    for line in text.lines() {
        let code = line.split_once("//").map_or(line, |(code, _)| code).trim();
        if !code.is_empty() {
            dense.push_str(code);
            dense.push('\n');
        }
    }
    dense
}

/// An instruction split into its parts: `ld.global.u32` is `["ld", "global", "u32"]`.
#[must_use]
pub(super) fn mnemonic(line: &str) -> Vec<&str> {
    let line = line.trim_start_matches(['{', ' ', '\t']);
    // A guard: `@%p1 bra`, `@!%p1 bra`.
    let line = if line.starts_with('@') {
        line.split_once(' ').map_or("", |(_, rest)| rest)
    } else {
        line
    };
    let word = line
        .trim_start()
        .split([' ', '\t', ';'])
        .next()
        .unwrap_or("");
    if word.starts_with('.') || word.ends_with(':') {
        return Vec::new();
    }
    word.split('.').collect()
}

impl<'text> Module<'text> {
    /// Splits a module; unknown directives between functions are left out.
    #[must_use]
    pub(super) fn parse(text: &'text str) -> Self {
        let mut module = Self::default();
        let mut state = State::Outside;
        for (index, whole) in text.lines().enumerate() {
            let line = whole
                .split_once("//")
                .map_or(whole, |(code, _)| code)
                .trim();
            state = match state {
                State::Outside => module.outside(line),
                State::Header(function) => header(line, function),
                State::Body(mut function, depth) => {
                    function.lines.push((index + 1, line));
                    match depth + opened(line) {
                        0 => {
                            module.functions.push(function);
                            State::Outside
                        }
                        depth => State::Body(function, depth),
                    }
                }
            };
        }
        module
    }

    fn outside(&mut self, line: &'text str) -> State<'text> {
        let mut words = line.split_whitespace();
        let Some(kind) = words
            .clone()
            .find(|word| [".entry", ".func"].contains(word))
        else {
            return State::Outside;
        };
        let Some(name) = name_after(line, kind) else {
            return State::Outside;
        };
        if words.any(|word| word == ".extern") {
            self.externs.push(name);
            return State::Outside;
        }
        header(
            line,
            Function {
                name,
                is_entry: kind == ".entry",
                lines: Vec::new(),
            },
        )
    }
}

enum State<'text> {
    Outside,
    Header(Function<'text>),
    Body(Function<'text>, i32),
}

/// A header ends with the body's brace, or with a semicolon when there is none.
fn header<'text>(line: &str, function: Function<'text>) -> State<'text> {
    match opened(line) {
        depth if depth > 0 => State::Body(function, depth),
        _ if line.ends_with(';') => State::Outside,
        _ => State::Header(function),
    }
}

fn opened(line: &str) -> i32 {
    line.bytes().fold(0, |depth, byte| match byte {
        b'{' => depth + 1,
        b'}' => depth - 1,
        _ => depth,
    })
}

/// The symbol behind `.entry` or `.func`; the latter may have a result in parentheses before it.
fn name_after<'text>(line: &'text str, kind: &str) -> Option<&'text str> {
    let (_, rest) = line.split_once(kind)?;
    let rest = rest.trim_start();
    let rest = match rest.strip_prefix('(') {
        Some(result) => result.split_once(')')?.1.trim_start(),
        None => rest,
    };
    let name = rest.split(['(', ' ', '\t', ';', '{']).next()?;
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_split() {
        let text = ".version 8.3\n.extern .func later\n(\n.param .b64 p\n)\n;\n\
                    .func  (.param .b32 r) inner(\n\t.param .b64 p\n)\n;\n\
                    .visible .entry outer(\n\t.param .u64 p\n)\n{\n\tmov.b32 %r1, 1; // one\n\
                    \t{ // callseq 0\n\tcall.uni inner;\n\t}\n\tret;\n}\n\
                    .func  (.param .b32 r) inner(\n\t.param .b64 p\n)\n{\n\tret;\n}\n";
        let module = Module::parse(text);
        assert_eq!(module.externs, ["later"]);
        let found: Vec<_> = module
            .functions
            .iter()
            .map(|function| (function.name, function.is_entry, function.lines.len()))
            .collect();
        assert_eq!(found, [("outer", true, 6), ("inner", false, 2)]);
        assert_eq!(module.functions[0].lines[0], (15, "mov.b32 %r1, 1;"));
    }

    #[test]
    fn comments_go() {
        let text = "//\n// Generated\n\n.version 8.3\n\tret; // done\n";
        assert_eq!(without_comments(text), ".version 8.3\nret;\n");
    }

    #[test]
    fn mnemonics_are_split() {
        let check = |line: &str, parts: &[&str]| assert_eq!(mnemonic(line), parts, "{line}");
        check("ld.global.u32 %r1, [%rd1];", &["ld", "global", "u32"]);
        check("@!%p1 bra $L__BB0_2;", &["bra"]);
        check("{ atom.add.u32 %r1, [%rd1], 1; }", &["atom", "add", "u32"]);
        check("ret;", &["ret"]);
        check(".reg .b32 %r<3>;", &[]);
        check("$L__BB0_2:", &[]);
        check("", &[""]);
    }
}
