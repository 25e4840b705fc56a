//! Scenario files, and values that take precedence over theirs.

use super::error::{ConfigError, Location, Problem};
use super::node;
use super::parameter::{self, Config, Parameter, parameters};
use super::walk::Walk;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::error::Error;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The most bytes of a scenario file: 1 MiB, far above any that people write.
const MAX_BYTES: u64 = 1 << 20;
/// The most characters of a line that an error shows.
const MAX_SHOWN: usize = 100;

/// A scenario: the text of a file, and values as `KEY=VALUE` that take precedence. The default is empty.
#[derive(Debug, Clone, Default)]
pub struct Document {
    path: PathBuf,
    text: String,
    sets: Vec<Set>,
    /// The section of the file that this is of: all of it unless [`Document::section`] made it.
    root: Vec<String>,
    /// Keys of the first level that are not parameters, as the one that names the kind of a scenario.
    taken: Vec<String>,
}

/// A value that was set.
#[derive(Debug, Clone)]
struct Set {
    /// Where it was given.
    given: Location,
    /// The parts of its key.
    key: Vec<String>,
    value: Given,
}

/// A value as it was given.
#[derive(Debug, Clone)]
enum Given {
    /// A text without the quotes of TOML.
    Text(String),
    /// A literal of TOML.
    Literal(String),
}

/// Where a value comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// The file.
    File,
    /// Set beside the file.
    Set,
    /// Neither: it has its default.
    Default,
}

