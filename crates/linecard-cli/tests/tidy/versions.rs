//! One version: the workspace's. Crates take it, crates name it where they need each other, Python's package takes it
//! from the crate, and the changelog is not behind it. The container is built by the same toolchain as everything else.

use std::fs;
use std::path::Path;

use crate::Finding;
use crate::manifests::{TESTKIT, keys};

/// Files that name a version, or must not.
#[derive(Debug, Clone)]
pub(crate) struct Texts {
    /// `Cargo.toml` at the root.
    workspace: String,
    /// Folder name and text of each crate's manifest.
    crates: Vec<(String, String)>,
    /// `pyproject.toml`.
    python: String,
    changelog: String,
    /// `rust-toolchain.toml`.
    toolchain: String,
    /// `Containerfile`.
    container: String,
}

pub(crate) fn read(root: &Path) -> Texts {
    let text =
        |name: &str| fs::read_to_string(root.join(name)).expect("what says a version is readable");
    Texts {
        workspace: text("Cargo.toml"),
        crates: crate::manifests::read(root),
        python: text("pyproject.toml"),
        changelog: text("CHANGELOG.md"),
        toolchain: text("rust-toolchain.toml"),
        container: text("Containerfile"),
    }
}

/// Versions that are out of step.
pub(crate) fn check(texts: &Texts) -> Vec<Finding> {
    let version = keys(&texts.workspace)
        .find(|(_, section, key)| section == "workspace.package" && name(key) == "version")
        .and_then(|(_, _, key)| quoted(&key, "version"));
    let Some(version) = version else {
        return vec![Finding::new("Cargo.toml", 0, "[workspace.package] has no version")];
    };
    let mut findings = check_internal(&texts.workspace, &version);
    findings.extend(texts.crates.iter().filter_map(|(folder, text)| check_crate(folder, text)));
    findings.extend(check_python(&texts.python));
    findings.extend(check_changelog(&texts.changelog, &version));
    findings.extend(check_container(&texts.container, &texts.toolchain));
    findings
}

fn check_container(container: &str, toolchain: &str) -> Option<Finding> {
    let channel = keys(toolchain).find_map(|(_, _, key)| quoted(&key, "channel"));
    let fits = channel.is_some_and(|channel| container.contains(&format!("/rust:{channel}-")));
    let what = "its image of Rust is not that of rust-toolchain.toml";
    (!fits).then(|| Finding::new("Containerfile", 0, what))
}

/// Crates of the workspace are needed in the version that they have. That of tests is not published: with a version,
/// those that need it for their tests could not be published either.
fn check_internal(text: &str, version: &str) -> Vec<Finding> {
    let ours = keys(text)
        .filter(|(_, section, key)| section == "workspace.dependencies" && key.contains("path = "));
    ours.filter_map(|(line, _, key)| {
        let needed = quoted(&key, "version");
        let what = match name(&key) {
            TESTKIT if needed.is_some() => format!("`{TESTKIT}` is not published: no version"),
            TESTKIT => return None,
            _ if needed.as_deref() == Some(version) => return None,
            name => format!("`{name}` is not needed as version \"{version}\", which it has"),
        };
        Some(Finding::new("Cargo.toml", line, what))
    })
    .collect()
}

fn check_crate(folder: &str, text: &str) -> Option<Finding> {
    let takes = keys(text).any(|(_, section, key)| {
        section == "package" && key.replace(' ', "") == "version.workspace=true"
    });
    let what = "has a version of its own: write `version.workspace = true`";
    (!takes).then(|| Finding::new(&format!("crates/{folder}/Cargo.toml"), 0, what))
}

fn check_python(text: &str) -> Vec<Finding> {
    let file = "pyproject.toml";
    let mut findings = Vec::new();
    let project = || keys(text).filter(|(_, section, _)| section == "project");
    if !project().any(|(_, _, key)| name(&key) == "dynamic" && key.contains("\"version\"")) {
        findings.push(Finding::new(file, 0, "write `dynamic = [\"version\"]`: it is the crate's"));
    }
    if let Some((line, ..)) = project().find(|(_, _, key)| name(key) == "version") {
        findings.push(Finding::new(file, line, "has a version of its own: it is the crate's"));
    }
    findings
}

