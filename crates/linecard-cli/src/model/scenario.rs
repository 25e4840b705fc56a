//! A scenario: its file and what the command line sets, key by key, each refused where it stands.

use super::key::{self, Kind};
use super::kinds;
use super::settings::Settings;
use crate::failure::Failure;
use crate::scenario::Source;
use linecard_config::Document;
use linecard_model::transmit::{Design, DesignError, TransmitError};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};
use toml::Spanned;

/// A scenario file of any kind, not yet looked at but for its kind.
#[derive(Debug, Clone)]
pub(crate) struct File {
    path: PathBuf,
    source: Source,
    entry: Entry,
    kind: String,
    /// Where the file says its kind.
    kind_at: Range<usize>,
}

/// A scenario of a kind, and where its values come from.
#[derive(Debug)]
pub(crate) struct Scenario<S = Settings> {
    pub(crate) settings: S,
    /// The folder that paths are seen from.
    pub(crate) folder: PathBuf,
    path: PathBuf,
    source: Source,
    /// Keys that were given, and where: in the file, or on the command line.
    places: BTreeMap<&'static str, Option<Range<usize>>>,
}

impl File {
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let (entry, source) = Source::read(path)?;
        Self::new(path, entry, source)
    }

    /// A text as that of the file at `path`, which need not be there.
    pub(crate) fn of_text(path: &Path, text: &str) -> Result<Self, Failure> {
        let (entry, source) = Source::built_in(&path.display().to_string(), text)?;
        Self::new(path, entry, source)
    }

    fn new(path: &Path, entry: Entry, source: Source) -> Result<Self, Failure> {
        let known = || format!("choose {}", kinds::names());
        let mut entry = entry;
        let kind = match &mut entry {
            Entry::Table(sections) => sections.remove("model"),
            Entry::Value(_) => None,
        };
        let Some(kind) = kind else {
            let what = format!("the file does not say which model this is: {}", known());
            return Err(Failure::Usage(format!("{}: {what}", path.display())));
        };
        let kind_at = kind.span();
        match kind.into_inner() {
            Entry::Value(kind) if kinds::NAMES.contains(&kind.as_str()) => {
                Ok(Self { path: path.into(), source, entry, kind, kind_at })
            }
            _ => Err(source.refuse(kind_at, &format!("no such model: {}", known()))),
        }
    }

    /// As the file says `model = "…"`: one that is known.
    pub(super) fn kind(&self) -> &str {
        &self.kind
    }

    /// The same for a job, with values as KEY=VALUE that take precedence.
    pub(super) fn document(&self, sets: &[String]) -> Result<Document, Failure> {
        let mut document = self.source.document()?;
        document.take_text("model")?;
        sets.iter().try_for_each(|set| document.set(set))?;
        Ok(document)
    }

    /// The file's kind is not what is asked for.
    pub(super) fn refuse_kind(&self, what: &str) -> Failure {
        self.source.refuse(self.kind_at.clone(), what)
    }

    /// All values, of the file and as KEY=VALUE, which take precedence.
    pub(super) fn scenario<S: Kind>(self, sets: &[String]) -> Result<Scenario<S>, Failure> {
        if self.kind != S::NAME {
            let what = format!(
                "this takes scenarios of \"{}\": `linecard model run` takes all kinds",
                S::NAME
            );
            return Err(self.refuse_kind(&what));
        }
        let Self { path, source, entry, .. } = self;
        let mut scenario = Scenario::new(&path, source);
        scenario.take(entry)?;
        for set in sets {
            let refuse = |what| Failure::Usage(format!("--set {set}: {what}"));
            let (name, value) = set
                .split_once('=')
                .ok_or_else(|| refuse("write KEY=VALUE, as core.mhz=423".to_owned()))?;
            let key = key::find::<S>(name.trim()).map_err(refuse)?;
            (key.set)(&mut scenario.settings, value.trim()).map_err(refuse)?;
            scenario.places.insert(key.name, None);
        }
        Ok(scenario)
    }
}

impl Scenario {
    /// Reads a scenario of the sending side; `sets` are values as KEY=VALUE that take precedence.
    pub(crate) fn read(path: &Path, sets: &[String]) -> Result<Self, Failure> {
        File::read(path)?.scenario(sets)
    }

    /// A scenario that comes with the command, by its name in the project.
    pub(crate) fn built_in(name: &str, text: &str) -> Result<Self, Failure> {
        File::of_text(Path::new(name), text)?.scenario(&[])
    }

    /// What is built, at the scenario's own phase or one that is moved from there.
    pub(crate) fn design(&self, moved: u64) -> Result<Design, Failure> {
        self.settings.design(moved).map_err(|error| self.refuse(key_of(error), &error.to_string()))
    }