impl Document {
    /// Reads a file.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is longer than 1 MiB, or is not TOML.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let refuse = |problem| ConfigError::new(Location::File(path.into()), None, problem);
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|error| refuse(Problem::Unreadable(error)))?;
        let read = file.take(MAX_BYTES + 1).read_to_end(&mut bytes);
        read.map_err(|error| refuse(Problem::Unreadable(error)))?;
        if bytes.len() as u64 > MAX_BYTES {
            let what = format!("the file is longer than the {MAX_BYTES} bytes of a scenario");
            return Err(refuse(Problem::Invalid(what.into())));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Self::of_text(path, text),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let line = error.as_bytes()[..at].iter().filter(|byte| **byte == b'\n').count() + 1;
                let location = Location::Line { file: path.into(), line, content: String::new() };
                let what = "the file is not UTF-8 text: a scenario is TOML";
                Err(ConfigError::new(location, None, Problem::Invalid(what.into())))
            }
        }
    }

    /// Takes a text as that of the file at `path`, which need not exist.
    ///
    /// # Errors
    ///
    /// A text that is not TOML.
    pub fn of_text(path: impl Into<PathBuf>, text: impl Into<String>) -> Result<Self, ConfigError> {
        let (path, text) = (path.into(), text.into());
        let document = Self { path, text, sets: Vec::new(), root: Vec::new(), taken: Vec::new() };
        document.file()?;
        Ok(document)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A section of the file, as `job.fast`, without these keys of its first level; empty where there is none. Errors
    /// name the lines of the file.
    #[must_use]
    pub fn section(&self, path: &str, without: &[&str]) -> Self {
        self.table_at(path.split('.'), without)
    }

    /// The same of a table of the first level, whose name may have dots: `["host.example"]`.
    #[must_use]
    pub fn named_table(&self, name: &str, without: &[&str]) -> Self {
        self.table_at([name], without)
    }

    fn table_at<'n>(&self, path: impl IntoIterator<Item = &'n str>, without: &[&str]) -> Self {
        Self {
            root: path.into_iter().map(str::to_owned).collect(),
            taken: without.iter().map(|&key| key.to_owned()).collect(),
            sets: Vec::new(),
            ..self.clone()
        }
    }

    /// Takes the values of another document, which take precedence over those that are here.
    ///
    /// # Errors
    ///
    /// A document that is not TOML.
    pub fn overlay(&mut self, other: &Self) -> Result<(), ConfigError> {
        let mut table = other.file()?;
        for key in &other.taken {
            table.remove(key.as_str());
        }
        other.leaves(&table, &mut Vec::new(), &mut self.sets);
        self.sets.extend(other.sets.iter().cloned());
        Ok(())
    }

    /// This document, with the values of another one where it has none itself; `keeps` says of each key of the other
    /// whether it is taken. Errors name the places in both files.
    ///
    /// # Errors
    ///
    /// A document that is not TOML.
    pub fn over(&self, base: &Self, keeps: impl Fn(&str) -> bool) -> Result<Self, ConfigError> {
        let mut both = Self { path: self.path.clone(), ..Self::default() };
        both.overlay(base)?;
        both.sets.retain(|set| keeps(&set.key.join(".")));
        both.overlay(self)?;
        Ok(both)
    }

    /// Adds each value of a table as one that is set on its line.
    fn leaves(&self, table: &DeTable<'_>, before: &mut Vec<String>, sets: &mut Vec<Set>) {
        for (name, value) in table {
            before.push(name.get_ref().to_string());
            if let DeValue::Table(values) = value.get_ref() {
                self.leaves(values, before, sets);
            } else if let Some(literal) = self.text.get(value.span()) {
                let (given, value) = (self.place_at(name.span().start), literal.to_owned());
                sets.push(Set { given, key: before.clone(), value: Given::Literal(value) });
            }
            before.pop();
        }
    }

    /// All that is written here as another type, whose fields are not parameters.
    ///
    /// # Errors
    ///
    /// Errors of the type.
    pub fn read_as<T: DeserializeOwned>(&self) -> Result<T, ConfigError> {
        self.deserialized(self.table(&[])?)
    }

    fn deserialized<T: DeserializeOwned>(&self, table: DeTable<'_>) -> Result<T, ConfigError> {
        node::of_table(table, 0..self.text.len()).map_err(|error| {
            let location = self.place_at(error.at.unwrap_or_default());
            ConfigError::new(location, None, *error.problem)
        })
    }

    /// Sets a value, given at a place; errors name it.
    ///
    /// # Errors
    ///
    /// A key that cannot be one. Whether it exists and the value fits is checked by [`Self::config`].
    pub fn set_at(&mut self, given: Location, key: &str, value: &Value) -> Result<(), ConfigError> {
        self.put(given, key, Given::Literal(literal(value)))
    }

    /// Sets a value, given by an option of a command; errors name the option.
    ///
    /// # Errors
    ///
    /// A key that cannot be one. Whether it exists and the value fits is checked by [`Self::config`].
    pub fn set_by(&mut self, option: &str, key: &str, value: &str) -> Result<(), ConfigError> {
        self.set_as(format!("--{option} {value}"), key, value)
    }

    /// The same, where errors show what was given as `given`.
    ///
    /// # Errors
    ///
    /// As [`Self::set_by`].
    pub fn set_as(&mut self, given: String, key: &str, value: &str) -> Result<(), ConfigError> {
        self.put(Location::Option(given), key, Given::of_text(value))
    }

    /// Sets a value, given by an argument of a program's call; errors name the argument. A text is read as one of
    /// [`Self::set`]. Null is not a value: the parameter keeps the one that it has.
    ///
    /// # Errors
    ///
    /// As [`Self::set_by`].
    pub fn set_value(
        &mut self,
        argument: &str,
        key: &str,
        value: &Value,
    ) -> Result<(), ConfigError> {
        if value.is_null() {
            return Ok(());
        }
        let (shown, given) = Given::of(value);
        self.put(Location::Argument(format!("{argument}={shown}")), key, given)
    }

    /// Sets a value, given as `KEY=VALUE`; it takes precedence over the file's.
    ///
    /// # Errors
    ///
    /// A text without a key. Whether the key exists and the value fits is checked by [`Self::config`].
    pub fn set(&mut self, set: &str) -> Result<(), ConfigError> {
        let given = Location::Set(set.to_owned());
        match set.split_once('=') {
            Some((key, value)) => self.put(given, key, Given::of_text(value)),
            None => Err(ConfigError::new(given, None, Problem::Invalid(WRITE.into()))),
        }
    }

    /// Sets a value that a program gives: errors begin with the key and the value.
    pub(crate) fn give(&mut self, key: &str, value: &Value) -> Result<(), ConfigError> {
        let (shown, given) = Given::of(value);
        self.put(Location::Parameter(format!("{key}={shown}")), key, given)
    }

    fn put(&mut self, given: Location, key: &str, value: Given) -> Result<(), ConfigError> {
        let key: Vec<String> = key.trim().split('.').map(str::to_owned).collect();
        let is_bare = |part: &String| {
            let of_key = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
            !part.is_empty() && part.chars().all(of_key)
        };
        let what = if !key.iter().all(is_bare) {
            WRITE.to_owned()
        } else if self.taken.contains(&key[0]) {
            format!("{} is not a parameter: it is part of the scenario", key[0])
        } else {
            self.sets.push(Set { given, key, value });
            return Ok(());
        };
        Err(ConfigError::new(given, None, Problem::Invalid(what.into())))
    }

    /// Takes a value of the first level out of the document, as the one that says which kind it is of.
    ///
    /// # Errors
    ///
    /// A value that is not a text.
    pub fn take_text(&mut self, key: &str) -> Result<Option<String>, ConfigError> {
        let table = self.file()?;
        let Some(value) = table.get(key) else { return Ok(None) };
        let text = value.get_ref().as_str().map(str::to_owned);
        let text = text.ok_or_else(|| self.refuse(key, "write a text in quotes"))?;
        self.taken.push(key.to_owned());
        Ok(Some(text))
    }

    /// Its values as a configuration, each checked.
    ///
    /// # Errors
    ///
    /// The first value that is unknown, not of its type, out of range, or does not fit the others.
    pub fn config<C: Config>(&self) -> Result<C, ConfigError> {
        let known = parameters::<C>();
        let table = self.table(known)?;
        let walk = Walk { document: self, known };
        walk.check(&table)?;
        let config = self.deserialized(table)?;
        self.check(&config)?;
        Ok(config)
    }

    /// A warning for each value that is given by a parameter's former name: where, and the name of today.
    #[must_use]
    pub fn former_names<C: Config>(&self) -> Vec<String> {
        let warning = |known: &Parameter| {
            let former = known.former_name()?;
            let location = self.find(&former)?;
            Some(format!("{location}`{former}` is now called `{}`", known.name))
        };
        parameters::<C>().iter().filter_map(warning).collect()
    }

    /// Checks a configuration that was made from this document: errors name their place in it.
    ///
    /// # Errors
    ///
    /// As [`parameter::check`].
    pub fn check<C: Config>(&self, config: &C) -> Result<(), ConfigError> {
        parameter::check(config).map_err(|error| self.placed(error))
    }

    /// An error about a parameter, with its place in this document, or with the file that does not have it.
    #[must_use]
    pub fn placed(&self, error: ConfigError) -> ConfigError {
        let found = error.parameter.as_deref().and_then(|name| self.find(name));
        let location = found.or_else(|| match &*error.location {
            Location::Parameter(name) if !self.path.as_os_str().is_empty() => {
                Some(Location::Absent { file: self.path.clone(), parameter: name.clone() })
            }
            _ => None,
        });
        match location {
            Some(location) => ConfigError { location: Box::new(location), ..error },
            None => error,
        }
    }

    /// Refuses a parameter's value, for a reason that the value alone does not show.
    #[must_use]
    pub fn refuse(
        &self,
        parameter: &str,
        what: impl Into<Box<dyn Error + Send + Sync>>,
    ) -> ConfigError {
        self.placed(ConfigError::of_parameter(parameter, what))
    }

    /// Where a parameter's value comes from.
    #[must_use]
    pub fn origin(&self, parameter: &str) -> Origin {
        match self.find(parameter) {
            None => Origin::Default,
            Some(Location::Line { .. }) => Origin::File,
            Some(_) => Origin::Set,
        }
    }

    /// The file that a parameter's value names: seen from the folder of the file where the value stands in
    /// one, from the current folder where it was set beside it.
    #[must_use]
    pub fn path_of(&self, parameter: &str, name: &str) -> PathBuf {
        let file = match self.find(parameter) {
            Some(Location::Line { file, .. }) => file,
            Some(_) => return name.into(),
            None => self.path.clone(),
        };
        file.parent().unwrap_or(Path::new("")).join(name)
    }

    /// The values of the file.
    fn file(&self) -> Result<DeTable<'_>, ConfigError> {
        let mut table = DeTable::parse(&self.text).map(Spanned::into_inner).map_err(|error| {
            let location = self.place_at(error.span().unwrap_or_default().start);
            let what = error.message().trim_end().replace('\n', " ");
            ConfigError::new(location, None, Problem::Invalid(what.into()))
        })?;
        for part in &self.root {
            table = match table.remove(part.as_str()).map(Spanned::into_inner) {
                Some(DeValue::Table(section)) => section,
                _ => DeTable::new(),
            };
        }
        Ok(table)
    }

    /// All values of parameters: those of the file, and those that were set in their place. Former names of
    /// parameters are replaced by those of today.
    fn table(&self, known: &[Parameter]) -> Result<DeTable<'_>, ConfigError> {
        let mut table = self.file()?;
        for key in &self.taken {
            table.remove(key.as_str());
        }
        for parameter in known {
            let Some(old) = &parameter.former else { continue };
            let (section, new) = parameter.name.rsplit_once('.').unwrap_or(("", &parameter.name));
            rename(&mut table, section, old, new);
        }
        for (index, set) in self.sets.iter().enumerate() {
            let at = self.text.len() + 1 + index;
            let parameter = named(known, &set.key);
            let value = match &set.value {
                Given::Literal(literal) => value(literal),
                // Of a text, all that was written counts: `1.5` and `true` too.
                Given::Text(text) if parameter.is_some_and(Parameter::is_text) => {
                    DeValue::String(text.as_str().into())
                }
                Given::Text(text) => value(text),
            };
            let name =
                parameter.map(|parameter| parameter.name.split('.').map(str::to_owned).collect());
            let key: Vec<String> = name.unwrap_or_else(|| set.key.clone());
            insert(&mut table, &key, at..at, value);
        }
        Ok(table)
    }

    /// Keys that were set, each with the place where.
    pub(crate) fn keys_set(&self) -> impl Iterator<Item = (&Location, String)> {
        self.sets.iter().map(|set| (&set.given, set.key.join(".")))
    }

    /// The place of a parameter's key, as `core.mhz` or `stage[2].takes`: of the value that counts.
    #[must_use]
    pub fn find(&self, parameter: &str) -> Option<Location> {
        let is_set = |set: &&Set| set.key.join(".") == parameter;
        if let Some(set) = self.sets.iter().rev().find(is_set) {
            return Some(set.given.clone());
        }
        let all = self.file().ok()?;
        let mut table = &all;
        let mut path = parameter.split('.').peekable();
        while let Some(part) = path.next() {
            let (name, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
                Some((name, index)) => (name, index.parse::<usize>().ok()),
                None => (part, None),
            };
            let (key, value) = table.get_key_value(name)?;
            let value = match (value.get_ref(), index) {
                (DeValue::Array(items), Some(index)) => items.get(index)?.get_ref(),
                (value, _) => value,
            };
            match (path.peek(), value) {
                (None, _) => return Some(self.place_at(key.span().start)),
                (Some(_), DeValue::Table(next)) => table = next,
                _ => return None,
            }
        }
        None
    }

    pub(crate) fn place_at(&self, at: usize) -> Location {
        match at.checked_sub(self.text.len() + 1).and_then(|index| self.sets.get(index)) {
            Some(set) => set.given.clone(),
            None => line_at(&self.path, &self.text, at),
        }
    }
}

