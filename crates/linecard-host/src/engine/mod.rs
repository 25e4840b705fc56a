//! Pipelines on many cores: threads pinned to cores that share nothing.
//!
//! Every thread runs one [`Body`], most often a [`Pipeline`](linecard::pipeline::Pipeline), and
//! `run_once(now)` is the only loop body. A worker has its own flow table, timers and buffers; flows are steered to workers by the
//! hash that network hardware uses ([`Steering`]), so that a flow lives on one of them. Threads talk
//! through rings with one producer and one consumer ([`ring`](mod@ring)); a ring's ends are
//! [`Port`](linecard::port::Port)s, and so are the two that stand between one port and many workers:
//! [`Spread`] and [`Gather`].
//!
//! | deployment | threads |
//! |---|---|
//! | [`inline`] | each worker receives, works and transmits with ports of its own (queues of an interface, members of a fanout) |
//! | [`shared`] | one thread receives and transmits, workers work |
//! | [`dedicated`] | one thread receives, one transmits, workers work |
//!
//! Sources: papers/lro-npu.txt, sections III to V (independent connection tables, several rings,
//! balance of the output).

mod deploy;
mod drive;
mod gather;
mod idle;
pub mod ring;
mod spread;
mod steering;

pub use deploy::{Config, Parts, dedicated, inline, shared};
pub use drive::{Body, Engine, Failure, Thread};
pub use gather::{Gather, GatherCounters, Order};
pub use idle::Idle;
pub use spread::{OnFull, Spread, SpreadCounters};
pub use steering::Steering;
