//! `linecard attach`.

mod args;
mod report;
mod settings;

pub(crate) use args::AttachArguments;

use crate::account;
use crate::failure::Failure;
use crate::say;
use linecard_host::attach::{Account, Attached, Prepared};
use linecard_host::rights;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// How often is looked whether to end.
const LOOK: Duration = Duration::from_millis(20);

/// Runs the command.
pub(crate) fn command(arguments: &AttachArguments) -> Result<(), Failure> {
    let settings = settings::of(arguments)?;
    let asked = signals()?;
    let prepared = Prepared::new(settings).map_err(|error| Failure::Attach(error.to_string()))?;
    prepared.opened().iter().for_each(|line| say(line));
    if !arguments.keep_rights {
        let dropped = rights::drop_all(rights::Account::default());
        let dropped = dropped.map_err(|error| Failure::Attach(error.to_string()))?;
        say(&dropped.to_string());
    }
    let attached = prepared.start();
    watch(&attached, arguments, &asked);
    let ended_itself = attached.is_ending();
    attached.stop();
    let elapsed = attached.elapsed();
    let (account, failures) = attached.finish();
    account::print(&report::of(&account, elapsed), arguments.json, None)?;
    if let Some(failure) = failures.into_iter().next() {
        return Err(Failure::Thread(failure.to_string()));
    }
    if ended_itself { Err(gone(arguments, &account)) } else { Ok(()) }
}

/// Ends by itself, at a signal or when the time is over.
fn watch(attached: &Attached, arguments: &AttachArguments, asked: &AtomicBool) {
    let end = arguments.seconds.map(Duration::from_secs_f64);
    while !attached.is_ending()
        && !asked.load(Ordering::Relaxed)
        && end.is_none_or(|end| attached.elapsed() < end)
    {
        thread::sleep(LOOK);
    }
}

/// Set by Ctrl-C or SIGTERM; a second one ends the process at once.
fn signals() -> Result<Arc<AtomicBool>, Failure> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&asked))?;
        signal_hook::flag::register(signal, Arc::clone(&asked))?;
    }
    Ok(asked)
}

/// Which port has ended.
fn gone(arguments: &AttachArguments, account: &Account) -> Failure {
    let near = Account::total(&account.near).gone > 0;
    let port = if near { &arguments.near } else { &arguments.far };
    Failure::Gone(format!(
        "{port} is gone: its interface was removed, or moved to another namespace; what was held has \
         been let go"
    ))
}
