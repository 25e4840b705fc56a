//! Documents that have a size limit, and the index of decisions.

use std::fs;
use std::path::Path;

use crate::Finding;
use crate::links::documents;

/// Limits of the documents that a newcomer reads first.
const MAX_ARCHITECTURE_BYTES: usize = 8 * 1024;
const MAX_README_LINES: usize = 120;

/// The folder of decisions, and the generated list of them.
const DECISIONS: &str = "docs/decisions";
pub(crate) const INDEX: &str = "docs/decisions/index.md";

const INTRODUCTION: &str = "\
# Decisions

One file per decision, with its context and its consequence, newest first. To add one, write a file
`YYYY-MM-DD-slug.md` like the others, and run `LINECARD_WRITE=1 cargo test -p linecard-cli --test tidy decisions`, which
writes this list.

| date | area | decision |
|---|---|---|
";

/// Documents beyond their limit.
pub(crate) fn check_sizes(root: &Path) -> Vec<Finding> {
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let sizes = [
        ("ARCHITECTURE.md", read("ARCHITECTURE.md").len(), MAX_ARCHITECTURE_BYTES, "bytes"),
        ("README.md", read("README.md").lines().count(), MAX_README_LINES, "lines"),
    ];
    let beyond = sizes.into_iter().filter(|(_, size, limit, _)| size > limit);
    let finding = |(name, size, limit, unit): (&str, usize, usize, &str)| {
        Finding::new(name, 0, format!("has {size} {unit}, limit {limit}: move details to docs/"))
    };
    beyond.map(finding).collect()
}

/// Crates, pages of results and benchmarks that the document which lists them does not name.
pub(crate) fn check_lists(root: &Path) -> Vec<Finding> {
    const RESULTS: &str = "docs/results/index.md";
    let crates = names(&root.join("crates"));
    let benches =
        crates.iter().flat_map(|name| names(&root.join("crates").join(name).join("benches")));
    let benches = benches.filter(|name| !name.ends_with(".txt") && name != "support");
    let pages = names(&root.join("docs/results")).into_iter().filter(|name| name.ends_with(".md"));
    let listed = crates.iter().map(|name| ("ARCHITECTURE.md", format!("    {name}/ ")));
    let listed = listed
        .chain(pages.filter(|name| name != "index.md").map(|name| (RESULTS, format!("]({name})"))));
    let listed = listed
        .chain(benches.map(|name| (RESULTS, format!("--bench {}`", name.trim_end_matches(".rs")))));
    let is_missing = |(list, entry): &(&str, String)| {
        !fs::read_to_string(root.join(list)).unwrap_or_default().contains(entry)
    };
    let missing = listed.filter(is_missing);
    missing
        .map(|(list, entry)| Finding::new(list, 0, format!("has no `{}`: add it", entry.trim())))
        .collect()
}

/// Names in a folder; none if it does not exist.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().filter_map(Result::ok);
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Documents whose lines are not wrapped by hand: generated ones, and histories with a line or paragraph per entry.
const UNWRAPPED: [&str; 4] = ["CHANGELOG.md", "PROMISES.md", "docs/reference/", "docs/results/"];
/// Most characters of a line of text.
const MAX_COLUMNS: usize = 120;

/// Lines of text that are too long, outside of tables and code.
pub(crate) fn check_lines(root: &Path) -> Vec<Finding> {
    let wrapped = documents(root)
        .into_iter()
        .filter(|name| !UNWRAPPED.iter().any(|other| name.starts_with(other)));
    wrapped
        .flat_map(|name| {
            let text = fs::read_to_string(root.join(&name)).unwrap_or_default();
            let finding = |line| {
                Finding::new(&name, line, format!("longer than {MAX_COLUMNS} columns: wrap it"))
            };
            long_lines(&text).map(finding).collect::<Vec<_>>()
        })
        .collect()
}

fn long_lines(text: &str) -> impl Iterator<Item = usize> {
    let mut is_code = false;
    let is_long = move |line: &str| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        let is_text = !is_code && !is_fence && !line.starts_with("    ");
        is_text && !line.trim_start().starts_with('|') && line.chars().count() > MAX_COLUMNS
    };
    let lines: Vec<bool> = text.lines().map(is_long).collect();
    lines.into_iter().enumerate().filter(|(_, is_long)| *is_long).map(|(at, _)| at + 1)
}

/// One decision.
#[derive(Debug, PartialEq, Eq)]
struct Decision {
    /// Its file below `docs/decisions`, which begins with its date.
    file: String,
    area: String,
    title: String,
}

