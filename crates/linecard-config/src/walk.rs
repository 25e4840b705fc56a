//! A check of all values of a document, before they are deserialised.

use super::document::Document;
use super::error::{ConfigError, Location, Problem};
use super::parameter::Parameter;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Looks at all values before they are deserialised: which parameters they are of, and what no deserialiser would say
/// in the words of a user.
pub(crate) struct Walk<'d> {
    pub(crate) document: &'d Document,
    pub(crate) known: &'d [Parameter],
}

impl Walk<'_> {
    /// Checks the keys that were set, then the values of `table`, which has all.
    pub(crate) fn check(&self, table: &DeTable<'_>) -> Result<(), ConfigError> {
        self.sets()?;
        self.section("", table)?;
        self.exclusive(table)
    }

    /// Refuses parameters that exclude each other. Those of the command line are refused by its parser before; the same
    /// parameters can stand in a file, or be given by a program.
    fn exclusive(&self, table: &DeTable<'_>) -> Result<(), ConfigError> {
        let is_given = |known: &&Parameter| given(table, &known.name);
        for own in self.known.iter().filter(|known| !known.conflicts.is_empty()).filter(is_given) {
            let excluded = |other: &&Parameter| own.excludes(other);
            let Some(other) = self.known.iter().filter(excluded).find(is_given) else { continue };
            let place = self.document.find(&other.name);
            let (name, other) = (own.name.clone(), other.name.clone());
            let (location, parameter) = (Location::Parameter(name.clone()), Some(name.clone()));
            let problem = Problem::Excluded { name, other, place };
            return Err(self.document.placed(ConfigError::new(location, parameter, problem)));
        }
        Ok(())
    }

    /// Refuses keys with further parts behind a parameter's name, and those of a list of tables, in which it would not
    /// be known which table is meant.
    fn sets(&self) -> Result<(), ConfigError> {
        for (given, key) in self.document.keys_set() {
            let list = self.known.iter().find_map(|known| {
                let list = known.name.split_once("[]")?.0;
                key.strip_prefix(list)?.starts_with('.').then_some(list)
            });
            if let Some(list) = list {
                let problem = Problem::List { name: list.to_owned(), is_set: true };
                return Err(ConfigError::new(given.clone(), Some(key), problem));
            }
            let goes_on = |known: &&Parameter| {
                key.strip_prefix(&known.name).is_some_and(|rest| rest.starts_with('.'))
            };
            if let Some(known) = self.known.iter().find(goes_on) {
                let problem = Problem::Value { name: known.name.clone() };
                return Err(ConfigError::new(given.clone(), Some(key), problem));
            }
        }
        Ok(())
    }

    fn section(&self, path: &str, table: &DeTable<'_>) -> Result<(), ConfigError> {
        for (key, value) in table {
            let name = match path {
                "" => key.get_ref().to_string(),
                path => format!("{path}.{}", key.get_ref()),
            };
            let refuse = |problem| {
                let location = self.document.place_at(key.span().start);
                Err(ConfigError::new(location, Some(name.clone()), problem))
            };
            if let Some(parameter) = self.known.iter().find(|known| known.name == name) {
                match problem(parameter, value.get_ref()) {
                    Some(problem) => return refuse(problem),
                    None => continue,
                }
            }
            let each = format!("{name}[]");
            if self.known.iter().any(|known| known.name.starts_with(&each)) {
                let DeValue::Array(tables) = value.get_ref() else {
                    return refuse(Problem::List { name: name.clone(), is_set: false });
                };
                self.tables(&each, tables)?;
                continue;
            }
            let inside = format!("{name}.");
            let Some(first) = self.known.iter().find(|known| known.name.starts_with(&inside))
            else {
                return refuse(Problem::Unknown { known: self.names(path), name: name.clone() });
            };
            match value.get_ref() {
                DeValue::Table(values) => self.section(&name, values)?,
                _ => {
                    let first = first.name.clone();
                    return refuse(Problem::Section { name: name.clone(), first });
                }
            }
        }
        Ok(())
    }

    /// Checks each table of a list.
    fn tables(&self, path: &str, tables: &[Spanned<DeValue<'_>>]) -> Result<(), ConfigError> {
        let name = path.trim_end_matches("[]");
        tables.iter().try_for_each(|table| match table.get_ref() {
            DeValue::Table(values) => self.section(path, values),
            _ => {
                let location = self.document.place_at(table.span().start);
                let problem = Problem::List { name: name.to_owned(), is_set: false };
                Err(ConfigError::new(location, Some(name.to_owned()), problem))
            }
        })
    }

    /// The parameters and sections of a section.
    fn names(&self, path: &str) -> Vec<String> {
        let prefix = if path.is_empty() { String::new() } else { format!("{path}.") };
        let mut names: Vec<String> = Vec::new();
        for known in self.known {
            let Some(rest) = known.name.strip_prefix(&prefix) else { continue };
            let first = rest.split(['.', '[']).next().unwrap_or_default();
            let name = format!("{prefix}{first}");
            if names.last() != Some(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// Whether a parameter has a value that switches nothing off.
fn given(table: &DeTable<'_>, name: &str) -> bool {
    let (section, rest) = name.split_once('.').unwrap_or((name, ""));
    match table.get(section).map(Spanned::get_ref) {
        Some(DeValue::Table(values)) => given(values, rest),
        Some(DeValue::Boolean(is_on)) => *is_on,
        Some(DeValue::String(text)) => text != "off",
        other => other.is_some(),
    }
}

/// The error of a value, as far as it can be found without its type.
fn problem(parameter: &Parameter, value: &DeValue<'_>) -> Option<Problem> {
    let written = match value {
        DeValue::Integer(number) => number.to_string(),
        DeValue::Float(number) => number.as_str().to_owned(),
        DeValue::Boolean(flag) => flag.to_string(),
        DeValue::String(text) => text.to_string(),
        DeValue::Array(values) => {
            return values.iter().find_map(|value| problem(parameter, value.get_ref()));
        }
        DeValue::Table(_) => {
            return Some(Problem::Value { name: parameter.name.clone() });
        }
        DeValue::Datetime(date) => {
            let value = date.to_string();
            return Some(Problem::Unusable { value, reason: "a date: no parameter takes one" });
        }
    };
    if !parameter.choices.is_empty() {
        let is_choice = parameter.choices.iter().any(|(choice, _)| *choice == written);
        let is_switch = matches!(value, DeValue::Boolean(_)) && parameter.choices[0].0 == "on";
        let choices = parameter.choices.iter().map(|(choice, _)| choice.clone()).collect();
        let problem = Problem::Choice { value: written, choices };
        return if is_choice || is_switch { None } else { Some(problem) };
    }
    let number = match value {
        DeValue::Integer(_) => written.replace('_', "").parse::<f64>().ok()?,
        DeValue::Float(_) => {
            let number = written.replace('_', "").parse::<f64>().ok()?;
            if !number.is_finite() {
                let reason = "not a number that can be computed with";
                return Some(Problem::Unusable { value: written, reason });
            }
            number
        }
        _ => return None,
    };
    let beyond = |bound: &Option<serde_json::Value>, is_beyond: fn(f64, f64) -> bool| {
        bound.as_ref().and_then(serde_json::Value::as_f64).is_some_and(|b| is_beyond(number, b))
    };
    let is_out =
        beyond(&parameter.low, |n, low| n < low) || beyond(&parameter.high, |n, high| n > high);
    // Whole numbers that no type holds; units have their own say otherwise.
    (parameter.is_number && is_out && parameter.high.is_some())
        .then(|| parameter.range_problem(&written.into()))
}
