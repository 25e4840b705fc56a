//! Keys of scenarios.

use super::{code, compare, default_of, root, table};
use linecard_app::model::MODELS;
use linecard_app::{plan, run};
use linecard_config::{Config, Parameter, parameters};
use std::fmt::Write as _;

const HEAD: [&str; 3] = ["key", "meaning and range", "default"];

#[test]
fn scenarios_have_the_keys_of_the_code() {
    let mut text = "Scenarios are TOML. A key that is not known, or a value out of range, is refused in one line \
                    with the file, the line and what would do. Keys of models are written as sections, \
                    `core.mhz` as `mhz` in `[core]`; `--set core.mhz=300` and `--vary core.mhz=100..500:10` take \
                    them as they are here. Files of `linecard reproduce` are in `papers/`: their jobs have the keys \
                    of models.\n\n"
        .to_owned();
    text += "## linecard run\n\n`scenarios/run.toml` has all of them.\n\n";
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
