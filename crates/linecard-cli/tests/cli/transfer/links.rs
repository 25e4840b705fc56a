//! Symbolic links that lead out of the folder that is sent.

use super::ends::{Ends, beside_pauses, says};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

/// A folder with such a link, and another file that it leads to.
fn linked() -> Ends {
    let ends = Ends::new();
    fs::create_dir_all(ends.folder.path("tree")).unwrap();
    fs::create_dir_all(ends.folder.path("to/elsewhere")).unwrap();
    ends.folder.write("tree/file", b"file");
    ends.folder.write("to/elsewhere/file", b"another");
    symlink("../elsewhere", ends.folder.path("tree/out")).unwrap();
    ends
}

/// Promise (Transfer): Links that lead out of the folder that is sent are made where both ends permit it, and never
/// followed.
#[test]
fn links_that_lead_out_are_sent_where_both_ends_permit_it() {
    let ends = linked();
    let to = |name: &str| ends.folder.path(&format!("to/tree/{name}"));
    let receiver = ends.receiver(&["--keep"]);
    for more in [&["--links-out", "--dry-run"][..], &["--links-out"]] {
        let refused = ends.send("tree", &receiver, more);
        assert_eq!(refused.code, Some(16), "{refused:?}");
        says(&refused.stderr, &["may not send links", "--allow-links-out", "links-out=yes"]);
        assert!(!to("").exists(), "{more:?}");
    }
    drop(receiver);

    let receiver = ends.receiver(&["--keep", "--allow-links-out", "--allow-delete", "--overwrite"]);
    // The sender chooses, too.
    let sent = ends.send("tree", &receiver, &[]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(!to("out").is_symlink());
    let planned = ends.send("tree", &receiver, &["--links-out", "--dry-run"]);
    assert_eq!(planned.code, Some(0), "{planned:?}");
    assert!(!to("out").is_symlink());
    for target in ["../elsewhere", "/"] {
        let own = ends.folder.path("tree/out");
        fs::remove_file(&own).unwrap();
        symlink(target, &own).unwrap();
        let sent = ends.send("tree", &receiver, &["--links-out", "--delete"]);
        assert_eq!((sent.code, &*beside_pauses(&sent.stderr)), (Some(0), ""), "{sent:?}");
        assert_eq!(fs::read_link(to("out")).unwrap(), Path::new(target));
    }

    // A folder in its place goes nowhere else, and what is behind it is not removed.
    fs::remove_file(to("out")).unwrap();
    symlink("../elsewhere", to("out")).unwrap();
    fs::remove_file(ends.folder.path("tree/out")).unwrap();
    fs::create_dir(ends.folder.path("tree/out")).unwrap();
    ends.folder.write("tree/out/file", b"other");
    let sent = ends.send("tree", &receiver, &["--links-out", "--delete"]);
    assert_eq!(sent.code, Some(17), "{sent:?}");
    assert_eq!(ends.folder.read("to/elsewhere/file"), b"another");
}
