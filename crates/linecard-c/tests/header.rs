//! include/linecard.h is what the crate says.
//!
//! `LINECARD_WRITE=1 cargo test -p linecard-c --test header` rewrites it.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("it is readable");
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate();
    let mut wanted = Vec::new();
    bindings.expect("the crate can be read").write(&mut wanted);
    let wanted = with_comments_of_c90(&String::from_utf8(wanted).expect("a header in UTF-8"));
    let path = root.join("include/linecard.h");
    if std::env::var_os("LINECARD_WRITE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &wanted).expect("include/linecard.h can be written");
    } else {
        let written = std::fs::read_to_string(&path).expect("include/linecard.h is there");
        assert!(
            written == wanted,
            "include/linecard.h is not up to date: set LINECARD_WRITE=1 to write it"
        );
    }
}

/// `//` begins no comment in C90. The comments of cbindgen's own style for C take two lines more than their text.
fn with_comments_of_c90(header: &str) -> String {
    let lines: Vec<&str> = header.lines().collect();
    let comment = |at: usize| lines.get(at).and_then(|line| line.trim_start().strip_prefix("//"));
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(text) = comment(at) else {
            // After code, as in `#endif // __cplusplus`.
            let (code, rest) = line.split_once("// ").unwrap_or((line, ""));
            let rest = if rest.is_empty() { rest } else { &format!("/* {rest} */") };
            out += &format!("{code}{rest}\n");
            continue;
        };
        let indent = &line[..line.len() - line.trim_start().len()];
        let is_first = at == 0 || comment(at - 1).is_none();
        let is_last = comment(at + 1).is_none();
        let end = match (is_first, is_last) {
            (true, true) => " */".to_owned(),
            (false, true) => format!("\n{indent} */"),
            _ => String::new(),
        };
        out += &format!("{indent}{}{text}{end}\n", if is_first { "/*" } else { " *" });
    }
    out
}
