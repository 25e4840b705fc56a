//! Files that only this end has: a sender may list them and have them removed only if it is permitted, only below
//! the folders that it has sent, and only when all that it sends is in its place.

use super::ReceiveError;
use super::writing::Job;
use crate::control::MAX_WAITING_BYTES;
use crate::file::{Failures, Kind, Name, Object};
use linecard_transfer::control::{List, MAX_ASKED, MAX_NAMES_BYTES, Names, Remove, Removed};
use std::collections::BTreeSet;

const _: () = assert!(MAX_ASKED * MAX_NAMES_BYTES < MAX_WAITING_BYTES);

/// State of the removal.
#[derive(Debug, Default)]
pub(super) struct Removal {
    is_permitted: bool,
    /// Files are only listed.
    is_dry: bool,
    /// Names of the folders that were sent.
    roots: BTreeSet<Vec<u8>>,
    unanswered: usize,
    /// Nothing more may be sent.
    pub(super) has_begun: bool,
    pub(super) removed: u64,
    pub(super) failures: Failures,
}

impl Removal {
    pub(super) fn new(is_permitted: bool, is_dry: bool) -> Self {
        Self { is_permitted, is_dry, ..Self::default() }
    }

    /// An object is sent.
    pub(super) fn announced(&mut self, object: &Object) {
        let name = object.name.as_bytes();
        if self.is_permitted && object.kind == Kind::Folder && !name.contains(&b'/') {
            self.roots.insert(name.to_vec());
        }
    }

    /// The sender asks for the content of a folder.
    pub(super) fn list(&mut self, list: List, may_begin: bool) -> Result<Job, ReceiveError> {
        self.begin(may_begin)?;
        let folder = self.inside(&list.folder).ok_or(Self::elsewhere())?;
        Ok(Job::List { folder, after: list.after })
    }

    /// The sender wants something removed.
    pub(super) fn remove(&mut self, remove: &Remove, may_begin: bool) -> Result<Job, ReceiveError> {
        self.begin(may_begin && !self.is_dry)?;
        let below = |(name, is_folder): (&[u8], bool)| {
            let name = self.inside(name).filter(|name| name.as_bytes().contains(&b'/'));
            name.map(|name| (name, is_folder)).ok_or(Self::elsewhere())
        };
        let names: &Names = &remove.names;
        Ok(Job::Remove { names: names.iter().map(below).collect::<Result<_, _>>()? })
    }

    fn begin(&mut self, may_begin: bool) -> Result<(), ReceiveError> {
        if !self.is_permitted || !may_begin || self.unanswered >= MAX_ASKED {
            return Err(ReceiveError::Unexpected(
                "a removal before everything has arrived, after the end, or too many",
            ));
        }
        (self.has_begun, self.unanswered) = (true, self.unanswered + 1);
        Ok(())
    }

    /// A name that is that of a folder which was sent, or is below it.
    fn inside(&self, name: &[u8]) -> Option<Name> {
        let root = name.split(|byte| *byte == b'/').next()?;
        Name::new(name).ok().filter(|_| self.roots.contains(root))
    }

    const fn elsewhere() -> ReceiveError {
        ReceiveError::Unexpected("the removal of something that is not in a folder which it sent")
    }

    /// A folder was listed.
    pub(super) const fn listed(&mut self) {
        self.unanswered -= 1;
    }

    /// Some were removed; the first of those that were not, with the reason.
    pub(super) fn removed(&mut self, told: &Removed) {
        self.unanswered -= 1;
        self.removed += u64::from(told.count);
        if told.failed > 0 {
            self.failures.add(told.error.as_str().to_owned());
            self.failures.add_more(u64::from(told.failed) - 1);
        }
    }
}
