//! Crates use only those that lie below them, as [`MAY_USE`] lists, and take their lints from the workspace. The command
//! and the Python module are two interfaces to linecard-app, which do not use each other; tests of all crates may use
//! linecard-testkit.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::Finding;

/// Every crate and the crates of this workspace that it may depend on, also for its tests.
const MAY_USE: [(&str, &[&str]); 15] = [
    ("linecard", &[]),
    ("linecard-c", &["linecard"]),
    ("linecard-config", &[]),
    ("linecard-plan", &["linecard"]),
    ("linecard-model", &["linecard", "linecard-config"]),
    ("linecard-jitter", &["linecard", "linecard-io"]),
    ("linecard-transfer", &["linecard"]),
    ("linecard-report", &["linecard", "linecard-config"]),
    ("linecard-tun", &["linecard"]),
    ("linecard-io", &["linecard", "linecard-plan", "linecard-tun"]),
    ("linecard-transfer-net", &["linecard", "linecard-transfer"]),
    (
        "linecard-app",
        &[
            "linecard",
            "linecard-config",
            "linecard-io",
            "linecard-jitter",
            "linecard-model",
            "linecard-plan",
            "linecard-report",
            "linecard-transfer",
            "linecard-transfer-net",
            "linecard-tun",
        ],
    ),
    ("linecard-cli", &ENGINES),
    ("linecard-py", &["linecard", "linecard-app", "linecard-io", "linecard-report"]),
    (TESTKIT, &["linecard", "linecard-io"]),
];

/// A crate that does without, and what it may take only behind a feature: an optional dependency.
const OPTIONAL: [(&str, &str); 3] =
    [("linecard-jitter", "linecard-io"), (TESTKIT, "linecard"), (TESTKIT, "linecard-io")];

/// A dependency of tests only.
pub(crate) const TESTKIT: &str = "linecard-testkit";

/// Crates that the command uses: all except the faces.
const ENGINES: [&str; 11] = [
    "linecard",
    "linecard-app",
    "linecard-config",
    "linecard-model",
    "linecard-plan",
    "linecard-jitter",
    "linecard-transfer",
    "linecard-report",
    "linecard-io",
    "linecard-transfer-net",
    "linecard-tun",
];

/// Folder name and text of every `crates/*/Cargo.toml`.
pub(crate) fn read(root: &Path) -> Vec<(String, String)> {
    let entries = fs::read_dir(root.join("crates")).expect("the folder `crates` is readable");
    let mut manifests: Vec<(String, String)> = entries
        .filter_map(Result::ok)
        .filter_map(|entry| {
            let text = fs::read_to_string(entry.path().join("Cargo.toml")).ok()?;
            Some((entry.file_name().to_string_lossy().into_owned(), text))
        })
        .collect();
    manifests.sort();
    manifests
}

/// Dependencies against the direction, and crates without the workspace's lints.
pub(crate) fn check(manifests: &[(String, String)]) -> Vec<Finding> {
    manifests.iter().flat_map(|(name, text)| check_one(name, text)).collect()
}

fn check_one(name: &str, text: &str) -> Vec<Finding> {
    let file = format!("crates/{name}/Cargo.toml");
    let mut findings = Vec::new();
    let Some((_, allowed)) = MAY_USE.iter().find(|(known, _)| *known == name) else {
        let what = "a crate the tidy test does not know: place it in MAY_USE";
        return vec![Finding::new(&file, 0, what)];
    };
    for (line, section, dependency) in dependencies(text) {
        // A crate's tests may switch features of its own on.
        if [TESTKIT, name].contains(&dependency.as_str()) && section.ends_with("dev-dependencies") {
            continue;
        }
        let ours = MAY_USE.iter().any(|(known, _)| *known == dependency);
        if ours && !allowed.contains(&dependency.as_str()) {
            let what =
                format!("`{name}` depends on `{dependency}`, which stands above or beside it");
            findings.push(Finding::new(&file, line, what));
        }
    }
    for (line, _, row) in keys(text) {
        let given = row.split(['=', '.']).next().unwrap_or_default().trim();
        if OPTIONAL.contains(&(name, given)) && !row.contains("optional = true") {
            let what = format!("`{name}` takes `{given}` behind a feature: add `optional = true`");
            findings.push(Finding::new(&file, line, what));
        }
    }
    if !keys(text)
        .any(|(_, section, key)| section == "lints" && key.replace(' ', "") == "workspace=true")
    {
        findings.push(Finding::new(
            &file,
            0,
            "without the workspace's lints: add `[lints] workspace = true`",
        ));
    }
    findings
}

