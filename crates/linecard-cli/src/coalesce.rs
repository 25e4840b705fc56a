//! `linecard coalesce`.

use crate::account;
use crate::args::{Checksum, CoalesceArguments};
use crate::explain::Explanation;
use crate::failure::Failure;
use crate::found;
use crate::interrupt;
use crate::page;
use crate::progress::Progress;
use crate::watch;
use linecard::offload::coalesce::{ChecksumPolicy, Config, Counters, Exit, Refusal, Verdict};
use linecard::packet::Packet;
use linecard_app::Finished;
use linecard_io::capture::{CaptureError, Format, OutputFile};
use linecard_io::convert::{self, CoalesceAccount, Numbered, Observer};
use linecard_report::{Report, Section, Value};
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// Longest hold budget: beyond it, everything waits behind one packet.
const MAX_HOLD: Duration = Duration::from_secs(10);

/// Runs the command.
pub(crate) fn command(arguments: &CoalesceArguments) -> Result<(), Failure> {
    let (input, output) = (&arguments.input, &arguments.output);
    let page = arguments.page.check(&[input, output])?;
    interrupt::remove_incomplete_output()?;
    found::show(find(arguments)?, arguments.json, Some(output), &page)
}

/// Merges, and says what became of the packets.
pub(crate) fn find(arguments: &CoalesceArguments) -> Result<Finished, Failure> {
    let config = config(arguments)?;
    let explanation = arguments.explain_flow.as_deref().map(Explanation::of_flow).transpose()?;
    let (input, output) = (&arguments.input, &arguments.output);
    let reader = open(input)?;
    let capture = |source| Failure::of_capture(input, source);
    let writer = create(input, output)?;
    let mut follow = Follow { progress: Progress::for_input(input), explanation };
    let format = format_of(output);
    let (writer, account) =
        convert::coalesce(reader, writer, format, config, &mut follow).map_err(capture)?;
    writer.commit().map_err(capture)?;
    follow.progress.done();

    let mut report = report(&account);
    let missing = follow.explanation.and_then(|explanation| explanation.report(&mut report));
    let mut found = Finished::of_report(format!("Packets of {} merged", input.display()), report);
    page::merging(&mut found.page, "", &account.counters);
    found.failure = finish(input, account, missing).err();
    Ok(found)
}

/// Opens the input; `-` is stdin.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Read>, Failure> {
    if path == Path::new("-") {
        return Ok(Box::new(std::io::stdin().lock()));
    }
    let open = |source| Failure::Open { path: path.into(), source };
    let file = File::open(path).map_err(open)?;
    if file.metadata().is_ok_and(|data| data.is_dir()) {
        return Err(open(std::io::ErrorKind::IsADirectory.into()));
    }
    Ok(watch::input(Box::new(file)))
}

/// Opens the output, which must not be the input.
pub(crate) fn create(input: &Path, output: &Path) -> Result<OutputFile, Failure> {
    OutputFile::create(output, &[input]).map_err(|source| Failure::of_capture(input, source))
}

/// The format that a file's name asks for.
pub(crate) fn format_of(output: &Path) -> Format {
    match output.extension() {
        Some(extension) if extension.eq_ignore_ascii_case("pcap") => Format::Pcap,
        _ => Format::PcapNg,
    }
}

fn config(arguments: &CoalesceArguments) -> Result<Config, Failure> {
    let CoalesceArguments { max_size, max_flows, hold, .. } = *arguments;
    if !(576..=Config::MAX_BYTES).contains(&max_size) {
        return Err(Failure::Usage(format!(
            "--max-size {max_size}: choose 576 to {} (512K, the limit of BIG TCP)",
            Config::MAX_BYTES
        )));
    }
    if !(8..=1 << 22).contains(&max_flows) {
        return Err(Failure::Usage(format!("--max-flows {max_flows}: choose 8 to 4194304")));
    }
    if hold.is_zero() || hold > MAX_HOLD {
        return Err(Failure::Usage(format!("--hold {hold:?}: choose above 0, up to 10s")));
    }
    Ok(Config {
        checksum: match arguments.checksum {
            Checksum::Verify => ChecksumPolicy::Verify,
            Checksum::Trust => ChecksumPolicy::Trust,
        },
        hold_budget: hold,
        max_bytes: max_size,
        max_flows: max_flows as usize,
        ..Config::default()
    })
}

