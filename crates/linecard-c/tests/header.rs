//! include/linecard.h is what the crate says.
//!
//! `LINECARD_WRITE=1 cargo test -p linecard-c --test header` writes it anew.

use std::path::Path;

#[test]
fn the_header_is_that_of_the_crate() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(root.join("cbindgen.toml")).expect("it is readable");
    let bindings = cbindgen::Builder::new().with_crate(root).with_config(config).generate();
    let mut wanted = Vec::new();
    bindings.expect("the crate can be read").write(&mut wanted);
    let path = root.join("include/linecard.h");
    if std::env::var_os("LINECARD_WRITE").is_some_and(|value| value == "1") {
        std::fs::write(&path, &wanted).expect("include/linecard.h can be written");
    } else {
        let written = std::fs::read(&path).expect("include/linecard.h is there");
        assert!(
            written == wanted,
            "include/linecard.h is not up to date: set LINECARD_WRITE=1 to write it"
        );
    }
}
