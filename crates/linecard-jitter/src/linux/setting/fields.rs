//! Converts settings to words of a line, and back.

use super::{Form, Namespace, Setting, Target};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// The word for no namespace.
const NONE: &str = "-";

impl Setting {
    /// Words without spaces, which [`of_words`](Self::of_words) parses.
    pub(in crate::linux) fn words(&self) -> Vec<String> {
        let path = |path: &Path| escape(path.as_os_str().as_bytes());
        let mut words = match &self.place {
            Target::File { path: file, form } => {
                let form = Form::ALL.iter().find(|(other, _)| other == form);
                vec![
                    "file".to_owned(),
                    form.map_or("plain", |(_, name)| name).to_owned(),
                    path(file),
                ]
            }
            Target::Coalescing { interface } => {
                vec!["coalescing".to_owned(), escape(interface.as_bytes())]
            }
            Target::Feature { interface, feature } => {
                vec!["feature".to_owned(), escape(interface.as_bytes()), escape(feature.as_bytes())]
            }
            Target::Stamps { interface } => {
                vec!["stamps".to_owned(), escape(interface.as_bytes())]
            }
            Target::Thread { thread, started } => {
                vec!["thread".to_owned(), thread.to_string(), started.to_string()]
            }
        };
        match &self.namespace {
            Some(namespace) => {
                words.extend([path(namespace.path()), namespace.inode().to_string()]);
            }
            None => words.extend([NONE.to_owned(), NONE.to_owned()]),
        }
        words
    }

    /// Parses a setting.
    pub(in crate::linux) fn of_words(words: &[&str]) -> Option<Self> {
        let (place, namespace) = words.split_at_checked(words.len().checked_sub(2)?)?;
        let text = |word: &str| String::from_utf8(unescape(word)?).ok();
        let place = match place {
            ["file", form, file] => {
                let form = Form::ALL.iter().find(|(_, name)| name == form)?.0;
                Target::File { path: path(file)?, form }
            }
            ["coalescing", interface] => Target::Coalescing { interface: text(interface)? },
            ["feature", interface, feature] => {
                Target::Feature { interface: text(interface)?, feature: text(feature)? }
            }
            ["stamps", interface] => Target::Stamps { interface: text(interface)? },
            ["thread", thread, started] => {
                Target::Thread { thread: thread.parse().ok()?, started: started.parse().ok()? }
            }
            _ => return None,
        };
        let namespace = match namespace {
            [NONE, NONE] => None,
            [file, inode] => Some(Namespace::known(path(file)?, inode.parse().ok()?)),
            _ => return None,
        };
        Some(Self { place, namespace })
    }
}

fn path(word: &str) -> Option<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(unescape(word)?));
    path.is_absolute().then_some(path)
}

/// Bytes as one word: `%`, and bytes that are not printable ASCII, become `%` and two hexadecimal
/// digits; an empty value is `%`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "%".to_owned();
    }
    let mut word = String::new();
    for &byte in bytes {
        if byte.is_ascii_graphic() && byte != b'%' {
            word.push(char::from(byte));
        } else {
            word += &format!("%{byte:02x}");
        }
    }
    word
}

/// Parses the bytes of a word.
pub(crate) fn unescape(word: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut rest) = (Vec::new(), word.as_bytes());
    if word == "%" {
        return Some(bytes);
    }
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
        rest = after;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard::rng::Rng;

    #[test]
    fn words_are_the_setting() {
        let namespace = Namespace::known("/run/netns/a b%".into(), 7);
        let settings = [
            Setting::file("/sys/a b/\u{e4}", Form::Mask),
            Setting::coalescing("eth0"),
            Setting::stamps("eth0"),
            Setting::feature("eth0", "rx-gro").within(Some(namespace)),
            Setting::at(Target::Thread { thread: 3, started: 9 }),
        ];
        for setting in settings {
            let words = setting.words();
            assert!(words.iter().all(|word| !word.contains([' ', '\n'])), "{words:?}");
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(Setting::of_words(&words), Some(setting));
            assert_eq!(Setting::of_words(&words[1..]), None);
        }
        assert_eq!(Setting::of_words(&["file", "plain", "relative", "-", "-"]), None);
    }

    #[test]
    fn bytes_go_there_and_back() {
        let mut rng = Rng::new(1);
        for len in 0..300 {
            let mut bytes = vec![0; len];
            rng.fill(&mut bytes);
            assert_eq!(unescape(&escape(&bytes)), Some(bytes));
        }
        for bad in ["%4", "%zz", "a%"] {
            assert_eq!(unescape(bad), None, "{bad}");
        }
    }
}
