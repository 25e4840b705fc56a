//! Options and arguments of commands that set parameters of a job: name, help, range and default are those of the
//! parameter. A `bool` is an option without a value, a list an option that can be repeated (or values with commas
//! between them).

use crate::signals;
use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches, ValueHint};
use linecard_app::Context;
use linecard_app::Error;
use linecard_config::{Config, Document, Parameter, parameters};
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
    /// As the user sees it: `--chunk 1M`.
    shown: String,
    parameter: &'static Parameter,
    /// As documents have it.
    value: String,
}

impl<C: Config> Flags<C> {
    /// The first option that was given.
    pub(crate) fn first(&self) -> Option<&str> {
        self.given.iter().find_map(|given| given.parameter.flag.as_deref())
    }

    /// The value of a parameter that was given.
    pub(crate) fn value(&self, parameter: &str) -> Option<&str> {
        let given = self.given.iter().find(|given| given.parameter.name == parameter)?;
        Some(&given.value)
    }

    /// Runs what takes the configuration that was given, until a signal cancels it.
    pub(crate) fn until_signal<T>(
        &self,
        run: impl FnOnce(&C, &Context<'_>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let document = self.document()?;
        let config = document.config()?;
        let progress = signals::progress()?;
        let context = Context { progress: &progress, document: Some(&document) };
        run(&config, &context).map_err(|failure| context.placed(failure))
    }

    /// The values that were given, as a document without a file.
    pub(crate) fn document(&self) -> Result<Document, Error> {
        let mut document = Document::of_text("", "")?;
        self.set(&mut document)?;
        Ok(document)
    }

    /// Sets the values that were given.
    pub(crate) fn set(&self, document: &mut Document) -> Result<(), Error> {
        for Given { shown, parameter, value } in &self.given {
            document.set_as(shown.clone(), &parameter.name, value)?;
        }
        Ok(())
    }

    /// The same for options that another job has too; the first that it does not have.
    pub(crate) fn set_shared<D: Config>(
        &self,
        document: &mut Document,
    ) -> Result<Option<&str>, Error> {
        let is_known = |name: &str| parameters::<D>().iter().any(|known| known.name == name);
        if let Some(other) = self.given.iter().find(|given| !is_known(&given.parameter.name)) {
            return Ok(other.parameter.flag.as_deref());
        }
        self.set(document).map(|()| None)
    }
}

impl<C> fmt::Debug for Flags<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.given).finish()
    }
}

/// Parameters that can be given, with their names on the command line.
fn named<C: Config>() -> impl Iterator<Item = (&'static str, &'static Parameter)> {
    parameters::<C>().iter().filter_map(|parameter| {
        let name = parameter.flag.as_deref().or(parameter.argument.as_deref())?;
        Some((name, parameter))
    })
}

fn arg(name: &'static str, parameter: &'static Parameter) -> Arg {
    let value = match (&parameter.value_name, parameter.format.as_str()) {
        (Some(value), _) => value.clone(),
        _ if parameter.bare_unit.as_deref() == Some("s") => "SECONDS".to_owned(),
        (None, "rate") => "RATE".to_owned(),
        (None, "bytes") => "BYTES".to_owned(),
        (None, "duration") => "TIME".to_owned(),
        (None, "frequency") => "MHZ".to_owned(),
        (None, "count") => "N".to_owned(),
        _ if parameter.is_number => "N".to_owned(),
        _ => name.rsplit('-').next().unwrap_or_default().to_uppercase(),
    };
    let arg = Arg::new(name).help(parameter.help());
    let arg = match value.as_str() {
        "FILE" | "INPUT" | "SECOND" => arg.value_hint(ValueHint::FilePath),
        "DIR" => arg.value_hint(ValueHint::DirPath),
        _ => arg,
    };
    // `-1ms` is refused as a time, not as an option. An option that may stand alone takes no other as its value.
    let has_unit = !parameter.format.is_empty() && parameter.flag_alone.is_none();
    let arg = arg.allow_negative_numbers(parameter.is_number);
    let mut arg = arg.allow_hyphen_values(has_unit && parameter.flag.is_some());
    if let Some(former) = &parameter.former_flag {
        arg = arg.alias(former.clone());
    }
    if let Some(value) = &parameter.flag_alone {
        arg = arg.num_args(0..=1).default_missing_value(value.clone());
    }
    let arg = match &parameter.flag {
        Some(flag) if parameter.is_switch() => return arg.long(flag).action(ArgAction::SetTrue),
        Some(flag) if parameter.is_split => {
            arg.long(flag).value_delimiter(',').action(ArgAction::Append)
        }
        Some(flag) if parameter.is_list => arg.long(flag).action(ArgAction::Append),
        Some(flag) => arg.long(flag).required(parameter.needs_option),
        None if parameter.is_list => arg.num_args(1..).required(parameter.is_required()),
        None => arg.required(parameter.is_required()),
    };
    let arg = arg.value_name(value);
    match parameter.choices.as_slice() {
        [] if parameter.value_name.as_deref() == Some("FILE") => {
            arg.value_parser(NonEmptyStringValueParser::new())
        }
        [] => arg,
        choices => {
            arg.value_parser(PossibleValuesParser::new(choices.iter().map(|(name, doc)| {
                let former = parameter.former_choices.iter().filter(|(_, today)| today == name);
                clap::builder::PossibleValue::new(name.clone())
                    .help(doc.clone())
                    .aliases(former.map(|(former, _)| former.clone()))
            })))
        }
    }
}

