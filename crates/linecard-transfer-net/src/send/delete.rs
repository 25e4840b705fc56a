//! Removes files that only the receiver has, when everything sent has arrived there. The receiver lists its files in
//! the folders that were sent; this end, which has the patterns, decides which are removed.

use super::SendError;
use super::objects::{Stored, refusal};
use super::plan::Planned;
use crate::end::Endpoint;
use crate::file::{Kind, MAX_NAME_BYTES, MAX_OBJECTS, Name, Root, Source};
use linecard_transfer::control::{List, Listed, MAX_ASKED, Message, Remove, Removed};
use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsStr;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

/// Most names that a receiver may list: it may have more than are sent, but not without end.
const MAX_LISTED: usize = 16 * MAX_OBJECTS;
/// Most bytes of those names that are kept here.
const MAX_KEPT_BYTES: usize = 64 << 20;
/// The default limit of removed files and folders: a user who sends the wrong folder loses no more.
const MAX_DELETE: u64 = 1_000;

/// How far it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The receiver lists its files.
    Listing,
    /// It removes some of those: the number of requested removals, and of requests without an answer yet.
    Removing { asked: usize, unanswered: usize },
    /// Nothing more is removed.
    Over,
}

/// Files, folders and links that only the receiver has.
#[derive(Debug)]
pub(super) struct Deletion {
    source: Arc<Source>,
    max: Option<u64>,
    /// Places of objects, in the order of their names.
    by_name: Vec<u32>,
    /// Names that are here and not sent.
    skipped: BTreeSet<Vec<u8>>,
    phase: Phase,
    /// Objects before this one were looked at, and those that are folders were asked for.
    next: usize,
    to_list: Vec<List>,
    /// Folders of which only a part was listed.
    to_continue: Vec<List>,
    /// Questions without an answer, which come in order.
    listing: VecDeque<List>,
    listed: usize,
    /// Existing objects that were not listed yet.
    unlisted: BTreeSet<u32>,
    extra: Vec<(Vec<u8>, bool)>,
    /// Folders with something in them that is hidden by a pattern.
    kept: BTreeSet<Vec<u8>>,
    /// Bytes of names in these, and in `to_list`.
    kept_bytes: usize,
}

impl Deletion {
    /// Removes at most `max`. None is [`MAX_DELETE`], and nothing is removed from a folder that is empty here.
    pub(super) fn new(source: Arc<Source>, max: Option<u64>) -> Self {
        let all = source.objects();
        let mut by_name: Vec<u32> = (0..all.len() as u32).collect();
        by_name.sort_unstable_by_key(|object| &all[*object as usize].name);
        Self {
            by_name,
            skipped: source.skipped().iter().map(|skipped| skipped.name.clone()).collect(),
            source,
            max,
            phase: Phase::Listing,
            next: 0,
            to_list: Vec::new(),
            to_continue: Vec::new(),
            listing: VecDeque::new(),
            listed: 0,
            unlisted: BTreeSet::new(),
            extra: Vec::new(),
            kept: BTreeSet::new(),
            kept_bytes: 0,
        }
    }

    /// The receiver has an object in its place: below a folder that is sent, its name must be listed.
    pub(super) fn is_there(&mut self, object: u32) {
        if self.source.objects()[object as usize].name.as_bytes().contains(&b'/') {
            self.unlisted.insert(object);
        }
    }

