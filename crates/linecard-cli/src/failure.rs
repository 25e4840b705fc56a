//! Errors of jobs, as the command ends with them.

pub(crate) use linecard_app::{EXIT_CODES, Error as Failure};

/// Those among [`EXIT_CODES`] that a command can end with.
pub(crate) fn exit_codes(of: &[u8]) -> String {
    let mut lines = EXIT_CODES.lines().take_while(|line| !line.is_empty());
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
}
