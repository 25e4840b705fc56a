//! Any text as a scenario, with any values set beside it: an error that names its place, or a configuration that is the
//! same when its values are written and read again.

use linecard_config::{Bytes, Config, Count, Document, Duration, Frequency, Rate, UnitError};
use linecard_model::{adapter, npu, path, pci, pcie};
use serde_json::Value;
use std::fmt::{Debug, Display};
use std::str::FromStr;

const FILE: &str = "scenario.toml";

/// Input: how many of the first lines are values to be set as KEY=VALUE, and the text, whose other lines are the file.
/// Its first bytes are also a number, which is written in all units.
pub fn scenario(data: &[u8]) {
    let Some((&sets, text)) = data.split_first() else { return };
    units(data.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte)));
    let Ok(text) = std::str::from_utf8(text) else { return };
    let mut rest = text;
    let mut values = Vec::new();
    for _ in 0..sets % 4 {
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        values.push(line);
        rest = behind;
    }
    if let Err(error) = read(rest, &values) {
        let text = error.to_string();
        let is_placed = text.starts_with(FILE) || text.starts_with("--set ");
        assert!(is_placed, "no place: {text}");
    }
}

/// Values with units are exact when they are written and read again.
fn units(number: u64) {
    fn same<T: Copy + Debug + PartialEq + Display + FromStr<Err = UnitError>>(value: T) {
        assert_eq!(value.to_string().parse(), Ok(value));
    }
    same(Bytes::new(number));
    same(Count::new(number));
    same(Duration::from_ps(number));
    same(Frequency::from_hz(number));
    same(Rate::new(number));
}

fn read(text: &str, sets: &[&str]) -> Result<(), linecard_config::ConfigError> {
    let mut document = Document::of_text(FILE, text)?;
    let model = document.take_text("model")?;
    for set in sets {
        document.set(set)?;
    }
    match model.as_deref() {
        Some("pci") => same::<pci::Config>(&document),
        Some("pcie") => same::<pcie::Config>(&document),
        Some("adapter") => same::<adapter::Config>(&document),
        Some("path") => same::<path::Config>(&document),
        _ => same::<npu::Config>(&document),
    }
}

fn same<C: Config + Debug + PartialEq>(
    document: &Document,
) -> Result<(), linecard_config::ConfigError> {
    let _warnings = document.former_names::<C>();
    let config = document.config::<C>()?;
    let mut written = Document::of_text(FILE, "").expect("an empty file");
    let values = serde_json::to_value(&config).expect("a configuration is plain data");
    write(&mut written, "", &values);
    let again = written.config::<C>();
    assert_eq!(again.map_err(|error| error.to_string()), Ok(config));
    Ok(())
}

/// Sets each value by its key.
fn write(document: &mut Document, key: &str, value: &Value) {
    match value {
        Value::Object(fields) => {
            let dot = if key.is_empty() { "" } else { "." };
            fields
                .iter()
                .for_each(|(name, value)| write(document, &format!("{key}{dot}{name}"), value));
        }
        value => document.set_value("config", key, value).expect("a key"),
    }
}