    /// Sends the next request. True if none is left.
    pub(super) fn go_on(
        &mut self,
        stored: &mut Stored,
        endpoint: &mut Endpoint,
    ) -> Result<bool, SendError> {
        if self.phase == Phase::Listing && stored.failures.count() > 0 {
            self.give_up(stored, "not all files have arrived");
        }
        if self.phase == Phase::Listing {
            while self.listing.len() < MAX_ASKED
                && let Some(list) = self.next_list()
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

    fn next_list(&mut self) -> Option<List> {
        // The receiver keeps the names of one folder: until that is complete, it is asked for no other.
        let goes_on = self.listing.front().is_some_and(|list| !list.after.is_empty());
        if goes_on || !self.to_continue.is_empty() {
            return if self.listing.is_empty() { self.to_continue.pop() } else { None };
        }
        if let Some(list) = self.to_list.pop() {
            return Some(list);
        }
        let left = self.source.objects().get(self.next..)?;
        let at = left.iter().position(|object| object.kind == Kind::Folder);
        let folder = at.map(|at| left[at].name.as_bytes().to_vec());
        self.next += at.map_or(left.len(), |at| at + 1);
        folder.map(|folder| List { folder, after: Vec::new() })
    }

    /// The receiver has listed a folder, or a part of it.
    pub(super) fn listed(&mut self, told: &Listed, stored: &mut Stored) -> Result<(), SendError> {
        let Some(List { folder, after }) = self.listing.pop_front() else {
            return Err(SendError::Unexpected("a list that was not asked for"));
        };
        if !told.error.as_str().is_empty() {
            self.give_up(stored, &refusal(told.error.as_str()));
        }
        if self.phase == Phase::Over {
            return Ok(());
        }
        let mut last = after.clone();
        for (name, is_folder) in told.names.iter() {
            // Some file systems have names of more than 255 bytes.
            if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains(&b'/') {
                return Err(SendError::Unexpected("a name that no file has"));
            }
            self.listed += 1;
            last = name.to_vec();
            last.extend(is_folder.then_some(b'/'));
            self.find([&folder[..], b"/", name].concat(), is_folder);
            if self.listed > MAX_LISTED
                || self.extra.len() > MAX_OBJECTS
                || self.kept_bytes > MAX_KEPT_BYTES
            {
                self.give_up(stored, "more files and folders are there than can be listed");
                return Ok(());
            }
        }
        if told.has_more {
            if last <= after {
                return Err(SendError::Unexpected("the same names again"));
            }
            self.to_continue.push(List { folder, after: last });
        }
        Ok(())
    }

    /// The receiver has something of this name.
    fn find(&mut self, name: Vec<u8>, is_folder: bool) {
        if let Some(object) = self.place(&name) {
            self.unlisted.remove(&object);
            return;
        }
        if self.skipped.contains(&name) {
            return;
        }
        // Partial files may be those of another transfer.
        if Name::new(&name).is_err() || self.source.patterns().leave_out(&name, is_folder) {
            self.keep(&name);
            return;
        }
        self.kept_bytes += name.len() * if is_folder { 3 } else { 1 };
        if is_folder {
            self.to_list.push(List { folder: name.clone(), after: Vec::new() });
            // Which folders are wanted is not known: those without wanted files are not sent.
            if self.source.patterns().only_included() {
                self.kept.insert(name.clone());
            }
        }
        self.extra.push((name, is_folder));
    }

    /// The place of the object of this name.
    fn place(&self, name: &[u8]) -> Option<u32> {
        let name_of = |object: &u32| self.source.objects()[*object as usize].name.as_bytes();
        let at = self.by_name.binary_search_by_key(&name, name_of).ok()?;
        Some(self.by_name[at])
    }

    /// The one of the paths to send that a name is below.
    fn root(&self, name: &[u8]) -> Option<&Root> {
        let first = name.split(|byte| *byte == b'/').next()?;
        self.place(first).map(|object| self.source.root_of(object as usize))
    }

    /// Whether something of this name is here by now, or may be.
    fn is_here(&self, name: &[u8]) -> bool {
        let path = self.root(name).map(|root| root.base.join(OsStr::from_bytes(name)));
        let is_missing = |error: std::io::Error| error.kind() == ErrorKind::NotFound;
        path.is_none_or(|path| !fs::symlink_metadata(path).is_err_and(is_missing))
    }

    /// The folders of a name are not empty.
    fn keep(&mut self, name: &[u8]) {
        let slashes = name.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
        for (slash, _) in slashes {
            if !self.kept.insert(name[..slash].to_vec()) {
                break;
            }
            self.kept_bytes += slash;
        }
    }

    /// All is listed: objects that this end does not have are removed, the content of folders first.
    fn decide(&mut self, stored: &mut Stored) {
        let extra = std::mem::take(&mut self.extra);
        for (name, _) in &extra {
            // Folders were read before the transfer.
            if self.is_here(name) {
                self.keep(&[&name[..], b"/"].concat());
            }
        }
        self.extra = extra;
        self.extra.retain(|(name, _)| !self.kept.contains(name));
        self.extra.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
        if let Some(why) = self.fault() {
            self.give_up(stored, &why);
        } else if let Some(plan) = &mut stored.plan {
            let extra = self.extra.iter();
            plan.extend(extra.map(|(name, is_folder)| Planned::removed(name, *is_folder)));
            self.phase = Phase::Over;
        } else {
            self.phase = Phase::Removing { asked: 0, unanswered: 0 };
        }
    }

    /// Why nothing of what only the receiver has may be removed.
    fn fault(&self) -> Option<String> {
        let (count, unlisted) = (self.extra.len(), self.unlisted.len());
        if count == 0 {
            return None;
        }
        let mut folded = BTreeSet::new();
        let names = self.source.objects().iter().map(|object| &object.name);
        let mut roots = names.filter(|name| !name.as_bytes().contains(&b'/'));
        if let Some(name) = roots.find(|name| !folded.insert(name.to_string().to_lowercase())) {
            return Some(format!(
                "two paths are called {name} in upper or lower case, and may be the same there"
            ));
        }
        if unlisted > 0 {
            return Some(format!(
                "{unlisted} files and folders that were sent are not listed under their names there: \
                 its file system may not tell upper from lower case"
            ));
        }
        let max = self.max.unwrap_or(MAX_DELETE);
        if count as u64 > max {
            return Some(format!("{count} files and folders are more than --max-delete {max}"));
        }
        let emptied = self.max.is_none().then(|| self.emptied()).flatten()?;
        let name = String::from_utf8_lossy(&emptied);
        Some(format!("{name:?} is empty here: give --max-delete as well to empty it there"))
    }

    /// A folder with nothing in it here from which something would be removed: perhaps a disk that is not mounted.
    fn emptied(&self) -> Option<Vec<u8>> {
        let mut looked_at = BTreeSet::new();
        for (name, _) in &self.extra {
            let slashes = name.iter().enumerate().rev().filter(|(_, byte)| **byte == b'/');
            let mut folders = slashes.map(|(slash, _)| &name[..slash]);
            let Some(folder) = folders.find(|folder| self.place(folder).is_some()) else {
                continue;
            };
            let Some(root) = self.root(folder).filter(|_| looked_at.insert(folder)) else {
                continue;
            };
            let path = root.base.join(OsStr::from_bytes(folder));
            if root.is_empty || fs::read_dir(path).is_ok_and(|mut there| there.next().is_none()) {
                return Some(folder.to_vec());
            }
        }
        None
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
    use crate::file::Patterns;
    use linecard_transfer::control::Names;

    /// Removal from folders with these files, which all exist.
    fn deletion(files: &[&str], exclude: &[String]) -> (tempfile::TempDir, Deletion) {
        let at = tempfile::tempdir().unwrap();
        let mut paths = BTreeSet::new();
        for file in files {
            let path = at.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            paths.insert(at.path().join(file.split('/').next().unwrap()));
        }
        let paths: Vec<_> = paths.into_iter().collect();
        let source = Source::open(&paths, Patterns::new(&[], exclude).unwrap()).unwrap();
        let count = source.objects().len() as u32;
        let mut deletion = Deletion::new(Arc::new(source), None);
        (0..count).for_each(|object| deletion.is_there(object));
        (at, deletion)
    }

    fn page(names: &[&str], has_more: bool) -> Listed {
        let mut all = Names::default();
        for name in names {
            let file = name.strip_suffix('/');
            assert!(all.push(file.unwrap_or(name).as_bytes(), file.is_some()));
        }
        Listed { names: all, has_more, ..Listed::default() }
    }

    fn ask(deletion: &mut Deletion) {
        let list = deletion.next_list().unwrap();
        deletion.listing.push_back(list);
    }

    /// Names that would be removed if this is in the folder `a`, or why nothing would.
    fn decided(deletion: &mut Deletion, names: &[&str]) -> (Vec<String>, Option<String>) {
        let mut stored = Stored::default();
        ask(deletion);
        deletion.listed(&page(names, false), &mut stored).unwrap();
        deletion.decide(&mut stored);
        let text = |name: &Vec<u8>| String::from_utf8(name.clone()).unwrap();
        let names = deletion.extra.iter().map(|(name, _)| text(name)).collect();
        assert_eq!(deletion.phase == Phase::Over, stored.unremoved.count() == 1);
        (names, stored.unremoved.first().first().cloned())
    }

    /// A receiver that lists without end, what was not asked for, or names that no file has.
    #[test]
    fn deletion_is_bounded() {
        let mut stored = Stored::default();
        let (_at, mut deletion) = deletion(&["a/x"], &[]);
        let first = page(&["x", "y"], true);
        assert!(deletion.listed(&first, &mut stored).is_err(), "nothing was asked");
        ask(&mut deletion);
        deletion.listed(&first, &mut stored).unwrap();
        ask(&mut deletion);
        assert_eq!(deletion.listing[0], List { folder: b"a".to_vec(), after: b"y".to_vec() });
        assert!(deletion.listed(&first, &mut stored).is_err(), "the same page again");
        let again = List { folder: b"a".to_vec(), after: Vec::new() };
        let long = "n".repeat(MAX_NAME_BYTES + 1);
        for wrong in ["/", "b/c", "b//", &long[..]] {
            deletion.listing.push_back(again.clone());
            assert!(deletion.listed(&page(&[wrong], false), &mut stored).is_err(), "{wrong}");
        }
        assert!(deletion.removed(&Removed::default(), &mut stored).is_err());
        // Too much is not an error: everything sent is stored.
        let full: [fn(&mut Deletion); 2] = [
            |deletion| deletion.listed = MAX_LISTED,
            |deletion| (deletion.listed, deletion.kept_bytes) = (0, MAX_KEPT_BYTES),
        ];
        for fill in full {
            (stored, deletion.phase) = (Stored::default(), Phase::Listing);
            fill(&mut deletion);
            for _ in 0..2 {
                deletion.listing.push_back(again.clone());
                deletion.listed(&page(&["z"], false), &mut stored).unwrap();
            }
            assert_eq!((deletion.phase, stored.unremoved.count()), (Phase::Over, 1));
        }
    }

    #[test]
    fn what_is_in_a_folder_goes_before_it_and_keeps_it() {
        let (at, mut deletion) = deletion(&["a/x"], &["*.tmp".into()]);
        for (name, is_folder) in
            [("a/b", true), ("a/b/c", true), ("a/b.x", false), ("a/b/c/d", false), ("a/x", false)]
        {
            deletion.find(name.into(), is_folder);
        }
        deletion.find(b"a/e".to_vec(), true);
        deletion.find(b"a/e/f.tmp".to_vec(), false);
        // It is here by now.
        deletion.find(b"a/g".to_vec(), true);
        deletion.find(b"a/g/new".to_vec(), false);
        fs::create_dir(at.path().join("a/g")).unwrap();
        fs::write(at.path().join("a/g/new"), "").unwrap();
        deletion.decide(&mut Stored::default());
        let names: Vec<_> =
            deletion.extra.iter().map(|(name, _)| std::str::from_utf8(name).unwrap()).collect();
        assert_eq!(names, ["a/b/c/d", "a/b/c", "a/b.x", "a/b"]);
        assert_eq!(deletion.phase, Phase::Removing { asked: 0, unanswered: 0 });
    }

    /// The only copy of a file was removed where the receiver has it under its former name `photo.JPG`.
    #[test]
    fn a_file_that_is_listed_under_another_name_is_not_removed() {
        let of = |files: &[&str], there: &[&str]| decided(&mut deletion(files, &[]).1, there);
        let (_, why) = of(&["a/photo.jpg"], &["photo.JPG"]);
        assert!(why.is_some_and(|why| why.contains("because 1 files and folders that were sent")));
        let (names, why) = of(&["a/photo.jpg"], &["photo.JPG", "photo.jpg"]);
        assert_eq!((&names[..], why), (&["a/photo.JPG".to_owned()][..], None));
        // Where nothing is extra, nothing is at risk.
        assert_eq!(of(&["a/x", "a/X"], &["x"]), (Vec::new(), None));
        let (_, why) = of(&["A/x", "a/y"], &["z"]);
        assert!(
            why.is_some_and(|why| why.contains("two paths are called a in upper or lower case"))
        );
    }

    /// The receiver read a folder of many names again for each page, as others were listed between.
    #[test]
    fn a_folder_is_listed_to_its_end_before_others() {
        let mut stored = Stored::default();
        let (_at, mut deletion) = deletion(&["a/b/x", "a/c/x"], &[]);
        ask(&mut deletion);
        ask(&mut deletion);
        deletion.listed(&page(&["b/", "d/"], true), &mut stored).unwrap();
        assert_eq!(deletion.next_list(), None, "an answer is missing");
        deletion.listed(&page(&["x"], false), &mut stored).unwrap();
        ask(&mut deletion);
        assert_eq!(deletion.listing[0].after, b"d/");
        assert_eq!(deletion.next_list(), None, "it is going on");
        deletion.listed(&page(&["e/"], false), &mut stored).unwrap();
        let rest: Vec<_> = std::iter::from_fn(|| deletion.next_list()).collect();
        let folders: Vec<_> = rest.iter().map(|list| list.folder.as_slice()).collect();
        assert_eq!(folders, [&b"a/e"[..], b"a/d", b"a/c"]);
    }
}
