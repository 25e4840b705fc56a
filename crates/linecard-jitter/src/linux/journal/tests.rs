use super::*;
use crate::linux::setting::Form;
use linecard::rng::Rng;
use std::fs;
use tempfile::TempDir;

/// A folder with settings and a place for journals.
struct Scratch {
    folder: TempDir,
}

impl Scratch {
    fn new() -> Self {
        // Memory, as /run and /sys are: syncing is for free.
        let memory = Path::new("/dev/shm");
        let folder =
            if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
        Self { folder: folder.unwrap() }
    }

    fn with(count: usize) -> Self {
        let place = Self::new();
        (0..count).for_each(|index| fs::write(place.path(index), format!("{index}0\n")).unwrap());
        place
    }

    fn path(&self, index: usize) -> PathBuf {
        self.folder.path().join(format!("setting {index}"))
    }

    fn setting(&self, index: usize) -> Setting {
        Setting::file(self.path(index), Form::Plain)
    }

    fn read(&self, index: usize) -> String {
        fs::read_to_string(self.path(index)).unwrap()
    }

    fn all(&self, count: usize) -> Vec<String> {
        (0..count).map(|index| self.read(index)).collect()
    }

    fn store(&self) -> Store {
        Store::at(self.journals())
    }

    fn journals(&self) -> PathBuf {
        self.folder.path().join("journals")
    }

    /// Has a journal be one of a process that is dead.
    fn kill(&self, journal: Journal) {
        fs::rename(&journal.path, self.journals().join(format!("{}-1-0.journal", u32::MAX)))
            .unwrap();
        std::mem::forget(journal);
    }
}

fn fates(restorations: &[Restoration]) -> Vec<String> {
    restorations.iter().map(ToString::to_string).collect()
}

#[test]
fn what_was_changed_is_put_back_last_first_and_the_folder_goes() {
    let place = Scratch::with(3);
    let mut journal = Journal::begin(&place.store()).unwrap();
    for index in [0, 1, 0] {
        let value = format!("{}7", journal.records);
        assert_eq!(journal.change(&place.setting(index), &value).unwrap(), Change::Made);
    }
    assert_eq!(journal.change(&place.setting(2), "20").unwrap(), Change::Needless);
    assert_eq!(place.all(3), ["37\n", "27\n", "20\n"]);
    let restorations = journal.roll_back().unwrap();
    assert_eq!(place.all(3), ["00\n", "10\n", "20\n"]);
    assert_eq!(restorations.len(), 2);
    assert!(
        restorations[0].what.ends_with("setting 1") && restorations[1].what.ends_with("setting 0")
    );
    assert!(fates(&restorations)[0].ends_with("restored to \"10\""));
    assert!(!place.journals().exists());
}

#[test]
fn dropping_a_journal_puts_back_also_in_a_panic() {
    let place = Scratch::with(1);
    let journal = Journal::begin(&place.store()).unwrap();
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let mut journal = journal;
        journal.change(&place.setting(0), "1").unwrap();
        assert_eq!(place.read(0), "1\n");
        std::panic::resume_unwind(Box::new(()));
    }));
    assert!(panicked.is_err());
    assert_eq!(place.read(0), "00\n");
    assert!(!place.journals().exists());
}

#[test]
fn a_change_of_somebody_else_is_left_alone_and_said() {
    let place = Scratch::with(2);
    let mut journal = Journal::begin(&place.store()).unwrap();
    journal.change(&place.setting(0), "1").unwrap();
    journal.change(&place.setting(1), "1").unwrap();
    fs::write(place.path(0), "2\n").unwrap();
    let error = journal.change(&place.setting(0), "3").unwrap_err().to_string();
    assert!(error.contains("reads \"2\": another process"), "{error}");
    let restorations = journal.roll_back().unwrap();
    assert!(restorations[0].fate.is_good() && !restorations[1].fate.is_good());
    assert!(fates(&restorations)[1].contains("not restored to \"00\": it reads \"2\""));
    assert_eq!(place.all(2), ["2\n", "10\n"]);
    assert!(!place.journals().exists(), "said once");
}

#[test]
fn an_arm_is_put_back_and_changed_again_without_a_longer_journal() {
    let place = Scratch::with(1);
    let mut journal = Journal::begin(&place.store()).unwrap();
    for _ in 0..10 {
        journal.change(&place.setting(0), "1").unwrap();
        journal.put_back(&place.setting(0)).unwrap();
        assert_eq!(place.read(0), "00\n");
    }
    assert_eq!((journal.records, journal.entries.len()), (2, 1));
    assert!(matches!(journal.roll_back().unwrap()[0].fate, RestoreResult::Unchanged));
}

