//! Pipelines on many cores: threads pinned to cores that share nothing.
//!
//! Every thread runs one [`Body`], most often a [`Pipeline`](linecard::pipeline::Pipeline), and
//! `run_once(now)` is the only loop body. A worker has its own flow table, timers and buffers; flows are steered to workers by the
//! hash that network hardware uses ([`Steering`]), so that a flow lives on one of them. Threads talk
//! through rings with one producer and one consumer ([`ring`](mod@ring)); a ring's ends are
//! [`Port`](linecard::port::Port)s, and so are the two that stand between one port and many workers:
//! [`Spread`] and [`Gather`].
//!
//! What is joined says a [`Join`]: two ports, and stages for both ways between them.
//!
//! | deployment | threads |
//! |---|---|
//! | [`inline`] | each worker has both ports for itself (queues of an interface, members of a fanout) |
//! | [`shared`] | one thread has both ports, workers do the near port's packets |
//! | [`dedicated`] | each port has a thread, workers do the near port's packets |
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
mod ways;

pub use deploy::{Config, Join, dedicated, inline, shared};
pub use drive::{Body, Engine, Failure, Stopper, Thread};
pub use gather::{Gather, GatherCounters, Order};
pub use idle::Idle;
pub use spread::{OnFull, Spread, SpreadCounters};
pub use steering::Steering;