/// The value given for a parameter, if there is one.
fn given(matches: &ArgMatches, name: &str, parameter: &'static Parameter) -> Option<Given> {
    let option = if parameter.flag.is_some() { format!("--{name}") } else { name.to_owned() };
    if parameter.is_switch() {
        let value = "true".to_owned();
        return matches.get_flag(name).then_some(Given { shown: option, parameter, value });
    }
    let values: Vec<&str> =
        matches.get_many::<String>(name)?.map(|value| of_today(parameter, value)).collect();
    let between = if parameter.is_split { ",".to_owned() } else { format!(" {option} ") };
    let shown = format!("{option} {}", values.join(&between));
    let value = match values.as_slice() {
        several if parameter.is_list && parameter.is_number => format!("[{}]", several.join(",")),
        // Quotes of JSON are those of TOML.
        several if parameter.is_list => serde_json::to_string(several).ok()?,
        [one, ..] => match &parameter.bare_unit {
            Some(unit) if one.parse::<f64>().is_ok() => format!("{one}{unit}"),
            _ => (*one).to_owned(),
        },
        [] => return None,
    };
    Some(Given { shown, parameter, value })
}

/// The word of today for a choice that may be a former one.
fn of_today<'v>(parameter: &'v Parameter, value: &'v str) -> &'v str {
    let former = parameter.former_choices.iter().find(|(former, _)| former == value);
    former.map_or(value, |(_, today)| today)
}

/// Commands, options, and choices of options of a command line that were given by a former name, each with the name of
/// today.
pub(crate) fn former_names(
    command: &Command,
    arguments: impl IntoIterator<Item = OsString>,
) -> Vec<(String, String)> {
    let (mut command, mut found) = (command, Vec::new());
    // The option before, whose value comes next.
    let mut open: Option<&Arg> = None;
    for argument in arguments {
        let text = argument.to_string_lossy();
        if let Some(option) = open.take() {
            found.extend(former_choice(option, &text));
        }
        match text.strip_prefix("--") {
            Some("") => break,
            Some(option) => {
                let (name, value) = option
                    .split_once('=')
                    .map_or((option, None), |(name, value)| (name, Some(value)));
                let is_former =
                    |arg: &&Arg| arg.get_all_aliases().is_some_and(|all| all.contains(&name));
                let today = command.get_arguments().find(is_former).and_then(Arg::get_long);
                found.extend(today.map(|today| (format!("--{name}"), format!("--{today}"))));
                let known = command.get_arguments().find(|arg| arg.get_long() == Some(name));
                match value {
                    Some(value) => found.extend(known.and_then(|arg| former_choice(arg, value))),
                    None => open = known,
                }
            }
            None => {
                let Some(next) = command.find_subcommand(&*text) else { continue };
                let (today, former) = (next.get_name(), text.into_owned());
                found.extend((former != today).then(|| (former, today.to_owned())));
                command = next;
            }
        }
    }
    found
}

/// A choice of an option that has another name today, with both.
fn former_choice(option: &Arg, value: &str) -> Option<(String, String)> {
    let choices = option.get_possible_values();
    let choice = choices.iter().find(|choice| choice.matches(value, false))?;
    let (name, today) = (option.get_long()?, choice.get_name());
    (value != today).then(|| (format!("--{name} {value}"), format!("--{name} {today}")))
}

impl<C: Config> Args for Flags<C> {
    fn augment_args(command: Command) -> Command {
        command.args(named::<C>().map(|(name, parameter)| arg(name, parameter)))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<C: Config> FromArgMatches for Flags<C> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = named::<C>().filter_map(|(name, parameter)| given(matches, name, parameter));
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
    fn former_names_are_known_with_those_of_today() {
        let found = |line: &str| {
            let arguments = line.split(' ').map(OsString::from);
            former_names(&Arguments::command(), arguments)
        };
        let pause = ("--pause".to_owned(), "--idle-timeout".to_owned());
        assert_eq!(found("attach a b --pause 1ms"), std::slice::from_ref(&pause));
        assert_eq!(found("attach a b --pause=1ms"), [pause]);
        assert_eq!(found("attach a b --idle-timeout 1ms -- --pause"), []);
        let merge = ("--merge inward".to_owned(), "--merge ingress".to_owned());
        assert_eq!(found("attach a b --merge inward"), std::slice::from_ref(&merge));
        assert_eq!(found("attach a b --merge=inward --hold 1ms"), [merge]);
        assert_eq!(found("attach inward b --merge egress"), []);
        let analysis = ("ladder".to_owned(), "bottlenecks".to_owned());
        assert_eq!(found("model ladder s.toml --rate 1G"), [analysis]);
        assert_eq!(found("model bottlenecks ladder"), []);
    }
}
