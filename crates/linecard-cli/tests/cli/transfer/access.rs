//! Authentication of the other end, and the errors when it fails.

use super::ends::{Ends, beside_pauses, says, signal};
use crate::folder::Folder;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};

#[test]
fn another_shared_key() {
    let ends = Ends::with_file(1_000);
    let made = ends.command("sender", &["keys", "psk", "other"]).output().unwrap();
    assert!(made.status.success());
    assert_eq!(fs::metadata(ends.folder.path("other")).unwrap().mode() & 0o777, 0o600);
    let receiver = ends.receiver(&[]);
    let all = ["send", "from.bin", &receiver.address, "--psk", "other"];
    let refused = ends.command("sender", &all).output().unwrap();
    assert_eq!(refused.status.code(), Some(15));
    says(&String::from_utf8_lossy(&refused.stderr), &["another shared key", "--psk"]);
    // The receiver waits for the right one.
    let sent = ends.send("from.bin", &receiver, &[]);
    let got = receiver.end();
    assert_eq!((sent.code, got.code), (Some(0), Some(0)), "{got:?}");
    assert!(got.stderr.contains("turned away 127.0.0.1:"), "{}", got.stderr);
    ends.assert_equal();
}

/// As two users meet for the first time, and the receiver's key changes later.
#[test]
fn keys_from_the_first_time_to_a_changed_one() {
    let ends = Ends::with_file(1_000);
    let receiver = ends.listen(&["to"]);
    assert!(receiver.said.contains("nobody may send yet"), "{}", receiver.said);
    let send = |address: &str, more: &[&str]| {
        let all = [&["send", "from.bin", address], more].concat();
        let output = ends.command("sender", &all).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let key = receiver.said.split("key of this end is ").nth(1).unwrap();
    let key = &key.lines().next().unwrap().to_owned();
    for more in [&[][..], &["--strict"]] {
        let (code, stderr) = send(&receiver.address, more);
        assert_eq!(code, Some(15), "{stderr}");
        says(&stderr, &["is not known", key, "--accept-new"]);
    }
    let (code, stderr) = send(&receiver.address, &["--accept-new"]);
    assert_eq!(code, Some(15), "{stderr}");
    says(&stderr, &["does not accept", "linecard keys authorize lc1"]);
    let own = stderr.split("authorize ").nth(1).unwrap().split(';').next().unwrap();
    let shown = ends.command("sender", &["keys"]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains(own));
    for says in ["may send to this host now", "already"] {
        let done =
            ends.command("receiver", &["keys", "authorize", own, "a test"]).output().unwrap();
        assert!(String::from_utf8_lossy(&done.stdout).contains(says), "{done:?}");
    }
    let (code, stderr) = send(&receiver.address, &["--accept-new"]);
    assert_eq!((code, &*beside_pauses(&stderr)), (Some(0), ""));
    let address = receiver.address.clone();
    let got = receiver.end();
    assert_eq!(got.code, Some(0), "{got:?}");
    assert!(got.stderr.contains(&format!("linecard keys authorize {own}")), "{}", got.stderr);
    ends.assert_equal();

    fs::remove_file(ends.folder.path("receiver/linecard/identity")).unwrap();
    let again = ["recv", "to", "--overwrite", "--listen", &address];
    let receiver = super::ends::Receiver::start(ends.command("receiver", &again));
    let (code, stderr) = send(&receiver.address, &["--accept-new"]);
    assert_eq!(code, Some(15), "{stderr}");
    says(&stderr, &["HAS CHANGED", key, "known_peers"]);
    signal("TERM", receiver.id());
    assert_eq!(receiver.end().code, Some(130));
}

/// A code instead of two fingerprints: afterwards neither end needs it.
#[test]
fn a_code_for_the_first_time() {
    let ends = Ends::with_file(1_000);
    let receiver = ends.listen(&["to", "--pair", "--authorized", "senders"]);
    let code = receiver.said.split("pairing code is ").nth(1).unwrap();
    let code = code.split(',').next().unwrap().to_owned();
    let send = |address: &str, more: &[&str]| {
        let all = [&["send", "from.bin", address], more].concat();
        let output = ends.command("sender", &all).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code_of_exit, stderr) = send(&receiver.address, &[]);
    assert_eq!(code_of_exit, Some(15), "{stderr}");
    let wrong = if code == "0000-0000" { "1111-1111" } else { "0000-0000" };
    let (code_of_exit, stderr) = send(&receiver.address, &["--pair", wrong]);
    assert_eq!(code_of_exit, Some(15), "{stderr}");
    says(&stderr, &["the pairing code is not the one that the other end shows"]);
    let all = ["send", "from.bin", &receiver.address, "--pair", "-", "--json"];
    ends.folder.write("code", format!("{code}\n").as_bytes());
    let mut sender = ends.command("sender", &all);
    sender.stdin(fs::File::open(ends.folder.path("code")).unwrap());
    let sent = sender.output().unwrap();
    let line =
        format!("linecard: paired with {}: its key is known from now on\n", receiver.address);
    let stderr = beside_pauses(&String::from_utf8_lossy(&sent.stderr));
    assert_eq!((sent.status.code(), stderr), (Some(0), line));
    let json: serde_json::Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert!(!json.to_string().contains(&code), "a code is not printed");
    let address = receiver.address.clone();
    let got = receiver.end();
    assert_eq!(got.code, Some(0), "{got:?}");
    let wrong = "a wrong pairing code (2 more until the code is void)";
    for line in [wrong, "may send from now on, as senders says"] {
        assert!(got.stderr.contains(line), "{}", got.stderr);
    }
    ends.assert_equal();
    let again = ["recv", "to", "--overwrite", "--authorized", "senders", "--listen", &address];
    let receiver = super::ends::Receiver::start(ends.command("receiver", &again));
    // The same command goes on where it was: both know each other.
    let (code_of_exit, stderr) = send(&receiver.address, &["--pair", &code]);
    assert_eq!((code_of_exit, &*beside_pauses(&stderr)), (Some(0), ""));
    assert_eq!(receiver.end().code, Some(0));
    let receiver = super::ends::Receiver::start(ends.command("receiver", &again));
    let stranger = ["send", "from.bin", &receiver.address, "--pair", &code];
    let stranger = ends.command("stranger", &stranger).output().unwrap();
    assert_eq!(stranger.status.code(), Some(15));
    says(
        &String::from_utf8_lossy(&stranger.stderr),
        &["shows no pairing code", "linecard recv --pair"],
    );
    let other = format!("localhost:{}", address.split(':').nth(1).unwrap());
    let (code_of_exit, stderr) = send(&other, &[]);
    assert_eq!(code_of_exit, Some(15), "{stderr}");
    says(&stderr, &["is not known", &format!("and is that of {address}")]);
    let (code_of_exit, stderr) = send(&receiver.address, &[]);
    assert_eq!((code_of_exit, &*beside_pauses(&stderr)), (Some(0), ""));
    let got = receiver.end();
    assert_eq!(got.code, Some(0));
    assert!(
        got.stderr.contains("it has a pairing code, and this end shows none"),
        "{}",
        got.stderr
    );
    for (arguments, why) in [
        (&["send", "from.bin", "h", "--pair", "4821"][..], "eight digits"),
        (&["send", "-", "127.0.0.1:9", "--pair", "-"], "stdin is the data"),
        (&["send", "from.bin", "h:", "--pair", "12345678"], "a key for once"),
        (&["recv", "to", "--pair", "--accept-any"], "--accept-any"),
    ] {
        ends.folder.refuses(2, arguments, &[why]);
    }
}

#[test]
fn without_keys_within_this_machine_only() {
    let ends = Ends::with_file(1_000);
    let receiver = ends.listen(&["to", "--insecure-none"]);
    assert!(receiver.said.contains("WITHOUT KEYS"), "{}", receiver.said);
    let all = ["send", "from.bin", &receiver.address, "--insecure-none"];
    let sent = ends.command("sender", &all).output().unwrap();
    assert_eq!((sent.status.code(), receiver.end().code), (Some(0), Some(0)));
    ends.assert_equal();
    let folder = Folder::new();
    let here = "127.0.0.1";
    folder.refuses(
        2,
        &["send", "-", "192.0.2.1", "--insecure-none"],
        &["within one machine", "192.0.2.1"],
    );
    folder.refuses(
        2,
        &["recv", "-", "--insecure-none", "--listen", "0.0.0.0"],
        &["only this machine may connect", here],
    );
}

#[test]
fn keys_in_words_and_json() {
    let ends = Ends::new();
    let run = |arguments: &[&str]| {
        let output = ends.command("host", arguments).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let json: serde_json::Value = serde_json::from_str(&run(&["keys", "--json"])).unwrap();
    let own = json["own"]["fingerprint"].as_str().unwrap();
    assert!(run(&["keys"]).contains(own));
    assert_eq!(json["others"]["authorized_count"], 0);
    run(&["keys", "authorize", own]);
    let json: serde_json::Value = serde_json::from_str(&run(&["keys", "--json"])).unwrap();
    assert_eq!(json["others"]["authorized_count"], 1);
    let again = ends.command("host", &["keys", "psk", "psk"]).output().unwrap();
    assert_eq!(again.status.code(), Some(1));
    says(&String::from_utf8_lossy(&again.stderr), &["psk: already exists", "name another file"]);
}

/// A list that becomes writable while the receiver waits: all senders were refused from then on, without a reason.
#[test]
fn a_list_that_others_can_change_while_the_receiver_waits() {
    let ends = Ends::with_file(1_000);
    let own = &ends.authorize_sender();
    let receiver = ends.listen(&["to"]);
    let list = ends.folder.path("receiver/linecard/authorized");
    let send = || {
        let all = ["send", "from.bin", &receiver.address, "--accept-new"];
        ends.command("sender", &all).output().unwrap()
    };
    fs::set_permissions(&list, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = send();
    assert_eq!(refused.status.code(), Some(15), "{refused:?}");
    says(
        &String::from_utf8_lossy(&refused.stderr),
        &[
            "cannot use its list of authorized \
         senders",
            own,
        ],
    );
    fs::set_permissions(&list, fs::Permissions::from_mode(0o600)).unwrap();
    let sent = send();
    assert_eq!(sent.status.code(), Some(0), "{sent:?}");
    let got = receiver.end();
    let parts = ["turned away", "other users can change it (mode 666)", "chmod go-w"];
    assert!(parts.iter().all(|part| got.stderr.contains(part)), "{}", got.stderr);
    assert!(!got.stderr.contains("keys authorize"), "{}", got.stderr);
}

/// The port scanner of an institution, a browser, or a sender without keys.
#[test]
fn what_is_no_tls_at_all() {
    let ends = Ends::with_file(1_000);
    let receiver = ends.receiver(&[]);
    let mut scanner = std::net::TcpStream::connect(&receiver.address).unwrap();
    scanner.write_all(b"GET / HTTP/1.0\r\n\r\n").unwrap();
    // It is turned away when the connection ends.
    let mut rest = Vec::new();
    let _reset = scanner.read_to_end(&mut rest);
    drop(scanner);
    assert_eq!(ends.send("from.bin", &receiver, &[]).code, Some(0));
    let got = receiver.end();
    let expected = "received data is not TLS: the peer is another program, or a sender with \
         --insecure-none";
    assert!(got.stderr.contains(expected), "{}", got.stderr);
}

/// A list that others may write lets them in: it is refused at both ends, as SSH does.
#[test]
fn lists_that_others_can_change() {
    let ends = Ends::with_file(1_000);
    let recv = ["recv", "to", "--listen", "127.0.0.1:0", "--authorized", "lists/authorized"];
    let send = ["send", "from.bin", "127.0.0.1:1", "--known-peers", "lists/known"];
    fs::create_dir(ends.folder.path("lists")).unwrap();
    let refused = |arguments: &[&str], parts: &[&str]| {
        let output = ends.command("host", arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        says(&String::from_utf8_lossy(&output.stderr), parts);
    };
    let chmod = |name: &str, mode| {
        let mode = fs::Permissions::from_mode(mode);
        fs::set_permissions(ends.folder.path(name), mode).unwrap();
    };
    for (name, command) in [("lists/authorized", &recv[..]), ("lists/known", &send[..])] {
        ends.folder.write(name, b"");
        chmod(name, 0o664);
        refused(command, &[name, "other users can change it (mode 664)", "chmod go-w"]);
        chmod(name, 0o644);
        chmod("lists", 0o777);
        refused(command, &["lists: other users can change it (mode 777)", "chmod go-w lists"]);
        chmod("lists", 0o755);
    }
}
