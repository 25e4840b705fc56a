//! Wrong arguments, reported as every other failure: in one line.

use crate::say;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use linecard_app::Error;
use std::error::Error as _;
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

/// The error that clap found, in one line: from its parts, since clap's own text has several lines and the usage.
pub(crate) fn of(error: &clap::Error) -> String {
    let (option, usage) = (text(error, ContextKind::InvalidArg), text(error, ContextKind::Usage));
    let is_unknown = error.kind() == ErrorKind::UnknownArgument;
    let elsewhere = ELSEWHERE
        .iter()
        .find(|(command, name, _)| is_unknown && usage.contains(command) && option == *name);
    let tips = match elsewhere {
        // Clap's tip is to pass it as a file.
        Some((_, _, tip)) => format!("; {tip}"),
        None => tips(error, &option) + "; --help says more",
    };
    let is_missing = error.kind() == ErrorKind::MissingRequiredArgument;
    let example = SCENARIOS.iter().find(|(command, _)| is_missing && usage.contains(command));
    let example = example.map_or(String::new(), |(_, example)| format!("; for example: {example}"));
    let line = what(error, &option) + &tips + &example;
    line.lines().map(str::trim).collect::<Vec<_>>().join(" ")
}

/// The fault, as clap's own text words it.
fn what(error: &clap::Error, option: &str) -> String {
    let value = text(error, ContextKind::InvalidValue);
    let command = text(error, ContextKind::InvalidSubcommand);
    let among = |name: &str, kind| match parts(error.get(kind)) {
        choices if choices.is_empty() => String::new(),
        choices => format!(" [{name}: {}]", choices.join(", ")),
    };
    match error.kind() {
        ErrorKind::UnknownArgument => format!("unexpected argument '{option}' found"),
        ErrorKind::InvalidSubcommand => format!("unrecognized subcommand '{command}'"),
        ErrorKind::MissingSubcommand => {
            let choices = among("subcommands", ContextKind::ValidSubcommand);
            format!("'{command}' requires a subcommand but one was not provided{choices}")
        }
        ErrorKind::MissingRequiredArgument => {
            format!("the following required arguments were not provided: {option}")
        }
        ErrorKind::InvalidValue => {
            let choices = among("possible values", ContextKind::ValidValue);
            match value.is_empty() {
                true => {
                    format!("a value is required for '{option}' but none was supplied{choices}")
                }
                false => format!("invalid value '{value}' for '{option}'{choices}"),
            }
        }
        ErrorKind::ValueValidation => {
            let why = error.source().map_or(String::new(), |source| format!(": {source}"));
            format!("invalid value '{value}' for '{option}'{why}")
        }
        ErrorKind::TooManyValues => {
            format!("unexpected value '{value}' for '{option}' found; no more were expected")
        }
        ErrorKind::NoEquals => {
            format!("equal sign is needed when assigning values to '{option}'")
        }
        ErrorKind::ArgumentConflict => {
            let argument = if option.is_empty() {
                format!("subcommand '{command}'")
            } else {
                format!("argument '{option}'")
            };
            match parts(error.get(ContextKind::PriorArg)).as_slice() {
                [prior] if prior == option => {
                    format!("the {argument} cannot be used multiple times")
                }
                [prior] => format!("the {argument} cannot be used with '{prior}'"),
                priors => format!("the {argument} cannot be used with: {}", priors.join(" ")),
            }
        }
        kind => kind.to_string(),
    }
}

/// Clap's tips. Its measure of likeness finds `--loss` for `--nonsense`.
fn tips(error: &clap::Error, option: &str) -> String {
    let initial = |name: &str| name.trim_start_matches('-').chars().next();
    let similar = [
        ("subcommand", ContextKind::SuggestedSubcommand),
        ("argument", ContextKind::SuggestedArg),
        ("value", ContextKind::SuggestedValue),
    ];
    let similar = similar.into_iter().filter_map(|(what, kind)| {
        let mut names = parts(error.get(kind));
        names.retain(|name| what != "argument" || initial(name) == initial(option));
        match names.as_slice() {
            [] => None,
            [name] => Some(format!("; tip: a similar {what} exists: '{name}'")),
            names => Some(format!("; tip: some similar {what}s exist: '{}'", names.join("', '"))),
        }
    });
    let others = parts(error.get(ContextKind::Suggested)).into_iter();
    similar.chain(others.map(|tip| format!("; tip: {tip}"))).collect()
}

fn text(error: &clap::Error, kind: ContextKind) -> String {
    parts(error.get(kind)).join(" ")
}

/// Texts of a part of an error.
fn parts(value: Option<&ContextValue>) -> Vec<String> {
    match value {
        Some(ContextValue::String(text)) => vec![text.clone()],
        Some(ContextValue::Strings(texts)) => texts.clone(),
        Some(ContextValue::StyledStr(text)) => vec![text.to_string()],
        Some(ContextValue::StyledStrs(texts)) => texts.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::of;
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

    /// Of each kind that the command can have, the text of clap without its lines and its usage.
    #[test]
    fn clap_says_the_same() {
        for line in [
            "linecard run --flow 2",
            "linecard run --flows",
            "linecard run --flows 1 --flows 2",
            "linecard attac",
            "linecard keys authorize",
            "linecard coalesce in",
            "linecard coalesce in out more",
            "linecard send",
            "linecard run --lanes x",
            "linecard attach a b --merge x",
            "linecard attach a b --merge",
            "linecard model sweep x --json --csv",
            "linecard plan",
            "linecard plan x --verify transfer",
            "linecard keys authorize lc2",
        ] {
            let parsed = Arguments::command().try_get_matches_from(line.split(' '));
            let error = parsed.expect_err(line);
            let whole = error.render().to_string();
            let front =
                whole.split("\nUsage:").next().and_then(|text| text.split("\nFor more").next());
            let words = |text: &str| -> Vec<String> {
                let parts = text.split_whitespace().map(|word| word.trim_end_matches(';'));
                parts.filter(|word| *word != "error:").map(str::to_owned).collect()
            };
            let ours = of(&error);
            let ours = ours.split("; --help says more").next().expect("a part");
            assert_eq!(words(ours), words(front.expect("a part")), "{line}");
        }
    }
}
