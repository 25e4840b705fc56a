//! Keys of scenarios whose raw values are structs: read off their source, where each has its meaning.

use super::default_of;
use linecard_config::{Config, parameters};

/// A key.
pub(super) struct Field {
    pub(super) name: String,
    pub(super) what: String,
    pub(super) default: String,
}

/// A section, as the file writes it, and its keys.
pub(super) struct Section {
    pub(super) name: String,
    pub(super) keys: Vec<Field>,
}

/// All sections: structs whose documentation is the section's name.
pub(super) fn sections(source: &str) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    let mut told = String::new();
    let mut is_section = false;
    for line in source.lines().map(str::trim) {
        if let Some(words) = line.strip_prefix("/// ") {
            told = format!("{told} {words}").trim().to_owned();
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        if line.contains("struct ") {
            let name = told.trim_matches('`').to_owned();
            is_section = name.starts_with('[');
            if is_section {
                sections.push(Section { name, keys: Vec::new() });
            }
        } else if let Some((name, _)) = field(line).filter(|_| is_section) {
            let (what, default) = default_of(&told);
            assert!(!what.is_empty(), "{name}: say in its documentation what it means");
            let key = Field { name: name.to_owned(), what: what.to_owned(), default };
            sections.last_mut().expect("it has begun").keys.push(key);
        }
        told.clear();
    }
    sections
}

/// The sections of a configuration.
pub(super) fn sections_of<C: Config>() -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for parameter in parameters::<C>() {
        let (section, name) = parameter.name.rsplit_once('.').unwrap_or(("", &parameter.name));
        let section = format!("[{section}]");
        let told = parameter.to_string();
        let (what, default) = default_of(&told);
        let key = Field { name: name.to_owned(), what: what.to_owned(), default };
        match sections.last_mut().filter(|last| last.name == section) {
            Some(last) => last.keys.push(key),
            None => sections.push(Section { name: section, keys: vec![key] }),
        }
    }
    sections
}

/// Name and type.
fn field(line: &str) -> Option<(&str, &str)> {
    let rest = line.strip_prefix("pub(")?;
    rest.split_once(") ")?.1.strip_suffix(',')?.split_once(": ")
}

#[test]
fn keys_have_what_is_said_above_them() {
    let source = "/// All.\nstruct Scenario {\n pub(super) load: Load,\n}\n/// `[load]`\n#[derive(Debug)]\n\
                  struct Load {\n /// Senders,\n /// 1 to 2 [1]\n pub(crate) flows: Option<i64>,\n}\n";
    let found = sections(source);
    assert_eq!((found.len(), found[0].name.as_str(), found[0].keys.len()), (1, "[load]", 1));
    let key = &found[0].keys[0];
    assert_eq!([&*key.name, &*key.what, &*key.default], ["flows", "Senders, 1 to 2", "1"]);
}

#[test]
#[should_panic(expected = "say in its documentation")]
fn a_key_without_a_meaning_is_refused() {
    sections("/// `[load]`\nstruct Load {\n pub(crate) flows: Option<i64>,\n}\n");
}
