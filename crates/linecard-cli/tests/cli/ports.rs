//! Capabilities of the host, as reported with all privileges, with few and with none.

use crate::around::is_there;
use crate::folder::{CommandOutput, Folder};
use crate::support::linecard;
use linecard_testkit::lab::{End, Namespace, cable};
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// Every key of every kind.
const KINDS: [(&str, &[&str]); 7] = [
    ("xdp", &["usable", "multi_buffer", "need_wakeup"]),
    ("packet", &["usable", "large_packets", "fanout", "qdisc_bypass", "takeover"]),
    ("tap", &["usable", "multi_queue", "large_tcp", "large_udp", "large_tunnels"]),
    ("tun", &["usable"]),
    ("vhost", &["usable"]),
    ("capture", &["usable"]),
    ("memory", &["usable"]),
];

/// Runs the command behind another one, which takes it and its arguments as its own last ones.
fn behind(starter: &[&str], program: &str, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new(starter[0]);
    command.args(&starter[1..]).arg(program).args(arguments).current_dir("/");
    command.output().unwrap().into()
}

fn program() -> String {
    linecard().get_program().to_str().unwrap().to_owned()
}

fn json(outcome: &CommandOutput) -> Json {
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    serde_json::from_str(&outcome.stdout).unwrap()
}

fn keys_are_stable(found: &Json) {
    assert_eq!(found["job"], "ports");
    let kinds = found["kinds"].as_object().unwrap();
    assert_eq!(kinds.len(), KINDS.len());
    for (kind, keys) in KINDS {
        let fields = kinds[kind].as_object().unwrap();
        let all = keys.iter().all(|key| fields.contains_key(*key));
        assert!(all && fields.len() == keys.len(), "{kind}: {fields:?}");
        assert!(fields.values().all(Json::is_boolean), "{kind}: {fields:?}");
    }
    for (name, interface) in found["interfaces"].as_object().unwrap() {
        for key in ["state", "mtu", "ports"] {
            assert!(!interface[key].is_null(), "{name}: no {key}");
        }
    }
}

/// Promise (Live interfaces): `linecard ports` finds the possible ports by trying, leaves nothing
/// behind, and names the missing privilege.
#[test]
fn whoever_asks_is_answered() {
    let folder = Folder::new();
    let text = folder.succeeds(&["ports"]);
    let found: Json = serde_json::from_str(&folder.succeeds(&["ports", "--json"])).unwrap();
    keys_are_stable(&found);
    for (kind, _) in KINDS {
        let usable = found["kinds"][kind]["usable"].as_bool().unwrap();
        let said = if usable { "yes" } else { "no" };
        let line = |line: &str| {
            let mut words = line.split([' ', ':']).filter(|word| !word.is_empty());
            // Ports have the name of what is read and written.
            let label = if kind == "capture" { "file" } else { kind };
            words.next() == Some(label) && words.next() == Some(said)
        };
        assert!(text.lines().any(line), "{kind} {said}: {text}");
        let lacking = found["lacking"].as_array().into_iter().flatten();
        let lines = lacking.filter(|line| line["label"] == kind).count();
        assert!(usable || lines > 0, "{kind} cannot be used, and nothing says why");
    }
    assert!(text.contains("is tested when the port is opened"), "{text}");
    assert!(folder.names().is_empty());
}

/// A cable whose one end is up, in a namespace of its own.
fn cabled() -> Result<Namespace, String> {
    let namespace = Namespace::new()?;
    let end = |device, options| End { namespace: &namespace, device, options };
    cable(end("lcva", &["address", "02:00:00:00:00:0a", "mtu", "1400"]), end("lcvb", &[]))?;
    namespace.ip(&["link", "set", "lcva", "up"])?;
    Ok(namespace)
}

#[test]
fn interfaces_of_the_namespace_are_listed() {
    let namespace = match cabled() {
        Ok(namespace) => namespace,
        Err(why) => return linecard_testkit::skip("ports of a namespace", why),
    };
    let mut command = namespace.command(program());
    let outcome: CommandOutput = command.args(["ports", "--json"]).output().unwrap().into();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let found: Json = serde_json::from_str(&outcome.stdout).unwrap();
    keys_are_stable(&found);
    let near = &found["interfaces"]["lcva"];
    assert_eq!((&near["state"], &near["mtu"]), (&"no carrier".into(), &1_400.into()));
    assert_eq!(
        (&near["mac"], &near["ports"]),
        (&"02:00:00:00:00:0a".into(), &"xdp:lcva packet:lcva".into())
    );
    assert!(near["rx_queues"].as_u64() > Some(0) && near["tx_queues"].as_u64() > Some(0));
    assert_eq!(found["interfaces"]["lcvb"]["state"], "down");
    let interfaces = found["interfaces"].as_object().unwrap();
    assert!(interfaces.keys().all(|name| !name.starts_with("lcprobe")), "a device is left");
}

#[test]
fn without_rights_the_ones_that_lack_are_named() {
    if !is_there("setpriv", "ports without rights") {
        return;
    }
    // Where this was built, nobody may be unable to look.
    let folder = Folder::new();
    fs::set_permissions(folder.path("."), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(program(), folder.path("linecard")).unwrap();
    let copy = folder.path("linecard");
    let starter = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let outcome = behind(&starter, copy.to_str().unwrap(), &["ports", "--json"]);
    if outcome.code != Some(0) {
        return linecard_testkit::skip("ports without rights", outcome.stderr);
    }
    let found = json(&outcome);
    keys_are_stable(&found);
    let lacking = found["lacking"].as_array().unwrap();
    for (kind, right) in [("xdp", "CAP_NET_RAW"), ("packet", "CAP_NET_RAW"), ("tap", "")] {
        assert_eq!(found["kinds"][kind]["usable"], false, "{kind}");
        let says = |line: &&Json| line["label"] == kind;
        let line = lacking.iter().find(says).unwrap()["value"].as_str().unwrap();
        // A kernel without it is not a matter of privileges.
        let named = line.contains("no permission") && line.contains(right);
        assert!(!line.contains('\n') && (named || line.contains("lacks")), "{kind}: {line}");
    }
    for kind in ["vhost", "capture", "memory"] {
        assert_eq!(found["kinds"][kind]["usable"], true, "{kind}");
    }
}
