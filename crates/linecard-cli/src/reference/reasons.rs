//! Every reason that an offload counts.

use super::{code, compare, table};
use linecard::offload::{ack_filter, active_ack, coalesce, reassemble, resequence, segment};

/// The names and explanations of an enum of reasons, as a table.
macro_rules! listed {
    ($reason:path) => {{
        use $reason as Reason;
        let rows = Reason::ALL.iter();
        let rows = rows.map(|why| vec![code(why.name()), why.explanation().to_owned()]);
        table(&["reason", "meaning"], rows)
    }};
}

#[test]
fn reasons_are_those_that_are_counted() {
    let parts = [
        (
            "Why packets did not merge",
            "Of `linecard coalesce`, `run` and `attach`: `refused` in JSON: one for each packet that did not join the held data of its flow; later ones may still join it. A packet that met no other of its flow has none, unless it carries no data, or shows no ports.",
            listed!(coalesce::Refusal),
        ),
        (
            "Why held packets were flushed",
            "`flushed` in JSON: one for each that leaves, merged or alone.",
            listed!(coalesce::Flush),
        ),
        (
            "Why packets were not segmented",
            "Of `linecard segment`: `refused` in JSON.",
            listed!(segment::Refusal),
        ),
        (
            "Reordering: why packets went through",
            "Of `--reorder` ([modes](../design/modes.md#reordering)): `in_sequence`.",
            listed!(resequence::Pass),
        ),
        ("Reordering: why held packets were flushed", "`released`.", listed!(resequence::Release)),
        (
            "Active ACK: why packets were not answered",
            "Of `--active-ack` ([modes](../design/modes.md#active-ack)): `not_acknowledged`.",
            listed!(active_ack::Silence),
        ),
        (
            "Active ACK: what became of the receiver's packets",
            "In the library.",
            listed!(active_ack::Answer),
        ),
        (
            "ACK coalescing: why packets went through",
            "In the library ([modes](../design/modes.md#ack-coalescing)).",
            listed!(ack_filter::Pass),
        ),
        (
            "ACK coalescing: why held acknowledgments were released",
            "In the library.",
            listed!(ack_filter::Release),
        ),
        ("Reassembling: why packets were passed on", "In the library.", listed!(reassemble::Pass)),
        (
            "Reassembling: why datagrams were given up",
            "In the library. Their fragments leave as they came.",
            listed!(reassemble::GiveUp),
        ),
    ];
    let parts = parts.map(|(title, intro, table)| format!("## {title}\n\n{intro}\n\n{table}"));
    let text = format!(
        "Every packet that an offload takes has a counted way out, by the names that JSON and metrics have.\n\n{}",
        parts.concat()
    );
    compare("reasons.md", "Reasons", &text);
}
