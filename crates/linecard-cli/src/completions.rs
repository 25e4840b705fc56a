//! `linecard completions`: what a shell needs to complete the command, from the same definition as its
//! parser.

use crate::codes::all_exit_codes;
use clap::{Arg, Args, Command, ValueHint};
use clap_complete::{Shell, generate};
use linecard_app::Error;
use std::io::{self, Write};

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct CompletionsArguments {
    /// The shell.
    shell: Shell,
}

/// Prints the script for `whole`.
pub(crate) fn command(arguments: &CompletionsArguments, mut whole: Command) -> Result<(), Error> {
    let mut script = Vec::new();
    generate(arguments.shell, &mut whole, "linecard", &mut script);
    if arguments.shell == Shell::Bash {
        script.extend_from_slice(files_in_bash(&whole).as_bytes());
    }
    let mut out = io::stdout().lock();
    out.write_all(&script)?;
    Ok(out.flush()?)
}

/// In bash, the generated function offers options where nothing is typed yet, also where a file comes next. Without an
/// answer of it, bash offers files.
fn files_in_bash(whole: &Command) -> String {
    let mut commands = Vec::new();
    commands_of_files(whole, "", &mut commands);
    let patterns: Vec<String> = commands.iter().map(|name| format!("\" {name} \"*")).collect();
    format!(
        "
_linecard_files() {{
    _linecard \"$@\"
    [[ ${{COMP_WORDS[COMP_CWORD]}} != -* && ${{COMPREPLY[0]}} == -* ]] || return 0
    case \" ${{COMP_WORDS[*]:1}} \" in
        {}) COMPREPLY=() ;;
    esac
}}
complete -F _linecard_files -o bashdefault -o default linecard
",
        patterns.join("|")
    )
}

/// The commands that take files as arguments without an option.
fn commands_of_files(command: &Command, name: &str, found: &mut Vec<String>) {
    let is_file = |arg: &Arg| {
        matches!(
            arg.get_value_hint(),
            ValueHint::AnyPath | ValueHint::FilePath | ValueHint::DirPath
        )
    };
    if command.get_positionals().any(is_file) {
        found.push(name.trim_start().to_owned());
    }
    for below in command.get_subcommands() {
        commands_of_files(below, &format!("{name} {}", below.get_name()), found);
    }
}
