//! Exit codes in help texts.

use linecard_app::{EXIT_CODES, RESUMABLE};
use std::fmt::Write as _;

/// Columns of a line of help.
const WIDTH: usize = 78;

/// All exit codes.
pub(crate) fn all_exit_codes() -> String {
    exit_codes(&EXIT_CODES.map(|(code, _)| code))
}

/// Those that a command can end with.
pub(crate) fn exit_codes(of: &[u8]) -> String {
    let mut text = "Exit codes:".to_owned();
    for (code, meaning) in EXIT_CODES.into_iter().filter(|(code, _)| of.contains(code)) {
        let indent = code.to_string().len() + 4;
        let lines = lines(meaning, WIDTH - indent).join(&format!("\n{:indent$}", ""));
        // Writing to a text cannot fail.
        let _ = write!(text, "\n  {code}  {lines}");
    }
    if RESUMABLE.iter().all(|code| of.contains(code)) {
        let _ = write!(text, "\n\n{}", lines(&resumable(), WIDTH).join("\n"));
    }
    text
}

/// Remedies after some of them.
pub(crate) fn resumable() -> String {
    let [first @ .., last] = RESUMABLE.map(|code| code.to_string());
    format!(
        "After {} and {last}, send and recv continue a transfer that is started again: the \
         received data is kept.",
        first.join(", ")
    )
}

/// A text in lines of at most this many columns.
pub(crate) fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.len() + word.len() < width => *line += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory;

    #[test]
    fn a_command_has_the_codes_that_it_ends_with() {
        let text = exit_codes(&[0, 4, 6]);
        let codes: Vec<&str> = text
            .lines()
            .filter(|line| !line.starts_with("   "))
            .filter_map(|line| line.split_whitespace().next())
            .collect();
        assert_eq!(codes, ["Exit", "0", "4", "6"]);
        assert!(text.contains("there is no output when nothing could be read"), "{text}");
        assert!(!text.contains("scenario") && !text.contains("what has arrived"), "{text}");
    }

    /// Those of `send` and `recv` are explained in their document, too.
    #[test]
    fn codes_of_transfers_are_those_of_their_document() {
        let document = include_str!("../../../docs/howto/transfer.md");
        let table = document.split("## Exit codes").nth(1).unwrap_or_default();
        let table = table.split("\n## ").next().unwrap_or_default();
        let codes = |text: &str, before: &str| -> Vec<u8> {
            let starts = text.lines().filter_map(|line| line.strip_prefix(before));
            starts.filter_map(|line| line.split(' ').next()?.parse().ok()).collect()
        };
        let documented = codes(table, "| ");
        assert!([5, 6].iter().all(|code| documented.contains(code)), "{documented:?}");
        let command = Arguments::command();
        for name in ["send", "recv"] {
            let help = command.find_subcommand(name).and_then(|found| found.get_after_long_help());
            let help = help.map(ToString::to_string).unwrap_or_default();
            assert_eq!(codes(&help, "  "), documented, "{name}");
        }
    }

    #[test]
    fn what_is_said_about_codes_comes_with_them() {
        assert!(all_exit_codes().ends_with("is kept."));
        assert!(exit_codes(&[0, 1, 14, 16, 17, 130]).ends_with("is kept."));
    }
}
