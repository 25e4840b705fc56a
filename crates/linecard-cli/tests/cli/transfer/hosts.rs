//! Short names of receivers, as users write them.

use super::ends::{Ends, beside_pauses, says};
use crate::folder::CommandOutput;
use std::fs;
use std::os::unix::fs::PermissionsExt;

const FILE: &str = "sender/linecard/hosts.toml";

impl Ends {
    /// Settings of the sender.
    fn write_hosts(&self, text: &str) {
        fs::create_dir_all(self.folder.path("sender/linecard")).unwrap();
        self.folder.write(FILE, text.as_bytes());
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(self.folder.path(FILE), mode).unwrap();
    }

    fn send_by_name(&self, arguments: &[&str]) -> CommandOutput {
        self.command("sender", &[&["send", "from.bin"], arguments].concat())
            .output()
            .unwrap()
            .into()
    }
}

/// Promise (Transfer): A name in `hosts.toml` stands for an address and options of `send`; options that are given
/// outweigh them.
#[test]
fn a_name_has_an_address_and_options() {
    let ends = Ends::with_file((1 << 20) + 7);
    let receiver = ends.receiver(&["--keep", "--overwrite"]);
    let (host, port) = receiver.address.split_once(':').unwrap();
    let entry = format!("[lab]\naddress = \"{}\"\nchunk = \"64K\"\n", receiver.address);
    ends.write_hosts(&format!("{entry}access.psk = \"../../psk\"\n"));
    let sent = ends.send_by_name(&["lab", "--json"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let said =
        format!("linecard: lab at {} with chunk, access.psk, by its entry in ", receiver.address);
    let lines = beside_pauses(&sent.stderr);
    assert!(lines.starts_with(&said) && lines.ends_with("hosts.toml\n"), "{sent:?}");
    let json: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap();
    assert_eq!(json["chunk_latency"]["chunks"], 17, "{json}");
    ends.assert_equal();

    // An option outweighs it, and so does a port.
    ends.folder.write("from.bin", &[7; 1 << 20]);
    ends.write_hosts(&format!(
        "[lab]\naddress = \"{host}:1\"\nchunk = \"64K\"\naccess.psk = \"none\"\n"
    ));
    let sent =
        ends.send_by_name(&[&format!("lab:{port}"), "--psk", "psk", "--chunk", "1M", "--json"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let json: serde_json::Value = serde_json::from_str(&sent.stdout).unwrap();
    assert_eq!(json["chunk_latency"]["chunks"], 1, "{json}");
    ends.assert_equal();

    // Without an address, the name itself is looked up.
    ends.folder.write("from.bin", b"short");
    ends.write_hosts("[localhost]\naccess.psk = \"../../psk\"\n");
    let sent = ends.send_by_name(&[&format!("localhost:{port}")]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    ends.assert_equal();
}

/// The name under which a key is known is that of the address.
#[test]
fn a_known_key_stays_known_by_a_short_name() {
    let ends = Ends::with_file(1_000);
    ends.authorize_sender();
    let receiver = ends.listen(&["to", "--keep"]);
    let sent = ends.send_by_name(&[&receiver.address, "--accept-new"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    ends.write_hosts(&format!("[lab]\naddress = \"{}\"\nstrict = true\n", receiver.address));
    let sent = ends.send_by_name(&["lab"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    let known = String::from_utf8(ends.folder.read("sender/linecard/known_peers")).unwrap();
    assert_eq!(known.lines().count(), 1, "{known}");
    assert!(known.starts_with(&receiver.address), "{known}");
}

/// The login gets the name as it is given; the lanes go to the address of the entry.
#[test]
fn a_name_of_a_host_with_a_login() {
    let ends = Ends::with_login(1_000);
    let receiver = format!("{} recv", env!("CARGO_BIN_EXE_linecard"));
    let options = format!("ssh = \"./login\"\nreceiver = {receiver:?}\naccess.psk = \"none\"\n");
    ends.write_hosts(&format!("[lab]\naddress = \"127.0.0.1\"\n{options}"));
    let sent = ends.send_by_name(&["me@lab:to"]);
    assert_eq!(sent.code, Some(0), "{sent:?}");
    assert!(
        sent.stderr.starts_with("linecard: lab at 127.0.0.1 with ssh, receiver, by"),
        "{sent:?}"
    );
    assert_eq!(ends.folder.read("logins"), b"me@lab\n");
    ends.assert_equal();
    // An address that leads nowhere is not replaced by that at which the login arrived.
    ends.write_hosts(&format!("[lab]\naddress = \"no-such-host.invalid\"\n{options}"));
    let sent = ends.send_by_name(&["lab:to"]);
    assert_eq!(sent.code, Some(14), "{sent:?}");
    says(&sent.stderr, &["cannot find no-such-host.invalid"]);
}

#[test]
fn a_wrong_entry_is_said_in_one_line() {
    let ends = Ends::with_file(1_000);
    let refused = |arguments: &[&str], code: i32, parts: &[&str]| {
        let sent = ends.send_by_name(arguments);
        assert_eq!((sent.code, sent.stderr.lines().count()), (Some(code), 1), "{sent:?}");
        says(&sent.stderr, parts);
    };
    ends.write_hosts("[lab]\naddress = \"127.0.0.1:1\"\nlane = \"eth0\"\n");
    refused(&["lab"], 2, &["hosts.toml:3: `lane = \"eth0\"`: unknown key `lane`: known are "]);
    ends.write_hosts("[lab]\naddress = \"127.0.0.1:1\"\naccess.psk = \"none\"\n");
    let sent = ends.send_by_name(&["lab"]);
    assert_eq!(sent.code, Some(1), "{sent:?}");
    says(&sent.stderr, &["sender/linecard/none: No such file"]);
    // Of other names, nothing is looked at but that the file can be read.
    refused(&["127.0.0.1:1", "--insecure-none"], 14, &["127.0.0.1:1"]);
    ends.write_hosts("[lab\n");
    refused(&["127.0.0.1:1", "--insecure-none"], 2, &["hosts.toml:1: `[lab`: "]);
    refused(&["lab", "--hosts", "none"], 1, &["--hosts none: no such file"]);
    let mode = fs::Permissions::from_mode(0o622);
    fs::set_permissions(ends.folder.path(FILE), mode).unwrap();
    refused(&["lab"], 1, &["hosts.toml: other users can change it (mode 622)", "chmod go-w"]);
}