/// The form of a value that is set.
const WRITE: &str = "write KEY=VALUE, as line.rate=10G";

/// The parameter of this name, today's or the former one.
pub(crate) fn named<'k>(known: &'k [Parameter], key: &[String]) -> Option<&'k Parameter> {
    let name = key.join(".");
    known.iter().find(|known| known.name == name || known.former_name().as_ref() == Some(&name))
}

impl Given {
    fn of_text(text: &str) -> Self {
        Self::Text(text.trim().to_owned())
    }

    /// A value, and how it was written.
    fn of(value: &Value) -> (String, Self) {
        match value {
            Value::String(text) => (text.clone(), Self::of_text(text)),
            value => (literal(value), Self::Literal(literal(value))),
        }
    }
}

/// A value as TOML writes it.
fn literal(value: &Value) -> String {
    match value {
        Value::Array(values) => {
            let values: Vec<String> = values.iter().map(literal).collect();
            format!("[{}]", values.join(", "))
        }
        // A text of JSON is one of TOML: what JSON escapes, TOML escapes likewise.
        value => value.to_string(),
    }
}

/// A value as TOML has it, or as a text where it is none.
fn value(text: &str) -> DeValue<'_> {
    match DeValue::parse(text) {
        Ok(value) if value.span().end == text.len() => value.into_inner(),
        _ => DeValue::String(text.into()),
    }
}

