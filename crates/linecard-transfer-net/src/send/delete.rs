//! Removing what only the receiver has, when all that is sent has arrived there. The receiver lists what it has in the
//! folders that were sent; what is to be removed is decided here, where the patterns are.

use super::SendError;
use super::objects::{Stored, refusal};
use super::plan::Planned;
use crate::end::Endpoint;
use crate::file::{FileError, Kind, MAX_OBJECTS, Name, Object, Patterns, Skipped};
use linecard_transfer::control::{List, Listed, MAX_ASKED, Message, Remove, Removed};
use std::collections::{BTreeSet, VecDeque};

/// Most names that a receiver may list: it may have more than are sent, but not without end.
const MAX_LISTED: usize = 16 * MAX_OBJECTS;

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The receiver lists what it has.
    Listing,
    /// It removes some of that: so many were asked for, and so many questions have no answer yet.
    Removing { asked: usize, unanswered: usize },
    /// Nothing more is removed.
    Over,
}

/// Files, folders and links that only the receiver has.
#[derive(Debug)]
pub(super) struct Deletion {
    patterns: Patterns,
    max: u64,
    /// Places of objects, in the order of their names.
    by_name: Vec<u32>,
    /// Names that are here and not sent.
    skipped: BTreeSet<Vec<u8>>,
    phase: Phase,
    /// Objects before this one were looked at, and those that are folders were asked for.
    next: usize,
    to_list: Vec<List>,
    /// Questions without an answer, which come in order.
    listing: VecDeque<List>,
    listed: usize,
    extra: Vec<(Vec<u8>, bool)>,
    /// Folders with something in them that is hidden by a pattern.
    kept: BTreeSet<Vec<u8>>,
}

impl Deletion {
    pub(super) fn new(
        (patterns, max): (Patterns, u64),
        all: &[Object],
        skipped: &[Skipped],
    ) -> Self {
        let mut by_name: Vec<u32> = (0..all.len() as u32).collect();
        by_name.sort_unstable_by_key(|object| &all[*object as usize].name);
        Self {
            patterns,
            max,
            by_name,
            skipped: skipped.iter().map(|skipped| skipped.name.clone()).collect(),
            phase: Phase::Listing,
            next: 0,
            to_list: Vec::new(),
            listing: VecDeque::new(),
            listed: 0,
            extra: Vec::new(),
            kept: BTreeSet::new(),
        }
    }

    /// Asks for what is to be done next. True if nothing is any more.
    pub(super) fn go_on(
        &mut self,
        all: &[Object],
        stored: &mut Stored,
        endpoint: &mut Endpoint,
    ) -> Result<bool, SendError> {
        if self.phase == Phase::Listing && stored.failures.count() > 0 {
            self.give_up(stored, "not all files have arrived");
        }
        if self.phase == Phase::Listing {
            while self.listing.len() < MAX_ASKED
                && let Some(list) = self.next_list(all)
            {
                endpoint.send(&Message::List(list.clone()))?;
                self.listing.push_back(list);
            }
            if !self.listing.is_empty() {
                return Ok(false);
            }
            self.decide(stored);
        }
        let Phase::Removing { asked, unanswered } = &mut self.phase else { return Ok(true) };
        while *asked < self.extra.len() && *unanswered < MAX_ASKED {
            let mut remove = Remove::default();
            while let Some((name, is_folder)) = self.extra.get(*asked)
                && remove.names.push(name, *is_folder)
            {
                *asked += 1;
            }
            endpoint.send(&Message::Remove(remove))?;
            *unanswered += 1;
        }
        Ok(*unanswered == 0)
    }

    fn next_list(&mut self, all: &[Object]) -> Option<List> {
        if let Some(list) = self.to_list.pop() {
            return Some(list);
        }
        let left = all.get(self.next..)?;
        let at = left.iter().position(|object| object.kind == Kind::Folder);
        let folder = at.map(|at| left[at].name.as_bytes().to_vec());
        self.next += at.map_or(left.len(), |at| at + 1);
        folder.map(|folder| List { folder, after: Vec::new() })
    }

    /// The receiver has listed a folder, or a part of it.
    pub(super) fn listed(
        &mut self,
        told: &Listed,
        all: &[Object],
        stored: &mut Stored,
    ) -> Result<(), SendError> {
        let Some(List { folder, after }) = self.listing.pop_front() else {
            return Err(SendError::Unexpected("a list that was not asked for"));
        };
        if !told.error.as_str().is_empty() {
            self.give_up(stored, &refusal(told.error.as_str()));
        }
        let mut last = after.clone();
        for (name, is_folder) in told.names.iter() {
            self.listed += 1;
            last = name.to_vec();
            last.extend(is_folder.then_some(b'/'));
            self.find([&folder[..], b"/", name].concat(), is_folder, all)?;
        }
        if self.listed > MAX_LISTED {
            return Err(SendError::Unexpected("a list without an end"));
        }
        if told.has_more {
            if last <= after {
                return Err(SendError::Unexpected("the same names again"));
            }
            self.to_list.push(List { folder, after: last });
        }
        Ok(())
    }

