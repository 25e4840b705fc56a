//! Firmware by name, or from a file; and its sources, line by line.

use super::super::error::ModelError;
use super::Config;
use crate::Context;
use linecard_config::ConfigError;
use linecard_model::elf::{Firmware, SourceLine};
use std::collections::BTreeMap;
use std::path::Path;

/// Firmware included with the model.
struct BuiltIn {
    name: &'static str,
    elf: &'static [u8],
    /// As the lines name it.
    file: &'static str,
    source: &'static str,
}

const BUILT_IN: [BuiltIn; 3] = [
    BuiltIn {
        name: "approach-1",
        elf: include_bytes!("../../../../../firmware/images/approach1.elf"),
        file: "approach1.s",
        source: include_str!("../../../../../firmware/approach1.s"),
    },
    BuiltIn {
        name: "approach-2",
        elf: include_bytes!("../../../../../firmware/images/approach2.elf"),
        file: "approach2.s",
        source: include_str!("../../../../../firmware/approach2.s"),
    },
    BuiltIn {
        name: "best",
        elf: include_bytes!("../../../../../firmware/images/best.elf"),
        file: "best.s",
        source: include_str!("../../../../../firmware/best.s"),
    },
];

/// The configuration's firmware.
///
/// # Errors
///
/// Firmware that is not there, or not for the modelled core.
pub fn load(config: &Config, context: &Context<'_>) -> Result<Firmware, ConfigError> {
    let name = &config.firmware.image;
    by_name(name, &context.path_of(IMAGE, name))
}

/// Firmware by its name, or the file at `path`.
///
/// # Errors
///
/// As [`load`].
pub fn by_name(name: &str, path: &Path) -> Result<Firmware, ConfigError> {
    match BUILT_IN.iter().find(|known| known.name == name) {
        Some(known) => Firmware::parse(name, known.elf)
            .map_err(|error| ConfigError::of_parameter(IMAGE, error)),
        None => file(path, &BUILT_IN.map(|known| known.name)),
    }
}

/// The parameter that names firmware.
pub(crate) const IMAGE: &str = "firmware.image";

/// Firmware from a file, which is not one of the names that are known.
pub(crate) fn file(path: &Path, known: &[&'static str]) -> Result<Firmware, ConfigError> {
    // A path that may not be examined may exist: reading it says why not.
    if matches!(path.try_exists(), Ok(false)) {
        let error = ModelError::NoFirmware { path: path.to_owned(), known: known.to_vec() };
        return Err(ConfigError::of_parameter(IMAGE, error));
    }
    Firmware::read(path).map_err(|error| ConfigError::of_parameter(IMAGE, error))
}

/// Where an instruction comes from: its source line and its function, as far as the file has them.
pub(crate) fn origin(firmware: &Firmware, pc: u32) -> Option<String> {
    let line = firmware.line(pc).map(|line| format!("{}:{}", line.file, line.line));
    let function = firmware.place(pc).map(|place| format!("in {}", place.function));
    let parts: Vec<String> = line.into_iter().chain(function).collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}

/// The text of source lines: of firmware that comes with the command, or of existing files.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, Vec<String>>);

impl Sources {
    /// The text of a line, empty where it is not known.
    pub(super) fn text(&mut self, line: &SourceLine<'_>) -> &str {
        let file = line.file;
        let lines = self.0.entry(file.to_owned()).or_insert_with(|| {
            let text = BUILT_IN
                .iter()
                .find(|known| file.ends_with(&format!("firmware/{}", known.file)))
                .map(|known| known.source.to_owned());
            // A source that is not there has no text; its lines have their numbers.
            let text = text.or_else(|| std::fs::read_to_string(file).ok()).unwrap_or_default();
            text.lines().map(str::to_owned).collect()
        });
        (line.line as usize).checked_sub(1).and_then(|at| lines.get(at)).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linecard_model::transmit::firmware;

    #[test]
    fn files_with_lines_hold_what_the_library_has() {
        let images = [firmware::approach_1(), firmware::approach_2(), firmware::best()];
        for (known, image) in BUILT_IN.iter().zip(images) {
            let elf = Firmware::parse(known.name, known.elf).expect("an ELF file");
            let of = |image: &linecard_model::rv32::Image| {
                let bytes = image.segments.iter().flat_map(|one| one.bytes.clone());
                (image.entry, bytes.collect::<Vec<u8>>())
            };
            assert_eq!(of(elf.image()), of(&image), "{}", known.name);
        }
    }
}
