//! Scenario files of models: TOML that names its model, and values that take precedence.

use super::transmit::TransmitModel;
use super::{MODELS, named};
use crate::error::Kind;
use crate::{AnyJob, Error, Failure, Job};
use linecard_config::Document;
use std::path::{Path, PathBuf};

/// Models that there were, and what to use.
const REMOVED: [(&str, &str); 1] = [("lanes", "transfer")];

/// A scenario whose model is not known, or not of the kind that is needed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ScenarioError {
    #[error(
        "{}: the file does not name its model: {}; if it is for `linecard run` or `plan`, use that command",
        path.display(), choose()
    )]
    Unnamed { path: PathBuf },
    #[error("this model was removed: use model = \"{instead}\"")]
    Removed { instead: &'static str },
    #[error("no such model: {}", choose())]
    Unknown,
    #[error("this takes scenarios of \"{expected}\": `linecard model run` takes all kinds")]
    Other { expected: String },
    #[error("only \"{}\" can be computed: run it", TransmitModel::NAME)]
    NotComputed,
    #[error("{given}for scenarios of \"{}\" only: leave it out", TransmitModel::NAME)]
    NotTransmit { given: String },
}

impl Kind for ScenarioError {
    fn failure(&self) -> Failure {
        Failure::Usage
    }
}

fn choose() -> String {
    format!("choose {}", MODELS.map(|model| format!("\"{}\"", model.name)).join(", "))
}

/// A scenario, of which no value but its model has been read.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The job that its `model = "…"` names.
    pub model: &'static AnyJob,
    /// Its values.
    pub document: Document,
}

impl Scenario {
    /// Reads a file; `sets` are values as KEY=VALUE that take precedence.
    ///
    /// # Errors
    ///
    /// A file that cannot be read, is not TOML, or names no model that there is.
    pub fn read(path: &Path, sets: &[String]) -> Result<Self, Error> {
        Self::of(Document::read(path)?, sets)
    }

    /// Takes a text as that of the file at `path`, which need not exist.
    ///
    /// # Errors
    ///
    /// As [`Self::read`].
    pub fn of_text(path: &Path, text: &str, sets: &[String]) -> Result<Self, Error> {
        Self::of(Document::of_text(path, text)?, sets)
    }

    /// Takes a document.
    ///
    /// # Errors
    ///
    /// A document that names no model that there is; values that are not KEY=VALUE.
    pub fn of(mut document: Document, sets: &[String]) -> Result<Self, Error> {
        let Some(name) = document.take_text("model")? else {
            return Err(ScenarioError::Unnamed { path: document.path().to_owned() }.into());
        };
        let Some(model) = named(&name) else {
            let removed = REMOVED.iter().find(|(old, _)| *old == name);
            let error = removed
                .map_or(ScenarioError::Unknown, |(_, instead)| ScenarioError::Removed { instead });
            return Err(document.refuse("model", error).into());
        };
        sets.iter().try_for_each(|set| document.set(set))?;
        Ok(Self { model, document })
    }

    /// Its document, if it is of this model.
    ///
    /// # Errors
    ///
    /// A scenario of another model.
    pub fn only<J: Job>(self) -> Result<Document, Error> {
        self.only_named(J::NAME)
    }

    /// The same, with the model's name.
    ///
    /// # Errors
    ///
    /// As [`Self::only`].
    pub fn only_named(self, name: &str) -> Result<Document, Error> {
        if self.model.name == name {
            return Ok(self.document);
        }
        Err(self.refuse(ScenarioError::Other { expected: name.to_owned() }))
    }

    /// A warning for each value that is given by a parameter's former name.
    #[must_use]
    pub fn former_names(&self) -> Vec<String> {
        self.model.former_names(&self.document)
    }

    /// Refuses its model.
    #[must_use]
    pub fn refuse(&self, what: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
        self.document.refuse("model", what).into()
    }
}