#[test]
fn a_living_process_keeps_its_settings_and_nobody_else_takes_them() {
    let place = Scratch::with(1);
    let mut journal = Journal::begin(&place.store()).unwrap();
    journal.change(&place.setting(0), "1").unwrap();
    assert!(place.store().recover().unwrap().is_empty());
    let mut other = Journal::begin(&place.store()).unwrap();
    let error = other.change(&place.setting(0), "2").unwrap_err().to_string();
    assert!(error.contains(&format!("held by process {}", std::process::id())), "{error}");
    assert_eq!(place.read(0), "1\n");
    drop((journal, other));
    assert_eq!(place.read(0), "00\n");
}

#[test]
fn what_is_kept_stays_until_it_is_undone() {
    let place = Scratch::with(1);
    let mut journal = Journal::begin(&place.store()).unwrap();
    journal.change(&place.setting(0), "1").unwrap();
    journal.keep().unwrap();
    assert!(place.store().recover().unwrap().is_empty());
    assert_eq!(place.read(0), "1\n");
    // Another may try something else meanwhile, and finds the kept journal.
    let mut other = Journal::begin(&place.store()).unwrap();
    other.change(&place.setting(0), "2").unwrap();
    drop(other);
    assert_eq!(place.read(0), "1\n");
    assert_eq!(place.store().undo_kept().unwrap().len(), 1);
    assert_eq!(place.read(0), "00\n");
    assert!(place.store().undo_kept().unwrap().is_empty());
}

/// An undoing while another process holds the setting comes too early, and loses nothing.
#[test]
fn what_is_kept_can_be_undone_after_another_has_ended() {
    let place = Scratch::with(1);
    let mut journal = Journal::begin(&place.store()).unwrap();
    journal.change(&place.setting(0), "1").unwrap();
    journal.keep().unwrap();
    let mut other = Journal::begin(&place.store()).unwrap();
    other.change(&place.setting(0), "2").unwrap();
    let early = place.store().undo_kept().unwrap();
    assert!(matches!(early[0].fate, RestoreResult::Conflict { .. }), "{early:?}");
    drop(other);
    assert_eq!(place.read(0), "1\n");
    assert!(matches!(place.store().undo_kept().unwrap()[0].fate, RestoreResult::Restored));
    assert_eq!(place.read(0), "00\n");
}

#[test]
fn nothing_is_taken_from_an_earlier_boot() {
    let place = Scratch::with(1);
    let mut journal = Journal::begin(&place.store()).unwrap();
    journal.change(&place.setting(0), "1").unwrap();
    let text = fs::read_to_string(&journal.path).unwrap();
    let earlier = Record::Head { boot: "earlier".into(), owner: Owner::own() }.line();
    let rest = text.split_once('\n').unwrap().1;
    fs::write(&journal.path, earlier + rest).unwrap();
    journal.keep().unwrap();
    let restorations = place.store().recover().unwrap();
    assert!(matches!(restorations[0].fate, RestoreResult::Rebooted), "{restorations:?}");
    assert_eq!(place.read(0), "1\n");
    assert!(!place.journals().exists());
}

#[test]
fn unsafe_folders_are_refused() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let place = Scratch::new();
    fs::create_dir(place.journals()).unwrap();
    fs::set_permissions(place.journals(), fs::Permissions::from_mode(0o755)).unwrap();
    assert!(matches!(Journal::begin(&place.store()), Err(JournalError::Folder { .. })));
    assert!(matches!(place.store().recover(), Err(JournalError::Folder { .. })));
    fs::set_permissions(place.journals(), fs::Permissions::from_mode(0o700)).unwrap();
    let link = place.folder.path().join("link");
    symlink(place.journals(), &link).unwrap();
    let error = Journal::begin(&Store::at(link)).unwrap_err();
    assert!(matches!(error, JournalError::System { doing: "open", .. }), "{error}");
}

