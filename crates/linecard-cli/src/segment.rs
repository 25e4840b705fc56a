//! `linecard segment`.

use crate::account;
use crate::args::SegmentArguments;
use crate::coalesce::{create, ending, format_of, open};
use crate::failure::Failure;
use crate::found;
use crate::interrupt;
use crate::page::PageFile;
use crate::progress::Progress;
use linecard_app::Finished;
use linecard_io::convert::{self, Cut, Observer, SegmentAccount};
use linecard_report::{Report, Section, Value};

/// Smallest MTU that IPv4 allows (RFC 791, section 3.2).
const MIN_MTU: usize = 68;
/// Lengths in IP headers have 16 bits.
const MAX: usize = 65_535;

/// Runs the command.
pub(crate) fn command(arguments: &SegmentArguments) -> Result<(), Failure> {
    interrupt::remove_incomplete_output()?;
    found::show(find(arguments)?, arguments.json, Some(&arguments.output), &PageFile::default())
}

/// Cuts, and says what became of the packets.
pub(crate) fn find(arguments: &SegmentArguments) -> Result<Finished, Failure> {
    let cut = cut(arguments)?;
    let (input, output) = (&arguments.input, &arguments.output);
    let reader = open(input)?;
    let capture = |source| Failure::of_capture(input, source);
    let writer = create(input, output)?;
    let mut follow = Follow(Progress::for_input(input));
    let (writer, account) =
        convert::segment(reader, writer, format_of(output), cut, &mut follow).map_err(capture)?;
    writer.commit().map_err(capture)?;
    follow.0.done();
    let mut found =
        Finished::of_report(format!("Packets of {} cut", input.display()), report(&account));
    found.failure = ending(input, account.damage, &account.unknown, account.packets_in).err();
    Ok(found)
}

fn cut(arguments: &SegmentArguments) -> Result<Cut, Failure> {
    match (arguments.mss, arguments.mtu) {
        (Some(mss), _) if !(1..=MAX).contains(&mss) => Err(Failure::Usage(format!(
            "--mss {mss}: choose 1 to 65535 bytes of payload, for example 1448"
        ))),
        (_, Some(mtu)) if !(MIN_MTU..=MAX).contains(&mtu) => Err(Failure::Usage(format!(
            "--mtu {mtu}: choose {MIN_MTU} (the smallest IPv4 allows) to 65535, for example 1500"
        ))),
        // Both are within 16 bits now.
        (Some(mss), _) => Ok(Cut::Payload(mss as u16)),
        (_, Some(mtu)) => Ok(Cut::Mtu(mtu as u16)),
        (None, None) => Ok(Cut::AsMerged),
    }
}

fn report(account: &SegmentAccount) -> Report {
    let mut report = Report::new("segment");
    let mut packets = Section::new("packets", "Packets");
    packets.add("packets_in", "packets in", Value::Count(account.packets_in));
    packets.add("packets_out", "packets out", Value::Count(account.packets_out));
    packets.add("untouched", "untouched", Value::Count(account.untouched));
    packets.add("restored", "taken apart as merged", Value::Count(account.restored));
    report.push(packets);
    if account.counters.packets_in > 0 {
        report.push(account::classes(&account.counters));
    }
    let mut refused = Section::new("refused", "Why packets were not cut");
    for (name, (explanation, count)) in &account.refused {
        refused.add_reason(name, explanation, *count);
    }
    report.push(refused);
    if let Some(first) = account.first_refusal {
        let count: u64 = account.refused.values().map(|(_, count)| count).sum();
        report.note(format!(
            "{count} packets could not be segmented and are in the output as they came. The first: \
             {first}."
        ));
    }
    if account.truncated > 0 {
        report.note(format!(
            "{} of {} packets were cut short by the capture's snap length of {} bytes: they cannot \
             be segmented, as their payload is not there. Capture whole packets: `tcpdump -s 0`.",
            account.truncated, account.packets_in, account.snap_len
        ));
    }
    if account.large > 0 {
        report.note(format!(
            "{} packets are larger than 1500 bytes and do not say how they divide: use --mss or \
             --mtu.",
            account.large
        ));
    }
    account::lost_note(&mut report, &account.lost);
    account::unknown_note(&mut report, &account.unknown);
    report
}

struct Follow(Progress);

impl Observer for Follow {
    fn progress(&mut self, offset: u64) {
        self.0.at(offset);
    }
}