/// Gives a value of a section another name.
fn rename(table: &mut DeTable<'_>, section: &str, old: &str, new: &str) {
    let mut table = table;
    for part in section.split('.').filter(|part| !part.is_empty()) {
        match table.get_mut(part).map(Spanned::get_mut) {
            Some(DeValue::Table(next)) => table = next,
            _ => return,
        }
    }
    // Beside the name of today it is refused as an unknown key.
    if table.contains_key(new) {
        return;
    }
    let Some((key, _)) = table.get_key_value(old) else { return };
    let key = Spanned::new(key.span(), new.to_owned().into());
    if let Some(value) = table.remove(old) {
        table.insert(key, value);
    }
}

/// Puts a value at its place, and replaces a previous one.
fn insert<'t>(table: &mut DeTable<'t>, key: &[String], at: Range<usize>, value: DeValue<'t>) {
    let [name, rest @ ..] = key else { return };
    let spanned = || Spanned::new(at.clone(), name.clone().into());
    if rest.is_empty() {
        table.remove(name.as_str());
        table.insert(spanned(), Spanned::new(at, value));
        return;
    }
    if !table.contains_key(name.as_str()) {
        table.insert(spanned(), Spanned::new(at.clone(), DeValue::Table(DeTable::new())));
    }
    // Other values stay, to be refused at their place.
    if let Some(DeValue::Table(section)) = table.get_mut(name.as_str()).map(Spanned::get_mut) {
        insert(section, rest, at, value);
    }
}

