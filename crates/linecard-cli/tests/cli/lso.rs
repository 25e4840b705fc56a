//! `linecard reproduce lso-…`: the send offload's tables from runs of real firmware.

use crate::folder::Folder;
use linecard_testkit::root;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

fn reproduce(name: &str) -> Json {
    let text = Folder::new().succeeds(&["reproduce", name, "--json"]);
    serde_json::from_str(&text).unwrap()
}

fn verdicts(found: &Json) -> [u64; 3] {
    ["same", "explained", "unexplained"].map(|verdict| found["verdicts"][verdict].as_u64().unwrap())
}

fn row<'a>(found: &'a Json, section: &str, label: &str) -> &'a Json {
    let rows = found[section].as_array().unwrap();
    let found = rows.iter().find(|row| row["label"] == label);
    &found.unwrap_or_else(|| panic!("no \"{label}\" in {rows:?}"))["value"]
}

/// Promise (Hardware model): 22 of 24 totals and 21 of 24 idle cells of the published table 1 are
/// exact, and the other five are what the table's other cells add up to.
#[test]
fn table_1_is_the_paper_s_but_for_five_cells() {
    let found = reproduce("lso-table1");
    assert_eq!(verdicts(&found), [43, 5, 0], "{found}");
    // Of the cells that agree three are facts: how long a transfer takes. Both protocols share that of 1,500 bytes.
    let counted = &found["agreement"]["predicted"];
    assert_eq!((&counted["exact"], &counted["of"]), (&3.into(), &8.into()), "{counted}");
    let text = found.to_string();
    assert!(text.contains("22 of 24 totals and 21 of 24"), "{text}");
    let config = &found["config"];
    assert_eq!(config["jobs"]["table_1_tcp"]["firmware"]["image"], "approach-2", "{config}");
    assert_eq!((&config["scenario"], &config["modelled"]), (&Json::Null, &false.into()));
    let slip = row(&found, "table_1", "TCP EOM 1500 bytes, total");
    assert_eq!((&slip["paper"], &slip["ours"]), (&41.0.into(), &42.0.into()));
    assert!(slip["reason"].as_str().unwrap().contains("4 busy cycles"));
}

#[test]
fn table_2_says_which_clock_it_takes() {
    let found = reproduce("lso-table2");
    assert_eq!(verdicts(&found), [28, 20, 0], "{found}");
    // The clocks of two columns were chosen by four of the cells, and the third is table 1's: what agrees does not count.
    assert_eq!(
        (&found["agreement"]["predicted"], &found["agreement"]["fitted"]),
        (&json!({ "agree": 0, "exact": 0, "explained": 16, "differs": 0, "of": 16 }), &17.into())
    );
    let text = found.to_string();
    assert!(text.contains("17 of 24 totals") && text.contains("taken: 423 MHz"), "{text}");
    for size in [1500, 1024] {
        let slip = row(&found, "table_2", &format!("UDP SSM {size} bytes, total"));
        assert!(slip["reason"].as_str().unwrap().contains("a slip"), "{slip}");
    }
}

#[test]
fn table_3_has_clocks_that_firmware_carries_the_rate_with() {
    let found = reproduce("lso-table3");
    assert_eq!(verdicts(&found)[2], 0, "{found}");
    let clock = |label: &str, key: &str| row(&found, "clocks", label)[key].as_f64().unwrap();
    for (size, paper) in [(1500, 148.0), (1024, 216.0), (512, 423.0)] {
        let second = clock(&format!("approach-2, {size} bytes, 100 Gbit/s"), "all_above_mhz");
        let best = clock(&format!("best, {size} bytes, 100 Gbit/s"), "all_above_mhz");
        assert!(best < second && second < paper, "{size}: {best} {second} {paper}");
    }
}

#[test]
fn what_the_text_says_is_weighed() {
    let found = reproduce("lso-clock");
    assert_eq!(verdicts(&found)[2], 0, "{found}");
    let offset = row(&found, "others", "offset of the second fragment");
    assert_eq!((&offset["paper"], &offset["ours"]), (&184.0.into(), &185.0.into()));
    let rate = row(&found, "others", "packets in a second, 1500 bytes, 100 Gbit/s");
    assert!((rate["ours"].as_f64().unwrap() - 8_127_438.2).abs() < 1.0, "{rate}");
}

#[test]
fn what_the_paper_says_of_a_received_packet_is_so() {
    assert_eq!(verdicts(&reproduce("lso-receive")), [3, 1, 0]);
}

#[test]
fn all_are_there_one_after_the_other() {
    let folder = Folder::new();
    let arguments =
        ["reproduce", "--all", "--json", "--figures", "figures", "--report", "papers.html"];
    let found: Json = serde_json::from_str(&folder.succeeds(&arguments)).unwrap();
    figures_are_those_of_the_manual(&folder.path("figures"));
    let page = String::from_utf8(folder.read("papers.html")).unwrap();
    assert_eq!(page.matches("<svg class=\"curves\"").count(), found_figures(&folder), "figures");
    assert!(page.contains("values that the models were not given agree"), "{page}");
    let names: Vec<&String> = found.as_object().unwrap().keys().collect();
    for name in ["lso-clock", "lso-table3", "lso-receive", "gigabit-bus", "zero-copy"] {
        assert!(names.contains(&&name.to_owned()), "{names:?}");
    }
    assert!(names.len() >= 9, "{names:?}");
    folder.refuses(2, &["reproduce", "lso-table1", "--all"], &["--all"]);
}

fn found_figures(folder: &Folder) -> usize {
    std::fs::read_dir(folder.path("figures")).unwrap().count()
}

/// Models give equal results everywhere, so that their pictures are the same, too. With `LINECARD_WRITE=1` they
/// are written.
fn figures_are_those_of_the_manual(made: &Path) {
    let kept = root().join("docs/results/papers");
    let read = |folder: &Path| -> BTreeMap<OsString, Vec<u8>> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap())).collect()
    };
    let made = read(made);
    if std::env::var_os("LINECARD_WRITE").is_some_and(|value| value == "1") {
        made.iter().for_each(|(name, picture)| std::fs::write(kept.join(name), picture).unwrap());
    }
    let kept = read(&kept);
    let names =
        |pictures: &BTreeMap<OsString, Vec<u8>>| pictures.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&made), names(&kept), "docs/results/papers");
    for (name, picture) in &made {
        assert!(*picture == kept[name], "{name:?} is not up to date: set LINECARD_WRITE=1");
    }
}

/// Other hardware has other cells, and nothing explains them: the exit code says so.
#[test]
fn other_hardware_differs_without_a_reason() {
    let folder = Folder::new();
    folder.write("own.toml", b"model = \"transmit\"\nbus.header = \"bus\"\n");
    let outcome = folder.run(&["reproduce", "lso-table1", "--scenario", "own.toml"]);
    assert_eq!(outcome.code, Some(10), "{outcome:?}");
    assert!(outcome.stdout.contains("DIFFERS"));
    assert!(outcome.stderr.contains("figures differ"), "{outcome:?}");
}
