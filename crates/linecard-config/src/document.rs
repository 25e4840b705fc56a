//! Scenario files, and values that take precedence over theirs.

use super::error::{ConfigError, Place, Problem};
use super::parameter::{self, Config, Parameter, parameters};
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

/// The most bytes of a scenario file: 1 MiB, far above any that people write.
const MAX_BYTES: u64 = 1 << 20;

/// A scenario: the text of a file, and values as `KEY=VALUE` that take precedence.
#[derive(Debug, Clone)]
pub struct Document {
    path: PathBuf,
    text: String,
    sets: Vec<Set>,
    /// Keys of the first level that are no parameters, as the one that names the kind of a scenario.
    taken: Vec<String>,
}

/// A value that was set.
#[derive(Debug, Clone)]
struct Set {
    /// Where it would stand, were it behind the text: places of values are ranges of bytes.
    at: usize,
    /// Where it was given.
    given: Place,
    /// As TOML, at its place.
    line: String,
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
        let refuse = |problem| ConfigError::new(Place::File(path.into()), None, problem);
        let bytes = std::fs::read(path).map_err(|error| refuse(Problem::Unreadable(error)))?;
        if bytes.len() as u64 > MAX_BYTES {
            let what = format!("{} bytes: a scenario has at most {MAX_BYTES}", bytes.len());
            return Err(refuse(Problem::Invalid(what)));
        }
        match String::from_utf8(bytes) {
            Ok(text) => Self::of_text(path, text),
            Err(error) => {
                let at = error.utf8_error().valid_up_to();
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let place = line_at(path, &text, at);
                let what = "the file is not UTF-8 text: a scenario is TOML";
                Err(ConfigError::new(place, None, Problem::Invalid(what.into())))
            }
        }
    }

    /// Takes a text as that of the file at `path`, which need not exist.
    ///
    /// # Errors
    ///
    /// A text that is not TOML.
    pub fn of_text(path: impl Into<PathBuf>, text: impl Into<String>) -> Result<Self, ConfigError> {
        let document =
            Self { path: path.into(), text: text.into(), sets: Vec::new(), taken: Vec::new() };
        document.table()?;
        Ok(document)
    }

    /// The file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Sets a value, given by an option of a command; errors name the option.
    ///
    /// # Errors
    ///
    /// A key that cannot be one. Whether it exists and the value fits is seen by [`Self::config`].
    pub fn set_by(&mut self, option: &str, key: &str, value: &str) -> Result<(), ConfigError> {
        self.set(&format!("{key}={value}"))?;
        if let Some(set) = self.sets.last_mut() {
            set.given = Place::Option(format!("--{option} {value}"));
        }
        Ok(())
    }

    /// Sets a value, given as `KEY=VALUE`; it takes precedence over the file's.
    ///
    /// # Errors
    ///
    /// A text without a key. Whether the key exists and the value fits is seen by [`Self::config`].
    pub fn set(&mut self, set: &str) -> Result<(), ConfigError> {
        let refuse = |what: &str| {
            let problem = Problem::Invalid(what.to_owned());
            ConfigError::new(Place::Set(set.to_owned()), None, problem)
        };
        let (key, value) =
            set.split_once('=').ok_or_else(|| refuse("write KEY=VALUE, as core.mhz=423"))?;
        let (key, value) = (key.trim(), value.trim());
        let at = self.sets.last().map_or(self.text.len() + 1, |last| last.line.len() + 1);
        let before = " ".repeat(at);
        let mut line = format!("{before}{key} = {value}");
        if value.contains(['\n', '#']) || DeTable::parse(&line).is_err() {
            line = format!("{before}{key} = {}", toml::Value::from(value));
        }
        if DeTable::parse(&line).is_err() {
            return Err(refuse("write KEY=VALUE, as core.mhz=423"));
        }
        self.sets.push(Set { at, given: Place::Set(set.to_owned()), line });
        Ok(())
    }

    /// Takes a value of the first level out of the document, as the one that says which kind it is of.
    ///
    /// # Errors
    ///
    /// A value that is not a text.
    pub fn take_text(&mut self, key: &str) -> Result<Option<String>, ConfigError> {
        let table = self.table()?;
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
        let mut table = self.table()?;
        for key in &self.taken {
            table.remove(key.as_str());
        }
        let table = Spanned::new(0..self.text.len(), table);
        let config = C::deserialize(Deserializer::from(table)).map_err(|error| {
            let place = self.place_at(error.span().unwrap_or_default().start);
            let problem = self.explain(error.message(), &parameters::<C>());
            ConfigError::new(place, None, problem)
        })?;
        self.check(&config)?;
        Ok(config)
    }

    /// Checks a configuration that was made from this document: errors name their place in it.
    ///
    /// # Errors
    ///
    /// As [`parameter::check`].
    pub fn check<C: Config>(&self, config: &C) -> Result<(), ConfigError> {
        parameter::check(config).map_err(|error| self.placed(error))
    }

    /// An error about a parameter, with its place in this document.
    #[must_use]
    pub fn placed(&self, error: ConfigError) -> ConfigError {
        let place = error.parameter.as_deref().and_then(|name| self.find(name));
        match place {
            Some(range) => ConfigError { place: Box::new(self.place_at(range.start)), ..error },
            None => error,
        }
    }

    /// Refuses a parameter's value, for a reason that the value alone does not show.
    #[must_use]
    pub fn refuse(&self, parameter: &str, what: impl Into<String>) -> ConfigError {
        self.placed(ConfigError::of_parameter(parameter, what))
    }

    /// Where a parameter's value comes from.
    #[must_use]
    pub fn origin(&self, parameter: &str) -> Origin {
        match self.find(parameter) {
            None => Origin::Default,
            Some(range) if range.start < self.text.len() => Origin::File,
            Some(_) => Origin::Set,
        }
    }

    /// The file that a parameter's value names: seen from the folder of the scenario where the value stands in
    /// it, from the current folder where it was set beside it.
    #[must_use]
    pub fn path_of(&self, parameter: &str, name: &str) -> PathBuf {
        match self.origin(parameter) {
            Origin::Set => name.into(),
            _ => self.path.parent().unwrap_or(Path::new("")).join(name),
        }
    }

    /// All values: those of the file, and those that were set in their place.
    fn table(&self) -> Result<DeTable<'_>, ConfigError> {
        let mut table = match DeTable::parse(&self.text) {
            Ok(table) => table.into_inner(),
            Err(error) => {
                let place = self.place_at(error.span().unwrap_or_default().start);
                let problem = Problem::Invalid(error.message().replace('\n', " "));
                return Err(ConfigError::new(place, None, problem));
            }
        };
        for set in &self.sets {
            // Each was parsed when it was set.
            if let Ok(line) = DeTable::parse(&set.line) {
                merge(&mut table, line.into_inner());
            }
        }
        Ok(table)
    }

    /// The place of a parameter's key.
    fn find(&self, parameter: &str) -> Option<Range<usize>> {
        let all = self.table().ok()?;
        let mut table = &all;
        let mut path = parameter.split('.').peekable();
        while let Some(name) = path.next() {
            let (key, value) = table.get_key_value(name)?;
            match (path.peek(), value.get_ref()) {
                (None, _) => return Some(key.span()),
                (Some(_), DeValue::Table(next)) => table = next,
                _ => return None,
            }
        }
        None
    }

    fn place_at(&self, at: usize) -> Place {
        if at <= self.text.len() {
            return line_at(&self.path, &self.text, at);
        }
        let set = self.sets.iter().rev().find(|set| set.at <= at);
        set.map_or_else(|| Place::File(self.path.clone()), |set| set.given.clone())
    }

    /// A deserializer's sentence in our words.
    fn explain(&self, message: &str, known: &[Parameter]) -> Problem {
        let quoted = |text: &str| text.split('`').nth(1).unwrap_or_default().to_owned();
        if message.starts_with("unknown field") {
            let name = quoted(message);
            let expected: Vec<String> =
                message.split('`').skip(3).step_by(2).map(str::to_owned).collect();
            let mut names: Vec<String> = known.iter().map(|known| known.name.clone()).collect();
            // The section's own names, where the name stands in one.
            if let Some(first) = expected.first() {
                let suffix = format!(".{first}");
                let section = names.iter().find_map(|name| name.strip_suffix(&suffix));
                if let Some(section) = section.map(|section| format!("{section}.")) {
                    names.retain(|name| name.starts_with(&section));
                    return Problem::Unknown { name: format!("{section}{name}"), known: names };
                }
            }
            return Problem::Unknown { name, known: names };
        }
        if message.starts_with("unknown variant") {
            let choices: Vec<String> =
                message.split('`').skip(3).step_by(2).map(|word| format!("\"{word}\"")).collect();
            let name = quoted(message);
            let what = format!("\"{name}\" is not a choice: choose {}", choices.join(", "));
            return Problem::Invalid(what);
        }
        let plain = message
            .replace("expected i64", "expected a whole number")
            .replace("expected u64", "expected a whole number of 0 or more")
            .replace("expected u32", "expected a whole number of 0 or more")
            .replace("expected u16", "expected a whole number of 0 or more")
            .replace("expected usize", "expected a whole number of 0 or more")
            .replace("expected f64", "expected a number")
            .replace('\n', " ");
        Problem::Invalid(plain.trim_end().to_owned())
    }
}

