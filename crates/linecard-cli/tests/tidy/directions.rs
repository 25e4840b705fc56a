//! Inside the pure crates modules know only those to their left:
//! `time, rng, stats, progress <- packet <- offload <- stage, stages, port <- pipeline`; in the model
//! `clock, events, hash <- dma, cell, rv32 <- elf, transmit <- receive, solve`, and each other model by
//! itself; in the jitter lab `stream, stats <- media, trace <- ledger <- verdict <- linux`; in bulk
//! transfer `wire, control, fec, layout <- lane <- send, receive <- store <- sim`. Test code may look anywhere.

use std::collections::BTreeSet;

use crate::Finding;
use crate::source::{Source, Tree, find_word, is_word};

/// A crate's modules and their ranks: one may use itself, lower ranks, and its own rank except where
/// `strangers` says otherwise.
struct Rules {
    name: &'static str,
    folder: &'static str,
    ranks: &'static [(&'static str, u8)],
    /// Those of this rank do not know each other.
    strangers: u8,
}

const CRATES: [Rules; 4] = [
    Rules {
        name: "linecard",
        folder: "crates/linecard/src/",
        ranks: &[
            ("time", 0),
            ("progress", 0),
            ("rng", 0),
            ("stats", 0),
            ("packet", 1),
            ("offload", 2),
            ("stage", 3),
            ("stages", 3),
            ("port", 3),
            ("pipeline", 4),
        ],
        strangers: 5,
    },
    Rules {
        name: "linecard-model",
        folder: "crates/linecard-model/src/",
        ranks: &[
            ("clock", 0),
            ("events", 0),
            ("hash", 0),
            ("dma", 1),
            ("cell", 1),
            ("rv32", 1),
            ("elf", 2),
            ("transmit", 2),
            ("receive", 3),
            ("solve", 3),
            ("npu", 3),
            ("pci", 3),
            ("pcie", 3),
            ("adapter", 3),
            ("path", 3),
        ],
        strangers: 3,
    },
    Rules {
        name: "linecard-jitter",
        folder: "crates/linecard-jitter/src/",
        ranks: &[
            ("stream", 0),
            ("stats", 0),
            ("media", 1),
            ("trace", 1),
            ("ledger", 2),
            ("verdict", 3),
            ("linux", 4),
        ],
        strangers: 1,
    },
    Rules {
        name: "linecard-transfer",
        folder: "crates/linecard-transfer/src/",
        ranks: &[
            ("wire", 0),
            ("fec", 0),
            ("control", 0),
            ("layout", 0),
            ("lane", 1),
            ("send", 2),
            ("receive", 2),
            ("store", 3),
            ("sim", 4),
        ],
        strangers: 2,
    },
];

/// Imports against the direction, and modules without a rank.
pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    CRATES.iter().flat_map(|rules| check_crate(tree, rules)).collect()
}

fn check_crate(tree: &Tree, rules: &Rules) -> Vec<Finding> {
    let re_exports = re_exports(tree, rules.name);
    let root = format!("{}lib.rs", rules.folder);
    let files = tree.of_crate(rules.name).filter(|file| file.path != root);
    files.flat_map(|file| rules.check_file(file, &re_exports)).collect()
}

impl Rules {
    fn check_file(&self, file: &Source, re_exports: &[(String, String)]) -> Vec<Finding> {
        let path = module_path(&file.path, self.folder);
        let module = path[0].as_str();
        if self.rank(module).is_none() {
            let what = format!("module `{module}` has no rank: place it in CRATES of this test");
            return vec![Finding::new(&file.path, 0, what)];
        }
        let mut findings = Vec::new();
        for (at, name) in names_of_the_crate(&file.shipped, path.len()) {
            let exported = re_exports.iter().find(|(item, _)| *item == name);
            let target = exported.map_or(name.as_str(), |(_, module)| module);
            if let Err(why) = self.may_use(module, target) {
                findings.push(Finding::new(&file.path, file.line_of(at), why));
            }
        }
        findings
    }

    fn rank(&self, module: &str) -> Option<u8> {
        self.ranks.iter().find(|(name, _)| *name == module).map(|(_, rank)| *rank)
    }

    fn may_use(&self, module: &str, target: &str) -> Result<(), String> {
        if module == target {
            return Ok(());
        }
        match (self.rank(module), self.rank(target)) {
            (Some(own), Some(other)) if own == other && own == self.strangers => {
                Err(format!("`{module}` uses `{target}`: they do not know each other"))
            }
            (Some(own), Some(other)) if own >= other => Ok(()),
            (Some(_), Some(_)) => Err(format!(
                "`{module}` uses `{target}`, which stands above it: move the shared part down"
            )),
            _ => Err(format!(
                "`crate::{target}` is not a module of CRATES: name the item by its module's path"
            )),
        }
    }
}

/// `crates/linecard/src/offload/coalesce/mod.rs` is `offload::coalesce`.
fn module_path(file: &str, folder: &str) -> Vec<String> {
    let inside = file.trim_start_matches(folder).trim_end_matches(".rs").trim_end_matches("/mod");
    inside.split('/').map(str::to_owned).collect()
}

