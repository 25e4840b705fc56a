//! Why a document or a value in it was refused.

use std::error::Error;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// A refused document, or a refused value in it: where, which parameter, and the problem.
#[derive(Debug, thiserror::Error)]
#[error("{}{location}{problem}", self.operation())]
pub struct ConfigError {
    /// Where the value stands.
    pub location: Box<Location>,
    /// The parameter by its path, as `npu.cores`; nothing where the document itself is wrong.
    pub parameter: Option<String>,
    /// The error.
    pub problem: Box<Problem>,
}

impl ConfigError {
    /// The operation that failed, where the problem does not say it.
    fn operation(&self) -> &'static str {
        if matches!(*self.problem, Problem::Unreadable(_)) { "cannot open " } else { "" }
    }

    /// A refused value, by its parameter where it is known.
    #[must_use]
    pub fn new(location: Location, parameter: Option<String>, problem: Problem) -> Self {
        Self { location: Box::new(location), parameter, problem: Box::new(problem) }
    }

    /// Refuses a parameter's value, for a reason that its range does not show. Its place is known once
    /// [`Document::placed`](super::Document::placed) has seen the error.
    #[must_use]
    pub fn of_parameter(parameter: &str, what: impl Into<Box<dyn Error + Send + Sync>>) -> Self {
        let (location, name) = (Location::Parameter(parameter.to_owned()), parameter.to_owned());
        Self::new(location, Some(name), Problem::Invalid(what.into()))
    }
}

/// Where a value stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Location {
    /// On a line of a file.
    Line {
        /// The file, as the user named it.
        file: PathBuf,
        /// Its number, from 1.
        line: usize,
        /// The line without the space around it; empty where it is not text.
        content: String,
    },
    /// In a file, which does not have it.
    Absent {
        /// The file, as the user named it.
        file: PathBuf,
        /// The parameter.
        parameter: String,
    },
    /// In a file as a whole.
    File(PathBuf),
    /// Given beside the file, as `KEY=VALUE`.
    Set(String),
    /// Given by an option of a command, as `--rate 10G`.
    Option(String),
    /// Given by an argument of a program's call, as `rate=10G`.
    Argument(String),
    /// Nowhere: the default, or a value made by a program.
    Parameter(String),
}

/// The error of a value.
#[derive(Debug)]
pub enum Problem {
    /// The file cannot be read.
    Unreadable(io::Error),
    /// No parameter has this name.
    Unknown {
        /// The name.
        name: String,
        /// Names that there are.
        known: Vec<String>,
    },
    /// The value is not in its range.
    Range {
        /// The value as it was written.
        value: String,
        /// The least, with its unit.
        low: String,
        /// The greatest, with its unit.
        high: String,
        /// A word that is taken too, as "unlimited".
        word: Option<String>,
    },
    /// The value is of another type.
    Type {
        /// The value, or the kind of value.
        value: String,
        /// The kind of value that is expected.
        expected: String,
        /// Advice for a number that is a text; else empty.
        advice: &'static str,
    },
    /// The value is none of the words that can be chosen.
    Choice {
        /// The value.
        value: String,
        /// The words.
        choices: Vec<String>,
    },
    /// A key is missing.
    Missing(String),
    /// The name is that of a section.
    Section {
        /// The name.
        name: String,
        /// The first parameter in it.
        first: String,
    },
    /// The name is that of a value, and has further parts.
    Value {
        /// The name.
        name: String,
    },
    /// The name is that of a list of tables.
    List {
        /// The name.
        name: String,
        /// Whether a single value in it was set, of which the table is not known.
        is_set: bool,
    },
    /// Two parameters exclude each other.
    Excluded {
        /// One of them.
        name: String,
        /// The other one.
        other: String,
        /// The place of the other one.
        place: Option<Location>,
    },
    /// A date, or a number that is infinite or NaN.
    Unusable {
        /// The value as it was written.
        value: String,
        /// The reason.
        reason: &'static str,
    },
    /// The error of a part, or a sentence.
    Invalid(Box<dyn Error + Send + Sync>),
}

impl Problem {
    /// A value that is not between two others.
    pub fn range(value: &dyn ToString, low: &dyn ToString, high: &dyn ToString) -> Self {
        let (value, low, high) = (value.to_string(), low.to_string(), high.to_string());
        Self::Range { value, low, high, word: None }
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line { file, line, content } if content.is_empty() => {
                write!(f, "{}:{line}: ", file.display())
            }
            Self::Line { file, line, content } => {
                write!(f, "{}:{line}: `{content}`: ", file.display())
            }
            Self::Absent { file, parameter } => write!(f, "{}: {parameter}: ", file.display()),
            Self::File(file) => write!(f, "{}: ", file.display()),
            Self::Set(set) => write!(f, "--set {set}: "),
            Self::Option(text) | Self::Argument(text) => write!(f, "{text}: "),
            Self::Parameter(name) => write!(f, "{name}: "),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable(error) => match error.kind() {
                io::ErrorKind::NotFound => f.write_str("no such file"),
                io::ErrorKind::IsADirectory => f.write_str("it is a folder: name a file in it"),
                _ => write!(f, "{error}"),
            },
            Self::Unknown { name, known } => {
                write!(f, "unknown key `{name}`: known are {}", known.join(", "))
            }
            Self::Range { value, low, high, word } => {
                write!(f, "{value} is out of range: choose {low} to {high}")?;
                word.as_ref().map_or(Ok(()), |word| write!(f, ", or \"{word}\""))
            }
            Self::Type { value, expected, advice } => {
                write!(f, "{value} is not {expected}{advice}")
            }
            Self::Choice { value, choices } => {
                let choices: Vec<String> =
                    choices.iter().map(|choice| format!("\"{choice}\"")).collect();
                write!(f, "\"{value}\" is not a choice: choose {}", choices.join(", "))
            }
            Self::Missing(name) => write!(f, "the key `{name}` is missing"),
            Self::Section { name, first } => write!(f, "{name} is a section: write {first} = …"),
            Self::Value { name } => write!(f, "{name} is a value, not a section"),
            Self::List { name, is_set: false } => {
                write!(f, "{name} is a list of tables: write [[{name}]]")
            }
            Self::List { name, is_set: true } => {
                write!(f, "`{name}` is a list of tables: change them in the file")
            }
            Self::Excluded { name, other, place } => {
                write!(f, "`{name}` excludes `{other}`, which is given")?;
                match place {
                    Some(Location::Line { line, .. }) => write!(f, " on line {line}")?,
                    Some(
                        Location::Set(text) | Location::Option(text) | Location::Argument(text),
                    ) => {
                        write!(f, " by {text}")?;
                    }
                    _ => {}
                }
                f.write_str(": leave one out")
            }
            Self::Unusable { value, reason } => write!(f, "{value} is {reason}"),
            Self::Invalid(error) => error.fmt(f),
        }
    }
}
