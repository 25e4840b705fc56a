//! PROMISES.md, generated from the comments at the tests that verify it.
//!
//! `/// Promise (Area): One sentence.` stands at a test in Rust; in Python and in `./test`, the comment begins with
//! `#` and stands before `def test_…`, `step "…"` or `optional "…"`. It may go on over several lines.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use crate::Finding;

/// The sections of the page, in this order.
const AREAS: [&str; 10] = [
    "Offloads",
    "Captures",
    "Live interfaces",
    "Hardware model",
    "Plans",
    "Transfer",
    "Jitter",
    "Python",
    "Command",
    "Repository",
];

const INTRODUCTION: &str = "\
# Promises

What Linecard claims. Each claim stands in a comment at the test that holds it; this page is generated from them by
`LINECARD_WRITE=1 cargo test -p linecard-cli --test tidy promises`. Tests that need privileges, an interface or a tool
say so where it is missing. Measured speeds are not promises: they are in [Results](docs/results/index.md).
";

/// A claim and the test that holds it.
#[derive(Debug, PartialEq, Eq)]
struct Promise {
    area: String,
    claim: String,
    /// Path from the root of the repository.
    file: String,
    test: String,
}

/// How a kind of file writes comments and tests.
struct Language {
    comment: &'static str,
    /// Text before the name of a test, the first that fits, and the character that ends it.
    test: &'static [&'static str],
    end: char,
    /// Attributes between comment and test.
    mark: Option<&'static str>,
}

const RUST: Language = Language { comment: "///", test: &["fn "], end: '(', mark: Some("#[test]") };
const PYTHON: Language = Language { comment: "#", test: &["def test_"], end: '(', mark: None };
const SHELL: Language =
    Language { comment: "#", test: &["step \"", "optional \""], end: '"', mark: None };

/// The page that all comments give, or errors in them.
pub(crate) fn page(root: &Path) -> Result<String, Vec<Finding>> {
    let mut promises = Vec::new();
    let mut findings = Vec::new();
    let mut files = Vec::new();
    collect(root, "crates", &mut files);
    collect(root, "python/tests", &mut files);
    files.push("test".to_owned());
    for file in files {
        let language = match file.rsplit_once('.').map(|(_, end)| end) {
            Some("rs") => RUST,
            Some("py") => PYTHON,
            None => SHELL,
            Some(_) => continue,
        };
        let text = fs::read_to_string(root.join(&file)).unwrap_or_default();
        match find(&file, &text, &language) {
            Ok(found) => promises.extend(found),
            Err(finding) => findings.push(finding),
        }
    }
    if findings.is_empty() { Ok(render(&promises)) } else { Err(findings) }
}

/// All files below `folder`, in order of their names.
fn collect(root: &Path, folder: &str, files: &mut Vec<String>) {
    let Ok(entries) = fs::read_dir(root.join(folder)) else { return };
    let mut names: Vec<_> = entries
        .filter_map(Result::ok)
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path().is_dir()))
        .collect();
    names.sort();
    for (name, is_folder) in names {
        let path = format!("{folder}/{name}");
        if is_folder { collect(root, &path, files) } else { files.push(path) }
    }
}

fn find(file: &str, text: &str, language: &Language) -> Result<Vec<Promise>, Finding> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let start = format!("{} Promise (", language.comment);
    let mut promises = Vec::new();
    for at in (0..lines.len()).filter(|&at| lines[at].starts_with(&start)) {
        let promise = read(file, &lines[at..], &start, language);
        promises.push(promise.map_err(|why| Finding::new(file, at + 1, why))?);
    }
    Ok(promises)
}