#[test]
fn what_cannot_be_put_back_stays_in_the_journal() {
    let place = Scratch::with(2);
    let mut journal = Journal::begin(&place.store()).unwrap();
    journal.change(&place.setting(0), "1").unwrap();
    journal.change(&place.setting(1), "1").unwrap();
    fs::remove_file(place.path(1)).unwrap();
    // A folder cannot be read as a file.
    fs::remove_file(place.path(0)).unwrap();
    fs::create_dir(place.path(0)).unwrap();
    place.kill(journal);
    let restorations = place.store().recover().unwrap();
    assert!(matches!(restorations[0].fate, RestoreResult::Gone), "{restorations:?}");
    assert!(matches!(restorations[1].fate, RestoreResult::Failed { .. }), "{restorations:?}");
    fs::remove_dir(place.path(0)).unwrap();
    fs::write(place.path(0), "1\n").unwrap();
    assert_eq!(place.store().recover().unwrap().len(), 2);
    assert_eq!(place.read(0), "00\n");
}

#[test]
fn damage_is_said_and_the_rest_is_put_back() {
    let place = Scratch::with(2);
    let mut journal = Journal::begin(&place.store()).unwrap();
    journal.change(&place.setting(0), "1").unwrap();
    journal.change(&place.setting(1), "1").unwrap();
    let text = fs::read_to_string(&journal.path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&journal.path, [lines[0], "damaged", lines[2], ""].join("\n")).unwrap();
    place.kill(journal);
    let restorations = place.store().recover().unwrap();
    assert!(matches!(restorations[1].fate, RestoreResult::Damaged { line: 2 }), "{restorations:?}");
    assert_eq!(place.all(2), ["1\n", "10\n"]);
}

#[test]
fn a_journal_is_full_at_its_bound() {
    let place = Scratch::with(1);
    let mut journal = Journal::begin(&place.store()).unwrap();
    journal.records = MAX_RECORDS;
    let error = journal.change(&place.setting(0), "1").unwrap_err();
    assert!(matches!(error, JournalError::Full));
    assert_eq!(place.read(0), "00\n");
}

/// Promise (Jitter): A journal that is cut at any byte leaves no setting changed.
///
/// Whatever was changed, and wherever the process was killed: all is as before.
#[test]
fn a_crash_at_any_byte_leaves_nothing_changed() {
    const SETTINGS: usize = 4;
    let seed = 20_260_721;
    let mut rng = Rng::new(seed);
    for round in 0..6 {
        let place = Scratch::with(SETTINGS);
        let originals = place.all(SETTINGS);
        let mut journal = Journal::begin(&place.store()).unwrap();
        // The journal's length, and what the settings read while it was that long.
        let mut moments = vec![(0, originals.clone()), (length(&journal), originals.clone())];
        for _ in 0..rng.below(8) {
            let before = place.all(SETTINGS);
            let setting = place.setting(rng.below(SETTINGS as u64) as usize);
            if rng.chance(0.3) {
                journal.put_back(&setting).unwrap();
            } else {
                journal.change(&setting, &rng.below(4).to_string()).unwrap();
            }
            // Killed between the record and the change, or after it.
            moments.push((length(&journal), before));
            moments.push((length(&journal), place.all(SETTINGS)));
        }
        let whole = fs::read(&journal.path).unwrap();
        place.kill(journal);
        for len in 0..=whole.len() {
            let reached = moments.iter().map(|moment| moment.0).filter(|at| *at <= len).max();
            for (_, texts) in moments.iter().filter(|moment| Some(moment.0) == reached) {
                crash(&place, &whole[..len], texts);
                let said = place.store().recover().unwrap();
                assert!(
                    said.iter().all(|one| one.fate.is_good()),
                    "seed {seed}, round {round}: {said:?}"
                );
                assert_eq!(
                    place.all(SETTINGS),
                    originals,
                    "seed {seed}, round {round}, {len} bytes"
                );
                assert!(!place.journals().exists());
            }
        }
    }
}

#[test]
fn a_crash_before_the_first_journal_leaves_no_folder() {
    let place = Scratch::with(1);
    drop(place.store().lock(true).unwrap());
    assert!(place.journals().exists());
    assert!(place.store().recover().unwrap().is_empty());
    assert!(!place.journals().exists());
}

fn length(journal: &Journal) -> usize {
    fs::read(&journal.path).unwrap().len()
}

/// The state after a killed process.
fn crash(place: &Scratch, journal: &[u8], texts: &[String]) {
    texts.iter().enumerate().for_each(|(index, text)| fs::write(place.path(index), text).unwrap());
    let store = place.store();
    let locked = store.lock(true).unwrap().unwrap();
    drop(locked);
    fs::write(place.journals().join(format!("{}-1-0.journal", u32::MAX)), journal).unwrap();
}
