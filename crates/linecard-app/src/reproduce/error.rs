//! Why a reproduction is refused, or differs: expressions, rows of papers, and jobs.

use super::expression::{MAX_DEPTH, MAX_DIGITS, Query};
use crate::Failure;
use crate::error::Kind;
use linecard_config::ConfigError;
use linecard_jitter::media::st2022_6::UnknownFormat;
use linecard_model::receive::ReceiveError;
use serde_json::Value;
use std::path::PathBuf;

/// An expression that cannot be read or computed.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum ExpressionError {
    #[error("{text}: {source}")]
    In { text: String, source: Box<Self> },
    #[error("{text}: {rest:?} is left over")]
    LeftOver { text: String, rest: String },
    #[error("{text}: no `}}`")]
    NoBrace { text: String },
    #[error("{text}: values name each other")]
    Circle { text: String },
    #[error("{format:?} is not a format: width and decimals are at most {MAX_DIGITS}")]
    Format { format: String },
    #[error("brackets and signs are nested more than {MAX_DEPTH} deep")]
    Depth,
    #[error("no `{sign}` before {rest:?}")]
    NoSign { sign: &'static str, rest: String },
    #[error("a name is missing before {rest:?}")]
    NoName { rest: String },
    #[error("{text:?} is not a number")]
    NotNumber { text: String },
    #[error("a point is chosen by a comparison")]
    NoComparison,
    #[error("a list in a filter")]
    List,
    #[error("{count} numbers, where one is needed")]
    NotSingle { count: usize },
    #[error("{left} numbers do not go with {right}")]
    Lengths { left: usize, right: usize },
    #[error("{count} numbers have no item {at}")]
    NoItem { count: usize, at: usize },
    #[error("{function} of nothing: no point is chosen")]
    Nothing { function: String },
    #[error("no function {name} of {arguments} numbers")]
    NoFunction { name: String, arguments: usize },
    #[error("give load, threads, busy")]
    Overload,
    #[error("the job does not set {key}")]
    NotSet { key: String },
    #[error("{}.{}: no such number", .0.root, .0.keys.join("."))]
    NoNumber(Query),
    #[error("no job, curve or value {:?} with {:?}", .0.root, .0.keys)]
    NoValue(Query),
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    #[error(transparent)]
    Video(#[from] UnknownFormat),
}

/// A name that there is not, and those that there are.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("unknown {kind} `{name}`: {}", known_names(known))]
pub(super) struct UnknownName {
    pub(super) kind: &'static str,
    pub(super) name: String,
    pub(super) known: Vec<String>,
}

fn known_names(known: &[String]) -> String {
    if known.is_empty() {
        return "there is none".to_owned();
    }
    format!("known are {}", known.join(", "))
}

/// A part of a paper that is refused: its key, and why.
#[derive(Debug, thiserror::Error)]
#[error("`{key}`: {source}")]
pub(super) struct Refused {
    pub(super) key: String,
    pub(super) source: PaperError,
}

impl Refused {
    /// The same of a row of this name.
    pub(super) fn of_row(self, what: &str) -> Self {
        let source = PaperError::Row { what: what.to_owned(), source: Box::new(self.source) };
        Self { source, ..self }
    }
}

/// A part of a paper that is wrong, or claims more than its class means.
#[derive(Debug, thiserror::Error)]
pub(super) enum PaperError {
    #[error("{what:?}: {source}")]
    Row { what: String, source: Box<Self> },
    #[error(transparent)]
    Expression(#[from] ExpressionError),
    #[error(transparent)]
    Unknown(#[from] UnknownName),
    #[error("job `{job}` has none: give `model` or `base`")]
    NoModel { job: String },
    #[error("name the parameters that were chosen")]
    NoKeys,
    #[error("no job has a parameter `{key}`: name each with all its parts")]
    NoParameter { key: String },
    #[error("`{key}` is there twice")]
    Twice { key: String },
    #[error(
        "it names no outcome of a job, or is the same with any that is 0 or more, or one of two numbers, which \
         `arithmetic` alone may be: give a value of one, as `JOB.rates.KEY`"
    )]
    NoOutcome,
    #[error("{what:?} compares the same: a fact counts once")]
    Twin { what: String },
    #[error("give `from` and `to`")]
    NoLimit,
    #[error(
        "it names an outcome of a job: a limit is known before our value, and does not move with it"
    )]
    MovingLimit,
    #[error("{bound} is not a limit")]
    NotLimit { bound: Value },
    #[error("{from} is more than `to`, {to}: nothing is between")]
    Order { from: f64, to: f64 },
    #[error("no free parameter `{parameter}`: `free` has {}", free.join(", "))]
    NotFree { parameter: String, free: Vec<String> },
    #[error("only `fitted` has one")]
    OnlyFitted,
    #[error("`fitted` needs `parameter`, one of `free`: {}", free.join(", "))]
    NeedsParameter { free: Vec<String> },
    #[error("`exact` is a number to its printed digits: class it {instead}")]
    Exact { instead: &'static str },
    #[error("{percent} is out of range: choose up to 100 per cent")]
    Within { percent: f64 },
    #[error("it is empty: say from what the limit follows")]
    EmptyGround,
    #[error("a tolerance needs a `ground`: from what it follows that was known before our value")]
    NoGround,
    #[error("give a `reason` with its `text`")]
    NoReason,
    #[error("of what cannot be had nothing can be compared: leave it out")]
    NothingToCompare,
    #[error("{y} values of y, but {x} of x")]
    Points { x: usize, y: usize },
}

/// A reproduction that is not there, cannot be run, or differs.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReproduceError {
    #[error("{name}: no such reproduction")]
    None { name: String },
    #[error(
        "{}: no reproduction{}: give a [[reproduction]]", path.display(),
        name.as_ref().map_or(String::new(), |name| format!(" with the name {name:?}"))
    )]
    NoneInFile { path: PathBuf, name: Option<String> },
    #[error("{name}, {key}: they are to name a file in the folder; use no `/` in them")]
    FileName { name: String, key: String },
    #[error("no job `{name}`")]
    NoJob { name: String },
    #[error("job `{job}` has no model")]
    NoModel { job: String },
    #[error("no model {name:?}")]
    UnknownModel { name: String },
    #[error("papers, {name}: {source}")]
    Knob { name: String, source: Refused },
    #[error("this hardware cannot be: {0}")]
    Hardware(#[source] ConfigError),
    #[error("the receiving side: {0}")]
    Receiving(#[source] ReceiveError),
    #[error("{count} packets are wrong")]
    Wrong { count: u64 },
    #[error("{count} figures differ without a reason, or beyond its limit: see DIFFERS")]
    Unexplained { count: usize },
}

impl Kind for ReproduceError {
    fn failure(&self) -> Failure {
        match self {
            Self::Wrong { .. } => Failure::Wrong,
            Self::Unexplained { .. } => Failure::Unexplained,
            _ => Failure::Usage,
        }
    }
}