impl Decision {
    /// Reads `# Title`, `DATE, AREA`, and the three paragraphs that a decision has.
    fn parse(file: &str, text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| !line.is_empty());
        let title = lines.next().and_then(|line| line.strip_prefix("# "));
        let title = title.ok_or("does not begin with `# Title`")?;
        let (date, area) = lines
            .next()
            .and_then(|line| line.split_once(", "))
            .ok_or("has no line `DATE, AREA`")?;
        if !is_date(date) || !file.starts_with(&format!("{date}-")) {
            return Err(format!("its name does not begin with its date `{date}`"));
        }
        for part in ["**Context.** ", "**Decision.** ", "**Consequence.** "] {
            if !text.lines().any(|line| line.starts_with(part)) {
                return Err(format!("has no paragraph `{part}`"));
            }
        }
        Ok(Self { file: file.to_owned(), area: area.to_owned(), title: title.to_owned() })
    }

    fn date(&self) -> &str {
        &self.file[.."YYYY-MM-DD".len()]
    }
}

fn is_date(text: &str) -> bool {
    let shape = text.bytes().map(|byte| if byte.is_ascii_digit() { b'0' } else { byte });
    shape.eq(*b"0000-00-00")
}

/// The index that the files give, or errors in them.
pub(crate) fn index(root: &Path) -> Result<String, Vec<Finding>> {
    let mut decisions = Vec::new();
    let mut findings = Vec::new();
    for name in names(&root.join(DECISIONS)).into_iter().filter(|name| name != "index.md") {
        let text = fs::read_to_string(root.join(DECISIONS).join(&name)).unwrap_or_default();
        match Decision::parse(&name, &text) {
            Ok(decision) => decisions.push(decision),
            Err(why) => findings.push(Finding::new(&format!("{DECISIONS}/{name}"), 0, why)),
        }
    }
    if findings.is_empty() { Ok(render(decisions)) } else { Err(findings) }
}

fn render(mut decisions: Vec<Decision>) -> String {
    decisions.sort_by(|a, b| b.date().cmp(a.date()).then_with(|| a.file.cmp(&b.file)));
    let rows = decisions.iter().map(|decision| {
        let Decision { file, area, title } = decision;
        format!("| {} | {area} | [{title}]({file}) |\n", decision.date())
    });
    rows.fold(INTRODUCTION.to_owned(), |text, row| text + &row)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Title\n\n2026-11-23, area\n\n**Context.** A.\n\n**Decision.** B.\n\n**Consequence.** C.\n";

    #[test]
    fn decisions_have_a_title_a_date_and_three_paragraphs() {
        let decision = Decision::parse("2026-11-23-slug.md", TEXT).unwrap();
        assert_eq!((decision.title.as_str(), decision.area.as_str()), ("Title", "area"));
        let refused = |file: &str, text: &str| Decision::parse(file, text).unwrap_err();
        assert!(refused("2026-11-22-slug.md", TEXT).contains("its date `2026-11-23`"));
        assert!(refused("2026-11-23-slug.md", &TEXT.replace("# ", "")).contains("# Title"));
        let lacking = TEXT.replace("**Context.** A.", "");
        assert!(refused("2026-11-23-slug.md", &lacking).contains("**Context.**"));
    }

    #[test]
    fn long_lines_of_text_are_found() {
        let long = "é".repeat(MAX_COLUMNS + 1);
        let text =
            format!("{long}\n| {long} |\n    {long}\n```\n{long}\n```\n- {long}\n{}\n", &long[2..]);
        assert_eq!(long_lines(&text).collect::<Vec<_>>(), [1, 7]);
    }

    #[test]
    fn entries_that_lists_lack_are_found() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["crates/a/benches", "crates/b", "docs/results"] {
            fs::create_dir_all(folder.path().join(name)).unwrap();
        }
        let write = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        write("crates/a/benches/fast.rs", "");
        write("docs/results/c.md", "");
        write("ARCHITECTURE.md", "    crates/\n      a/  one\n");
        write("docs/results/index.md", "nothing");
        let found: Vec<String> =
            check_lists(folder.path()).iter().map(ToString::to_string).collect();
        assert_eq!(found.len(), 3, "{found:?}");
        assert!(found[0].starts_with("ARCHITECTURE.md: has no `b/`"), "{found:?}");
        write("ARCHITECTURE.md", "    crates/\n      a/  one\n      b/  two\n");
        write("docs/results/index.md", "[c](c.md) `--bench fast`");
        assert_eq!(check_lists(folder.path()), []);
    }

    #[test]
    fn newest_decisions_come_first() {
        let decision = |file: &str| Decision {
            file: file.to_owned(),
            area: "area".to_owned(),
            title: "Title".to_owned(),
        };
        let text = render(vec![
            decision("2026-11-21-a.md"),
            decision("2026-11-23-b.md"),
            decision("2026-11-23-a.md"),
        ]);
        let at = |file: &str| text.find(file).unwrap();
        assert!(at("2026-11-23-a.md") < at("2026-11-23-b.md"));
        assert!(at("2026-11-23-b.md") < at("2026-11-21-a.md"));
    }
}