    /// Why a run ended early.
    pub(crate) fn failure(&self, error: &TransmitError) -> Failure {
        match error {
            TransmitError::Design(error) => self.refuse(key_of(*error), &error.to_string()),
            TransmitError::Load(error) => self.refuse("firmware.image", &error.to_string()),
            TransmitError::Message { .. } => self.refuse("load.mtu", &error.to_string()),
            TransmitError::Stalled { .. } => self.refuse("line.sbi", &error.to_string()),
            TransmitError::Fault { .. }
            | TransmitError::Stuck { .. }
            | TransmitError::Endless { .. }
            | TransmitError::Halted { .. } => {
                Failure::Firmware(format!("firmware {}: {error}", self.settings.firmware))
            }
        }
    }
}

impl<S: Kind> Scenario<S> {
    fn new(path: &Path, source: Source) -> Self {
        Self {
            settings: S::default(),
            folder: path.parent().map(Path::to_path_buf).unwrap_or_default(),
            path: path.into(),
            source,
            places: BTreeMap::new(),
        }
    }

    /// The file, to be told apart from outputs.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the file is that a key's value names: seen from the scenario's folder if the value stands in
    /// the scenario, from the current folder if it was given with the command.
    pub(crate) fn path_of(&self, key: &str, name: &str) -> PathBuf {
        match self.places.get(key) {
            Some(None) => name.into(),
            _ => self.folder.join(name),
        }
    }

    /// A value that is wrong beside others, or at all.
    pub(crate) fn refuse(&self, key: &str, what: &str) -> Failure {
        match self.places.get(key) {
            Some(Some(place)) => self.source.refuse(place.clone(), what),
            Some(None) => Failure::Usage(format!("--set {key}: {what}")),
            None => Failure::Usage(format!("{key}: {what}")),
        }
    }

    fn take(&mut self, entry: Entry) -> Result<(), Failure> {
        let Entry::Table(sections) = entry else { return Ok(()) };
        for (section, entry) in sections {
            let at = section.span();
            let Entry::Table(values) = entry.into_inner() else {
                let names = key::unknown::<S>(section.get_ref());
                return Err(self.source.refuse(at, &names));
            };
            if values.is_empty() {
                // Without keys its name would go unchecked.
                let what = "this section is empty: leave it out";
                return Err(self.source.refuse(at, what));
            }
            for (name, entry) in values {
                self.take_value(section.get_ref(), &name, &entry)?;
            }
        }
        Ok(())
    }

    fn take_value(
        &mut self,
        section: &str,
        name: &Spanned<String>,
        entry: &Spanned<Entry>,
    ) -> Result<(), Failure> {
        let refuse = |what: String| self.source.refuse(name.span(), &what);
        let key = key::find::<S>(&format!("{section}.{}", name.get_ref())).map_err(refuse)?;
        let Entry::Value(text) = entry.get_ref() else {
            return Err(refuse(format!("{} is a value, not a section", key.name)));
        };
        (key.set)(&mut self.settings, text).map_err(refuse)?;
        self.places.insert(key.name, Some(name.span()));
        Ok(())
    }
}

/// The key whose value an error is about.
fn key_of(error: DesignError) -> &'static str {
    match error {
        DesignError::Range { name: "sbi_bytes", .. } => "line.sbi",
        DesignError::Range { name: "mtu", .. } => "load.mtu",
        DesignError::Range { .. } | DesignError::Clock(_) => "dma.mhz",
        DesignError::BusBits(_) => "bus.bits",
    }
}

/// A place in a scenario: a value as its text, or names in a section.
#[derive(Debug, Clone)]
enum Entry {
    Value(String),
    Table(BTreeMap<Spanned<String>, Spanned<Self>>),
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EntryVisitor)
    }
}

struct EntryVisitor;

impl<'de> Visitor<'de> for EntryVisitor {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number, a text in quotes or a list of them")
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Entry, E> {
        Ok(Entry::Value(value.to_string()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Entry, E> {
        Ok(Entry::Value(value.to_string()))
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Entry, E> {
        Ok(Entry::Value(value.to_string()))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Entry, E> {
        Ok(Entry::Value(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Entry, A::Error> {
        let mut texts = Vec::new();
        while let Some(entry) = list.next_element::<Entry>()? {
            let Entry::Value(text) = entry else {
                return Err(A::Error::custom("a list has numbers or texts here"));
            };
            texts.push(text);
        }
        Ok(Entry::Value(texts.join(",")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entry, A::Error> {
        let mut table = BTreeMap::new();
        while let Some((key, value)) = map.next_entry::<Spanned<String>, Spanned<Entry>>()? {
            table.insert(key, value);
        }
        Ok(Entry::Table(table))
    }
}
