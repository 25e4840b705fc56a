//! Any text as a file of keys: refused, or what is read and written again is the same, and no restriction is lost.

use linecard_transfer_net::keys::{
    Authorized, Entry, Fingerprint, KnownPeers, SharedKey, Standing,
};
use std::path::Path;

/// Input: the kind of file, its text.
pub fn keys(data: &[u8]) {
    let Some((&kind, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    match kind % 4 {
        0 => known_peers(text),
        1 => authorized(text),
        2 => assert_eq!(SharedKey::parse(text).is_some(), is_shared_key(text), "{text:?}"),
        _ => {
            // No two texts are the same key.
            if let Ok(key) = text.parse::<Fingerprint>() {
                assert_eq!(key.to_string(), text);
            }
        }
    }
}

/// The words of each line that is not empty and not a comment.
fn lines(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let words = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.filter(|words| words.first().is_some_and(|first| !first.starts_with('#')))
}

fn known_peers(text: &str) {
    let path = Path::new("known_peers");
    let pair = |words: Vec<&str>| match words[..] {
        [name, key] => Some((name.to_owned(), key.parse::<Fingerprint>().ok()?)),
        _ => None,
    };
    let expected: Option<Vec<(String, Fingerprint)>> = lines(text).map(pair).collect();
    let Some(expected) = expected else {
        return assert!(KnownPeers::of_text(path, text).is_err(), "{text:?}");
    };
    let known = KnownPeers::of_text(path, text).expect("each line is a name and a key");
    for (name, key) in &expected {
        assert!(known.knows(name) && known.standing(name, *key) == Standing::Known);
        assert!(known.names(*key).any(|other| other == name));
    }
    let written: String = expected.iter().map(|(name, key)| format!("\n{name} {key}\n")).collect();
    assert_eq!(KnownPeers::of_text(path, &written).expect("as it is written"), known);
}

fn authorized(text: &str) {
    let of_text = |text: &str| match Authorized::of_text(Path::new("authorized"), text) {
        Ok(Authorized::Only(list)) => Some(list),
        Ok(other) => panic!("{other:?}"),
        Err(_) => None,
    };
    let Some(list) = of_text(text) else { return };
    let lines: Vec<Vec<&str>> = lines(text).collect();
    assert_eq!(list.len(), lines.len());
    for (entry, words) in list.iter().zip(&lines) {
        assert_eq!(entry.key.to_string(), words[0]);
        let has = |option: &str| {
            let begins = |word: &&&str| word.to_ascii_lowercase().starts_with(option);
            words.iter().filter(begins).count()
        };
        assert_eq!(has("folder="), usize::from(entry.folder.is_some()), "{words:?}");
        assert_eq!(has("quota="), usize::from(entry.quota_bytes.is_some()), "{words:?}");
        assert_eq!(has("delete="), usize::from(entry.may_delete), "{words:?}");
        assert_eq!(has("links-out="), usize::from(entry.may_link_out), "{words:?}");
        if let Some(folder) = &entry.folder {
            assert!(folder.as_bytes().split(|byte| *byte == b'/').all(|part| part != b".."));
        }
    }
    let written: String = list.iter().map(line_of).collect();
    assert_eq!(of_text(&written), Some(list), "{written:?}");
}

fn line_of(entry: &Entry) -> String {
    let mut line = entry.key.to_string();
    if let Some(folder) = &entry.folder {
        line += &format!(" folder={}", String::from_utf8_lossy(folder.as_bytes()));
    }
    if let Some(bytes) = entry.quota_bytes {
        line += &format!(" quota={bytes}");
    }
    if entry.may_link_out {
        line += " links-out=yes";
    }
    line + if entry.may_delete { " delete=yes\n" } else { "\n" }
}

/// 64 hexadecimal digits, or 43 letters of base64 of which the last has no bits beyond the 256.
fn is_shared_key(text: &str) -> bool {
    let text = text.trim();
    let of_base64 = |c: char| c.is_ascii_alphanumeric() || c == '+' || c == '/';
    let letters = text.trim_end_matches('=');
    match letters.len() {
        64 => text == letters && text.chars().all(|c| c.is_ascii_hexdigit()),
        43 => {
            text.len() != 64 && letters.chars().all(of_base64) && letters.ends_with(is_last_letter)
        }
        _ => false,
    }
}

/// Letters of base64 whose lowest two bits are 0: every fourth.
fn is_last_letter(c: char) -> bool {
    "AEIMQUYcgkosw048".contains(c)
}
