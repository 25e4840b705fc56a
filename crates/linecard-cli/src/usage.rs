//! Wrong arguments, reported as every other failure: in one line.

use crate::say;
use clap::error::{ContextKind, ErrorKind};
use linecard_app::Error;
use std::io::{self, Write};
use std::process::ExitCode;

/// Says what clap found. Help and version are requested output, and printed unchanged.
pub(crate) fn refuse(error: &clap::Error) -> ExitCode {
    let no_command = error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand;
    if no_command || !error.use_stderr() {
        let printed = error.print().and_then(|()| io::stdout().flush()).map_err(Error::Report);
        return match printed {
            // A reader that has seen enough of the help is not an error.
            Err(failure) if !failure.is_broken_pipe() => {
                say(&failure.to_string());
                ExitCode::from(failure.code())
            }
            _ if no_command => ExitCode::from(2),
            _ => ExitCode::SUCCESS,
        };
    }
    say(&of(error));
    ExitCode::from(2)
}

/// Options that are given to the command of the wrong end: the command, the option, and where it is.
const ELSEWHERE: [(&str, &str, &str); 1] = [(
    "linecard send ",
    "--overwrite",
    "the receiver decides which files are replaced: give it to `linecard recv DIR --overwrite`",
)];

/// Commands that need a scenario, with an example of it.
const SCENARIOS: [(&str, &str); 4] = [
    ("linecard model run ", "linecard model run scenarios/model-lso.toml"),
    ("linecard model trace ", "linecard model trace scenarios/model-lso.toml --output lso.json"),
    (
        "linecard model sweep ",
        "linecard model sweep scenarios/model-lso.toml --vary core.mhz=60..480:60",
    ),
    (
        "linecard model bottlenecks ",
        "linecard model bottlenecks scenarios/model-lso.toml --rate 400G",
    ),
];

/// The error that clap found, in one line.
pub(crate) fn of(error: &clap::Error) -> String {
    let text = |kind| error.get(kind).map(ToString::to_string).unwrap_or_default();
    let (option, usage) = (text(ContextKind::InvalidArg), text(ContextKind::Usage));
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(command, name, _)| is_unknown && usage.contains(command) && option == *name);
    if let Some((_, _, tip)) = elsewhere {
        // Clap's tip is to pass it as a file.
        return format!("unexpected argument '{option}' found; {tip}");
    }
    let line = one_line(&error.render().to_string());
    // Clap's measure finds `--loss` for `--nonsense`.
    let similar = text(ContextKind::SuggestedArg);
    let initial = |name: &str| name.trim_start_matches('-').chars().next();
    let line = match initial(&option) == initial(&similar) {
        true => line,
        false => line.replace(&format!("; tip: a similar argument exists: '{similar}'"), ""),
    };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    let example = SCENARIOS.iter().find(|(command, _)| is_missing && usage.contains(command));
    match example {
        Some((_, example)) => format!("{line}; for example: {example}"),
        None => line,
    }
}

/// The error with clap's hints; not the usage, which `--help` has.
fn one_line(text: &str) -> String {
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
    use super::{of, one_line};
    use crate::args::Arguments;
    use clap::CommandFactory;

    #[test]
    fn a_tip_is_similar_and_a_file_is_a_choice() {
        let refused = |line: &str| {
            let parsed = Arguments::command().try_get_matches_from(line.split(' '));
            of(&parsed.expect_err("it is wrong"))
        };
        assert!(refused("linecard run --flow 2").contains("'--flows'"));
        let line = "unexpected argument '--nonsense' found; --help says more";
        assert_eq!(refused("linecard run --nonsense"), line);
        assert!(refused("linecard reproduce nopaper").contains("ends in .toml"));
    }

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