/// Headings are `## Unreleased`, first if at all, and `## 1.2.3 …`, the newest first. The newest is the workspace's
/// version; below "Unreleased" it may be an older one.
fn check_changelog(text: &str, version: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut unreleased = false;
    let mut newest: Option<[u64; 3]> = None;
    let mut last: Option<[u64; 3]> = None;
    for (index, line) in text.lines().enumerate() {
        let Some(heading) = line.strip_prefix("## ") else { continue };
        let mut finding =
            |what: String| findings.push(Finding::new("CHANGELOG.md", index + 1, what));
        if heading == "Unreleased" {
            if unreleased || last.is_some() {
                finding("`Unreleased` stands above all versions, once".to_owned());
            }
            unreleased = true;
            continue;
        }
        let word = heading.split(' ').next().unwrap_or_default().trim_matches(['[', ']']);
        let Some(numbers) = numbers(word) else {
            finding(format!("`{heading}` is not a version: `Unreleased`, or `1.2.3` and its date"));
            continue;
        };
        if last.is_some_and(|above| above <= numbers) {
            finding(format!("{word} stands below an older version, or twice"));
        }
        newest = newest.or(Some(numbers));
        last = Some(numbers);
    }
    let fits = match (numbers(version), newest) {
        (Some(ours), Some(newest)) => ours == newest || (unreleased && ours > newest),
        (Some(_), None) => unreleased,
        (None, _) => false,
    };
    if !fits {
        let what = format!("the workspace's version is {version}: the newest heading is not");
        findings.push(Finding::new("CHANGELOG.md", 0, what));
    }
    findings
}

/// Three numbers, no more: pre-releases have no place in the changelog.
fn numbers(version: &str) -> Option<[u64; 3]> {
    let parts: Option<Vec<u64>> = version.split('.').map(|part| part.parse().ok()).collect();
    parts?.try_into().ok()
}

fn name(key: &str) -> &str {
    key.split('=').next().unwrap_or_default().trim()
}

/// The text in quotes behind `name =`.
fn quoted(key: &str, name: &str) -> Option<String> {
    let (_, value) = key.split_once(&format!("{name} = \""))?;
    value.split('"').next().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts() -> Texts {
        Texts {
            workspace: "[workspace.package]\nversion = \"1.2.0\"\n[workspace.dependencies]\n\
                        linecard = { path = \"crates/linecard\", version = \"1.2.0\" }\nserde = \"1\"\n"
                .to_owned(),
            crates: vec![("linecard".to_owned(), "[package]\nversion.workspace = true\n".to_owned())],
            python: "[project]\ndynamic = [\"version\"]\n".to_owned(),
            changelog: "# Changelog\n\n## Unreleased\n\n## 1.2.0 (2026-01-01)\n\n## 1.1.9\n".to_owned(),
            toolchain: "[toolchain]\nchannel = \"1.95.0\"\n".to_owned(),
            container: "FROM docker.io/library/rust:1.95.0-slim AS build\n".to_owned(),
        }
    }

    #[test]
    fn versions_in_step_are_found_so() {
        assert_eq!(check(&texts()), []);
    }

    #[test]
    fn each_place_that_is_out_of_step_is_found() {
        let old = |text: &str| text.replace("version = \"1.2.0\" }", "version = \"1.1.0\" }");
        let workspace = Texts { workspace: old(&texts().workspace), ..texts() };
        let testkit =
            "[workspace.dependencies]\nlinecard-testkit = { path = \"x\", version = \"1.2.0\" }\n";
        let testkit = Texts { workspace: texts().workspace + testkit, ..texts() };
        let mut own = texts();
        own.crates[0].1 = "[package]\nversion = \"1.2.0\"\n".to_owned();
        let python = Texts { python: "[project]\nversion = \"1.2.0\"\n".to_owned(), ..texts() };
        let container = Texts { container: "FROM x/rust:1.94.0-slim\n".to_owned(), ..texts() };
        for (wrong, count, file) in [
            (container, 1, "Containerfile"),
            (workspace, 1, "Cargo.toml"),
            (testkit, 1, "Cargo.toml"),
            (own, 1, "crates/linecard/Cargo.toml"),
            (python, 2, "pyproject.toml"),
        ] {
            let findings = check(&wrong);
            assert_eq!(findings.len(), count, "{findings:?}");
            assert!(findings.iter().all(|finding| finding.file == file), "{findings:?}");
        }
        assert_eq!(check(&Texts { workspace: String::new(), ..texts() }).len(), 1);
    }

    #[test]
    fn the_changelog_follows() {
        let count =
            |changelog: &str| check(&Texts { changelog: changelog.to_owned(), ..texts() }).len();
        for right in [
            "## 1.2.0",
            "## [1.2.0] - 2026-01-01\n## 1.1.0",
            "## Unreleased",
            "## Unreleased\n## 1.1.0",
        ] {
            assert_eq!(count(right), 0, "{right}");
        }
        for wrong in [
            "",
            "## 1.1.0",
            "## 1.3.0",
            "## Unreleased\n## 1.3.0",
            "## 1.2.0\n## Unreleased",
            "## Unreleased\n## Unreleased",
            "## 1.2.0\n## 1.2.0",
            "## 1.2.0\n## 1.1.0\n## 1.1.5",
            "## 1.2.0\n## Older",
        ] {
            assert_eq!(count(wrong), 1, "{wrong}");
        }
    }
}
