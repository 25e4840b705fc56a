//! Exit codes of one command, for its help.

use linecard_app::EXIT_CODES;

/// Those among [`EXIT_CODES`] that a command can end with, and what is said about them.
pub(crate) fn exit_codes(of: &[u8]) -> String {
    let (table, about) = EXIT_CODES.split_once("\n\n").unwrap_or((EXIT_CODES, ""));
    let mut lines = table.lines();
    let mut text = lines.next().unwrap_or_default().to_owned();
    let mut is_one = false;
    for line in lines {
        // A row starts with its code; others go on behind its text.
        let words = line.trim_start();
        if line.len() - words.len() == 2 {
            let code = words.split_whitespace().next().and_then(|code| code.parse().ok());
            is_one = code.is_some_and(|code| of.contains(&code));
        }
        if is_one {
            text = format!("{text}\n{line}");
        }
    }
    let words = about.split(|letter: char| !letter.is_ascii_digit());
    let mut named = words.filter_map(|word| word.parse().ok());
    if !about.is_empty() && named.all(|code: u8| of.contains(&code)) {
        text = format!("{text}\n\n{about}");
    }
    text
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
        assert!(!text.contains("scenario") && !text.contains("go on from there"), "{text}");
    }

    #[test]
    fn what_is_said_about_codes_comes_with_them() {
        let all: Vec<u8> = (0..=130).collect();
        assert_eq!(exit_codes(&all), EXIT_CODES);
        assert!(exit_codes(&[0, 1, 14, 16, 17, 130]).ends_with("is kept"));
    }
}
