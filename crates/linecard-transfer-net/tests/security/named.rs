//! Every test that the document names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Names between backticks that look like those of tests: three words or more.
fn named(text: &str) -> BTreeSet<&str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted
        .filter(|name| name.matches('_').count() >= 2)
        .filter(|name| name.bytes().all(|c| c == b'_' || c.is_ascii_lowercase()))
        .collect()
}

/// Takes from `names` those that are functions of a file below `folder`.
fn strike_out(names: &mut BTreeSet<&str>, folder: &Path) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            strike_out(names, &path);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            names.retain(|name| !text.contains(&format!("fn {name}()")));
        }
    }
}

/// Promise (Transfer): Each threat in design/transfer-security.md has a defence and a test of it.
#[test]
fn every_test_of_the_document_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = fs::read_to_string(root.join("docs/design/transfer-security.md")).unwrap();
    let mut names = named(&text);
    assert!(names.len() > 40, "{}", names.len());
    let command = "linecard-cli/tests/cli/transfer";
    for part in [
        "linecard-transfer-net/src",
        "linecard-transfer-net/tests",
        "linecard-transfer/src",
        "linecard-app/src/transfer",
        "linecard-io/src/rights",
        command,
    ] {
        strike_out(&mut names, &root.join("crates").join(part));
    }
    assert!(names.is_empty(), "no such tests: {names:?}");
}
