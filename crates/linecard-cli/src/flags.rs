//! Options and arguments of commands that set parameters of a job: name, help, range and default are those of the parameter.

use crate::failure::Failure;
use crate::signals;
use clap::builder::PossibleValuesParser;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use linecard_app::Context;
use linecard_config::{Config, Document, Parameter, Place, parameters};
use serde_json::json;
use std::ffi::OsString;
use std::fmt;
use std::marker::PhantomData;

/// The options and arguments that were given, of all parameters of a configuration that have one.
pub(crate) struct Flags<C> {
    given: Vec<Given>,
    of: PhantomData<fn() -> C>,
}

/// An option or an argument that was given.
#[derive(Debug)]
struct Given {
    option: String,
    parameter: &'static Parameter,
    values: Vec<String>,
}

impl<C: Config> Flags<C> {
    /// The first option that was given.
    pub(crate) fn first(&self) -> Option<&str> {
        self.given.first().map(|given| given.option.as_str())
    }

    /// The value of a parameter that was given.
    pub(crate) fn value(&self, parameter: &str) -> Option<&str> {
        let given = self.given.iter().find(|given| given.parameter.name == parameter)?;
        given.values.first().map(String::as_str)
    }

    /// Runs what takes the configuration that was given, until a signal cancels it.
    pub(crate) fn until_signal<T>(
        &self,
        run: impl FnOnce(&C, &Context<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let document = self.document()?;
        let config = document.config()?;
        let progress = signals::progress()?;
        let context = Context { progress: &progress, document: Some(&document) };
        run(&config, &context).map_err(|failure| context.placed(failure))
    }

    /// The values that were given, as a document without a file.
    pub(crate) fn document(&self) -> Result<Document, Failure> {
        let mut document = Document::of_text("", "")?;
        self.set(&mut document)?;
        Ok(document)
    }

    /// Sets the values that were given.
    pub(crate) fn set(&self, document: &mut Document) -> Result<(), Failure> {
        for Given { option, parameter, values } in &self.given {
            match values.as_slice() {
                values if parameter.argument.is_some() => {
                    let given = Place::Option(format!("{option} {}", values.join(" ")));
                    let value = if parameter.is_list { json!(values) } else { json!(values[0]) };
                    document.set_at(given, &parameter.name, &value)?;
                }
                [value] if !parameter.is_list => document.set_by(option, &parameter.name, value)?,
                values => document.set_list_by(option, &parameter.name, values)?,
            }
        }
        Ok(())
    }

    /// The same for options that another job has too; the first that it does not have.
    pub(crate) fn set_shared<D: Config>(
        &self,
        document: &mut Document,
    ) -> Result<Option<&str>, Failure> {
        let is_known = |name: &str| parameters::<D>().iter().any(|known| known.name == name);
        if let Some(other) = self.given.iter().find(|given| !is_known(&given.parameter.name)) {
            return Ok(Some(&other.option));
        }
        self.set(document).map(|()| None)
    }
}

impl<C> fmt::Debug for Flags<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.given).finish()
    }
}

/// Parameters with an option, or that are an argument, each with its name.
fn flags<C: Config>() -> impl Iterator<Item = (String, &'static Parameter)> {
    parameters::<C>().iter().filter_map(|parameter| {
        let name = parameter.flag.clone().or_else(|| parameter.argument.clone())?;
        Some((name, parameter))
    })
}

fn arg(flag: String, parameter: &Parameter) -> Arg {
    let name = match parameter.format.as_str() {
        _ if parameter.value_name.is_some() => parameter.value_name.clone().unwrap_or_default(),
        _ if parameter.bare_unit.as_deref() == Some("s") => "SECONDS".to_owned(),
        "rate" => "RATE".to_owned(),
        "bytes" => "BYTES".to_owned(),
        "duration" => "TIME".to_owned(),
        "frequency" => "MHZ".to_owned(),
        "count" => "N".to_owned(),
        _ if parameter.is_number => "N".to_owned(),
        _ => flag.rsplit('-').next().unwrap_or_default().to_uppercase(),
    };
    let mut arg = Arg::new(flag.clone()).help(parameter.help());
    arg = match &parameter.flag {
        Some(flag) => arg.long(flag),
        None if parameter.is_list => arg.num_args(1..).required(parameter.is_required()),
        None => arg.required(parameter.is_required()),
    };
    arg = arg.conflicts_with_all(&parameter.conflicts);
    // `-1ms` is refused as a time, not as an option.
    arg = arg.allow_hyphen_values(parameter.format == "duration");
    if let Some(former) = &parameter.former_flag {
        arg = arg.alias(former.clone());
    }
    if parameter.is_switch() {
        return arg.action(ArgAction::SetTrue);
    }
    arg = arg.value_name(name);
    if parameter.is_list {
        arg = arg.action(ArgAction::Append);
    }
    if let Some(value) = &parameter.flag_alone {
        arg = arg.num_args(0..=1).default_missing_value(value.clone());
    }
    match parameter.choices.as_slice() {
        [] => arg,
        choices => {
            arg.value_parser(PossibleValuesParser::new(choices.iter().map(|(name, doc)| {
                clap::builder::PossibleValue::new(name.clone()).help(doc.clone())
            })))
        }
    }
}

/// The values of an option, if it was given.
fn values(matches: &ArgMatches, option: &str, parameter: &Parameter) -> Option<Vec<String>> {
    if parameter.is_switch() {
        return matches.get_flag(option).then(|| vec!["true".to_owned()]);
    }
    let with_unit = |value: &String| match &parameter.bare_unit {
        Some(unit) if value.parse::<f64>().is_ok() => format!("{value}{unit}"),
        _ => value.clone(),
    };
    Some(matches.get_many::<String>(option)?.map(with_unit).collect())
}

/// Options of a command line that were given by a former name, each with the name of today.
pub(crate) fn former_names(
    command: &Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Vec<(String, String)> {
    let (mut command, mut found) = (command, Vec::new());
    for argument in arguments {
        let text = argument.to_string_lossy();
        match text.strip_prefix("--") {
            Some("") => break,
            Some(option) => {
                let name = option.split('=').next().unwrap_or_default();
                let is_former =
                    |arg: &&Arg| arg.get_all_aliases().is_some_and(|all| all.contains(&name));
                let today = command.get_arguments().find(is_former).and_then(Arg::get_long);
                found.extend(today.map(|today| (name.to_owned(), today.to_owned())));
            }
            None => command = command.find_subcommand(&*text).unwrap_or(command),
        }
    }
    found
}

impl<C: Config> Args for Flags<C> {
    fn augment_args(command: Command) -> Command {
        command.args(flags::<C>().map(|(flag, parameter)| arg(flag, parameter)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Config> FromArgMatches for Flags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = flags::<C>().filter_map(|(option, parameter)| {
            let values = values(matches, &option, parameter)?;
            Some(Given { option, parameter, values })
        });
        Ok(Self { given: given.collect(), of: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Arguments;
    use clap::CommandFactory;

    #[test]
    fn former_names_of_options_are_known_with_those_of_today() {
        let found = |line: &str| {
            let arguments = line.split(' ').map(OsString::from);
            former_names(&Arguments::command(), arguments)
        };
        let pause = ("pause".to_owned(), "idle-timeout".to_owned());
        assert_eq!(found("attach a b --pause 1ms"), std::slice::from_ref(&pause));
        assert_eq!(found("attach a b --pause=1ms"), [pause]);
        assert_eq!(found("attach a b --idle-timeout 1ms -- --pause"), []);
    }
}
