//! `linecard jitter`: which cause makes each late packet, and what to change.

#[cfg(target_os = "linux")]
mod audit;
#[cfg(target_os = "linux")]
mod lab;
#[cfg(target_os = "linux")]
mod watch;

use crate::codes::all_exit_codes;
#[cfg(target_os = "linux")]
use crate::job::JobArguments;
use crate::job::PagedArguments;
#[cfg(target_os = "linux")]
use crate::page::PageArguments;
#[cfg(target_os = "linux")]
use crate::say;
use clap::{Args, Subcommand};
use linecard_app::Error;
use linecard_app::jitter::analyze::Analyze;
#[cfg(target_os = "linux")]
use linecard_app::jitter::{self, ab::Ab, dummy::Dummy, send::Send, sink::Sink};

#[derive(Debug, Args)]
#[command(after_long_help = all_exit_codes())]
pub(crate) struct JitterArguments {
    /// Without one: measure this host for a second and a half, over a virtual cable between two
    /// namespaces, and say how late packets are, how sure that is, why, and what to change.
    #[command(subcommand)]
    pub(crate) command: Option<JitterCommand>,
    /// Print JSON.
    #[arg(long, global = true)]
    json: bool,
    #[cfg(target_os = "linux")]
    #[command(flatten)]
    page: PageArguments,
}

/// Arguments of `linecard jitter ab`.
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
#[command(after_help = toggles(), after_long_help = toggles() + "\n" + &all_exit_codes())]
pub(crate) struct AbArguments {
    #[command(flatten)]
    job: JobArguments<Ab>,
    #[command(flatten)]
    page: PageArguments,
}

#[cfg(target_os = "linux")]
fn toggles() -> String {
    let mut text = "Toggles:\n".to_owned();
    for toggle in &linecard_jitter::linux::toggle::ALL {
        text += &format!("  {:<16} {}\n", toggle.name, toggle.switches);
    }
    text
}

/// Arguments of `linecard jitter remote-sender`.
#[cfg(target_os = "linux")]
#[derive(Debug, Args)]
pub(crate) struct RemoteSenderArguments {
    /// The only address that it sends to.
    #[arg(value_name = "ADDRESS:PORT")]
    target: std::net::SocketAddr,
}

#[derive(Debug, Subcommand)]
pub(crate) enum JitterCommand {
    /// Run the paper's experiments: all sources of jitter are removed, then added back one by one.
    ///
    /// E0 quality of the stream, E1 busy loop, E2 baseline, E3 from interrupt to application, E4 cores may sleep, E5
    /// interrupts between cores, E6 interrupts on a busy core, E7 the receiver blocks, E8 interrupts throttled. As
    /// root, runs in two network namespaces that it creates and removes, otherwise over the loopback interface; nothing
    /// else on the host is changed. Ctrl-C ends it with the results so far.
    #[cfg(target_os = "linux")]
    Run(lab::RunArguments),
    /// Measure the effect of a setting on packets, and its significance, by randomised runs with and without it.
    ///
    /// Each toggle is switched on and off in blocks of four runs, verified to have taken effect, and restored exactly,
    /// also after Ctrl-C or a crash. With several toggles, p is corrected (Holm). "aa" changes nothing: it shows the
    /// effect of chance.
    #[cfg(target_os = "linux")]
    Ab(AbArguments),
    /// Send streams to one address, as `--remote-sender` of another linecard asks over standard input and output.
    ///
    /// `linecard jitter run --remote-sender COMMAND` starts this: it is not for people. It ends, and stops sending, when
    /// its standard input ends.
    #[cfg(target_os = "linux")]
    RemoteSender(RemoteSenderArguments),
    /// Write one page of all kept results.
    #[cfg(target_os = "linux")]
    Report(lab::ReportArguments),
    /// Run a busy loop that receives nothing, to show how this host disturbs a program on a core.
    ///
    /// Prints both how long laps took (gaps) and how late they were: a pause of 10 ms is one long gap, and
    /// more than a thousand late laps.
    #[cfg(target_os = "linux")]
    Dummy(PagedArguments<Dummy>),
    /// Send a stream of constant rate on an absolute schedule, and report how well it was kept.
    ///
    /// A late packet is sent immediately; the schedule does not shift. Packets carry their number, their due time and
    /// their send time behind media headers.
    #[cfg(target_os = "linux")]
    Send(PagedArguments<Send>),
    /// Receive a stream of `linecard jitter send`, and report arrival times and lost packets.
    ///
    /// Ends when all expected packets have arrived, when no more arrive, or with Ctrl-C.
    #[cfg(target_os = "linux")]
    Sink(PagedArguments<Sink>),
    /// Follow each packet of one stream through the kernel, under given conditions; or, with --cost, measure the cost
    /// of tracing.
    ///
    /// Traces by BPF, or by tracefs where BPF is refused, and compares the trace with the kernel's own packet counters.
    #[cfg(target_os = "linux")]
    Trace(lab::TraceArguments),
    /// Analyze how evenly a stream in a capture arrives, and which buffers it needs.
    ///
    /// Takes RTP (ST 2022-6, ST 2110-20, -30, -31, -40), streams of `linecard jitter send`, and other UDP. Of several
    /// flows, the one with the most packets is analyzed, streams first. With a second capture of the same stream, for
    /// example from the application's side, both are shown side by side, with the delay of each packet between them.
    Analyze(PagedArguments<Analyze>),
    /// List the settings of this host that make packets late, with better values; change them only with --apply.
    ///
    /// Reads the kernel's command line and configuration, interrupts, the interface, clocks and sleep, the scheduler
    /// and memory. Settings that cannot be read are shown as unknown. With --apply, each setting is written to a
    /// journal before it is changed, read back after it, and restored at the end, also after a crash.
    #[cfg(target_os = "linux")]
    Audit(audit::AuditArguments),
    /// Watch live streams of other senders: loss, lateness, and whether packets were late before this host's socket or
    /// in it.
    ///
    /// Receives from sockets, with the kernel's time stamps, for as long as wanted, in bounded memory. The first two
    /// seconds teach what the stream carries (RTP, ST 2022-6, ST 2110) and its schedule; lateness counts 1.5 seconds
    /// later. A line tells of late packets, pauses and senders that begin again, of each at most one per second and
    /// stream. Ctrl-C ends it with the figures; SIGUSR1 prints those so far.
    #[cfg(target_os = "linux")]
    Watch(watch::WatchArguments),
}

