//! What PTX must not hold.

use super::policy::Policy;
use super::text::{Function, Module, mnemonic};

/// Every fault of a module: where, and what is wrong.
#[must_use]
pub(super) fn faults(text: &str, policy: &Policy) -> Vec<String> {
    let module = Module::parse(text);
    let mut faults: Vec<String> = module
        .externs
        .iter()
        .map(|name| format!("`{name}` is not defined: `.extern .func` is left"))
        .collect();
    for function in &module.functions {
        let rules = Rules::of(function, policy);
        if is_panic(function.name) {
            faults.push(format!("`{}` is a panic path", function.name));
        }
        if function.is_entry && policy.kernel(function.name).is_none() {
            faults.push(format!(
                "kernel `{}` has no row in the policy",
                function.name
            ));
        }
        let lines = function.lines.iter();
        faults.extend(lines.filter_map(|(number, line)| {
            let fault = rules.fault(line)?;
            Some(format!(
                "line {number}, `{}`: {fault}: {line}",
                function.name
            ))
        }));
    }
    faults.extend(unused_rows(&module, policy));
    faults
}

/// Rows that fit nothing would hold nothing.
fn unused_rows(module: &Module<'_>, policy: &Policy) -> Vec<String> {
    let mut faults = Vec::new();
    for rule in &policy.kernels {
        let mut entries = module.functions.iter().filter(|function| function.is_entry);
        if !entries.any(|function| rule.fits(function.name)) {
            faults.push(format!(
                "the policy has a row for `{}`, which is no kernel",
                rule.name
            ));
        }
    }
    for rule in &policy.functions {
        if !module
            .functions
            .iter()
            .any(|function| function.name.contains(&rule.part))
        {
            faults.push(format!(
                "the policy has a row for `{}`, but no function is called so: was it inlined?",
                rule.part
            ));
        }
    }
    faults
}

/// What a function must do without.
struct Rules {
    local_memory: bool,
    byte_loads: bool,
}

impl Rules {
    fn of(function: &Function<'_>, policy: &Policy) -> Self {
        let kernel = policy.kernel(function.name).filter(|_| function.is_entry);
        let mut rules = Self {
            local_memory: kernel.is_none_or(|rule| !rule.hot),
            byte_loads: kernel.is_none_or(|rule| rule.byte_loads),
        };
        for rule in policy.function(function.name) {
            rules.local_memory &= !rule.hot;
            rules.byte_loads &= rule.byte_loads;
        }
        rules
    }

    fn fault(&self, line: &str) -> Option<&'static str> {
        let parts = mnemonic(line);
        let has = |names: &[&str]| parts.iter().any(|part| names.contains(part));
        match parts.first() {
            Some(&"trap") => return Some("a trap, which is how a panic ends"),
            Some(&("atom" | "red")) if !(has(&ORDERS) && has(&SCOPES)) => {
                return Some("an atomic without order and scope");
            }
            Some(&"ld") if !self.byte_loads && has(&BYTES) => {
                return Some("a byte load in the fast path");
            }
            _ => {}
        }
        if is_call_of_panic(line) {
            return Some("a call of a panic path");
        }
        let is_local = has(&["local"]) || line.starts_with(".local") || line.contains(DEPOT);
        (is_local && !self.local_memory).then_some("local memory in a hot path")
    }
}

fn is_call_of_panic(line: &str) -> bool {
    mnemonic(line).first() == Some(&"call") && is_panic(line)
}

/// Mangled names hold their path in clear text.
fn is_panic(symbol: &str) -> bool {
    PANICS.iter().any(|name| symbol.contains(name))
}

const ORDERS: [&str; 4] = ["relaxed", "acquire", "release", "acq_rel"];
const SCOPES: [&str; 4] = ["cta", "cluster", "gpu", "sys"];
const BYTES: [&str; 3] = ["b8", "u8", "s8"];

/// The back end's name for a function's stack.
const DEPOT: &str = "__local_depot";

const PANICS: [&str; 7] = [
    "panicking",
    "rust_begin_unwind",
    "unwrap_failed",
    "expect_failed",
    "slice_index_fail",
    "len_mismatch_fail",
    "slice_error_fail",
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repository;

    const POLICY: &str = r#"
        [[kernel]]
        name = "hot_kernel"
        hot = true
        registers = { sm_80 = 32 }
        [[kernel]]
        name = "cold_kernel"
        hot = false
        registers = { sm_80 = 32 }
        [[function]]
        part = "parse_fast"
        hot = true
        byte_loads = false
    "#;

    /// Each fixture is a module with one fault, and every other lint is content with it.
    #[test]
    fn each_lint_refuses_its_fixture() {
        let check = |name: &str, expected: &[&str]| {
            let path = format!("deploy/xtask/testdata/ptx/{name}.ptx");
            let text = repository::text(&repository::root().join(path)).unwrap();
            let found = faults(&text, &Policy::parse(POLICY).unwrap());
            assert_eq!(found.len(), expected.len(), "{name}: {found:#?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.contains(expected), "{name}: {found}");
            }
        };
        check("clean", &[]);
        check("panic_call", &["a call of a panic path"]);
        check("panic_function", &["is a panic path"]);
        check("trap", &["a trap"]);
        check(
            "atomic",
            &[
                "without order and scope: atom.",
                "without order and scope: @%p1 red.",
            ],
        );
        check("local_memory", &["local memory in a hot path"; 3]);
        check("byte_load", &["a byte load in the fast path"]);
        check("extern_function", &["`somewhere_else` is not defined"]);
        check("unknown_kernel", &["kernel `surprise` has no row"]);
        check(
            "missing",
            &[
                "`cold_kernel`, which is no kernel",
                "`parse_fast`, but no function is called so",
            ],
        );
    }
}
