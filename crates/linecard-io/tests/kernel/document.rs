//! docs/design/kernel.md shows the table of differences as it is checked.
//!
//! `LINECARD_WRITE=1 cargo test -p linecard-io --test kernel document` rewrites it.

use crate::differences::{DIFFERENCES, Group, IN_TUNNELS, Kind};
use linecard_testkit::root;
use std::fmt::Write;
use std::fs;

const BEGIN: &str = "<!-- differences: written by the test `kernel` -->\n";
const END: &str = "<!-- end of differences -->\n";

/// Columns of a line of text.
const WIDTH: usize = 100;
/// A result that takes more columns than this is counted, not listed.
const LONGEST: usize = 40;

fn table() -> String {
    let mut text = String::from(BEGIN);
    for group in DIFFERENCES.iter().chain(IN_TUNNELS) {
        describe(&mut text, group).expect("text grows");
    }
    text + "\n" + END
}

fn describe(text: &mut String, group: &Group) -> std::fmt::Result {
    let kind = match group.kind {
        Kind::Design => "by design",
        Kind::Lacking => "not in this kernel",
    };
    writeln!(text, "\n### {} ({kind})\n", group.title)?;
    wrap(text, group.why)?;
    writeln!(text)?;
    writeln!(text, "| case | Linux | here |\n|---|---|---|")?;
    for row in group.rows {
        writeln!(text, "| {} | {} | {} |", row.case, short(row.kernel), short(row.ours))?;
    }
    Ok(())
}

/// Breaks lines as the other documents do.
fn wrap(text: &mut String, paragraph: &str) -> std::fmt::Result {
    let mut column = 0;
    for word in paragraph.split(' ') {
        match column {
            0 => {}
            _ if column + 1 + word.len() > WIDTH => {
                writeln!(text)?;
                column = 0;
            }
            _ => {
                text.push(' ');
                column += 1;
            }
        }
        text.push_str(word);
        column += word.len();
    }
    writeln!(text)
}

fn short(result: &str) -> String {
    let frames = result.split([' ', '+']).count();
    let out = result.split(' ').count();
    if result.len() <= LONGEST { result.to_owned() } else { format!("{frames} as {out}") }
}

#[test]
fn the_document_shows_the_differences() {
    let path = root().join("docs/design/kernel.md");
    let text = fs::read_to_string(&path).expect("docs/design/kernel.md is there");
    let (before, rest) = text.split_once(BEGIN).expect("the table's begin is marked");
    let (_, after) = rest.split_once(END).expect("the table's end is marked");
    let wanted = format!("{before}{}{after}", table());
    if std::env::var_os("LINECARD_WRITE").is_some_and(|value| value == "1") {
        fs::write(&path, &wanted).expect("docs/design/kernel.md can be written");
    } else {
        assert!(
            text == wanted,
            "docs/design/kernel.md is not up to date: set LINECARD_WRITE=1 to write it"
        );
    }
}
