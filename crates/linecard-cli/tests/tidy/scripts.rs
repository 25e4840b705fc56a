//! First lines of scripts: each names an interpreter and nothing else.

use std::path::Path;

use crate::Finding;
use crate::links::files;

/// Scripts whose first line no kernel runs.
pub(crate) fn check(root: &Path) -> Vec<Finding> {
    let files = files(root, "*").unwrap_or_default();
    let texts = files.into_iter().filter_map(|name| {
        let text = std::fs::read_to_string(root.join(&name)).ok()?;
        Some((name, text))
    });
    texts.filter_map(|(name, text)| check_text(&name, &text)).collect()
}

fn check_text(name: &str, text: &str) -> Option<Finding> {
    // An inner attribute of Rust begins so, too.
    let rest = text.strip_prefix("#!").filter(|rest| !rest.starts_with('['))?;
    let first = rest.lines().next().unwrap_or_default();
    let program = first.strip_prefix("/usr/bin/env ").unwrap_or_default();
    let is_name = !program.is_empty() && program.chars().all(|c| c.is_ascii_alphanumeric());
    let what =
        format!("starts with \"#!{first}\": write \"#!/usr/bin/env PROGRAM\" alone on the line");
    (!is_name).then(|| Finding::new(name, 1, what))
}

#[cfg(test)]
mod tests {
    use super::check_text;

    #[test]
    fn a_first_line_that_is_no_interpreter_is_found() {
        assert_eq!(check_text("a.sh", "#!/usr/bin/env bash\n# Counts.\n"), None);
        assert_eq!(check_text("a.rs", "#![no_std]\n"), None);
        // A comment had run into it.
        for bad in ["#!/usr/bin/env bash Counts what\n", "#!/usr/bin/env \n", "#!\n", "#!/bin/sh\n"]
        {
            assert!(check_text("a.sh", bad).is_some(), "{bad}");
        }
    }
}
