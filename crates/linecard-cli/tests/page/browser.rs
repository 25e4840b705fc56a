//! A browser without a window.

use crate::around::is_there;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Findings of a probe in a page.
#[derive(Debug)]
pub(crate) struct Findings(pub(crate) serde_json::Value);

/// How a page is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct View {
    pub(crate) width: u32,
    pub(crate) is_dark: bool,
}

/// As most will look at it.
pub(crate) const DESK: View = View { width: 1_200, is_dark: false };

/// Whether there is a browser.
pub(crate) fn is_installed() -> bool {
    is_there("chromium", "no page is opened in a browser; run .ci/setup")
}

/// Opens a copy of a page with a probe in it, and returns the result of the probe.
pub(crate) fn probe(page: &Path, view: View) -> Findings {
    let folder = tempfile::tempdir().unwrap();
    let html = fs::read_to_string(page).unwrap();
    let script = |text: &str| format!("<script>{text}</script>");
    let begin =
        html.replacen("<head>", &format!("<head>{}", script(include_str!("probe_begin.js"))), 1);
    let end = format!("{}</body>", script(include_str!("probe_end.js")));
    let copy = folder.path().join("copy.html");
    fs::write(&copy, begin.replacen("</body>", &end, 1)).unwrap();
    let dom = run(&copy, view, &["--virtual-time-budget=10000", "--dump-dom"]);
    let (_, rest) =
        dom.split_once("<pre id=\"probe\">").unwrap_or_else(|| panic!("no probe in {dom}"));
    let json = rest.split_once("</pre>").unwrap().0;
    let json =
        json.replace("&lt;", "<").replace("&gt;", ">").replace("&nbsp;", " ").replace("&amp;", "&");
    Findings(serde_json::from_str(&json).unwrap())
}

/// Takes a picture of a page.
pub(crate) fn picture(page: &Path, view: View, height: u32, png: &Path) {
    let screenshot = format!("--screenshot={}", png.display());
    let size = format!("--window-size={},{height}", view.width);
    run(page, view, &[&screenshot, &size, "--hide-scrollbars", "--virtual-time-budget=5000"]);
}

fn run(page: &Path, view: View, options: &[&str]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let mut command = Command::new("chromium");
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
    ]);
    command.args(["--disable-background-networking", "--disable-component-update"]);
    command.args(["--disable-sync", "--disable-dev-shm-usage", "--disable-extensions"]);
    command.arg(format!("--user-data-dir={}", profile.path().display()));
    command.arg(format!("--window-size={},1200", view.width));
    if view.is_dark {
        command.arg("--blink-settings=preferredColorScheme=0");
    }
    command.args(options).arg(format!("file://{}", page.display()));
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "chromium: {}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}
