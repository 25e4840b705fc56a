//! The frame of every page: style, script, and a policy that forbids requests.

use maud::{DOCTYPE, Markup, PreEscaped, html};

/// A page makes no request, and runs only its own script. Pictures are those that it makes of its own charts.
const POLICY: &str =
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:";
const UPLOT: &str = include_str!("../assets/uplot/uPlot.iife.min.js");
const UPLOT_STYLE: &str = include_str!("../assets/uplot/uPlot.min.css");
const UPLOT_LICENCE: &str = include_str!("../assets/uplot/LICENSE");
const SCRIPT: &str = include_str!("../assets/page.js");
const SAVE: &str = include_str!("../assets/save.js");
const STYLE: &str = include_str!("../assets/page.css");
/// Colours of curves.
pub(crate) const COLOURS: usize = 8;

/// A complete page. `figures` is JSON for the script that draws, `saves` whether charts can be saved as pictures; a page
/// with neither has no script.
pub(crate) fn page(title: &str, content: &Markup, figures: Option<&str>, saves: bool) -> String {
    let markup = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "linecard " (env!("CARGO_PKG_VERSION")) };
                title { (title) }
                style { (PreEscaped(STYLE)) @if figures.is_some() { (PreEscaped(UPLOT_STYLE)) } }
            }
            body {
                main { (content) }
                footer { p { "Made by linecard " (env!("CARGO_PKG_VERSION")) } }
                @if let Some(figures) = figures { (scripts(figures)) }
                @if saves { script { (PreEscaped(SAVE)) } }
            }
        }
    };
    printable(&markup.into_string())
}

/// Markup with a sign in place of each character that neither XML nor HTML has, not even as a reference.
pub(crate) fn printable(markup: &str) -> String {
    let is_none = |c: char| {
        c.is_control() && !matches!(c, '\t' | '\n' | '\r') || matches!(c, '\u{FFFE}' | '\u{FFFF}')
    };
    markup.replace(is_none, "\u{FFFD}")
}

/// The part of the style that pictures in files of their own need, with values in place of variables, which few programs
/// but browsers know: light, and dark where that is preferred.
pub(crate) fn picture_style() -> String {
    let [light, dark] = [":root {", ":root:not(.light) {"].map(rules);
    format!("{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n")
}

/// Rules of SVG elements, with the variables of this block.
fn rules(block: &str) -> String {
    let inside = STYLE.split_once(block).and_then(|(_, rest)| rest.split_once('}'));
    let variables = inside.map_or("", |(inside, _)| inside).split([';', '\n']).filter_map(|one| {
        let (name, value) = one.trim().strip_prefix("--")?.split_once(": ")?;
        Some((format!("var(--{name})"), value))
    });
    let own = STYLE.lines().filter(|line| line.starts_with("svg ") || line.starts_with("svg:"));
    let of_curves = |line: &str| match line.contains("var(--c)") {
        false => format!("{line}\n"),
        true => (0..COLOURS)
            .map(|at| line.replacen("svg ", &format!("svg .s{at} "), 1) + "\n")
            .enumerate()
            .map(|(at, line)| line.replace("var(--c)", &format!("var(--s{at})")))
            .collect(),
    };
    let rules: String = own.map(of_curves).collect();
    variables.fold(rules, |rules, (name, value)| rules.replace(&name, value))
}

fn scripts(figures: &str) -> Markup {
    html! {
        script type="application/json" id="figures" { (PreEscaped(safe_in_script(figures))) }
        script { "/* " (PreEscaped(UPLOT_LICENCE)) "*/\n" (PreEscaped(UPLOT)) }
        script { (PreEscaped(SCRIPT)) }
    }
}

/// Escapes JSON so that no text in it can end the script or start a comment: "<" occurs only in
/// strings, where an escape is allowed (HTML standard, section 4.12.1.3).
fn safe_in_script(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_ends_a_script() {
        let json = serde_json::to_string("</script><!--<script>").unwrap_or_default();
        let safe = safe_in_script(&json);
        assert!(!safe.contains('<'), "{safe}");
        let read: String = serde_json::from_str(&safe).unwrap_or_default();
        assert_eq!(read, "</script><!--<script>");
    }

    #[test]
    fn pages_have_printable_characters_only() {
        let page = page("a\u{0}b\u{1b}c\u{FFFE}\td", &html! { p { "\u{85}\n" } }, Some("{}"), true);
        assert!(page.contains("<title>a\u{FFFD}b\u{FFFD}c\u{FFFD}\td</title>"), "{page}");
        assert!(page.contains("<p>\u{FFFD}\n</p>"), "{page}");
    }

    #[test]
    fn what_is_vendored_may_stand_in_a_script() {
        for text in [UPLOT, SCRIPT, SAVE, UPLOT_LICENCE] {
            assert!(!text.contains("</script") && !text.contains("<!--"));
        }
        assert!(
            !UPLOT_LICENCE.contains("*/") && UPLOT_LICENCE.contains("Permission is hereby granted")
        );
        assert!(!STYLE.contains("</") && !UPLOT_STYLE.contains("</"));
    }
}
