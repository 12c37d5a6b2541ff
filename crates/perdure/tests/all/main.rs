//! The tests of the machine, in one program; `cargo test -p perdure lives::` runs those of one file.

mod atomic_ranges;
mod bad_input;
mod breaking_off;
mod common;
mod conformance;
mod cuts;
mod determinism;
mod device_example;
mod devices;
mod engines;
#[path = "../../../../docs/examples/flush_at_epoch_end.rs"]
mod flush_at_epoch_end;
mod forks;
mod group_epochs;
mod hlog;
mod link;
mod litmus;
mod lives;
mod mutants;
mod nearpm;
mod out_of_order;
#[path = "../../../../docs/examples/page_zeroing.rs"]
mod page_zeroing;
mod persist_order;
mod pools;
mod posted;
mod prefetcher;
mod primitives;
mod programs;
mod replication;
mod restart_example;
mod restart_rig;
#[allow(dead_code, reason = "the designs' own tests use all of it")]
#[path = "../../../designs/tests/all/common/mod.rs"]
mod rigs;
mod rooms;
mod settings;
mod snapshots;
mod sources;
mod spms;
mod threads;
mod timelines;
#[path = "../../../../docs/examples/undo_log.rs"]
mod undo_log;
mod verdicts;
mod worked_example;
mod wrapped;