#[cfg(target_os = "linux")]
impl JitterCommand {
    /// Its word on the command line.
    const fn name(&self) -> &'static str {
        match self {
            Self::Run(_) => "run",
            Self::Ab(_) => "ab",
            Self::RemoteSender(_) => "remote-sender",
            Self::Report(_) => "report",
            Self::Dummy(_) => "dummy",
            Self::Send(_) => "send",
            Self::Sink(_) => "sink",
            Self::Trace(_) => "trace",
            Self::Analyze(_) => "analyze",
            Self::Audit(_) => "audit",
            Self::Watch(_) => "watch",
        }
    }
}

/// Runs the command. Settings that an earlier run left changed are restored first.
pub(crate) fn command(arguments: &JitterArguments) -> Result<(), Error> {
    #[cfg(target_os = "linux")]
    jitter::recover().iter().for_each(|line| say(line));
    let Some(command) = &arguments.command else { return first_look(arguments) };
    #[cfg(target_os = "linux")]
    arguments.page.refuse_before(command.name())?;
    match command {
        #[cfg(target_os = "linux")]
        JitterCommand::Ab(AbArguments { job, page }) => job.until_signal(&page.check(&[])?),
        JitterCommand::Analyze(arguments) => arguments.of_captures(),
        #[cfg(target_os = "linux")]
        JitterCommand::Audit(arguments) => audit::command(arguments),
        #[cfg(target_os = "linux")]
        JitterCommand::Dummy(arguments) => arguments.until_signal(),
        #[cfg(target_os = "linux")]
        JitterCommand::RemoteSender(RemoteSenderArguments { target }) => {
            jitter::serve_remote(*target)
        }
        #[cfg(target_os = "linux")]
        JitterCommand::Report(kept) => lab::report(kept, arguments.json),
        #[cfg(target_os = "linux")]
        JitterCommand::Run(arguments) => lab::run(arguments),
        #[cfg(target_os = "linux")]
        JitterCommand::Send(arguments) => arguments.until_signal(),
        #[cfg(target_os = "linux")]
        JitterCommand::Sink(arguments) => arguments.until_signal(),
        #[cfg(target_os = "linux")]
        JitterCommand::Trace(arguments) => lab::trace(arguments),
        #[cfg(target_os = "linux")]
        JitterCommand::Watch(arguments) => watch::command(arguments),
    }
}

#[cfg(target_os = "linux")]
use lab::first_look;
#[cfg(target_os = "linux")]
pub(crate) use lab::reproduce;

#[cfg(not(target_os = "linux"))]
fn first_look(_: &JitterArguments) -> Result<(), Error> {
    Err(linecard_app::Failure::Usage
        .with("only captures can be looked at on this system: linecard jitter analyze"))
}