    /// The receiver has something of this name.
    fn find(&mut self, name: Vec<u8>, is_folder: bool, all: &[Object]) -> Result<(), SendError> {
        let name_of = |object: &u32| all[*object as usize].name.as_bytes();
        let is_here = self.by_name.binary_search_by_key(&&name[..], name_of).is_ok();
        if is_here || self.skipped.contains(&name) {
            return Ok(());
        }
        // Partial files may be those of another transfer.
        if Name::new(&name).is_err() || self.patterns.leave_out(&name, is_folder) {
            self.keep(&name);
            return Ok(());
        }
        if is_folder {
            self.to_list.push(List { folder: name.clone(), after: Vec::new() });
            // Which folders are wanted is not known: those without wanted files are not sent.
            if self.patterns.only_included() {
                self.kept.insert(name.clone());
            }
        }
        if self.extra.len() >= MAX_OBJECTS {
            let what = "files and folders at the receiver that are not here";
            let path = String::from_utf8_lossy(&name).into_owned().into();
            return Err(FileError::TooMuch { path, limit: MAX_OBJECTS, what }.into());
        }
        self.extra.push((name, is_folder));
        Ok(())
    }

    /// The folders of a name are not empty.
    fn keep(&mut self, name: &[u8]) {
        let slashes = name.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        for (slash, _) in slashes {
            if !self.kept.insert(name[..slash].to_vec()) {
                break;
            }
        }
    }

    /// All is listed: what is removed is what is not here, what is in folders before these.
    fn decide(&mut self, stored: &mut Stored) {
        self.extra.retain(|(name, is_folder)| !is_folder || !self.kept.contains(name));
        self.extra.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        let count = self.extra.len();
        if count as u64 > self.max {
            let max = self.max;
            self.give_up(
                stored,
                &format!("{count} files and folders are more than --max-delete {max}"),
            );
        }
        if let Some(plan) = &mut stored.plan {
            plan.extend(
                self.extra.iter().map(|(name, is_folder)| Planned::removed(name, *is_folder)),
            );
            self.phase = Phase::Over;
        }
        if self.phase == Phase::Listing {
            self.phase = Phase::Removing { asked: 0, unanswered: 0 };
        }
    }

    fn give_up(&mut self, stored: &mut Stored, why: &str) {
        let is_first = self.phase != Phase::Over;
        self.phase = Phase::Over;
        if is_first {
            stored.unremoved.add(format!("all that only the receiver has, because {why}"));
        }
    }

    /// The receiver has removed some.
    pub(super) fn removed(&mut self, told: &Removed, stored: &mut Stored) -> Result<(), SendError> {
        let Phase::Removing { unanswered: unanswered @ 1.., .. } = &mut self.phase else {
            return Err(SendError::Unexpected("that it removed what it was not asked to"));
        };
        *unanswered -= 1;
        stored.removed += u64::from(told.count);
        if told.failed > 0 {
            stored.unremoved.add(refusal(told.error.as_str()));
            stored.unremoved.add_more(u64::from(told.failed) - 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::Stamp;
    use linecard_transfer::control::Names;

    fn folder(name: &str) -> Object {
        Object {
            name: Name::new(name.as_bytes()).unwrap(),
            kind: Kind::Folder,
            size: Some(0),
            has_holes: false,
            by_time: false,
            mode: 0o755,
            modified: Stamp::default(),
        }
    }

    fn page(names: &[&str], has_more: bool) -> Listed {
        let mut all = Names::default();
        assert!(names.iter().all(|name| all.push(name.as_bytes(), false)));
        Listed { names: all, has_more, ..Listed::default() }
    }

    /// A receiver that lists without end, or what was not asked for.
    #[test]
    fn deletion_is_bounded() {
        let all = [folder("a")];
        let mut stored = Stored::default();
        let mut deletion = Deletion::new((Patterns::default(), 10), &all, &[]);
        let first = page(&["x", "y"], true);
        assert!(deletion.listed(&first, &all, &mut stored).is_err(), "nothing was asked");
        let ask = |deletion: &mut Deletion| {
            let list = deletion.next_list(&all).unwrap();
            deletion.listing.push_back(list);
        };
        ask(&mut deletion);
        deletion.listed(&first, &all, &mut stored).unwrap();
        ask(&mut deletion);
        assert_eq!(deletion.listing[0], List { folder: b"a".to_vec(), after: b"y".to_vec() });
        assert!(deletion.listed(&first, &all, &mut stored).is_err(), "the same page again");
        deletion.listed = MAX_LISTED;
        deletion.listing.push_back(List { folder: b"a".to_vec(), after: Vec::new() });
        assert!(deletion.listed(&first, &all, &mut stored).is_err(), "more than may be");
        assert!(deletion.removed(&Removed::default(), &mut stored).is_err());
    }

    #[test]
    fn what_is_in_a_folder_goes_before_it_and_keeps_it() {
        let all = [folder("a")];
        let patterns = Patterns::new(&[], &["*.tmp".into()]).unwrap();
        let mut deletion = Deletion::new((patterns, 10), &all, &[]);
        for (name, is_folder) in
            [("a/b", true), ("a/b/c", true), ("a/b.x", false), ("a/b/c/d", false)]
        {
            deletion.find(name.into(), is_folder, &all).unwrap();
        }
        deletion.find(b"a/e".to_vec(), true, &all).unwrap();
        deletion.find(b"a/e/f.tmp".to_vec(), false, &all).unwrap();
        deletion.decide(&mut Stored::default());
        let names: Vec<_> =
            deletion.extra.iter().map(|(name, _)| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(names, ["a/b/c/d", "a/b/c", "a/b.x", "a/b"]);
        assert_eq!(deletion.phase, Phase::Removing { asked: 0, unanswered: 0 });
    }
}
