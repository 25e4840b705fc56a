//! Keys of scenarios.

use super::fields::{Section, sections, sections_of};
use super::{code, compare, default_of, root, table};
use linecard_app::model::MODELS;
use linecard_app::run;
use std::fmt::Write as _;

const PLAN: &str = include_str!("../../../linecard-app/src/plan/scenario.rs");
const HEAD: [&str; 3] = ["key", "meaning and range", "default"];

#[test]
fn scenarios_have_the_keys_of_the_code() {
    let mut text = "Scenarios are TOML. A key that is not known, or a value out of range, is refused in one line \
                    with the file, the line and what would do. Keys of models are written as sections, \
                    `core.mhz` as `mhz` in `[core]`; `--set core.mhz=300` and `--vary core.mhz=100..500:10` take \
                    them as they are here. Files of `linecard reproduce` are in `papers/`: their jobs have the keys \
                    of models.\n\n"
        .to_owned();
    let mut write = |title: &str, intro: &str, sections: &[Section]| {
        // Writing to a text cannot fail.
        let _ = write!(text, "## {title}\n\n{intro}\n\n");
        for section in sections {
            let rows = section
                .keys
                .iter()
                .map(|key| vec![code(&key.name), key.what.clone(), shown(&key.default)]);
            let _ = write!(text, "`{}`\n\n{}", section.name, table(&HEAD, rows));
        }
    };
    write("linecard run", "`scenarios/run.toml` has all of them.", &sections_of::<run::Config>());
    let intro = "Costs that are not given come from `linecard calibrate`. [Plans](../design/plan.md) has \
                 the terms; `scenarios/plan-offload.toml`, `plan-transfer.toml` and `plan-lanes.toml` are \
                 examples.";
    write("linecard plan", intro, &sections(PLAN));
    text += "## linecard model\n\n`model = \"…\"` says which. [The hardware model](../design/model.md) has what \
             each is.\n\n";
    for model in MODELS {
        let rows = model.parameters().iter().map(|parameter| {
            let what = parameter.to_string();
            let (what, default) = default_of(&what);
            vec![code(&parameter.name), what.to_owned(), shown(&default)]
        });
        let _ = write!(text, "### model = \"{}\"\n\n{}", model.name, table(&HEAD, rows));
        let example = if model.name == "transmit" { "lso" } else { model.name };
        let path = format!("scenarios/model-{example}.toml");
        assert!(root().join(&path).is_file(), "{path} shows this kind");
        let _ = write!(text, "Example: `{path}`.\n\n");
    }
    compare("scenarios.md", "Scenario files", &text);
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