/// The document with a row for each external crate.
const TABLE: &str = "docs/design/dependencies.md";

/// Rows of the table of external crates that are missing, or whose last column is not who uses them: first crates that
/// ship them, then tests of crates where none does.
pub(crate) fn check_table(manifests: &[(String, String)], document: &str) -> Vec<Finding> {
    let mut users: BTreeMap<String, [BTreeSet<&str>; 2]> = BTreeMap::new();
    for (name, text) in manifests {
        for (_, section, dependency) in dependencies(text) {
            if MAY_USE.iter().all(|(known, _)| *known != dependency) {
                let is_test = section.ends_with("dev-dependencies");
                users.entry(dependency).or_default()[usize::from(is_test)].insert(name);
            }
        }
    }
    let mut findings = unused(document, &users);
    for (dependency, [shipping, tests]) in users {
        let is_test = shipping.is_empty();
        let expected = if is_test { &tests } else { &shipping };
        let row = document.lines().enumerate().find_map(|(index, line)| {
            let cells: Vec<&str> = line.strip_prefix('|')?.split('|').map(str::trim).collect();
            let is_own = cells.first()?.split(", ").any(|name| name == dependency);
            Some((index + 1, *cells.get(2).filter(|_| is_own)?))
        });
        let given: BTreeSet<&str> = row
            .map_or("", |(_, users)| users)
            .split([',', ' '])
            .filter(|word| word.starts_with("linecard"))
            .collect();
        if given != *expected {
            let names: Vec<&str> = expected.iter().copied().collect();
            let of = if is_test { "tests of " } else { "" };
            let what = format!("`{dependency}` is used by {of}{}: say so", names.join(", "));
            findings.push(Finding::new(TABLE, row.map_or(0, |(line, _)| line), what));
        }
    }
    findings
}

/// Rows of crates that are not used any more. The table ends where the next section begins.
fn unused<T>(document: &str, users: &BTreeMap<String, T>) -> Vec<Finding> {
    let table = document.lines().enumerate().take_while(|(_, line)| !line.starts_with("## "));
    let rows = table.filter_map(|(index, line)| {
        let names = line.strip_prefix("| ")?.split('|').next()?.trim();
        // Entries that are not Rust crates have brackets.
        (names != "crate" && !names.contains('(')).then_some((index + 1, names))
    });
    let names = rows.flat_map(|(line, names)| names.split(", ").map(move |name| (line, name)));
    names
        .filter(|(_, name)| !users.contains_key(*name))
        .map(|(line, name)| Finding::new(TABLE, line, format!("nobody uses `{name}`: delete it")))
        .collect()
}

/// Line, section and name of every dependency, of any kind and platform.
fn dependencies(text: &str) -> Vec<(usize, String, String)> {
    let mut found = Vec::new();
    for (index, row) in text.lines().enumerate() {
        let header = row.trim().strip_prefix('[').and_then(|row| row.strip_suffix(']'));
        if let Some((kind, name)) = header.and_then(|header| header.rsplit_once('.'))
            && kind.ends_with("dependencies")
        {
            found.push((index + 1, kind.to_owned(), name.to_owned()));
        }
    }
    let rows = keys(text).filter(|(_, section, _)| section.ends_with("dependencies"));
    found.extend(rows.map(|(line, section, key)| {
        let name = key.split(['=', '.']).next().unwrap_or_default();
        (line, section, name.trim().trim_matches('"').to_owned())
    }));
    found
}

