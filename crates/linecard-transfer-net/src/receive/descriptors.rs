//! How many files a transfer may have open: a share of the descriptors that this process may have.

use super::pending::MAX_HANDSHAKES;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a transfer has open at once, where the process may have enough descriptors.
const MAX_FILES: u64 = 128;
/// Where it may not: half of them for files that are opened before anything of them comes, and two for the others, of
/// which one may have parts beyond the window.
const MIN_FILES: u64 = 4;
/// Of a file: its own, its journal's and its folder's.
const OF_FILE: u64 = 3;
/// Of a transfer beside its files: lanes, the control connection, what wakes its threads.
const OF_TRANSFER: u64 = 100;
/// Of the process beside its transfers: handshakes, logs, lists.
const OF_PROCESS: u64 = 2 * MAX_HANDSHAKES as u64 + 72;

/// Lets this process open as many files as transfers from `at_once` senders take at most, as far as its hard limit goes.
/// With fewer, each transfer has fewer files open at once, and waits sooner for those to be finished. Returns the number
/// that may be open, and the number that all of them may need, if that is more even so: transfers fail then.
pub fn reserve_descriptors(at_once: usize) -> Option<(u64, u64)> {
    let of = |files| OF_PROCESS + at_once as u64 * (OF_TRANSFER + OF_FILE * files);
    let (wanted, least) = (of(MAX_FILES), of(MIN_FILES));
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        let current = Some(maximum.map_or(wanted, |maximum| wanted.min(maximum)));
        let _refused = setrlimit(Resource::Nofile, Rlimit { current, maximum });
    }
    let allowed = getrlimit(Resource::Nofile).current?;
    (allowed < least).then_some((allowed, least))
}

/// Files that each of `at_once` transfers may have open.
pub(super) fn files_of_transfer(at_once: usize) -> usize {
    files_of_limit(getrlimit(Resource::Nofile).current, at_once)
}

fn files_of_limit(descriptors: Option<u64>, at_once: usize) -> usize {
    let Some(all) = descriptors else { return MAX_FILES as usize };
    let share = all.saturating_sub(OF_PROCESS) / at_once.max(1) as u64;
    let files = share.saturating_sub(OF_TRANSFER) / OF_FILE;
    files.clamp(MIN_FILES, MAX_FILES) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_transfers_together_fit() {
        assert_eq!(files_of_limit(None, 64), 128);
        assert_eq!(files_of_limit(Some(1 << 20), 64), 128);
        assert_eq!([1, 4, 64].map(|at_once| files_of_limit(Some(1_024), at_once)), [128, 35, 4]);
        assert_eq!(files_of_limit(Some(0), 0), 4);
        for at_once in 1..9 {
            let files = files_of_limit(Some(1_400), at_once) as u64;
            let all = at_once as u64 * (OF_TRANSFER + files * OF_FILE) + OF_PROCESS;
            assert!(all <= 1_400 || files == MIN_FILES, "{at_once}: {all}");
        }
    }
}
