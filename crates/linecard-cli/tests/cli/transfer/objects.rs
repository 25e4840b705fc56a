//! Transfers from and to an object store: moto, which `scripts/object-store.sh` installs. It checks signatures, and is
//! asked by boto3 what it has.

use super::ends::{Ends, Receiver, Sender, noise, signal};
use crate::folder::{CommandOutput, one_line};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);

/// A store that runs.
struct Store {
    server: Child,
    endpoint: String,
    keys: (String, String),
}

fn tool(name: &str) -> PathBuf {
    linecard_testkit::root().join("target/moto/bin").join(name)
}

impl Store {
    /// With a bucket `box`; none if there is no moto.
    fn start() -> Option<Self> {
        if !tool("moto_server").exists() {
            let why = "there is no moto: run scripts/object-store.sh";
            linecard_testkit::skip("transfers with an object store", why);
            return None;
        }
        let mut command = Command::new(tool("moto_server"));
        command.args(["-H", "127.0.0.1", "-p", "0"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut server = command.spawn().unwrap();
        let mut lines = BufReader::new(server.stderr.take().unwrap()).lines();
        let endpoint = loop {
            let line = lines.next().expect("it ended").unwrap();
            if let Some(at) = line.find("http://127.0.0.1:") {
                break line[at..].trim().to_owned();
            }
        };
        // What it logs.
        thread::spawn(move || lines.for_each(drop));
        let keys = ("any".to_owned(), "any".to_owned());
        let mut store = Self { server, endpoint, keys };
        let keys = store.ask(&["users", "box", "other"]);
        let (key, secret) = keys.trim().split_once(' ').unwrap();
        store.keys = (key.to_owned(), secret.to_owned());
        Some(store)
    }

    /// A command that knows it.
    fn known(&self, mut command: Command) -> Command {
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        for name in ["http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"] {
            command.env_remove(name);
        }
        command
            .env("AWS_ENDPOINT_URL", &self.endpoint)
            .env("AWS_ALLOW_HTTP", "true")
            .env("AWS_ACCESS_KEY_ID", &self.keys.0)
            .env("AWS_SECRET_ACCESS_KEY", &self.keys.1);
        command
    }

    /// What boto3 says.
    fn ask(&self, arguments: &[&str]) -> String {
        let mut python = Command::new(tool("python"));
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/transfer/store.py");
        python.args([script, &self.endpoint]).args(arguments);
        let output = self.known(python).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn receiver(&self, ends: &Ends, place: &str, more: &[&str]) -> Receiver {
        let all = [&["recv", "--listen", "127.0.0.1:0", place, "--psk", "psk"], more].concat();
        Receiver::start(self.known(ends.command("receiver", &all)))
    }

    fn send(&self, ends: &Ends, what: &str, to: &Receiver) -> CommandOutput {
        self.known(ends.sender(what, to, &[])).output().unwrap().into()
    }

    /// Sends `what` to `place`.
    fn move_(&self, ends: &Ends, what: &str, place: &str) -> [CommandOutput; 2] {
        let receiver = self.receiver(ends, place, &[]);
        let sent = self.send(ends, what, &receiver);
        [sent, receiver.end()]
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let _ended = self.server.kill().and_then(|()| self.server.wait());
    }
}

#[track_caller]
fn done(outputs: &[CommandOutput]) {
    assert!(outputs.iter().all(|output| output.code == Some(0)), "{outputs:?}");
}

/// Promise (Transfer): A tree goes from a folder to an object store that speaks S3, back, and from store to store, with the
/// same bytes and names; a second run sends nothing; an object of that name with other content is kept, with exit code 17.
#[test]
fn a_tree_goes_to_a_store_and_comes_back() {
    let Some(store) = Store::start() else { return };
    let ends = Ends::new();
    let files = [
        ("large.bin", noise(25 << 20)),
        ("empty", Vec::new()),
        ("a b/ä+c%41.txt", noise(10)),
        ("a b/deep/er", noise(70_000)),
    ];
    fs::create_dir_all(ends.folder.path("tree/a b/deep")).unwrap();
    for (name, bytes) in &files {
        ends.folder.write(&format!("tree/{name}"), bytes);
    }
    done(&store.move_(&ends, "tree", "s3://box/in/"));
    let listed = store.ask(&["list", "box"]);
    for (name, bytes) in &files {
        let line = listed.lines().find(|line| line.ends_with(&format!(" in/tree/{name}")));
        let line = line.unwrap_or_else(|| panic!("{name}: {listed}"));
        assert!(line.starts_with(&format!("{} ", bytes.len())), "{line}");
    }
    assert_eq!((listed.lines().count(), store.ask(&["parts", "box"])), (4, String::new()));
    // Again: all is equal.
    let again = store.move_(&ends, "tree", "s3://box/in");
    done(&again);
    assert!(again[0].stdout.contains("files there already"), "{}", again[0].stdout);
    // Back, and from store to store.
    done(&store.move_(&ends, "s3://box/in/tree", "back"));
    for (name, bytes) in &files {
        assert!(ends.folder.read(&format!("back/tree/{name}")) == *bytes, "{name}");
    }
    done(&store.move_(&ends, "s3://box/in/tree", "s3://other"));
    let other = store.ask(&["list", "other"]);
    assert_eq!(other, listed.replace(" in/", " "));
    done(&store.move_(&ends, "s3://box/in/tree/large.bin", "one"));
    assert!(ends.folder.read("one/large.bin") == files[0].1);
    // Another file of the same name is kept.
    ends.folder.write("tree/empty", b"no longer");
    let [sent, got] = store.move_(&ends, "tree", "s3://box/in");
    assert_eq!((sent.code, got.code), (Some(17), Some(17)), "{sent:?} {got:?}");
    assert!(got.stderr.contains("s3://box/in/tree/empty\" exists"), "{}", got.stderr);
    folders_and_keys_that_are_no_names(&store, &ends);
    first_errors(&store, &ends);
}

/// Keys that other programs make.
fn folders_and_keys_that_are_no_names(store: &Store, ends: &Ends) {
    ends.folder.write("empty", b"");
    let empty = ends.folder.path("empty").display().to_string();
    for key in ["odd/", "odd/folder/", "odd/with/", "odd/with/file", "odd/file"] {
        store.ask(&["put", "other", key, &empty]);
    }
    done(&store.move_(ends, "s3://other/odd", "odd"));
    for (name, is_folder) in
        [("folder", true), ("with", true), ("with/file", false), ("file", false)]
    {
        let path = ends.folder.path("odd/odd").join(name);
        assert_eq!(path.metadata().unwrap().is_dir(), is_folder, "{name}");
    }
    store.ask(&["put", "other", "odd/a//b", &empty]);
    let sending =
        ends.command("sender", &["send", "s3://other/odd", "127.0.0.1:9", "--psk", "psk"]);
    let sent: CommandOutput = store.known(sending).output().unwrap().into();
    assert_eq!(sent.code, Some(1), "{sent:?}");
    one_line(&sent.stderr, &["s3://other/odd", "odd/a//b", "name a prefix without it"]);
    fs::create_dir(ends.folder.path("lines")).unwrap();
    ends.folder.write("lines/a\nb", b"x");
    let [_, got] = store.move_(ends, "lines", "s3://other");
    assert!(got.stderr.contains("control character"), "{}", got.stderr);
}

/// What a user meets first: wrong names, wrong keys, no store.
fn first_errors(store: &Store, ends: &Ends) {
    let refused = |arguments: &[&str], variables: &[(&str, &str)], code: i32, parts: &[&str]| {
        let mut command = store.known(ends.command("receiver", arguments));
        command.envs(variables.iter().copied());
        let output: CommandOutput = command.output().unwrap().into();
        assert_eq!(output.code, Some(code), "{output:?}");
        one_line(&output.stderr, parts);
    };
    let recv = |place| ["recv", place, "--psk", "psk", "--listen", "127.0.0.1:0"];
    let none: [(&str, &str); 0] = [];
    refused(&recv("s3://nowhere/x"), &none, 1, &["s3://nowhere/x", "NoSuchBucket", "make it"]);
    refused(&recv("s3://box//x"), &none, 2, &["s3://box//x", "empty part"]);
    refused(&recv("s3://"), &none, 2, &["s3://", "s3://BUCKET"]);
    let secret = [("AWS_SECRET_ACCESS_KEY", "wrong")];
    refused(&recv("s3://box"), &secret, 1, &["s3://box", "403", "check AWS_ACCESS_KEY_ID"]);
    let key = [("AWS_ACCESS_KEY_ID", "wrong")];
    refused(&recv("s3://box"), &key, 1, &["s3://box", "403", "AWS_ACCESS_KEY_ID"]);
    let nobody = [("AWS_ACCESS_KEY_ID", "")];
    refused(&recv("s3://box"), &nobody, 2, &["s3://box", "AWS_SECRET_ACCESS_KEY"]);
    // A virtual machine would be asked for a role.
    let none_at_all = [
        ("AWS_ACCESS_KEY_ID", ""),
        ("AWS_SECRET_ACCESS_KEY", ""),
        ("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1"),
    ];
    refused(
        &recv("s3://box"),
        &none_at_all,
        1,
        &["s3://box", "no credentials: set AWS_ACCESS_KEY_ID"],
    );
    let plain = [("AWS_ALLOW_HTTP", "")];
    refused(&recv("s3://box"), &plain, 2, &["s3://box", "AWS_ALLOW_HTTP=true"]);
    // A port at which nothing listens.
    let closed = [("AWS_ENDPOINT_URL", "http://127.0.0.1:1")];
    refused(&recv("s3://box"), &closed, 1, &["s3://box", "127.0.0.1:1", "AWS_ENDPOINT_URL"]);
    let send = ["send", "s3://box/nothing", "127.0.0.1:9", "--psk", "psk"];
    refused(&send, &none, 1, &["s3://box/nothing", "no object has this key"]);
    let both = ["send", "s3://box/x", "psk", "127.0.0.1:9", "--psk", "psk"];
    refused(&both, &none, 2, &["s3://box/x is sent alone"]);
    let delete = ["send", "s3://box/x", "127.0.0.1:9", "--psk", "psk", "--delete"];
    refused(&delete, &none, 2, &["delete", "leave it out"]);
}

/// Promise (Transfer): An object of a store gets its name when all of it is there: a transfer that is stopped, that loses its
/// sender, or whose source is replaced while it is read stores nothing and leaves no parts of an upload.
#[test]
fn an_interrupted_transfer_stores_nothing() {
    let Some(store) = Store::start() else { return };
    let slow = ["--rate", "30M", "--chunk", "64K"];
    let ends = Ends::with_file(80 << 20);
    // Stopped, killed, and replaced while it is read.
    for name in ["INT", "KILL"] {
        let receiver = store.receiver(&ends, "s3://box", &["--patience", "2s"]);
        let sender = Sender::start(store.known(ends.sender("from.bin", &receiver, &slow)));
        let begun = Instant::now();
        while store.ask(&["parts", "box"]).is_empty() {
            assert!(begun.elapsed() < PATIENCE, "no upload begins");
        }
        signal(name, sender.id());
        let (_sent, got) = (sender.end(), receiver.end());
        assert_ne!(got.code, Some(0), "{got:?}");
        assert_eq!(store.ask(&["list", "box"]), "", "{name}");
        assert_eq!(store.ask(&["parts", "box"]), "", "{name}: parts are removed");
    }
    let from = ends.folder.path("from.bin").display().to_string();
    store.ask(&["put", "box", "from.bin", &from]);
    // With little room, so that not all of it is read at once.
    let receiver = store.receiver(&ends, "to", &["--memory", "1M"]);
    let slow = ["--rate", "60M", "--chunk", "64K"];
    let sender = Sender::start(store.known(ends.sender("s3://box/from.bin", &receiver, &slow)));
    thread::sleep(Duration::from_millis(500));
    fs::write(&from, noise((80 << 20) + 1)).unwrap();
    store.ask(&["put", "box", "from.bin", &from]);
    let (sent, got) = (sender.end(), receiver.end());
    assert_eq!((sent.code, got.code), (Some(1), Some(16)), "{sent:?} {got:?}");
    assert!(
        sent.stderr.contains("s3://box/from.bin\" changed while it was read"),
        "{}",
        sent.stderr
    );
    assert!(!ends.folder.path("to/from.bin").exists());
}