/// The line of a file with the byte at `at`.
fn line_at(path: &Path, text: &str, at: usize) -> Location {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let whole = text.lines().nth(line - 1).unwrap_or_default().trim();
    let mut content: String = whole.chars().take(MAX_SHOWN).collect();
    if content.len() < whole.len() {
        content.push('…');
    }
    Location::Line { file: path.into(), line, content }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Duration, Frequency, Maybe, OneOrMany, Rate, Switch, schema};
    use garde::Validate;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
    use serde_json::json;
    use smart_default::SmartDefault;

    /// Which packet is next.
    #[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "kebab-case")]
    enum Order {
        /// The oldest.
        #[default]
        Fifo,
        /// The oldest of each thread in turn.
        RoundRobin,
    }

    #[derive(
        Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
    )]
    #[serde(default, deny_unknown_fields)]
    #[garde(allow_unvalidated)]
    struct Core {
        /// cores
        #[default(4)]
        #[garde(range(min = 1, max = 64))]
        count: u16,
        /// the cores' clock in MHz
        #[default(Frequency::from_mhz(423))]
        #[garde(range(min = Frequency::from_hz(1_000), max = Frequency::from_mhz(100_000)))]
        mhz: Frequency,
        /// the packet that is next
        order: Order,
    }

    #[derive(
        Debug, Clone, PartialEq, SmartDefault, Serialize, Deserialize, JsonSchema, Validate,
    )]
    #[serde(default, deny_unknown_fields)]
    #[garde(allow_unvalidated)]
    struct Line {
        /// bits per second
        #[garde(range(min = Rate::KILO, max = Rate::tera(10)))]
        #[schemars(extend("x-former" = "speed"))]
        rate: Maybe<Rate>,
        /// payload bytes of a message
        #[default(OneOrMany(vec![Bytes::new(64_000)]))]
        #[garde(length(min = 1, max = 3), inner(range(min = Bytes::new(1), max = Bytes::new(65_495))))]
        size: OneOrMany<Bytes>,
        /// how long it waits
        #[garde(range(min = Duration::ZERO, max = Duration::from_secs(1)))]
        wait: Duration,
        /// whether packets are merged
        merge: Switch,
    }

    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
    #[serde(default, deny_unknown_fields)]
    struct Whole {
        #[garde(dive)]
        core: Core,
        #[garde(dive)]
        line: Line,
    }

    const TEXT: &str = "kind = \"x\"\n[core]\ncount = 8\nmhz = 118.75 # slow\n";

    fn with(sets: &[&str]) -> Result<Whole, String> {
        let mut document = Document::of_text("a/x.toml", TEXT).expect("a document");
        document.take_text("kind").expect("a kind");
        let all = sets.iter().try_for_each(|set| document.set(set));
        all.and_then(|()| document.config()).map_err(|error| error.to_string())
    }

    #[test]
    fn values_that_are_set_take_precedence() {
        let whole = with(&[]).expect("a configuration");
        assert_eq!((whole.core.count, whole.core.mhz), (8, Frequency::from_hz(118_750_000)));
        let sets = [
            "core.count=2",
            "line.rate=25G",
            "line.size=64, 2K",
            "core.order=round-robin",
            "line.wait = 5us",
            "line.merge=on",
            "core.count=3",
        ];
        let whole = with(&sets).expect("a configuration");
        assert_eq!((whole.core.count, whole.core.order), (3, Order::RoundRobin));
        assert_eq!(whole.line.rate, Maybe::from(Rate::giga(25)));
        assert_eq!(*whole.line.size, [Bytes::new(64), Bytes::new(2_048)]);
        assert!(whole.line.merge.0 && whole.line.wait == Duration::from_ns(5_000));
        assert_eq!(with(&["line.rate=unlimited"]).map(|whole| whole.line.rate), Ok(Maybe::NONE));
    }

    #[test]
    fn values_of_a_program_have_their_types() {
        let mut document = Document::of_text("", "").expect("a document");
        let values = [
            ("count", "core.count", json!(2)),
            ("rate", "line.rate", json!(25_000_000_000_u64)),
            ("size", "line.size", json!([64, "2K"])),
            ("order", "core.order", json!("round-robin")),
            ("merge", "line.merge", json!(true)),
            ("wait", "line.wait", Value::Null),
        ];
        for (argument, key, value) in &values {
            document.set_value(argument, key, value).expect("a key");
        }
        let whole: Whole = document.config().expect("a configuration");
        assert_eq!((whole.core.count, whole.core.order), (2, Order::RoundRobin));
        assert_eq!(whole.line.rate, Maybe::from(Rate::giga(25)));
        assert_eq!(*whole.line.size, [Bytes::new(64), Bytes::new(2_048)]);
        assert!(whole.line.merge.0 && whole.line.wait == Whole::default().line.wait);
        document.set_value("count", "core.count", &json!(65)).expect("a key");
        let error = document.config::<Whole>().expect_err("too many").to_string();
        assert_eq!(error, "count=65: 65 is out of range: choose 1 to 64");
    }

    #[test]
    fn errors_name_the_place_the_value_and_the_limit() {
        for (sets, expected) in [
            (&["core.count=65"][..], "--set core.count=65: 65 is out of range: choose 1 to 64"),
            (&["core.mhz=0"], "--set core.mhz=0: 0 is out of range: choose 0.001 to 100000"),
            (
                &["line.rate=20T"],
                "--set line.rate=20T: 20T is out of range: choose 1K to 10T, or \"unlimited\"",
            ),
            (
                &["core.hz=1"],
                "--set core.hz=1: unknown key `core.hz`: known are core.count, core.mhz, core.order",
            ),
            (
                &["core.order=lifo"],
                "--set core.order=lifo: \"lifo\" is not a choice: choose \"fifo\", \"round-robin\"",
            ),
            (
                &["line.size=1,70000"],
                "--set line.size=1,70000: 70000 is out of range: choose 1 to 65495",
            ),
            (
                &["line.wait=2s", "core.count=1"],
                "--set line.wait=2s: 2s is out of range: choose 0ns to 1s",
            ),
            (&["nothing"], "--set nothing: write KEY=VALUE, as line.rate=10G"),
            (&["=1"], "--set =1: write KEY=VALUE, as line.rate=10G"),
        ] {
            assert_eq!(with(sets).expect_err("refused"), expected);
        }
        let error = with(&["line.rate=fast"]).expect_err("refused");
        assert!(error.starts_with("--set line.rate=fast: \"fast\" is not a rate"), "{error}");
        let error = with(&["core.mhz=fast"]).expect_err("refused");
        assert!(error.ends_with("423 or 0.5"), "{error:?}");
        let error = with(&["core.count=1.5"]).expect_err("refused");
        assert_eq!(error, "--set core.count=1.5: 1.5 is not a whole number of 0 or more");
    }

    #[test]
    fn keys_that_cannot_be_are_refused() {
        for (set, says) in [
            ("#core.count=0", "write KEY=VALUE"),
            ("[core]\ncount=0", "write KEY=VALUE"),
            ("core..count=1", "write KEY=VALUE"),
            ("kind=y", "kind is not a parameter: it is part of the scenario"),
            ("core=[2]", "core is a section: write core.count = …"),
            ("core.count.x=1", "core.count is a value, not a section"),
            ("core.count=70000", "70000 is out of range: choose 1 to 64"),
            ("core.count=99999999999999999999", "99999999999999999999 is out of range"),
            ("core.count=-1", "-1 is out of range: choose 1 to 64"),
            ("core.order=1", "\"1\" is not a choice: choose \"fifo\", \"round-robin\""),
            ("core.order={fifo=1}", "core.order is a value, not a section"),
            ("line.merge=1979-05-27", "1979-05-27 is a date: no parameter takes one"),
            ("line.rate=nan", "nan is not a number"),
            (
                "line.x=1",
                "unknown key `line.x`: known are line.rate, line.size, line.wait, line.merge",
            ),
        ] {
            let error = with(&[set]).expect_err(set);
            assert!(
                error.starts_with(&format!("--set {set}: ")) && error.contains(says),
                "{error}"
            );
        }
        assert_eq!(with(&["line.size=[64,\n128]"]).map(|whole| whole.line.size.0.len()), Ok(2));
        assert!(
            with(&["line.merge=true", "core.order=fifo"]).is_ok_and(|whole| whole.line.merge.0)
        );
    }

    #[test]
    fn former_names_are_read_in_files_and_sets() {
        let text = "[line]\nspeed = \"1G\"\n";
        let mut document = Document::of_text("x.toml", text).expect("a document");
        let rate = |document: &Document| document.config::<Whole>().map(|whole| whole.line.rate);
        assert_eq!(rate(&document).ok(), Some(Maybe::from(Rate::giga(1))));
        let read = "x.toml:2: `speed = \"1G\"`: `line.speed` is now called `line.rate`";
        assert_eq!(document.former_names::<Whole>(), [read]);
        document.set("line.speed=2G").expect("set");
        assert_eq!(rate(&document).ok(), Some(Maybe::from(Rate::giga(2))));
        let set = "--set line.speed=2G: `line.speed` is now called `line.rate`";
        assert_eq!(document.former_names::<Whole>(), [set]);
        document.set("line.rate=3G").expect("set");
        assert_eq!(rate(&document).ok(), Some(Maybe::from(Rate::giga(3))));
    }

    #[test]
    fn a_former_name_beside_that_of_today_is_refused() {
        let document = Document::of_text("x.toml", "[line]\nspeed = 1\nrate = 2\n").expect("TOML");
        let error = document.config::<Whole>().map(drop).expect_err("both").to_string();
        assert!(error.starts_with("x.toml:2: `speed = 1`: unknown key `line.speed`"), "{error}");
    }

    #[test]
    fn errors_of_a_file_have_its_line() {
        let refuse = |text: &str| {
            let document = Document::of_text("a/x.toml", text)?;
            document.config::<Whole>()
        };
        let text = |text: &str| refuse(text).expect_err("refused").to_string();
        let expected = "a/x.toml:2: `count = 99`: 99 is out of range: choose 1 to 64";
        assert_eq!(text("[core]\ncount = 99\n"), expected);
        let error = text("[cores]\ncount = 99\n");
        assert!(
            error.starts_with("a/x.toml:1: `[cores]`: unknown key `cores`: known are core, line")
        );
        assert!(text("[core\n").starts_with("a/x.toml:1: `[core`: "));
        assert!(text("core = 1").starts_with("a/x.toml:1: `core = 1`: "));
    }

    #[test]
    fn paths_are_seen_from_where_they_stand() {
        let mut document = Document::of_text("a/x.toml", TEXT).expect("a document");
        assert_eq!(document.origin("core.count"), Origin::File);
        assert_eq!(document.origin("core.order"), Origin::Default);
        assert_eq!(document.path_of("core.count", "f.elf"), Path::new("a/f.elf"));
        document.set("core.count=5").expect("set");
        assert_eq!(document.origin("core.count"), Origin::Set);
        assert_eq!(document.path_of("core.count", "f.elf"), Path::new("f.elf"));
    }

    #[test]
    fn a_section_takes_the_values_of_another_and_errors_name_their_lines() {
        let base = "[job.a]\nkind = \"x\"\ncore.count = 8\ncore.mhz = 100\nline.rate = \"1G\"\n";
        let base = Document::of_text("base.toml", base).expect("a document");
        let mut job = base.section("job.a", &["kind"]);
        let whole = job.config::<Whole>().expect("a configuration");
        assert_eq!((whole.core.count, whole.line.rate), (8, Maybe::from(Rate::giga(1))));
        let own = Document::of_text("own.toml", "[job.a.core]\ncount = 9\nmhz = 5_0\n");
        let own = own.expect("a document");
        job.overlay(&own.section("job.a", &["kind"])).expect("an overlay");
        job.overlay(&own.section("job.b", &[])).expect("nothing");
        let whole = job.config::<Whole>().expect("a configuration");
        assert_eq!((whole.core.count, whole.core.mhz), (9, Frequency::from_mhz(50)));
        let value: Value = job.read_as().expect("values");
        assert_eq!(
            value,
            serde_json::json!({
                "core": { "count": 9, "mhz": 50 }, "line": { "rate": "1G" }
            })
        );
        let own = Document::of_text("own.toml", "[job.a]\ncore.count = 65\n").expect("a document");
        job.overlay(&own.section("job.a", &["kind"])).expect("an overlay");
        let error = job.config::<Whole>().expect_err("out of range").to_string();
        assert_eq!(error, "own.toml:2: `core.count = 65`: 65 is out of range: choose 1 to 64");
    }

    #[test]
    fn a_document_over_another_has_the_values_of_both() {
        let base = "[a.b]\ncount = 9\n[\"a.b\"]\nkind = \"x\"\ncore.count = 8\ncore.mhz = 100\nline.wait = \"1ms\"\n";
        let base = Document::of_text("base/base.toml", base).expect("a document");
        let base = base.named_table("a.b", &["kind"]);
        let mut own = Document::of_text("own/own.toml", "core.count = 9\n").expect("a document");
        own.set("line.rate=2G").expect("a key");
        let both = own.over(&base, |key| key != "line.wait").expect("documents");
        let whole = both.config::<Whole>().expect("a configuration");
        assert_eq!((whole.core.count, whole.core.mhz), (9, Frequency::from_mhz(100)));
        assert_eq!(
            (whole.line.rate, whole.line.wait),
            (Maybe::from(Rate::giga(2)), Duration::ZERO)
        );
        let seen = |parameter: &str| both.path_of(parameter, "f");
        assert_eq!(seen("core.count"), Path::new("own/f"));
        assert_eq!(seen("core.mhz"), Path::new("base/f"));
        assert_eq!(seen("line.rate"), Path::new("f"));
        assert_eq!(seen("line.wait"), Path::new("own/f"));
        let refused = both.refuse("core.mhz", "no").to_string();
        assert_eq!(refused, "base/base.toml:6: `core.mhz = 100`: no");
        assert_eq!(both.refuse("line.wait", "no").to_string(), "own/own.toml: line.wait: no");
    }

    #[test]
    fn parameters_are_listed_with_range_and_default() {
        let all: Vec<String> =
            parameters::<Whole>().iter().map(|key| format!("{} = {key}", key.name)).collect();
        assert_eq!(
            all,
            [
                "core.count = cores, 1 to 64 [4]",
                "core.mhz = the cores' clock in MHz, 0.001 to 100000 [423]",
                "core.order = the packet that is next: \"fifo\" (The oldest), \"round-robin\" (The oldest of each thread in turn) [fifo]",
                "line.rate = bits per second, 1K to 10T, or \"unlimited\" [unlimited]",
                "line.size = payload bytes of a message, 1 to 65495 [64000]",
                "line.wait = how long it waits, 0ns to 1s [0ns]",
                "line.merge = whether packets are merged: \"on\", \"off\" [off]",
            ]
        );
        assert!(
            schema::<Whole>().as_value().pointer("/properties/core/properties/count").is_some()
        );
    }

    #[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema, Validate)]
    #[serde(default, deny_unknown_fields)]
    struct Lines {
        /// The lines.
        #[garde(dive)]
        line: Vec<Line>,
    }

    #[test]
    fn tables_of_a_list_are_checked_where_they_stand() {
        let lines = |text: &str| {
            let document = Document::of_text("x.toml", text).expect("TOML");
            document.config::<Lines>().map_err(|error| error.to_string())
        };
        let two = lines("[[line]]\nrate = \"1G\"\n[[line]]\nmerge = true\n").expect("lines");
        assert_eq!((two.line.len(), two.line[0].rate), (2, Maybe::from(Rate::giga(1))));
        assert!(two.line[1].merge.0 && two.line[1].rate == Maybe::NONE);
        let refused = [
            (
                "[[line]]\n[[line]]\nfoo = 1\n",
                "x.toml:3: `foo = 1`: unknown key `line[].foo`: known are ",
            ),
            (
                "[[line]]\n[[line]]\nrate = 1\n",
                "x.toml:3: `rate = 1`: 1 is out of range: choose 1K to 10T",
            ),
            (
                "[[line]]\nsize = [1, 0]\n",
                "x.toml:2: `size = [1, 0]`: 0 is out of range: choose 1 to ",
            ),
            (
                "[line]\nrate = \"1G\"\n",
                "x.toml:1: `[line]`: line is a list of tables: write [[line]]",
            ),
            ("line = [1]\n", "x.toml:1: `line = [1]`: line is a list of tables: write [[line]]"),
        ];
        for (text, start) in refused {
            let error = lines(text).expect_err("refused");
            assert!(error.starts_with(start), "{error}");
        }
        let names: Vec<&str> =
            parameters::<Lines>().iter().map(|known| known.name.as_str()).collect();
        assert_eq!(names, ["line[].rate", "line[].size", "line[].wait", "line[].merge"]);
        let document = Document::of_text("x.toml", "[[line]]\n[[line]]\nwait = \"1ms\"\n");
        let error = document.expect("TOML").refuse("line[1].wait", "no").to_string();
        assert_eq!(error, "x.toml:3: `wait = \"1ms\"`: no");
        for key in ["line.wait", "line.foo"] {
            let mut document = Document::of_text("x.toml", "[[line]]\n").expect("TOML");
            document.set(&format!("{key}=1")).expect("a key");
            let error =
                document.config::<Lines>().map(|_| ()).expect_err("of which table?").to_string();
            let expected =
                format!("--set {key}=1: `line` is a list of tables: change them in the file");
            assert_eq!(error, expected);
        }
    }
}