/// Offset and first name of every path from the crate's root: `crate::a`, `crate::{a, b}`, and
/// `super::a` where the `super`s lead to the root.
fn names_of_the_crate(code: &str, depth: usize) -> Vec<(usize, String)> {
    let mut names = Vec::new();
    for at in find_word(code, "crate::") {
        names.extend(heads(&code[at + "crate::".len()..]).into_iter().map(|name| (at, name)));
    }
    let root = "super::".repeat(depth);
    for at in find_word(code, "super::").filter(|&at| !code[..at].ends_with("super::")) {
        if let Some(rest) = code[at..].strip_prefix(&root) {
            names.extend(heads(rest).into_iter().map(|name| (at, name)));
        }
    }
    names
}

/// First names of a use tree, each once: `a::b` has `a`; `{a, b::{c, d}}` has `a` and `b`.
fn heads(tree: &str) -> BTreeSet<String> {
    leaves(tree).into_iter().filter_map(|path| path.into_iter().next()).collect()
}

/// The paths of the use tree that `text` starts with; `a as b` ends in `b`.
fn leaves(text: &str) -> Vec<Vec<String>> {
    let text = text.trim_start();
    let Some(group) = text.strip_prefix('{') else {
        let name: String = text.chars().take_while(|&c| is_word(c) || c == '*').collect();
        let rest = text[name.len()..].trim_start();
        if let Some(rest) = rest.strip_prefix("::") {
            let below = leaves(rest).into_iter();
            return below.map(|path| [vec![name.clone()], path].concat()).collect();
        }
        let alias = rest
            .strip_prefix("as ")
            .map(|rest| rest.trim_start().chars().take_while(|&c| is_word(c)).collect());
        return match alias {
            Some(alias) => vec![vec![name, alias]],
            None if name.is_empty() => Vec::new(),
            None => vec![vec![name]],
        };
    };
    let mut paths = Vec::new();
    let (mut depth, mut start) = (0_usize, 0);
    for (at, c) in group.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => {
                paths.extend(leaves(&group[start..at]));
                break;
            }
            '}' => depth -= 1,
            ',' if depth == 0 => {
                paths.extend(leaves(&group[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    paths
}

/// Item and module of what `lib.rs` re-exports at the root.
fn re_exports(tree: &Tree, name: &str) -> Vec<(String, String)> {
    let Some(root) = tree.of_crate(name).find(|file| file.path.ends_with("src/lib.rs")) else {
        return Vec::new();
    };
    let mut items = Vec::new();
    for at in find_word(&root.shipped, "use ") {
        for path in leaves(&root.shipped[at + "use ".len()..]) {
            let path: Vec<String> =
                path.into_iter().filter(|name| name != "crate" && name != "self").collect();
            if let [module, .., item] = path.as_slice() {
                items.push((item.clone(), module.clone()));
            }
        }
    }
    items
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> Vec<String> {
        let path = format!("crates/linecard/src/{path}");
        let lib = ("crates/linecard/src/lib.rs", "pub use packet::{Packet, flow::Key as FlowKey};");
        check(&Tree::of(&[lib, (&path, text)])).into_iter().map(|finding| finding.what).collect()
    }

    #[test]
    fn down_is_allowed_and_up_is_not() {
        assert_eq!(findings("offload/mod.rs", "use crate::packet::Packet;"), [""; 0]);
        assert!(findings("packet/mod.rs", "use crate::offload::X;")[0].contains("stands above"));
        assert!(
            findings("time.rs", "fn a() -> crate::packet::Packet {}")[0].contains("stands above")
        );
        let nested =
            findings("packet/a/b.rs", "use crate::{\n time::Nanos,\n port::{Port, X},\n};");
        assert_eq!(nested.len(), 1);
    }

    #[test]
    fn the_root_is_also_reached_by_super() {
        assert_eq!(findings("packet/a.rs", "use super::port::X;"), [""; 0]);
        assert_eq!(findings("packet/a.rs", "use super::super::port::X;").len(), 1);
        assert_eq!(findings("packet/mod.rs", "use super::port::X;").len(), 1);
    }

    #[test]
    fn re_exports_count_as_their_module() {
        assert_eq!(findings("offload/mod.rs", "use crate::{FlowKey, Packet};"), [""; 0]);
        assert_eq!(findings("time.rs", "use crate::{FlowKey, Packet};").len(), 2);
        assert!(
            findings("packet/mod.rs", "use crate::Unknown;")[0].contains("not a module of CRATES")
        );
    }

    #[test]
    fn strangers_stay_apart() {
        let of_model = |path: &str, text: &str| {
            let lib = ("crates/linecard-model/src/lib.rs", "pub use clock::Ps;");
            let path = format!("crates/linecard-model/src/{path}");
            check(&Tree::of(&[lib, (&path, text)]))
        };
        assert_eq!(of_model("solve/mod.rs", "use crate::{Ps, transmit::X};"), []);
        let found = of_model("npu/mod.rs", "use crate::pci::X;");
        assert!(found[0].what.contains("do not know"));
        assert_eq!(of_model("rv32/mod.rs", "use crate::transmit::X;").len(), 1);
    }

    #[test]
    fn a_new_module_needs_a_rank() {
        assert!(findings("utils.rs", "")[0].contains("has no rank"));
    }

    #[test]
    fn test_code_may_look_anywhere() {
        let text = "#[cfg(test)]\nmod tests { use crate::port::X; }";
        assert_eq!(findings("packet/mod.rs", text), [""; 0]);
    }
}
