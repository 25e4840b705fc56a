//! The numbers by which flows and merged packets refer to each other.

/// Place of a flow in the table.
pub(super) type FlowId = u32;

/// Place of a merged packet in the slab.
pub(super) type SlotId = u32;
