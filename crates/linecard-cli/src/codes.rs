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

    #[test]
    fn what_is_said_about_codes_comes_with_them() {
        assert!(all_exit_codes().ends_with("is kept."));
        assert!(exit_codes(&[0, 1, 14, 16, 17, 130]).ends_with("is kept."));
    }
}
