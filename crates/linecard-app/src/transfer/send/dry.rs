//! The findings of a dry run.

use crate::Error;
use crate::transfer::error::TransferError;
use crate::transfer::outcome::listed;
use linecard_report::{ByteCount, Item, Value};
use linecard_transfer_net::file::Kind;
use linecard_transfer_net::send::{Action, Planned, Sent};
use schemars::JsonSchema;
use serde::Serialize;
use std::fmt;

/// Sums of a dry run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
pub struct DryRun {
    /// files to send
    pub files: u64,
    /// bytes to send
    pub bytes: ByteCount,
    /// folders to make
    pub folders: u64,
    /// links to make
    pub links: u64,
    /// of these, others that differ are replaced
    pub replaced: u64,
    /// to remove
    pub removed: u64,
    /// there already, and equal
    pub unchanged: u64,
    /// would not be transferred
    pub failed: u64,
    /// reasons why nothing would be removed
    pub unremoved: Option<u64>,
    /// left out by patterns
    pub left_out: Option<u64>,
    /// Nothing of it is a pipe, whose length nobody knows.
    #[serde(skip)]
    pub(super) has_length: bool,
}

/// The future of a file, a folder or a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Its name at the receiver.
    pub name: String,
    /// file, folder, link, pipe or test
    pub kind: &'static str,
    /// send, replace, equal, refuse or remove
    pub action: &'static str,
    /// Bytes that would be sent.
    pub bytes: u64,
    /// Why it would not be transferred.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl DryRun {
    pub(super) fn of(sent: &Sent, plan: &[Planned]) -> Self {
        let mut sum = Self {
            failed: sent.failures.count(),
            unremoved: (sent.unremoved.count() > 0).then(|| sent.unremoved.count()),
            left_out: (sent.left_out > 0).then_some(sent.left_out),
            has_length: plan.iter().all(|planned| planned.kind != Kind::Stream),
            ..Self::default()
        };
        for planned in plan {
            match (planned.action, planned.kind) {
                (Action::Refuse, _) => continue,
                (Action::Remove, _) => sum.removed += 1,
                (Action::Equal, _) => sum.unchanged += 1,
                (_, Kind::Folder) => sum.folders += 1,
                (_, Kind::Link | Kind::HardLink(_)) => sum.links += 1,
                (_, Kind::File | Kind::Stream | Kind::Test) => sum.files += 1,
            }
            sum.replaced += u64::from(planned.action == Action::Replace);
            sum.bytes.0 += planned.bytes;
        }
        sum
    }

    pub(super) fn check(&self) -> Result<(), Error> {
        match (self.failed, self.unremoved) {
            (0, None) => Ok(()),
            (0, Some(_)) => Err(TransferError::WouldNotRemove.into()),
            (failed, _) => Err(TransferError::WouldFail { failed }.into()),
        }
    }

    /// A line for each of the first that would not be done.
    pub(super) fn missing(&self, failures: &[Item<String>]) -> Vec<String> {
        let count = self.failed + self.unremoved.unwrap_or(0);
        let lines = failures.iter().map(|item| format!("would fail: {}", item.value));
        listed(lines, count as usize, |more| format!("and {more} more would"))
    }
}

impl Step {
    pub(super) fn of(planned: &Planned) -> Self {
        Self {
            name: planned.name.clone(),
            kind: match planned.kind {
                Kind::File => "file",
                Kind::Folder => "folder",
                Kind::Link | Kind::HardLink(_) => "link",
                Kind::Stream => "pipe",
                Kind::Test => "test",
            },
            action: match planned.action {
                Action::Send => "send",
                Action::Replace => "replace",
                Action::Equal => "equal",
                Action::Refuse => "refuse",
                Action::Remove => "remove",
            },
            bytes: planned.bytes,
            why: planned.why.clone(),
        }
    }

    /// Whether something would be changed at the receiver.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(self.action, "equal" | "refuse")
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:8} {:6} {}", self.action, self.kind, self.name.escape_debug())?;
        match self.bytes {
            0 => Ok(()),
            bytes => write!(f, ", {}", Value::Bytes(bytes)),
        }
    }
}
