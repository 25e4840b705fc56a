//! `linecard keys`: the key of this host, shared keys, and authorized senders.

use crate::account;
use crate::codes::all_exit_codes;
use crate::flags::Flags;
use clap::{Args, Subcommand};
use linecard_app::Error;
use linecard_app::finish;
use linecard_app::transfer::keys::{Config, Fingerprint, KeysJob, authorize, create_shared};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct KeysArguments {
    #[command(flatten)]
    flags: Flags<Config>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Create a shared key in a new file, to be copied to the other end over a secure channel.
    Psk {
        /// The file, which must not exist yet.
        file: PathBuf,
    },
    /// Allow the owner of this key to send to this host.
    Authorize {
        /// The fingerprint that `linecard keys` shows on the sender, as lc1….
        fingerprint: Fingerprint,
        /// A note to store with it.
        note: Option<String>,
        /// The list [default: ~/.config/linecard/authorized].
        #[arg(long, value_name = "FILE")]
        authorized: Option<PathBuf>,
    },
}

/// Runs the command.
pub(crate) fn command(arguments: &KeysArguments) -> Result<(), Error> {
    match &arguments.command {
        None => {
            let document = arguments.flags.document()?;
            let finished = finish::<KeysJob>("keys", &document, &Arc::default())?;
            account::print(&finished.report, arguments.json, None)
        }
        Some(Command::Psk { file }) => {
            create_shared(file)?;
            account::print_text(&format!(
                "{}: a new shared key. Copy it to the other end over a secure channel, and give --psk to both.\n",
                file.display()
            ))
        }
        Some(Command::Authorize { fingerprint, note, authorized }) => {
            let note = note.as_deref().unwrap_or("");
            let entry = authorize(authorized.as_deref(), *fingerprint, note)?;
            let list = entry.list.display();
            account::print_text(&match entry.was_there {
                true => format!("{fingerprint} is in {list} already\n"),
                false => format!(
                    "{fingerprint} may send to this host now; remove its line from {list} to end that\n"
                ),
            })
        }
    }
}
