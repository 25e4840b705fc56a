//! The user account that a process of root switches to.

use rustix::process::{getgid, getuid};

/// A user id and a group id, neither of which is root's.
///
/// ```
/// use linecard_io::rights::Account;
/// assert_eq!(Account::new(1_000, 0), None);
/// assert_eq!(Account::default().uid(), 65_534);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Account {
    uid: u32,
    gid: u32,
}

impl Account {
    /// The user and group `nobody`.
    pub const NOBODY: Self = Self { uid: 65_534, gid: 65_534 };

    /// This user with this group only; none if one of them is 0, or 4,294,967,295, which system
    /// calls interpret as "unchanged".
    #[must_use]
    pub fn new(uid: u32, gid: u32) -> Option<Self> {
        let one = |id| id != 0 && id != u32::MAX;
        (one(uid) && one(gid)).then_some(Self { uid, gid })
    }

    /// The user who has started this process: its real user if that is not root, else the user of
    /// `sudo`, else [nobody](Self::NOBODY).
    #[must_use]
    pub fn invoking() -> Self {
        let (uid, gid) = (getuid(), getgid());
        if !uid.is_root() {
            // The environment is then controlled by that user.
            return Self::new(uid.as_raw(), gid.as_raw()).unwrap_or_default();
        }
        let variable = |name| std::env::var(name).ok();
        Self::of_sudo(variable("SUDO_UID").as_deref(), variable("SUDO_GID").as_deref())
    }

    /// The account that `sudo` reports, if it is valid and not root's.
    fn of_sudo(uid: Option<&str>, gid: Option<&str>) -> Self {
        let number = |text: Option<&str>| text.and_then(|text| text.parse().ok());
        let both = number(uid).zip(number(gid));
        both.and_then(|(uid, gid)| Self::new(uid, gid)).unwrap_or_default()
    }

    /// The user's number; never 0.
    #[must_use]
    pub fn uid(self) -> u32 {
        self.uid
    }

    /// The group's number; never 0.
    #[must_use]
    pub fn gid(self) -> u32 {
        self.gid
    }
}

impl Default for Account {
    /// [Nobody](Self::NOBODY).
    fn default() -> Self {
        Self::NOBODY
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_account_of_somebody_else_is_believed() {
        let good = Account::of_sudo(Some("1000"), Some("100"));
        assert_eq!((good.uid(), good.gid()), (1_000, 100));
        let bad = ["", "0", "-1", "4294967295", "4294967296", "1000 ", "0x10", "root"];
        for text in bad.map(Some).into_iter().chain([None]) {
            assert_eq!(Account::of_sudo(text, Some("100")), Account::NOBODY, "{text:?}");
            assert_eq!(Account::of_sudo(Some("1000"), text), Account::NOBODY, "{text:?}");
        }
    }
}