/// The line of a file with the byte at `at`.
fn line_at(path: &Path, text: &str, at: usize) -> Place {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let content = text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
    Place::Line { file: path.into(), line, content }
}

/// Puts values into a table, section by section.
fn merge<'t>(table: &mut DeTable<'t>, from: DeTable<'t>) {
    for (key, value) in from {
        match (table.get_mut(key.get_ref().as_ref()).map(Spanned::get_mut), value) {
            (Some(DeValue::Table(section)), value) if value.get_ref().is_table() => {
                if let DeValue::Table(values) = value.into_inner() {
                    merge(section, values);
                }
            }
            (_, value) => {
                // The key's place is that of the value that counts.
                table.remove(key.get_ref().as_ref());
                table.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, Duration, Frequency, Maybe, OneOrMany, Rate, Switch, schema};
    use garde::Validate;
    use schemars::JsonSchema;
    use serde::{Deserialize, Serialize};
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
            (&["nothing"], "--set nothing: write KEY=VALUE, as core.mhz=423"),
            (&["=1"], "--set =1: write KEY=VALUE, as core.mhz=423"),
        ] {
            assert_eq!(with(sets).expect_err("refused"), expected);
        }
        let error = with(&["line.rate=fast"]).expect_err("refused");
        assert!(error.starts_with("--set line.rate=fast: \"fast\" is not a rate"), "{error}");
        let error = with(&["core.mhz=fast"]).expect_err("refused");
        assert!(error.ends_with("423 or 0.5"), "{error:?}");
        let error = with(&["core.count=1.5"]).expect_err("refused");
        assert!(error.contains("expected a whole number") || error.contains("u16"), "{error}");
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
            error.starts_with("a/x.toml:1: `[cores]`: unknown key `cores`: known are core.count")
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
}
