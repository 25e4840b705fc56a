//! Parameters of models, for `--help`.

use crate::codes::{all_exit_codes, lines};
use linecard_app::AnyJob;
use linecard_app::model::MODELS;
use std::fmt::Write as _;

/// Columns beside the names, so that the lines of `--help` have fewer than 80.
const HELP_WIDTH: usize = 56;
/// Columns of the names; a longer one has a line of its own.
const NAME_WIDTH: usize = 20;

const HEAD: &str =
    "Keys of a scenario [default]; in a file, the part before the dot is a section.\n";

/// Those of all models.
pub(super) fn all() -> String {
    let models: String = MODELS.iter().map(keys).collect();
    format!("{HEAD}\n{models}{}", all_exit_codes())
}

/// Those of the sending side, which is the first.
pub(super) fn transmit() -> String {
    format!("{HEAD}{}{}", keys(&MODELS[0]), all_exit_codes())
}

fn keys(model: &AnyJob) -> String {
    let mut text = format!("model = \"{}\"\n", model.name);
    for parameter in model.parameters() {
        let mut left = parameter.name.as_str();
        if left.len() > NAME_WIDTH {
            let _ = writeln!(text, "  {left}");
            left = "";
        }
        for line in lines(&parameter.to_string(), HELP_WIDTH) {
            // Writing to a text cannot fail.
            let _ = writeln!(text, "  {left:NAME_WIDTH$} {line}");
            left = "";
        }
    }
    text + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_has_every_key_in_lines_that_fit() {
        let help = all();
        for model in MODELS {
            assert!(help.contains(&format!("model = \"{}\"", model.name)), "{}", model.name);
        }
        assert!(transmit().contains("model = \"transmit\""));
        // A line that a terminal breaks loses its indentation.
        let long: Vec<&str> = help.lines().filter(|line| line.chars().count() > 79).collect();
        assert!(long.is_empty(), "{long:#?}");
    }
}
