//! Commands with their help; exit codes.

use super::{code, compare, table};
use crate::args::Arguments;
use crate::codes::resumable;
use clap::{Command, CommandFactory};
use linecard_app::EXIT_CODES;

/// Columns of a page.
const WIDTH: usize = 100;

/// Promise (Command): The reference of commands is generated from the code; further tests compare
/// scenario keys, metrics, reasons and exit codes.
#[test]
fn commands_are_those_of_the_command() {
    let mut command = Arguments::command();
    command.build();
    let mut text = "What `linecard COMMAND --help` says of each. [Exit codes](exit-codes.md) are the same for \
                    all commands, and keys of scenarios that models take are in [Scenario files](scenarios.md); \
                    both are left out here.\n\n"
        .to_owned();
    walk(&command, "linecard", &mut text);
    compare("commands.md", "Commands", &text);
}

/// A command, and all below it.
fn walk(command: &Command, name: &str, text: &mut String) {
    let help = command.clone().term_width(WIDTH).render_long_help().to_string();
    let keys = help.find("\nKeys of a scenario");
    let end =
        help.find("\nExit codes:").map_or(help.len(), |codes| keys.map_or(codes, |k| k.min(codes)));
    let lines: Vec<&str> = help[..end].trim_end().lines().map(str::trim_end).collect();
    *text += &format!("## {name}\n\n```text\n{}\n```\n\n", lines.join("\n"));
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    for below in below.filter(|below| below.get_name() != "help") {
        walk(below, &format!("{name} {}", below.get_name()), text);
    }
}

#[test]
fn exit_codes_are_those_of_help() {
    let rows =
        EXIT_CODES.map(|(number, meaning)| vec![code(&number.to_string()), meaning.to_owned()]);
    let mut text =
        "Every command ends with one of these, and with one line on stderr that says why.\n\n"
            .to_owned();
    text += &table(&["code", "meaning"], rows.to_vec());
    text += &format!("\n{}\n", resumable());
    compare("exit-codes.md", "Exit codes", &text);
}
