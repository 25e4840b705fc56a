//! Documents: the required ones exist, and links between them lead to a file and a heading.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::Finding;

const REQUIRED: [&str; 8] = [
    "README.md",
    "ARCHITECTURE.md",
    "PROMISES.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
];

/// Missing documents.
pub(crate) fn check_required(root: &Path) -> Vec<Finding> {
    let missing = REQUIRED.iter().filter(|name| !root.join(name).is_file());
    missing.map(|name| Finding::new(name, 0, "is missing: every release carries it")).collect()
}

/// Every Markdown file that belongs to the repository; where this is not a checkout, as in an unpacked release, the
/// documents at the root.
pub(crate) fn documents(root: &Path) -> Vec<String> {
    files(root, "*.md").unwrap_or_else(|| {
        REQUIRED.iter().filter(|n| n.ends_with(".md")).map(ToString::to_string).collect()
    })
}

/// Files of the repository whose names match a pattern of git; nothing where this is not a checkout.
pub(crate) fn files(root: &Path, pattern: &str) -> Option<Vec<String>> {
    let mut git = Command::new("git");
    git.args(["ls-files", "--cached", "--others", "--exclude-standard", "--", pattern]);
    let listed = git.current_dir(root).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect())
}

/// Relative links in `documents` without a target.
pub(crate) fn check(root: &Path, documents: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for document in documents {
        // A file that git still lists may just have been removed.
        let Ok(text) = fs::read_to_string(root.join(document)) else { continue };
        for (line, target) in targets(&text) {
            if let Err(why) = follow(root, document, &text, &target) {
                findings.push(Finding::new(document, line, format!("link `{target}`: {why}")));
            }
        }
    }
    findings
}

fn follow(root: &Path, document: &str, text: &str, target: &str) -> Result<(), String> {
    let (file, anchor) = target.split_once('#').map_or((target, None), |(f, a)| (f, Some(a)));
    if file.starts_with('/') {
        return Err("is absolute: write it relative to the document".to_owned());
    }
    let folder = Path::new(document).parent().unwrap_or(Path::new(""));
    let path = root.join(folder).join(file);
    let there = if file.is_empty() {
        text.to_owned()
    } else {
        let inside = match (path.canonicalize(), root.canonicalize()) {
            (Ok(path), Ok(root)) => path.starts_with(root),
            _ => return Err("no such file: correct or remove it".to_owned()),
        };
        if !inside {
            return Err("leads out of the repository: others do not have it".to_owned());
        }
        fs::read_to_string(&path).unwrap_or_default()
    };
    match anchor {
        Some(anchor) if file.is_empty() || file.ends_with(".md") => {
            let found = anchors(&there).iter().any(|known| known == anchor);
            if found { Ok(()) } else { Err(format!("no heading `#{anchor}` there")) }
        }
        _ => Ok(()),
    }
}

/// Lines outside code fences, with the inside of `code` spans removed.
fn prose(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, row)| {
        if row.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        (!fenced).then(|| (index + 1, row.split('`').step_by(2).collect::<Vec<_>>().join("`")))
    })
}

/// Line and target of every relative link: `[text](target)` and `[name]: target`.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (line, row) in prose(text) {
        for (at, _) in row.match_indices("](") {
            let rest = &row[at + 2..];
            found.push((line, rest[..rest.find(')').unwrap_or(rest.len())].to_owned()));
        }
        if let (true, Some(at)) = (row.starts_with('['), row.find("]: ")) {
            found.push((line, row[at + 3..].to_owned()));
        }
    }
    let cleaned = found.into_iter().map(|(line, target)| {
        let first = target.split_whitespace().next().unwrap_or_default();
        (line, first.trim_matches(['<', '>']).to_owned())
    });
    cleaned
        .filter(|(_, target)| !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

/// The anchors of a document, made from its headings as code forges do.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut fenced = false;
    for row in text.lines() {
        if row.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        if fenced || !row.starts_with('#') {
            continue;
        }
        let slug = slug(row.trim_start_matches('#').trim());
        let again =
            found.iter().filter(|a| **a == slug || a.starts_with(&format!("{slug}-"))).count();
        found.push(if found.contains(&slug) { format!("{slug}-{again}") } else { slug });
    }
    found
}

fn slug(heading: &str) -> String {
    let lower = heading.to_lowercase();
    let kept = lower.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A document at the root of the repository with this text.
    fn problems(text: &str) -> Vec<String> {
        let outcome = targets(text).into_iter();
        outcome
            .filter_map(|(_, target)| follow(&crate::root(), "X.md", text, &target).err())
            .collect()
    }

    #[test]
    fn links_need_their_file() {
        assert_eq!(problems("[a](Cargo.toml) and [b](crates/linecard/src/lib.rs)"), [""; 0]);
        assert!(problems("see\n[a](nowhere.md)")[0].contains("no such file"));
        assert!(problems("[a]: nowhere.md")[0].contains("no such file"));
        assert!(problems("[a](/etc/hosts)")[0].contains("absolute"));
        assert!(problems("[a](../)")[0].contains("out of the repository"));
    }

    #[test]
    fn links_need_their_heading() {
        assert_eq!(problems("# A `b` & c!\n[a](#a-b--c)"), [""; 0]);
        assert_eq!(problems("# A\n# A\n[a](#a-1)"), [""; 0]);
        assert!(problems("# A\n[a](#b)")[0].contains("no heading `#b`"));
        assert!(problems("```\n# b\n```\n[a](#b)")[0].contains("no heading"));
    }

    #[test]
    fn addresses_and_code_are_no_links() {
        assert_eq!(problems("[a](https://example.org/x) `[b](c)`\n```\n[d](e)\n```\n"), [""; 0]);
    }

    #[test]
    fn missing_documents_are_found() {
        assert_eq!(check_required(&crate::root().join("crates")).len(), REQUIRED.len());
    }
}
