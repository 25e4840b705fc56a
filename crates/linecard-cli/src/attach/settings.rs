//! From arguments to settings, each checked.

use super::args::{
    ActiveAckWindow, AttachArguments, DeploymentKind, IdlePolicy, LearnOn, MergeWay, OutputOrder,
};
use crate::args::Checksum;
use crate::failure::Failure;
use linecard::offload::{active_ack, coalesce, resequence};
use linecard_io::attach::{Deployment, Merge, Settings};
use linecard_io::engine::{self, Idle, Order};
use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

/// What `--idle sleep` sleeps: as long as 64 packets of 1,500 bytes take at 16 Gbit/s.
const SLEEP: Duration = Duration::from_micros(50);

/// What the arguments ask for.
pub(super) fn of(arguments: &AttachArguments) -> Result<Settings, Failure> {
    let AttachArguments { near, far, interval, .. } = arguments;
    if near == far {
        return Err(Failure::Usage(format!("{near} cannot be joined to itself: name two ports")));
    }
    let (shortest, longest) = (Duration::from_millis(100), Duration::from_secs(3_600));
    if !(shortest..=longest).contains(interval) {
        let text = format!("--interval {interval:?} is out of range: choose 100ms to 3600s");
        return Err(Failure::Usage(text));
    }
    if let Some(seconds) = arguments.seconds {
        within("--seconds", seconds, &(0.01..=1e9))?;
    }
    let checksum = match arguments.checksum {
        Checksum::Verify => coalesce::ChecksumPolicy::Verify,
        Checksum::Trust => coalesce::ChecksumPolicy::Trust,
    };
    let settings = Settings {
        deployment: match arguments.deployment {
            DeploymentKind::Inline => Deployment::Inline,
            DeploymentKind::Shared => Deployment::Shared,
            DeploymentKind::Dedicated => Deployment::Dedicated,
        },
        engine: engine(arguments)?,
        merge: merge(arguments.merge),
        coalesce: coalesce(arguments, checksum)?,
        resequence: arguments
            .reorder
            .then(|| resequence::Config { checksum, ..resequence::Config::default() }),
        active_ack: arguments.active_ack.map(|window| active_ack(window, checksum)),
        buffers: size("--buffers", arguments.buffers, &(128..=1 << 20))?,
        keep_rights: arguments.keep_rights,
        ..Settings::new(near.clone(), far.clone())
    };
    Ok(settings)
}

fn engine(arguments: &AttachArguments) -> Result<engine::Config, Failure> {
    Ok(engine::Config {
        // Checked to be so few.
        workers: size("--workers", arguments.workers, &(1..=1_024))? as u16,
        cores: arguments.cores.as_ref().map(|cores| cores.0.clone()).unwrap_or_default(),
        idle: match arguments.idle {
            IdlePolicy::Spin => Idle::Spin,
            IdlePolicy::Yield => Idle::Yield,
            IdlePolicy::Sleep => Idle::Sleep(SLEEP),
            IdlePolicy::Interrupt => Idle::Interrupt,
        },
        batch: size("--batch", arguments.batch, &(1..=64))?,
        ring_capacity: size("--ring", arguments.ring, &(1..=65_536))?,
        order: match arguments.output_order {
            OutputOrder::RoundRobin => Order::RoundRobin,
            OutputOrder::Fifo => Order::Fifo,
            OutputOrder::Stack => Order::Stack,
        },
        ..engine::Config::default()
    })
}

fn merge(way: MergeWay) -> Merge {
    Merge {
        inward: matches!(way, MergeWay::Inward | MergeWay::Both),
        outward: matches!(way, MergeWay::Outward | MergeWay::Both),
    }
}

fn coalesce(
    arguments: &AttachArguments,
    checksum: coalesce::ChecksumPolicy,
) -> Result<coalesce::Config, Failure> {
    let times = Duration::from_micros(1)..=Duration::from_secs(1);
    for (option, time) in [("--hold", arguments.hold), ("--idle-timeout", arguments.idle_timeout)] {
        if !times.contains(&time) {
            let text = format!("{option} {time:?} is out of range: choose 1us to 1s");
            return Err(Failure::Usage(text));
        }
    }
    Ok(coalesce::Config {
        checksum,
        creation: match arguments.learn_on {
            LearnOn::Data => coalesce::Creation::OnData,
            LearnOn::Syn => coalesce::Creation::OnSyn,
        },
        hold_budget: arguments.hold,
        idle_floor: arguments.idle_timeout,
        flush_at_batch_end: arguments.flush_batches,
        flush_quiet_at_batch_end: true,
        max_bytes: size("--max-size", arguments.max_size as u64, &(576..=65_535))?,
        max_flows: size("--max-flows", arguments.max_flows, &(8..=4_194_304))?,
        ..coalesce::Config::default()
    })
}

fn active_ack(window: ActiveAckWindow, checksum: coalesce::ChecksumPolicy) -> active_ack::Config {
    let mode = match window {
        ActiveAckWindow::Receiver => active_ack::Mode::WindowHonest,
        ActiveAckWindow::Paper => active_ack::Mode::Paper,
    };
    active_ack::Config { mode, checksum, ..active_ack::Config::default() }
}

fn within<T: PartialOrd + Display>(
    option: &str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<T, Failure> {
    if range.contains(&value) {
        return Ok(value);
    }
    let (low, high) = (range.start(), range.end());
    Err(Failure::Usage(format!("{option} {value} is out of range: choose {low} to {high}")))
}

fn size(option: &str, value: u64, range: &RangeInclusive<u64>) -> Result<usize, Failure> {
    // All ranges are within what memory can be counted by.
    within(option, value, range).map(|value| value as usize)
}
