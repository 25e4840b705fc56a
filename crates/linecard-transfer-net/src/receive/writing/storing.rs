//! Objects that go to an object store.

use super::{Findings, Target, Work, Writing, Written, failed};
use crate::file::{
    Bucket, Existing, FileError, Have, Kind, Object, Ordered, Stored, Upload, existing, failure,
    key_of, place,
};
use std::collections::VecDeque;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Objects that are looked for at the same time: each takes a round trip to the store.
const MAX_LOOKS: usize = 16;

/// How often is looked whether an answer has come.
const LOOK: Duration = Duration::from_millis(1);

/// Requests to an object store that are not answered yet.
#[derive(Default)]
pub(super) struct Storing {
    looks: VecDeque<Look>,
    /// All of them has been written, and they are not stored yet.
    uploads: Vec<(u32, PathBuf, Box<dyn Upload>)>,
}

/// An object that is looked for.
struct Look {
    object: u32,
    about: Box<Object>,
    found: JoinHandle<io::Result<Option<Stored>>>,
}

impl Storing {
    /// Uploads that are waited for together.
    pub(super) const fn uploads(&self) -> usize {
        self.uploads.len()
    }
}

impl Writing {
    /// Looks for an object, or knows where it goes.
    pub(super) fn open_stored(
        &mut self,
        bucket: &Arc<dyn Bucket>,
        (object, about): (u32, Box<Object>),
    ) -> Result<Option<Written>, FileError> {
        match about.kind {
            // An object store has names with slashes, and no folders.
            Kind::Folder | Kind::Test => {
                let is_dry = self.work.is_dry;
                if !is_dry {
                    self.targets.insert(object, Target::Nowhere);
                }
                // A dry run says that there is nothing to do for a folder.
                let found = Findings { is_same: is_dry, ..Findings::default() };
                return Ok(Some(Written::Opened { object, found }));
            }
            Kind::Link => {
                let name = about.name.to_string().chars().take(80).collect();
                return Err(FileError::Name { name, why: "object stores have no links" });
            }
            Kind::HardLink(_) => {
                let name = about.name.to_string().chars().take(80).collect();
                let why = "object stores have no hard links: send without --hard-links";
                return Err(FileError::Name { name, why });
            }
            Kind::File | Kind::Stream => {}
        }
        let (bucket, key) = (Arc::clone(bucket), key_of(&**bucket, &about.name)?.to_owned());
        let path = place(&*bucket, &key);
        let looking = thread::Builder::new().spawn(move || bucket.look(&key));
        let found = looking.map_err(|error| failure(error, "look for", path))?;
        self.storing.looks.push_back(Look { object, about, found });
        if self.storing.looks.len() >= MAX_LOOKS {
            self.end_look();
        }
        Ok(None)
    }

    /// Waits for all that is looked for.
    pub(super) fn end_looks(&mut self) {
        while self.end_look() {}
    }

    /// Waits for the first of them; false if there is none.
    fn end_look(&mut self) -> bool {
        let Some(Look { object, about, found }) = self.storing.looks.pop_front() else {
            return false;
        };
        while !found.is_finished() && !self.is_over() {
            thread::sleep(LOOK);
        }
        if self.is_over() {
            return true;
        }
        let found = found.join().unwrap_or_else(|_| Err(io::Error::other("a thread has panicked")));
        let written = self.found((object, about), found);
        self.give(written.unwrap_or_else(|error| failed(object, error)));
        true
    }

    fn found(
        &mut self,
        (object, about): (u32, Box<Object>),
        stored: io::Result<Option<Stored>>,
    ) -> Result<Written, FileError> {
        let Some(bucket) = &self.work.bucket else { unreachable!("it was looked for there") };
        let path = place(&**bucket, &about.name.to_string());
        let stored = stored.map_err(|error| failure(error, "look for", path.clone()))?;
        let (overwrite, is_dry) = (self.work.overwrite, self.work.is_dry);
        let count = self.work.chunk_bytes.count(about.size.unwrap_or(0))?;
        let (target, found) = match existing(&**bucket, &about, stored.as_ref(), &self.work.over)? {
            Existing::Same => {
                return Ok(Written::Opened { object, found: Findings::settled(count) });
            }
            Existing::File { hash, .. } => {
                let have = if overwrite || is_dry { Have::default() } else { Have::all(count) };
                let existing = Some(*hash.as_bytes());
                let replaces = overwrite && is_dry;
                let found = Findings { have, existing, replaces, ..Findings::default() };
                match overwrite {
                    true => (Target::Later(about, Some(hash)), found),
                    false => (Target::Kept(about, hash), found),
                }
            }
            Existing::Nothing => (Target::Later(about, None), Findings::default()),
            Existing::Part | Existing::Other if !overwrite => {
                return Err(FileError::Exists { path });
            }
            Existing::Part | Existing::Other => {
                let found = Findings { replaces: is_dry, ..Findings::default() };
                (Target::Later(about, None), found)
            }
        };
        if !is_dry {
            self.targets.insert(object, target);
        }
        Ok(Written::Opened { object, found })
    }

    /// All chunks of an object have come. None if it has to wait until it is stored.
    pub(super) fn finish_stored(
        &mut self,
        (object, target): (u32, Target),
        size: u64,
        root: &blake3::Hash,
    ) -> Result<Option<Written>, FileError> {
        let done = |was_there| Ok(Some(Written::Object { object, was_there }));
        let ordered = match target {
            Target::Kept(_, hash) | Target::Later(_, Some(hash)) if hash == *root => {
                return done(true);
            }
            Target::Kept(about, _) => {
                let bucket = self.work.bucket.as_ref();
                let path = bucket.map(|bucket| place(&**bucket, &about.name.to_string()));
                return Err(FileError::Exists { path: path.unwrap_or_default() });
            }
            Target::Later(about, _) => self.work.upload(&about)?,
            Target::Upload(ordered) => ordered,
            Target::File(..)
            | Target::HardLink(..)
            | Target::Pipe(_)
            | Target::Out(_)
            | Target::Nowhere => {
                return done(false);
            }
        };
        let path = ordered.path().to_path_buf();
        let mut upload = ordered.finish(size, root).map_err(|error| match error {
            FileError::Damaged { path, .. } => FileError::Discarded { path },
            error => error,
        })?;
        upload.finish();
        self.storing.uploads.push((object, path, upload));
        Ok(None)
    }

    /// Waits until all is stored of which all has come.
    pub(super) fn settle_stored(&mut self) {
        for (object, path, mut upload) in std::mem::take(&mut self.storing.uploads) {
            let written = match upload.wait() {
                Ok(()) => Written::Object { object, was_there: false },
                Err(error) => failed(object, failure(error, "store", path)),
            };
            self.give(written);
        }
    }
}

impl Work {
    /// Begins to store an object.
    pub(super) fn upload(&self, about: &Object) -> Result<Ordered<Box<dyn Upload>>, FileError> {
        let Some(bucket) = &self.bucket else { unreachable!("files are not uploaded") };
        let key = key_of(&**bucket, &about.name)?;
        let path = place(&**bucket, key);
        let upload = bucket
            .create(key, (about.size, about.modified), &self.over)
            .map_err(|error| failure(error, "store", path.clone()))?;
        Ok(Ordered::new(upload, &path, self.chunk_bytes, self.window))
    }
}
