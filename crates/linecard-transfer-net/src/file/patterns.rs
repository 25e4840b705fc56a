//! Which files of a folder are sent.

use super::FileError;
use ignore::overrides::{Override, OverrideBuilder};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Patterns as in `.gitignore`: files and folders that are left out, and the only files that are sent.
///
/// A pattern without a slash is that of a name anywhere; with one, that of a path below the folder that is sent.
/// `*` is any part of a name, `**` any number of folders, `{a,b}` one of both, and a slash at the end makes it that of
/// folders only. A folder that is included is so with all in it.
///
/// ```
/// use linecard_transfer_net::file::Patterns;
/// let patterns = Patterns::new(&["*.log".into()], &["/build".into()])?;
/// assert!(!patterns.leave_out(b"project/src/a.log", false));
/// assert!(patterns.leave_out(b"project/src/a.txt", false));
/// assert!(patterns.leave_out(b"project/build", true));
/// # Ok::<(), linecard_transfer_net::file::FileError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Patterns(Override);

impl Default for Patterns {
    /// Everything is sent.
    fn default() -> Self {
        Self(Override::empty())
    }
}

/// The pattern of all that is below a folder of this pattern.
fn below(pattern: &str) -> String {
    let folder = pattern.trim_end_matches('/');
    match folder.contains('/') {
        true => format!("{folder}/**"),
        false => format!("**/{folder}/**"),
    }
}

/// Why a pattern is refused, without the form that it was given here.
fn reason(error: ignore::Error) -> String {
    match error {
        ignore::Error::Glob { err, .. } => err,
        other => other.to_string(),
    }
}

impl Patterns {
    /// Of files, only those of `include` are sent, if there are any; what `exclude` has is not sent at all.
    ///
    /// # Errors
    ///
    /// [`FileError::Pattern`].
    pub fn new(include: &[String], exclude: &[String]) -> Result<Self, FileError> {
        // Names are relative already. The last pattern that matches decides.
        let mut builder = OverrideBuilder::new("");
        let included = include
            .iter()
            .flat_map(|pattern| [(pattern, pattern.clone()), (pattern, below(pattern))]);
        let excluded = exclude.iter().map(|pattern| (pattern, format!("!{pattern}")));
        for (pattern, line) in included.chain(excluded) {
            let refused = |why| FileError::Pattern { pattern: pattern.clone(), why };
            if pattern.is_empty() || pattern.starts_with('!') {
                return Err(refused("it is empty, or begins with `!`".into()));
            }
            builder.add(&line).map_err(|error| refused(reason(error)))?;
        }
        let refused = |error| FileError::Pattern { pattern: String::new(), why: reason(error) };
        builder.build().map(Self).map_err(refused)
    }

    /// Whether an object is left out. Its name begins with that of the folder that is sent, which is none of it.
    #[must_use]
    pub fn leave_out(&self, name: &[u8], is_folder: bool) -> bool {
        let below = name.iter().position(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let path = Path::new(OsStr::from_bytes(&name[below..]));
        self.0.matched(path, is_folder).is_ignore()
    }

    /// Whether only some files are wanted.
    pub(crate) fn only_included(&self) -> bool {
        self.0.num_whitelists() > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text had the pattern in the form that it was given here, as `!a[`.
    #[test]
    fn a_refused_pattern_is_the_one_that_was_given() {
        for pattern in ["[a", "", "!b"] {
            let lists = [(vec![pattern.to_owned()], vec![]), (vec![], vec![pattern.to_owned()])];
            for (include, exclude) in lists {
                let error = Patterns::new(&include, &exclude).unwrap_err();
                let FileError::Pattern { pattern: said, why } = &error else { panic!("{error}") };
                assert_eq!(said, pattern);
                assert!(!why.contains('[') && !why.contains("glob"), "{why}");
            }
        }
    }
}
