//! Choices of a sender about the contents of folders.

use super::Patterns;

/// The part of the folders that a user names that is sent, and how.
///
/// ```
/// use linecard_transfer_net::file::{Choice, Patterns};
/// let patterns = Patterns::new(&[], &["*.tmp".into()])?;
/// let choice = Choice { hard_links: true, ..patterns.into() };
/// assert!(!choice.by_contents && !choice.links_out);
/// # Ok::<(), linecard_transfer_net::file::FileError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Choice {
    /// Which files.
    pub patterns: Patterns,
    /// Files of the same length and time at the receiver are read and compared, too.
    pub by_contents: bool,
    /// Files that are hard links of one another are sent once, and linked there: the first by name is a file, the others
    /// are [`Kind::HardLink`](super::Kind::HardLink).
    pub hard_links: bool,
    /// Symbolic links that lead out of the folder are sent, too: the receiver must permit it.
    pub links_out: bool,
}

impl From<Patterns> for Choice {
    /// These files, the other choices as they are if none is made.
    fn from(patterns: Patterns) -> Self {
        Self { patterns, ..Self::default() }
    }
}
