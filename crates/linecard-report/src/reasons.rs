//! Counted reasons as a section of an outcome.

use linecard::offload::reason::{Reason, Tally};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The keyword of schemas whose values are counted reasons.
pub(crate) const REASONS: &str = "x-reasons";

/// How often each reason occurred, the most frequent first; without those that did not occur. In JSON an object of
/// counts by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reasons<R>(pub Vec<(R, u64)>);

impl<R: Reason, const N: usize> From<&Tally<R, N>> for Reasons<R> {
    fn from(tally: &Tally<R, N>) -> Self {
        let counts = R::all().iter().map(|&reason| (reason, tally.of(reason)));
        let mut counts: Vec<(R, u64)> = counts.filter(|(_, count)| *count > 0).collect();
        counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        Self(counts)
    }
}

impl<R: Reason> Serialize for Reasons<R> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(reason, count)| (reason.name(), count)))
    }
}

impl<R: Reason> JsonSchema for Reasons<R> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Reasons".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let count = |reason: &R| {
            let schema =
                json!({ "type": "integer", "description": reason.explanation(), REASONS: true });
            (reason.name().to_owned(), schema)
        };
        let counts: Map<String, Value> = R::all().iter().map(count).collect();
        json_schema!({ "type": "object", "properties": counts })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::section_of;
    use linecard::offload::coalesce::Flush;

    #[test]
    fn reasons_show_their_names_counts_and_explanations() {
        let reasons = Reasons(vec![(Flush::Idle, 1_200), (Flush::Size, 3)]);
        let text = section_of("flushed", "Flushed", &reasons).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[1].starts_with("  idle  1,200  the flow paused"), "{text}");
        assert!(lines[2].starts_with("  size      3  the next packet"), "{text}");
    }
}
