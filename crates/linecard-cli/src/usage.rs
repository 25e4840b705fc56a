//! Wrong arguments, said as every other failure: in one line.

use crate::say;
use clap::error::ErrorKind;
use std::process::ExitCode;

/// Says what clap found. Help and version are asked for, and printed as they are.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    let no_command = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if no_command || !error.use_stderr() {
        // A reader that has seen enough of the help is no error.
        let _ = error.print();
        return if no_command { ExitCode::from(2) } else { ExitCode::SUCCESS };
    }
    say(&one_line(&error.render().to_string()));
    ExitCode::from(2)
}

/// What is wrong and clap's tips; not the usage, which `--help` has.
pub(crate) fn one_line(text: &str) -> String {
    let mut line = String::new();
    let wanted = |text: &&str| !text.starts_with("Usage:") && !text.starts_with("For more");
    for part in text.lines().map(str::trim).filter(|part| !part.is_empty()).take_while(wanted) {
        let part = part.strip_prefix("error: ").unwrap_or(part);
        let between = if part.starts_with("tip:") { "; " } else { " " };
        line.push_str(if line.is_empty() { "" } else { between });
        line.push_str(part);
    }
    line + "; --help says more"
}

#[cfg(test)]
mod tests {
    use super::one_line;

    #[test]
    fn the_value_and_the_tip_stay() {
        let text = "error: unexpected argument '--flow' found\n\n  tip: a similar argument exists: \
                    '--flows'\n\nUsage: linecard run [OPTIONS]\n\nFor more information, try '--help'.\n";
        let line = "unexpected argument '--flow' found; tip: a similar argument exists: '--flows'; \
                    --help says more";
        assert_eq!(one_line(text), line);
        let text =
            "error: the following required arguments were not provided:\n  <INPUT>\n  <OUTPUT>";
        let line = "the following required arguments were not provided: <INPUT> <OUTPUT>; --help says \
                    more";
        assert_eq!(one_line(text), line);
    }
}