/// Line, section and text of every `key = value` row.
pub(crate) fn keys(text: &str) -> impl Iterator<Item = (usize, String, String)> + '_ {
    let mut section = String::new();
    text.lines().enumerate().filter_map(move |(index, row)| {
        let row = row.trim();
        if row.starts_with('[') {
            section = row.trim_matches(['[', ']']).to_owned();
            return None;
        }
        let is_key = !row.is_empty() && !row.starts_with('#');
        is_key.then(|| (index + 1, section.clone(), row.to_owned()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINTS: &str = "[lints]\nworkspace = true\n";

    fn count(name: &str, dependencies: &str) -> usize {
        check(&[(name.to_owned(), format!("{dependencies}\n{LINTS}"))]).len()
    }

    #[test]
    fn dependencies_point_one_way() {
        assert_eq!(count("linecard-io", "[dependencies]\nlinecard = { workspace = true }"), 0);
        assert_eq!(count("linecard", "[dependencies]\nlinecard-io = { workspace = true }"), 1);
        assert_eq!(count("linecard", "[dependencies]\nlinecard-io.workspace = true"), 1);
        assert_eq!(count("linecard", "[dev-dependencies.linecard-cli]\npath = \"../x\""), 1);
        assert_eq!(count("linecard", "[target.'cfg(unix)'.dependencies]\nlinecard-io = \"1\""), 1);
        assert_eq!(count("linecard-py", "[dependencies]\nlinecard-app = \"1\""), 0);
        assert_eq!(count("linecard-py", "[dependencies]\nlinecard-cli = \"1\""), 1);
        assert_eq!(count("linecard", "[dependencies]\nserde = \"1\""), 0);
    }

    #[test]
    fn what_a_pure_crate_takes_behind_a_feature_is_optional() {
        let row = "[dependencies]\nlinecard-io = { workspace = true }";
        assert_eq!(count("linecard-jitter", row), 1);
        assert_eq!(count("linecard-jitter", &row.replace(" }", ", optional = true }")), 0);
    }

    #[test]
    fn the_table_has_who_uses_what() {
        let manifests = [
            ("linecard".to_owned(), "[dependencies]\nzerocopy = \"1\"".to_owned()),
            ("linecard-c".to_owned(), "[dev-dependencies]\ncbindgen = \"1\"".to_owned()),
        ];
        let count = |table: &str| check_table(&manifests, table).len();
        let right = "| zerocopy | headers | linecard |\n| cbindgen | C | tests of linecard-c |";
        assert_eq!(count(right), 0);
        assert_eq!(count(&right.replace("| linecard |", "| linecard, linecard-c |")), 1);
        assert_eq!(count("| zerocopy | headers | linecard |"), 1);
        assert_eq!(count(&format!("{right}\n| serde | JSON | linecard |")), 1);
    }

    #[test]
    fn the_testkit_is_for_tests() {
        assert_eq!(count("linecard", "[dev-dependencies]\nlinecard-testkit = \"1\""), 0);
        assert_eq!(count("linecard", "[dev-dependencies]\nlinecard = \"1\""), 0);
        assert_eq!(count("linecard", "[dependencies]\nlinecard = \"1\""), 1);
        assert_eq!(count("linecard", "[dev-dependencies.linecard-testkit]\nversion = \"1\""), 0);
        assert_eq!(count("linecard-cli", "[dependencies]\nlinecard-testkit = \"1\""), 1);
        assert_eq!(count("linecard-testkit", "[dev-dependencies]\nlinecard = \"1\""), 1);
    }

    #[test]
    fn a_new_crate_needs_a_place() {
        assert_eq!(count("linecard-utils", ""), 1);
    }

    #[test]
    fn lints_come_from_the_workspace() {
        let own = ("linecard".to_owned(), "[lints.rust]\nunsafe_code = \"allow\"\n".to_owned());
        assert_eq!(check(&[own]).len(), 1);
    }
}
