//! Sizes: a file stops at 600 code lines, a function at 70. Blank lines, comments and test code
//! do not count.

use crate::Finding;
use crate::bans::{PURE_CRATES, pure_files};
use crate::ratchet::{self, Exception, Measured};
use crate::source::{Source, Tree, code_lines, end_of_item, find_word, is_word};

/// A file that needs more than two screens of outline holds two subjects.
const FILE_LIMIT: usize = 600;
/// Size that fits one screen.
const FUNCTION_LIMIT: usize = 70;
/// A pure crate can be read in a week, or it is split.
const PURE_CRATE_LIMIT: usize = 15_000;
/// The command has arguments and the terminal: jobs are in `linecard-app`, for all front ends.
const COMMAND_LIMIT: usize = 3_500;

/// Files and functions over their limits.
pub(crate) fn check(tree: &Tree, exceptions: &[Exception]) -> Vec<Finding> {
    let measured: Vec<Measured> = tree.files.iter().flat_map(measure).collect();
    ratchet::judge(&measured, exceptions)
}

/// Crates over their limit: the pure ones, and the command.
pub(crate) fn check_crates(tree: &Tree) -> Vec<Finding> {
    let pure = |name| check_crate(name, pure_files(tree, name), PURE_CRATE_LIMIT);
    let command = check_crate("linecard-cli", tree.of_crate("linecard-cli"), COMMAND_LIMIT);
    PURE_CRATES.iter().copied().filter_map(pure).chain(command).collect()
}

fn check_crate<'t>(
    name: &str,
    files: impl Iterator<Item = &'t Source>,
    limit: usize,
) -> Option<Finding> {
    let lines: usize = files.map(|file| code_lines(&file.shipped)).sum();
    let what =
        format!("{lines} code lines, limit {limit}: simplify, or move code to another crate");
    (lines > limit).then(|| Finding::new(&format!("crates/{name}"), 0, what))
}

fn measure(file: &Source) -> Vec<Measured> {
    let path = &file.path;
    let whole = Measured {
        subject: format!("file {path}"),
        lines: code_lines(&file.shipped),
        limit: FILE_LIMIT,
        file: path.clone(),
        at: 0,
        advice: "split it by subject",
    };
    let functions = functions(&file.shipped).into_iter().map(|(name, at, lines)| Measured {
        subject: format!("fn {path} {name}"),
        lines,
        limit: FUNCTION_LIMIT,
        file: path.clone(),
        at: file.line_of(at),
        advice: "split it, by event where it is a state machine",
    });
    std::iter::once(whole).chain(functions).collect()
}

/// Name, offset and code lines of every function with a body.
fn functions(code: &str) -> Vec<(String, usize, usize)> {
    let mut functions = Vec::new();
    for at in find_word(code, "fn") {
        let after = code[at + 2..].trim_start();
        let name: String = after.chars().take_while(|&c| is_word(c) || c == '$').collect();
        // A function type has no name, a declaration no body.
        if name.is_empty() || code[..at].ends_with("r#") {
            continue;
        }
        let item = &code[at..end_of_item(code, at)];
        if item.ends_with('}') {
            functions.push((name, at, code_lines(item)));
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(lines: usize) -> String {
        format!("fn long() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
    }

    #[test]
    fn a_long_function_is_found() {
        let short = Tree::of(&[("a.rs", &body(FUNCTION_LIMIT))]);
        assert_eq!(check(&short, &[]), []);
        let long = Tree::of(&[("a.rs", &format!("// 1\n\n{}", body(FUNCTION_LIMIT + 1)))]);
        let findings = check(&long, &[]);
        assert_eq!((findings.len(), findings[0].line), (1, 3));
        assert!(findings[0].what.contains("`fn a.rs long` has 71 code lines, limit 70"));
    }

    #[test]
    fn a_long_file_is_found() {
        let long = Tree::of(&[("a.rs", &"const A: u8 = 1;\n".repeat(FILE_LIMIT + 1))]);
        assert_eq!(check(&long, &[]).len(), 1);
    }

    #[test]
    fn comments_blank_lines_and_tests_do_not_count() {
        let text = format!("// a\n\n{}#[cfg(test)]\nmod tests {{\n{}}}\n", body(60), body(700));
        assert_eq!(check(&Tree::of(&[("a.rs", &text)]), &[]), []);
    }

    #[test]
    fn function_types_and_declarations_are_no_functions() {
        let code = "type F = fn(u8);\ntrait T { fn a(&self) -> [u8; 4]; fn b() {} }\n";
        let names: Vec<String> = functions(code).into_iter().map(|f| f.0).collect();
        assert_eq!(names, ["b"]);
    }

    #[test]
    fn a_large_pure_crate_and_a_large_command_are_found() {
        let findings = |path: &str, lines: usize| {
            check_crates(&Tree::of(&[(path, &"const A: u8 = 1;\n".repeat(lines))])).len()
        };
        assert_eq!(findings("crates/linecard/src/a.rs", PURE_CRATE_LIMIT), 0);
        assert_eq!(findings("crates/linecard/src/a.rs", PURE_CRATE_LIMIT + 1), 1);
        assert_eq!(findings("crates/linecard-io/src/a.rs", PURE_CRATE_LIMIT + 1), 0);
        assert_eq!(findings("crates/linecard-cli/src/a.rs", COMMAND_LIMIT), 0);
        assert_eq!(findings("crates/linecard-cli/src/a.rs", COMMAND_LIMIT + 1), 1);
    }
}
