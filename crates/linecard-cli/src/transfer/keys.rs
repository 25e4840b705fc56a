//! `linecard keys`: the key of this host, shared keys, and who may send.

use super::access;
use crate::account;
use crate::failure::{EXIT_CODES, Failure};
use clap::{Args, Subcommand};
use linecard_report::{Report, Section, Value};
use linecard_transfer_net::keys::{Authorized, Fingerprint, KeyError, SharedKey};
use std::fs::{DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

#[derive(Debug, Args)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct KeysArguments {
    /// This host's own key; made if the file is missing [default: ~/.config/linecard/identity].
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Make a key for both ends, in a new file: copy it to the other one by a safe way.
    Psk {
        /// The file; it must not be there yet.
        file: PathBuf,
    },
    /// Allow who has this key to send to this host.
    Authorize {
        /// What `linecard keys` shows on the sender, as lc1….
        fingerprint: Fingerprint,
        /// What to remember of it, behind it in the file.
        note: Option<String>,
        /// The list [default: ~/.config/linecard/authorized].
        #[arg(long, value_name = "FILE")]
        authorized: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) fn command(arguments: &KeysArguments) -> Result<(), Failure> {
    match &arguments.command {
        None => show(arguments),
        Some(Command::Psk { file }) => {
            SharedKey::create(file).map_err(|error| of_file(&error))?;
            account::print_text(&format!(
                "{}: a new shared key. Copy it to the other end by a safe way, and give --psk to both.\n",
                file.display()
            ))
        }
        Some(Command::Authorize { fingerprint, note, authorized }) => {
            let path = access::file(authorized.as_deref(), "authorized", "--authorized")?;
            account::print_text(&authorize(&path, *fingerprint, note.as_deref().unwrap_or(""))?)
        }
    }
}

fn show(arguments: &KeysArguments) -> Result<(), Failure> {
    let path = access::file(arguments.identity.as_deref(), "identity", "--identity")?;
    let identity = access::identity(Some(&path))?;
    let mut own = Section::new("own", "This host");
    own.add("fingerprint", "fingerprint", Value::Text(identity.fingerprint().to_string()));
    own.add("identity", "its key", Value::Text(path.display().to_string()));
    let mut others = Section::new("others", "Others");
    let list = access::file(None, "authorized", "--authorized")?;
    let known = access::file(None, "known_peers", "--known-peers")?;
    others.add("authorized_count", "who may send", Value::Count(access::allowed(&list)? as u64));
    others.add("authorized", "which are in", Value::Text(list.display().to_string()));
    others.add("known_peers", "known receivers are in", Value::Text(known.display().to_string()));
    let mut report = Report::new("keys");
    report.push(own);
    report.push(others);
    report.note(format!(
        "To send from here, run on the receiver: linecard keys authorize {}",
        identity.fingerprint()
    ));
    account::print(&report, arguments.json, None)
}

/// Writes a fingerprint behind the others; what to say.
fn authorize(path: &Path, fingerprint: Fingerprint, note: &str) -> Result<String, Failure> {
    if note.contains(char::is_control) {
        return Err(Failure::Usage("a note is one line, without control characters".into()));
    }
    // A list that is not as it should be would be refused later, with this line in it.
    access::allowed(path)?;
    if Authorized::Listed(path.to_owned()).allows(fingerprint).map_err(|error| of_file(&error))? {
        return Ok(format!("{fingerprint} is in {} already\n", path.display()));
    }
    let line = format!("{fingerprint} {note}");
    append(path, line.trim_end())
        .map_err(|error| Failure::Storage(format!("{}: {error}", path.display())))?;
    Ok(format!(
        "{fingerprint} may send to this host now; remove its line from {} to end that\n",
        path.display()
    ))
}

/// One write at the end, so that lines of two processes do not mix.
fn append(path: &Path, line: &str) -> io::Result<()> {
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    let mut file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
    // An editor may have left the last line open.
    file.write_all(format!("\n{line}\n").as_bytes())?;
    file.sync_all()
}

fn of_file(error: &KeyError) -> Failure {
    Failure::Storage(error.to_string())
}
