//! An audit on one screen, or in full.

use linecard_jitter::linux::audit::{Audit, Host, Row, Verdict};
use linecard_report::{Report, Section, Value};

/// Settings to change and unknown ones, one line each; of the rest only the names.
pub(super) fn short(host: &Host, audit: &Audit, only: &[String]) -> Report {
    let mut report = Report::new("jitter audit");
    report.push(about(host));
    let mut change = Section::new("change", "To change, the most important first");
    for row in wanted(audit, only, Verdict::Advice) {
        change.add(row.check.id, row.check.id, Value::Text(line(row)));
    }
    report.push(change);
    let mut unknown = Section::new("unknown", "Unknown");
    for row in wanted(audit, only, Verdict::Unknown) {
        unknown.add(row.check.id, row.check.id, Value::Text(row.seen.found.clone()));
    }
    report.push(unknown);
    let mut rest = Section::new("rest", "The rest");
    for (verdict, label) in [
        (Verdict::Good, "good"),
        (Verdict::Note, "for your information"),
        (Verdict::Absent, "not here"),
    ] {
        let names: Vec<&str> = wanted(audit, only, verdict).map(|row| row.check.id).collect();
        if !names.is_empty() {
            rest.add(label, label, Value::Text(names.join(", ")));
        }
    }
    report.push(rest);
    let changes = audit.plan(only).len();
    if changes > 0 {
        report.note(format!(
            "Nothing was changed. `linecard jitter audit --apply` makes {changes} changes that \
             can be made now (\"live\") and restores them at Ctrl-C; --all gives reasons and risks."
        ));
    }
    report
}

/// Each check with all that is known of it.
pub(super) fn whole(host: &Host, audit: &Audit, only: &[String]) -> Report {
    let mut report = Report::new("jitter audit");
    report.push(about(host));
    let mut section = Section::new("checks", "Checks, the most important first");
    for row in audit.rows.iter().filter(|row| is_wanted(row, only)) {
        section.add(row.check.id, row.check.id, fields(row));
    }
    report.push(section);
    report
}

fn about(host: &Host) -> Section {
    let mut section = Section::new("host", "Asked for");
    section.add("core", "the sink's core", Value::Count(host.core() as u64));
    let interface = host.interface().map_or_else(|why| format!("none: {why}"), str::to_owned);
    section.add("interface", "interface", Value::Text(interface));
    section
}

fn wanted<'a>(
    audit: &'a Audit,
    only: &'a [String],
    verdict: Verdict,
) -> impl Iterator<Item = &'a Row> {
    audit.rows.iter().filter(move |row| row.seen.verdict == verdict && is_wanted(row, only))
}

fn is_wanted(row: &Row, only: &[String]) -> bool {
    only.is_empty() || only.iter().any(|id| id == row.check.id)
}

fn line(row: &Row) -> String {
    let measured =
        row.measured.as_ref().map_or(String::new(), |measured| format!("; here: {measured}"));
    format!("{}. {} ({}){measured}", row.seen.found, row.seen.advice, row.check.remedy.name())
}

fn fields(row: &Row) -> Value {
    let (check, seen) = (row.check, &row.seen);
    let mut text = format!("{}: {}", seen.verdict.name(), seen.found);
    if !seen.advice.is_empty() {
        text += &format!(". {}", seen.advice);
    }
    text += &format!("\n      why: {} ({})", check.cause, check.source);
    if !check.risk.is_empty() {
        text += &format!("\n      risk: {}", check.risk);
    }
    for change in &seen.changes {
        text += &format!("\n      {change}");
    }
    let word = |word: &str| Value::Text(word.to_owned());
    let changes: Vec<String> = seen.changes.iter().map(ToString::to_string).collect();
    let mut fields = vec![
        ("verdict", word(seen.verdict.name())),
        ("found", word(&seen.found)),
        ("advice", word(&seen.advice)),
        ("remedy", word(check.remedy.name())),
        ("changes", word(&changes.join("; "))),
        ("cause", word(check.cause)),
        ("source", word(check.source)),
        ("risk", word(check.risk)),
        ("reads", word(check.reads)),
        ("weight", Value::Count(u64::from(check.weight))),
    ];
    if let Some(measured) = &row.measured {
        text += &format!("\n      measured here: {measured}");
        fields.push(("measured", word(&measured.to_string())));
    }
    Value::Fields(text, fields)
}
