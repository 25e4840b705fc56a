//! The functions of the Python package: signatures and docstrings of `python/linecard/jobs.py`.

use super::{compare_file, default_of};
use linecard_app::{FUNCTIONS, Function, Takes};
use linecard_config::Parameter;
use std::fmt::Write;

/// The longest line.
const WIDTH: usize = 116;

const HEAD: &str = r#""""The command's jobs as functions: the same parameters, the same answers, nothing printed.

Rates and sizes are numbers (bits per second, bytes) or texts with a unit, as ``"100G"`` and ``"64K"``; clocks are in
MHz; times are texts, as ``"50us"``. Ctrl-C ends any of them. Those that may take long have ``progress``: see
:data:`Progress`.

This file is made from the code by a test: ``LINECARD_WRITE=1 cargo test -p linecard-cli --lib reference`` writes it.
"""

from __future__ import annotations

from typing import Literal

from ._linecard import Report
from .progress import Progress
from .values import Amount, File, Values, call, file_of

"#;

#[test]
fn functions_of_python_have_the_parameters_of_the_code() {
    let mut names: Vec<_> = FUNCTIONS.iter().map(|function| function.name).collect();
    names.sort_unstable();
    let mut text = HEAD.to_owned() + "__all__ = [\n";
    names.iter().for_each(|name| text += &format!("    \"{name}\",\n"));
    text += "]\n";
    FUNCTIONS.iter().for_each(|one| text += &function(one));
    compare_file("python/linecard/jobs.py", &text);
}

fn function(function: &Function) -> String {
    let arguments: Vec<_> = function.arguments().collect();
    let (positional, named) = arguments.split_at(function.positional.len());
    let mut text = format!("\n\ndef {}(\n", function.name);
    match function.scenario {
        Takes::May if positional.is_empty() => text += "    scenario: File | None = None,\n",
        Takes::WithValues => text += "    scenario: File,\n",
        Takes::No | Takes::May => {}
    }
    // A value that is not given leaves that of the scenario.
    let is_optional = function.scenario != Takes::No && positional.is_empty();
    let parameter = |(name, parameter): &(String, &'static Parameter)| {
        let excludes = |one: &Parameter, other: &Parameter| {
            other.flag.as_ref().is_some_and(|flag| one.conflicts.contains(flag))
        };
        let is_exclusive = arguments
            .iter()
            .any(|(_, other)| excludes(parameter, other) || excludes(other, parameter));
        let (kind, default) = (kind(function, parameter), default(parameter));
        match default.as_deref() {
            None if !is_optional => format!("    {name}: {kind},\n"),
            Some(default) if default != "None" && !is_optional && !is_exclusive => {
                format!("    {name}: {kind} = {default},\n")
            }
            _ => format!("    {name}: {kind} | None = None,\n"),
        }
    };
    text.extend(positional.iter().map(parameter));
    text += "    *,\n";
    match function.scenario {
        Takes::WithValues => text += "    set: Values | None = None,\n",
        Takes::May if !positional.is_empty() => text += "    scenario: File | None = None,\n",
        Takes::No | Takes::May => {}
    }
    text.extend(named.iter().map(parameter));
    if function.has_progress {
        text += "    progress: Progress = None,\n";
    }
    text += ") -> Report:\n";
    text += &docstring(function, &arguments);
    let _ = write!(text, "    return call(\n        \"{}\",\n        {{\n", function.name);
    for (name, parameter) in &arguments {
        let value =
            if is_file(function, parameter) { format!("file_of({name})") } else { name.clone() };
        let _ = writeln!(text, "            \"{name}\": {value},");
    }
    text += "        },\n";
    if function.scenario != Takes::No {
        text += "        scenario=scenario,\n";
    }
    if function.scenario == Takes::WithValues {
        text += "        set=set,\n";
    }
    text += if function.has_progress { "        progress=progress,\n" } else { "" };
    text + "    )\n"
}

fn docstring(function: &Function, arguments: &[(String, &'static Parameter)]) -> String {
    let mut paragraphs = function.doc.split("\n\n");
    let mut text = format!("    \"\"\"{}", wrapped(paragraphs.next().unwrap_or_default(), 4, 3));
    let examples: Vec<_> = paragraphs
        .filter(|paragraph| {
            let is_example = paragraph.starts_with(">>>");
            if !is_example {
                text += &format!("\n\n    {}", wrapped(paragraph, 4, 0));
            }
            is_example
        })
        .collect();
    text += "\n\n    Args:";
    for (name, parameter) in arguments {
        let line = parameter.to_string();
        // Python has no names for the standard streams.
        let line = line.replace("; - is stdin", "").replace("; - is stdout", "");
        let line = line.trim_end_matches(" [false]").to_owned();
        // Signatures have the defaults of functions without a scenario.
        let what = if function.scenario == Takes::No { default_of(&line).0 } else { &line };
        let line = format!("{name}: {what}");
        text += &format!("\n        {}", wrapped(&line, 12, 0));
    }
    for example in examples {
        text += &format!("\n\n    {}", example.replace('\n', "\n    "));
    }
    text + "\n    \"\"\"\n"
}

/// A paragraph in lines; all but the first are indented. `used` columns of the first are taken.
fn wrapped(text: &str, indent: usize, used: usize) -> String {
    let mut lines = String::new();
    let mut column = indent + used;
    for word in text.split_whitespace() {
        if column + word.chars().count() >= WIDTH {
            lines = lines.trim_end().to_owned() + "\n" + &" ".repeat(indent);
            column = indent;
        }
        column += word.chars().count() + 1;
        lines += word;
        lines.push(' ');
    }
    lines.trim_end().to_owned()
}

/// Whether a value is the name of a file: texts that need no name are, unless their value has one.
fn is_file(function: &Function, parameter: &Parameter) -> bool {
    let is_positional = function.positional.iter().any(|(_, name)| *name == parameter.name);
    match parameter.value_name.as_deref() {
        Some(name) => name == "FILE",
        None => is_positional && parameter.is_text,
    }
}

/// The type of values.
fn kind(function: &Function, parameter: &Parameter) -> String {
    let bounds = [&parameter.low, &parameter.high].into_iter().flatten();
    let numbers: Vec<_> =
        bounds.chain([&parameter.default]).filter(|one| one.is_number()).collect();
    match parameter.format.as_str() {
        _ if is_file(function, parameter) => "File".to_owned(),
        _ if parameter.is_switch() => "bool".to_owned(),
        _ if !parameter.choices.is_empty() => {
            let words = parameter.choices.iter().map(|(word, _)| format!("\"{word}\""));
            format!("Literal[{}]", words.collect::<Vec<_>>().join(", "))
        }
        "duration" => "str".to_owned(),
        "" if numbers.iter().any(|one| one.is_f64()) => "float".to_owned(),
        "" if !numbers.is_empty() => "int".to_owned(),
        // A number or an address.
        "" if parameter.value_name.as_deref().is_some_and(|name| name.starts_with("N|")) => {
            "int | str".to_owned()
        }
        "" => "str".to_owned(),
        _ => "Amount".to_owned(),
    }
}

/// The default, if it need not be given.
fn default(parameter: &Parameter) -> Option<String> {
    if parameter.is_required() || parameter.needs_option {
        return None;
    }
    let text = parameter.text_of(&parameter.default);
    Some(match text.as_str() {
        _ if parameter.default.is_null() || parameter.word.as_ref() == Some(&text) => {
            "None".to_owned()
        }
        _ if parameter.is_switch() => "False".to_owned(),
        number if number.parse::<f64>().is_ok() => number.to_owned(),
        text => format!("\"{text}\""),
    })
}
