//! Lines on stderr: for people, or for the journal of systemd, with a priority before each.

use clap::ValueEnum;
use linecard_app::Level;
use std::env;
use std::fs;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// The form of lines on stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For the journal if stderr is connected to it, otherwise text.
    Auto,
    /// The line behind the name of the command.
    Text,
    /// The line behind its priority in angle brackets, as `sd-daemon(3)` and `syslog(3)` define it.
    Journal,
}

/// Whether lines are for the journal.
static IS_JOURNAL: OnceLock<bool> = OnceLock::new();

impl LogFormat {
    /// Sets the form of all lines that follow; only the first call has an effect.
    pub(crate) fn set(self) {
        let is_journal = self == Self::Journal || self == Self::Auto && is_connected();
        let _first = IS_JOURNAL.set(is_journal);
    }
}

/// Writes a line on stderr. If writing fails, only the exit code reports it.
pub(crate) fn write(level: Level, text: &str) {
    let is_journal = *IS_JOURNAL.get_or_init(is_connected);
    let _ = std::io::stderr().write_all(line(is_journal, level, text).as_bytes());
}

/// Control characters in files or names must not reach the terminal; each line of the journal has its priority.
fn line(is_journal: bool, level: Level, text: &str) -> String {
    let priority = format!("<{}>", level.priority());
    let mut line = if is_journal { priority.clone() } else { "linecard: ".to_owned() };
    for c in text.chars() {
        match c {
            '\n' if is_journal => line.extend(['\n'].into_iter().chain(priority.chars())),
            '\n' | '\t' => line.push(c),
            c if c.is_control() => line.extend(c.escape_default()),
            c => line.push(c),
        }
    }
    line.push('\n');
    line
}

/// Whether stderr is the stream whose device and inode systemd names in `JOURNAL_STREAM` (`systemd.exec(5)`).
fn is_connected() -> bool {
    let Ok(stream) = env::var("JOURNAL_STREAM") else { return false };
    let stderr = fs::metadata("/proc/self/fd/2");
    stderr.is_ok_and(|stderr| stream == format!("{}:{}", stderr.dev(), stderr.ino()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_of_the_journal_has_a_priority() {
        assert_eq!(line(true, Level::Warning, "a\nb\u{1b}"), "<4>a\n<4>b\\u{1b}\n");
        assert_eq!(line(false, Level::Warning, "a\nb\u{1b}"), "linecard: a\nb\\u{1b}\n");
    }
}
