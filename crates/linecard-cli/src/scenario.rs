//! Scenario files that are read by hand.

pub(crate) use linecard_app::scenario::Source;
