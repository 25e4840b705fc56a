//! Keys of scenarios.

use super::{code, compare, default_of, root, table};
use linecard_app::model::{MODELS, named};
use linecard_app::{Error, plan, run};
use linecard_config::{Config, Document, Parameter, parameters};
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;

const HEAD: [&str; 3] = ["key", "meaning and range", "default"];

#[test]
fn the_page_has_the_keys_of_the_code() {
    let mut text = "Scenarios are TOML. A key that is not known, or a value out of range, is refused in one line \
                    with the file, the line and what would do. Keys of models are written as sections, \
                    `core.mhz` as `mhz` in `[core]`; `--set core.mhz=300` and `--vary core.mhz=100..500:10` take \
                    them as they are here. Files of `linecard reproduce` are in `papers/`: their jobs have the keys \
                    of models.\n\n"
        .to_owned();
    text += "## linecard run\n\nExample: `scenarios/run-loss.toml`.\n\n";
    text += &sections::<run::Config>();
    text += "## linecard plan\n\nCosts that are not given come from `linecard calibrate`. [Plans](../design/plan.md) has \
                 the terms; `scenarios/plan-offload.toml`, `plan-transfer.toml` and `plan-lanes.toml` are \
                 examples.\n\n";
    text += &sections::<plan::Config>();
    text += "## linecard model\n\n`model = \"…\"` says which. [The hardware model](../design/model.md) has what \
             each is.\n\n";
    for model in MODELS {
        let rows = model.parameters().iter().map(|parameter| row(&parameter.name, parameter));
        let _ = write!(text, "### model = \"{}\"\n\n{}", model.name, table(&HEAD, rows));
        let example = if model.name == "transmit" { "lso" } else { model.name };
        let path = format!("scenarios/model-{example}.toml");
        assert!(root().join(&path).is_file(), "{path} shows this kind");
        let _ = write!(text, "Example: `{path}`.\n\n");
    }
    compare("scenarios.md", "Scenario files", &text);
}

/// A line of a scenario without which its configuration is the same repeats a default: a comment says why.
#[test]
fn scenarios_repeat_no_default_without_a_reason() {
    for file in fs::read_dir(root().join("scenarios")).expect("scenarios") {
        let path = file.expect("a file").path();
        let text = fs::read_to_string(&path).expect("a text");
        let lines: Vec<&str> = text.lines().collect();
        let all = config_of(&lines).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for at in (0..lines.len()).filter(|&at| lines[at].contains(" = ")) {
            let without = config_of(&[&lines[..at], &lines[at + 1..]].concat()).ok();
            let is_needed = lines[at].contains("# default: ") || without.as_ref() != Some(&all);
            assert!(is_needed, "{}:{}: {} is the default", path.display(), at + 1, lines[at]);
        }
    }
}

/// The configuration of a scenario of any command, with defaults.
fn config_of(lines: &[&str]) -> Result<Value, Error> {
    let mut document = Document::of_text("", lines.join("\n"))?;
    if document.find("reproduction").is_some() {
        return Ok(document.read_as()?);
    }
    let config = match document.take_text("model")? {
        Some(name) => return named(&name).expect("a model").config(&document),
        None if document.find("demand").is_some() => {
            serde_json::to_value(document.config::<plan::Config>()?)
        }
        None => serde_json::to_value(document.config::<run::Config>()?),
    };
    Ok(config.expect("values"))
}

/// A table for each section of a configuration.
fn sections<C: Config>() -> String {
    let section = |parameter: &Parameter| match parameter.name.rsplit_once('.') {
        Some((section, _)) => section.to_owned(),
        None => String::new(),
    };
    let all = parameters::<C>().chunk_by(|one, next| section(one) == section(next));
    let tables = all.map(|known| {
        let title = match section(&known[0]) {
            section if section.is_empty() => "Before all sections".to_owned(),
            section => match section.strip_suffix("[]") {
                Some(list) => format!("`[[{list}]]`"),
                None => format!("`[{section}]`"),
            },
        };
        let rows = known
            .iter()
            .map(|parameter| row(parameter.name.rsplit('.').next().unwrap_or_default(), parameter));
        format!("{title}\n\n{}", table(&HEAD, rows))
    });
    tables.collect()
}

/// A key, its meaning and its default.
fn row(name: &str, parameter: &Parameter) -> Vec<String> {
    let what = parameter.to_string();
    let (what, default) = default_of(&what);
    vec![code(name), what.to_owned(), shown(&default)]
}

/// A default: a value, words or none.
fn shown(default: &str) -> String {
    let is_value = !default.contains(' ') || default.starts_with(['"', '[']);
    match default {
        "" => "–".to_owned(),
        _ if is_value => code(default),
        _ => default.to_owned(),
    }
}
