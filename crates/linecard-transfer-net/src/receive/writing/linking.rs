//! Hard links, which wait until the files are in their places that they are further names of.

use super::{Findings, Target, Writing, Written, failed};
use crate::file::{FileError, FileId, Folder, Name, NewLink, Object, Sink, sync_links};
use std::collections::BTreeMap;

/// How far a file is of which there are hard links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Coming,
    InPlace,
    /// It will not be stored.
    Failed,
}

/// A file of which there are hard links.
#[derive(Debug)]
struct Linked {
    name: Name,
    state: State,
    /// The file that was stored; of one that was there before, when the sender has proved that it has it.
    id: Option<FileId>,
    /// A key, and the file's hash with it by the sender: a proof that it has the file that was there before.
    key: Option<[u8; 32]>,
    proof: Option<[u8; 32]>,
}

/// A link, and the number of the file.
type Link = (u32, Box<Object>, u32);

/// Hard links of a transfer. Links are made only of files that this transfer has stored or found equal, whatever else is
/// in the folder.
#[derive(Debug, Default)]
pub(super) struct Linking {
    /// By the number of the object. The receiver's memory for lists bounds them.
    files: BTreeMap<u32, Linked>,
    /// Links all of which has come. The bound of open objects bounds them.
    waiting: Vec<Link>,
}

impl Linking {
    /// A file comes of which there are links.
    pub(super) fn expect(&mut self, object: u32, about: &Object) {
        if about.has_links {
            let (name, state) = (about.name.clone(), State::Coming);
            self.files.insert(object, Linked { name, state, id: None, key: None, proof: None });
        }
    }

    /// The sender has read all of an object.
    pub(super) fn prove(&mut self, object: u32, proof: Option<[u8; 32]>) {
        if let Some(file) = self.files.get_mut(&object) {
            file.proof = proof;
        }
    }

    /// An object is going to be put into its place.
    pub(super) fn identify(&mut self, object: u32, sink: &Sink) {
        if let Some(file) = self.files.get_mut(&object) {
            file.id = sink.id();
        }
    }

    /// A result is given for an object, which may be such a file.
    pub(super) fn note(&mut self, written: &Written) {
        match written {
            Written::Object { object, .. } => self.set(*object, State::InPlace),
            Written::Refused { object, .. } => self.set(*object, State::Failed),
            _ => {}
        }
    }

    /// A file will not be stored.
    pub(super) fn abandon(&mut self, object: u32) {
        self.set(object, State::Failed);
    }

    fn set(&mut self, object: u32, state: State) {
        if let Some(file) = self.files.get_mut(&object) {
            file.state = state;
        }
    }

    /// The file that a link is of, unless it will not be stored.
    fn file(
        &mut self,
        folder: &Folder,
        (about, of): (&Object, u32),
    ) -> Result<&mut Linked, FileError> {
        let file = self.files.get_mut(&of).ok_or_else(|| {
            let name = about.name.to_string().chars().take(80).collect();
            FileError::Name { name, why: "it is a hard link of a file that was not announced" }
        })?;
        match file.state {
            State::Failed => Err(FileError::NoFirst {
                path: folder.path_of(about),
                first: folder.path_of_name(&file.name),
            }),
            State::Coming | State::InPlace => Ok(file),
        }
    }

    /// Links whose files are in their places, or will not be.
    fn ready(&mut self) -> Vec<Link> {
        let is_coming =
            |of: &u32| self.files.get(of).is_some_and(|file| file.state == State::Coming);
        self.waiting.extract_if(.., |(_, _, of)| !is_coming(of)).collect()
    }

    /// Makes a link, unless it was there.
    fn make(&mut self, folder: &Folder, (about, of): (&Object, u32), overwrite: bool) -> NewLink {
        let file = self.file(folder, (about, of))?;
        if folder.is_linked(about, &file.name)? {
            return Ok(None);
        }
        let id = match (file.id, &file.key, &file.proof) {
            (Some(id), ..) => id,
            (None, Some(key), Some(proof)) => folder.prove(&file.name, (key, proof))?,
            _ => return Err(FileError::Unproven { path: folder.path_of_name(&file.name) }),
        };
        file.id = Some(id);
        folder.link(about, (&file.name, id), overwrite).map(Some)
    }
}

impl Writing {
    /// Looks for a link.
    pub(super) fn open_link(
        &mut self,
        (object, about): (u32, Box<Object>),
        of: u32,
    ) -> Result<Written, FileError> {
        // Of a dry run, into a folder that does not exist.
        let Some(folder) = &self.work.folder else {
            return Ok(Written::Opened { object, found: Findings::default() });
        };
        let first = &self.linking.file(folder, (&about, of))?.name;
        let is_same = folder.is_linked(&about, first)?;
        if !is_same {
            self.work.take(&about, 0, folder)?;
        }
        let overwrite = self.work.overwrite;
        let replaces = self.work.is_dry
            && if is_same { overwrite } else { folder.would_replace(&about, overwrite)? };
        if !self.work.is_dry {
            self.targets.push((object, Target::HardLink(about, of)));
        }
        let found = Findings { is_same, replaces, ..Findings::default() };
        Ok(Written::Opened { object, found })
    }

    /// A file is open; of one that exists, and of which there are links, the sender has to prove that it has it.
    pub(super) fn ask_for_proof(
        &mut self,
        object: u32,
        found: Findings,
    ) -> Result<Findings, FileError> {
        match (&self.work.folder, self.linking.files.get_mut(&object)) {
            (Some(folder), Some(file)) if found.existing.is_some() => {
                file.key = Some(folder.proof_key(&file.name)?);
                Ok(Findings { proof_key: file.key, ..found })
            }
            _ => Ok(found),
        }
    }

    /// All of a link has come, which is nothing.
    pub(super) fn finish_link(&mut self, object: u32, (about, of): (Box<Object>, u32)) {
        self.linking.waiting.push((object, about, of));
    }

    /// Makes the links whose files are in their places.
    pub(super) fn settle_links(&mut self) {
        let Some(folder) = &self.work.folder else { return };
        let (ready, overwrite) = (self.linking.ready(), self.work.overwrite);
        let make = |(_, about, of): &'_ Link| self.linking.make(folder, (about, *of), overwrite);
        let made: Vec<_> = ready.iter().map(make).collect();
        let mut made: Vec<_> = ready.iter().map(|(_, about, _)| &**about).zip(made).collect();
        sync_links(&mut made, folder);
        let made: Vec<_> = made.into_iter().map(|(_, made)| made).collect();
        for ((object, ..), made) in ready.into_iter().zip(made) {
            self.give(match made {
                Ok(new) => Written::Object { object, was_there: new.is_none() },
                Err(error) => failed(object, error),
            });
        }
    }
}
