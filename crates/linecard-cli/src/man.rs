//! `linecard man`: a page for the command and for each of its own, from the same definition as its parser.

use clap::{Args, Command};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use linecard_app::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

#[derive(Debug, Args)]
pub(crate) struct ManArguments {
    /// Where pages go; made if it is not there.
    folder: PathBuf,
}

/// Writes the pages of `whole`, in roff: `linecard.1`, `linecard-run.1` and so on.
pub(crate) fn command(arguments: &ManArguments, whole: Command) -> Result<(), Error> {
    let folder = &arguments.folder;
    let failed = |path: &Path, source: &io::Error| Error::Output {
        source: io::Error::new(source.kind(), format!("{}: {source}", path.display())),
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let mut whole = whole.disable_help_subcommand(true);
    whole.build();
    for (name, page) in pages(&whole)? {
        let path = folder.join(name);
        fs::write(&path, page).map_err(|error| failed(&path, &error))?;
    }
    Ok(())
}

/// Name and text of a command's page, and of those below it that are shown.
fn pages(command: &Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = vec![page(command)?];
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        found.extend(pages(below)?);
    }
    Ok(found)
}

/// All sections but that of the version, which stands at each page's foot.
fn page(command: &Command) -> io::Result<(String, Vec<u8>)> {
    let version = concat!("linecard ", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command.clone()).source(version).manual("Linecard");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    if command.get_subcommands().any(|below| !below.is_hide_set()) {
        man.render_subcommands_section(&mut text)?;
    }
    if let Some(help) = command.get_after_long_help().or_else(|| command.get_after_help()) {
        after(&help.to_string()).to_writer(&mut text)?;
    }
    Ok((man.get_filename(), ascii(&String::from_utf8_lossy(&text))))
}

/// Characters beyond ASCII as escapes: roff reads bytes, whose meaning depends on its caller.
fn ascii(text: &str) -> Vec<u8> {
    let escape =
        |c: char| if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", u32::from(c)) };
    text.chars().map(escape).collect::<String>().into_bytes()
}

/// The text behind the options in `--help`, whose layout is by spaces: `Title:` begins a section, `
/// word  text` an entry, and lines that are indented further continue it.
fn after(help: &str) -> Roff {
    let mut roff = Roff::default();
    if !help.lines().next().is_some_and(is_title) {
        roff.control("SH", ["NOTES"]);
    }
    for line in help.lines() {
        let text = line.trim();
        let entry = line.strip_prefix("  ").filter(|entry| !entry.starts_with(' '));
        match entry.and_then(|entry| entry.split_once("  ")) {
            Some((word, text)) => {
                roff.control("TP", []);
                roff.text([bold(word)]);
                roff.text([roman(text.trim())]);
            }
            None if text.is_empty() => {
                roff.control("PP", []);
            }
            None if is_title(line) => {
                roff.control("SH", [text.trim_end_matches(':').to_uppercase().as_str()]);
            }
            None => {
                roff.text([roman(text)]);
            }
        }
    }
    roff
}

fn is_title(line: &str) -> bool {
    line.ends_with(':') && !line.starts_with(' ')
}
