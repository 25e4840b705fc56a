//! CPUs of an interrupt: the set on which it may fire, and the one that the kernel has chosen from
//! it.
//!
//! The kernel moves an interrupt only if its CPU is not in the new set. Writing the old set back
//! therefore leaves the interrupt where the set in between had moved it. `effective_affinity_list`
//! says where it fires and cannot be written: so the interrupt is first given that CPU alone, then
//! the set that contains it.

use super::{State, read_file, write_file};
use std::io;
use std::path::Path;
use std::thread;
use std::time::Duration;

/// In the same folder as `smp_affinity_list`.
const EFFECTIVE: &str = "effective_affinity_list";
/// Separates the two in a state: `0-1 on 0`.
const ON: &str = " on ";
/// Some interrupt controllers move an interrupt only when it fires next, and the effective CPU
/// changes only then. Maximum number of checks …
const LOOKS: u32 = 5_000;
/// … and the time between them.
const LOOK: Duration = Duration::from_millis(1);

/// The set in a state.
pub(super) fn set(text: &str) -> &str {
    text.split_once(ON).map_or(text, |(set, _)| set)
}

/// The CPUs on which the interrupt fired, if the kernel reported them.
fn effective(text: &str) -> Option<&str> {
    text.split_once(ON).map(|(_, effective)| effective.trim())
}

/// Reads the set and the effective CPUs; without the latter, the file as it is.
pub(super) fn read(path: &Path) -> io::Result<State> {
    let set = read_file(path)?;
    match read_file(&path.with_file_name(EFFECTIVE)) {
        Ok(on) if !on.text().trim().is_empty() => {
            Ok(State::new(format!("{}{ON}{}\n", set.text().trim(), on.text().trim())))
        }
        _ => Ok(set),
    }
}

/// Sets an interrupt's CPU set, and the CPU it fires on as the state says.
pub(super) fn write(path: &Path, state: &State) -> io::Result<()> {
    let on = path.with_file_name(EFFECTIVE);
    put(
        (&state.text(), LOOKS),
        |text| write_file(path, text.as_bytes()),
        || read_file(&on).ok().map(|on| on.text().trim().to_owned()),
    )
}

fn put(
    (text, looks): (&str, u32),
    mut write: impl FnMut(&str) -> io::Result<()>,
    mut now: impl FnMut() -> Option<String>,
) -> io::Result<()> {
    if let Some(wanted) = effective(text)
        && now().is_some_and(|now| now != wanted)
        // A CPU that is offline by now takes no interrupt; the set may contain others.
        && write(&format!("{wanted}\n")).is_ok()
    {
        for _ in 0..looks {
            if now().as_deref() == Some(wanted) {
                break;
            }
            thread::sleep(LOOK);
        }
    }
    write(&format!("{}\n", set(text).trim()))
}

#[cfg(test)]
mod tests {
    use super::super::{Form, Setting, cpus};
    use super::*;
    use std::cell::RefCell;
    use std::fs;

    /// An interrupt as the kernel treats it: it moves only if it has to, to the first CPU.
    struct Interrupt {
        set: String,
        on: usize,
        /// It has not fired since, so it has not moved.
        is_idle: bool,
    }

    impl Interrupt {
        fn write(&mut self, text: &str) {
            text.trim().clone_into(&mut self.set);
            let set = cpus(text).unwrap();
            if !set.contains(&self.on) && !self.is_idle {
                self.on = set[0];
            }
        }
    }

    fn restored(is_idle: bool) -> (String, usize) {
        let interrupt = RefCell::new(Interrupt { set: "0".into(), on: 0, is_idle });
        let write = |text: &str| {
            interrupt.borrow_mut().write(text);
            Ok(())
        };
        put(("0-3 on 2\n", 3), write, || Some(interrupt.borrow().on.to_string())).unwrap();
        let Interrupt { set, on, .. } = interrupt.into_inner();
        (set, on)
    }

    #[test]
    fn an_interrupt_goes_back_to_its_cpu() {
        // The set alone would leave it on CPU 0, which is one of 0 to 3.
        assert_eq!(restored(false), ("0-3".to_owned(), 2));
        // One that does not fire cannot be moved, and has its set all the same.
        assert_eq!(restored(true), ("0-3".to_owned(), 0));
    }

    #[test]
    fn an_interrupt_that_is_where_it_was_is_written_once() {
        let mut written = Vec::new();
        let write = |text: &str| {
            written.push(text.to_owned());
            Ok(())
        };
        put(("0-3 on 2\n", 3), write, || Some("2".to_owned())).unwrap();
        assert_eq!(written, ["0-3\n"]);
        put(("0-3\n", 3), |_| Ok(()), || None).unwrap();
        let refused = || io::Error::from(io::ErrorKind::PermissionDenied);
        assert!(put(("0-3 on 2\n", 3), |_| Err(refused()), || Some("1".to_owned())).is_err());
    }

    #[test]
    fn files_say_where_it_fires() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("smp_affinity_list");
        fs::write(&path, "0-3\n").unwrap();
        let setting = Setting::file(&path, Form::Affinity);
        assert_eq!(setting.read().unwrap().bytes(), b"0-3\n");
        fs::write(folder.path().join(EFFECTIVE), "2\n").unwrap();
        let old = setting.read().unwrap();
        assert_eq!(old.to_string(), "0-3 on 2");
        let new = setting.with(&old, "0-1").unwrap();
        setting.put(&new).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"0-1\n");
        assert!(setting.reads("0,1").unwrap() && !setting.reads("0-2").unwrap());
        setting.put(&old).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"0-3\n");
    }
}