/// One promise, from the lines that begin with its comment.
fn read(file: &str, lines: &[&str], start: &str, language: &Language) -> Result<Promise, String> {
    let (area, first) = lines[0][start.len()..].split_once("): ").ok_or("has no `(Area): `")?;
    if !AREAS.contains(&area) {
        return Err(format!("`{area}` is not an area: take one of {AREAS:?}, or add it there"));
    }
    let mut claim = first.to_owned();
    let more = lines[1..].iter().map_while(|line| line.strip_prefix(language.comment));
    for part in more.take_while(|part| !part.trim().is_empty()).map(str::trim) {
        if part.starts_with("Promise (") {
            break;
        }
        claim = claim + " " + part;
    }
    if !claim.ends_with('.') || claim.contains(". ") {
        return Err("a promise is one sentence that ends with a full stop".to_owned());
    }
    let name = |line: &str| {
        let (_, rest) = language.test.iter().find_map(|before| line.split_once(before))?;
        Some(rest.split(language.end).next().unwrap_or_default().to_owned())
    };
    let is_comment = |line: &&str| line.starts_with(language.comment);
    let code: Vec<&str> = lines.iter().copied().skip_while(is_comment).collect();
    let named = code.iter().position(|line| !line.starts_with("//") && name(line).is_some());
    let named = named.ok_or("no test follows")?;
    // Tests without the harness are programs.
    let is_program = name(code[named]).as_deref() == Some("main");
    if language.mark.is_some_and(|mark| !is_program && !code[..named].contains(&mark)) {
        return Err("what follows is not a test".to_owned());
    }
    let prefix = language.test[0].strip_prefix("def ").unwrap_or_default();
    let test = prefix.to_owned() + &name(code[named]).unwrap_or_default();
    Ok(Promise { area: area.to_owned(), claim, file: file.to_owned(), test })
}

fn render(promises: &[Promise]) -> String {
    let mut text = INTRODUCTION.to_owned();
    for area in AREAS {
        let rows: Vec<&Promise> = promises.iter().filter(|promise| promise.area == area).collect();
        if rows.is_empty() {
            continue;
        }
        write!(text, "\n## {area}\n\n| claim | held by |\n|---|---|\n").expect("text grows");
        for Promise { claim, file, test, .. } in rows {
            let claim = claim.replace('|', "\\|");
            writeln!(text, "| {claim} | [`{test}`]({file}) |").expect("text grows");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rust(text: &str) -> Result<Vec<Promise>, Finding> {
        find("a.rs", &text.replace('%', "///"), &RUST)
    }

    #[test]
    fn promises_are_read_with_their_tests() {
        let text = "/// Of a helper.\nfn a() {}\n% Promise (Offloads): One\n% sentence.\n#[test]\n// Why.\nfn b() {}\n";
        let found = rust(text).unwrap();
        assert_eq!((found[0].claim.as_str(), found[0].test.as_str()), ("One sentence.", "b"));
        let text = "# Promise (Python): One.\n@slow\ndef test_c(x):\n";
        assert_eq!(find("a.py", text, &PYTHON).unwrap()[0].test, "test_c");
        let text = "    # Promise (Repository): One.\n    step \"no_std\" cargo\n";
        assert_eq!(find("test", text, &SHELL).unwrap()[0].test, "no_std");
        let text =
            "# Promise (Repository): One.\noptional \"manual\" \"a tool\" cargo\nstep \"a\" b\n";
        assert_eq!(find("test", text, &SHELL).unwrap()[0].test, "manual");
    }

    #[test]
    fn what_is_no_promise_is_refused() {
        let why = |text: &str| rust(text).unwrap_err().what;
        assert!(why("% Promise (Elsewhere): One.\n#[test]\nfn b() {}\n").contains("Elsewhere"));
        assert!(why("% Promise (Offloads): One. Two.\n#[test]\nfn b() {}\n").contains("sentence"));
        assert!(why("% Promise (Offloads): One\n#[test]\nfn b() {}\n").contains("sentence"));
        assert!(why("% Promise (Offloads): One.\nfn b() {}\n").contains("is not a test"));
        assert!(why("% Promise (Offloads): One.\n").contains("no test"));
    }

    #[test]
    fn claims_come_by_area() {
        let promise = |area: &str, claim: &str| Promise {
            area: area.to_owned(),
            claim: claim.to_owned(),
            file: "a.rs".to_owned(),
            test: "b".to_owned(),
        };
        let text = render(&[promise("Transfer", "A|B."), promise("Offloads", "C.")]);
        assert!(text.find("C.").unwrap() < text.find("A\\|B.").unwrap());
        assert!(!text.contains("## Jitter"));
    }
}
