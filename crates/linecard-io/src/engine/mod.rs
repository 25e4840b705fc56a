//! Pipelines on many cores: threads pinned to cores that share nothing.
//!
//! Every thread runs one [`Task`], usually a [`Pipeline`](linecard::pipeline::Pipeline), and
//! `run_once(now)` is the only loop body. A worker has its own flow table, timers and buffers;
//! flows are steered to workers by the hash that network hardware uses ([`Steering`]), so that each
//! flow belongs to one worker. Threads communicate over rings with one producer and one consumer
//! ([`ring`](mod@ring)); both ends of a ring are [`Port`](linecard::port::Port)s, and so are
//! [`Spread`] and [`Gather`], which connect one port with many workers.
//!
//! A [`Join`] supplies the two ports, and the stages between them in both directions.
//!
//! | deployment | threads |
//! |---|---|
//! | [`inline`] | each worker has its own pair of ports (queues of an interface, members of a fanout group) |
//! | [`shared`] | one thread serves both ports, workers process packets from the near port |
//! | [`dedicated`] | one thread per port, workers process packets from the near port |
//!
//! Sources: Li, Chen, Su, sections III to V (independent connection tables, several rings,
//! balance of the output).

mod boost;
mod busy;
mod deploy;
mod drive;
mod gather;
mod idle;
mod park;
pub mod ring;
mod scheduling;
mod spread;
mod steering;
mod task_set;

pub use deploy::{Config, Join, dedicated, inline, shared};
pub use drive::{Engine, Failure, StopHandle, Task, Thread};
pub use gather::{Gather, GatherCounters, Order};
pub use idle::Idle;
pub(crate) use scheduling::{Class, class};
pub use scheduling::{Scheduling, ThreadTime};
pub use spread::{OnFull, Spread, SpreadCounters};
pub use steering::Steering;
