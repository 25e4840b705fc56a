//! Pages in a real browser: everything is drawn, nothing overlaps, nothing is fetched.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

#[path = "../support/around.rs"]
mod around;
mod browser;
mod commands;
mod sample;
#[path = "../support/mod.rs"]
mod support;

use browser::{DESK, Findings, View};
use std::fs;

impl Findings {
    fn list(&self, key: &str) -> &[serde_json::Value] {
        self.0[key].as_array().unwrap()
    }

    #[track_caller]
    pub(crate) fn expect_good(&self) {
        for key in ["errors", "resources", "overlaps", "clipped", "wide"] {
            assert!(self.list(key).is_empty(), "{key}: {:#?}", self.list(key));
        }
        for drawing in self.list("drawings") {
            // One bar in a narrow window is not high.
            assert!(drawing["height"].as_f64() > Some(40.0), "{drawing}");
            assert!(drawing["marks"].as_u64() > Some(0), "{drawing}");
        }
        for plot in self.list("plots") {
            assert!(plot["coloured"].as_u64() > Some(2_000), "{plot}");
            assert_eq!(plot["is_as_before"], true, "{plot}");
            assert!(plot["texts"].as_array().unwrap().len() > 6, "{plot}");
            assert_eq!(
                (&plot["zooms"], &plot["goes_back"]),
                (&true.into(), &true.into()),
                "{plot}"
            );
        }
    }
}

/// Promise (Command): Every chart of a page is drawn and nothing overlaps, as Chromium sees it.
#[test]
fn every_kind_of_chart_is_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.html");
    sample::page().write(&path).unwrap();
    let html = fs::read_to_string(&path).unwrap();
    assert!(html.len() < 200 << 10, "{} bytes", html.len());
    for place in ["src=\"", "href=\"h", "url(", "@import"] {
        assert!(!html.contains(place), "a page fetches nothing: {place}");
    }
    if !browser::is_installed() {
        return;
    }
    // To be looked at: LINECARD_PICTURES=FOLDER cargo test -p linecard-cli --test page
    if let Some(folder) = std::env::var_os("LINECARD_PICTURES") {
        let png = |name: &str| std::path::Path::new(&folder).join(name);
        browser::picture(&path, DESK, 3_600, &png("light.png"));
        browser::picture(&path, View { is_dark: true, ..DESK }, 3_600, &png("dark.png"));
        browser::picture(&path, View { width: 500, is_dark: false }, 5_000, &png("narrow.png"));
        fs::copy(&path, png("sample.html")).unwrap();
    }
    for view in [View { is_dark: true, ..DESK }, View { width: 500, is_dark: false }] {
        let found = browser::probe(&path, view);
        found.expect_good();
        // Dark pages are printed on white paper.
        let printed = |plot: &serde_json::Value| plot["printed"].as_u64() > Some(50);
        assert!(found.list("plots").iter().all(printed), "{:#?}", found.list("plots"));
        assert_eq!((found.list("plots").len(), found.list("drawings").len()), (2, 3));
    }
}

/// Promise (Command): A page fetches nothing, and text from outside has no effect in it, as
/// Chromium sees it.
#[test]
fn what_comes_from_outside_does_nothing() {
    if !browser::is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("evil.html");
    sample::evil().write(&path).unwrap();
    let found = browser::probe(&path, DESK);
    found.expect_good();
    assert_eq!((found.list("plots").len(), found.list("drawings").len()), (2, 3));
    assert_eq!(found.0["elements"], 0, "markup of a name became elements");
}

#[test]
fn charts_of_little_are_drawn() {
    if !browser::is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("little.html");
    sample::little().write(&path).unwrap();
    let found = browser::probe(&path, DESK);
    for key in ["errors", "resources", "overlaps", "clipped", "wide"] {
        assert!(found.list(key).is_empty(), "{key}: {:#?}", found.list(key));
    }
    assert_eq!(found.list("plots").len(), sample::LITTLE);
}

/// Tables were in the column of text, a word on a line, however wide the window was.
#[test]
fn wide_tables_take_the_window_and_scroll_in_their_own_box() {
    if !browser::is_installed() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sample.html");
    sample::page().write(&path).unwrap();
    for width in [1_400, 800] {
        let found = browser::probe(&path, View { width, is_dark: false });
        assert_eq!(found.0["scrolls"], false, "the page itself at {width}");
        let number = |one: &serde_json::Value, key: &str| one[key].as_f64().unwrap();
        let boxes = found.list("boxes");
        let widest =
            boxes.iter().max_by(|a, b| number(a, "content").total_cmp(&number(b, "content")));
        let widest = widest.unwrap();
        let (left, right) = (number(widest, "left"), number(widest, "right"));
        assert!(left >= 0.0 && right <= f64::from(width), "{width}: {widest}");
        let hidden = number(widest, "content") - (right - left);
        match width {
            1_400 => assert!(right - left > 1_200.0 && hidden < 1.0, "{widest}"),
            _ => assert!(right - left > 700.0 && hidden > 100.0, "{widest}"),
        }
    }
    // Where a window is too narrow for columns, nothing is beside it.
    let found = browser::probe(&path, View { width: 420, is_dark: false });
    found.expect_good();
    assert_eq!(found.0["scrolls"], false);
    for one in found.list("boxes") {
        let number = |key: &str| one[key].as_f64().unwrap();
        assert!(number("content") < number("right") - number("left") + 1.0, "{one}");
    }
}