fn report(account: &CoalesceAccount) -> Report {
    let mut report = Report::new("coalesce");
    let counters = &account.counters;
    report.push(account::merging(counters));
    account::reasons(counters).into_iter().for_each(|section| report.push(section));
    let mut capture = Section::new("capture", "Capture");
    capture.add("other_blocks", "blocks that are no packets", Value::Count(account.blocks));
    capture.add("clock_resets", "clock set back", Value::Count(account.clock_resets));
    if account.blocks + account.clock_resets > 0 {
        report.push(capture);
    }
    let notes = [offload_note(counters), snapped_note(account)];
    notes.into_iter().flatten().for_each(|note| report.note(note));
    if account.lost_trails > 0 {
        report.note(format!(
            "The output is pcap, which cannot hold the segment sizes of {} merged packets: name \
             it .pcapng so that `linecard segment` gives back the originals.",
            account.lost_trails
        ));
    }
    account::lost_note(&mut report, &account.lost);
    account::unknown_note(&mut report, &account.unknown);
    report
}

/// Captures taken on a sender have packets whose checksums its hardware was to compute.
fn offload_note(counters: &Counters) -> Option<String> {
    let partial = counters.refused.of(Refusal::PartialChecksum);
    (partial > 0).then(|| {
        format!(
            "{partial} packets hold only the pseudo header's sum where the checksum belongs: the \
             capture looks taken on their sender, with checksum offload. `--checksum trust` \
             merges them."
        )
    })
}

/// Packets of which the capture has only the first bytes.
fn snapped_note(account: &CoalesceAccount) -> Option<String> {
    let CoalesceAccount { truncated, snap_len, .. } = account;
    (*truncated > 0).then(|| {
        format!(
            "{truncated} of {} packets were cut short by the capture's snap length of {snap_len} \
             bytes: they cannot be merged, as their payload is not there. Capture whole packets: \
             `tcpdump -s 0`.",
            account.counters.packets_in
        )
    })
}

fn finish(input: &Path, account: CoalesceAccount, missing: Option<String>) -> Result<(), Failure> {
    ending(input, account.damage, &account.unknown, account.counters.packets_in)?;
    missing.map_or(Ok(()), |missing| Err(Failure::Usage(missing)))
}

/// What the exit code has to say of a capture that was read to its end or its damage.
pub(crate) fn ending(
    input: &Path,
    damage: Option<CaptureError>,
    unknown: &convert::Unknown,
    packets: u64,
) -> Result<(), Failure> {
    let input = input.display().to_string();
    if let Some(damage) = damage {
        return Err(Failure::Damaged { input, damage });
    }
    match account::unknown_text(unknown) {
        Some(text) if unknown.values().sum::<u64>() == packets => {
            Err(Failure::UnknownLink(format!("{input}: {text}")))
        }
        _ => Ok(()),
    }
}

struct Follow {
    progress: Progress,
    explanation: Option<Explanation>,
}

impl Observer for Follow {
    fn progress(&mut self, offset: u64) {
        self.progress.at(offset);
    }

    fn arrives(&mut self, number: u64, packet: &Packet<Numbered>) {
        if let Some(explanation) = &mut self.explanation {
            explanation.arrives(number, packet);
        }
    }

    fn decided(&mut self, number: u64, verdict: Verdict) {
        if let Some(explanation) = &mut self.explanation {
            explanation.decided(number, verdict);
        }
    }

    fn leaves(&mut self, packet: &Packet<Numbered>, exit: Exit) {
        if let Some(explanation) = &mut self.explanation {
            explanation.leaves(packet, exit);
        }
    }
}
