//! The assembled machine: configuration, run loop, epoch contexts, power cut, recovery, resume,
//! verification, cut schedules, statistics and result files.
//!
//! Reading order: [`configuration`], [`port`], [`machine`], [`context`], [`outside`], [`verify`],
//! [`lives`], [`campaign`], [`api`].
#![warn(
    clippy::cast_lossless,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

pub mod api;
mod call_stack;
pub mod campaign;
pub mod champsim;
pub mod check;
mod code_place;
pub mod configuration;
pub mod context;
mod core_file;
mod cost;
pub mod crash_check;
mod debugger;
mod delivery;
pub mod demangle;
mod device_exerciser;
mod drawing;
mod dwarf;
mod elf;
pub mod error;
pub mod exerciser;
pub mod explanation;
pub mod forks;
mod frames;
pub mod functional;
mod given_files;
mod guest_code;
mod hexadecimal;
pub mod hunt;
mod kernel_ports;
pub mod litmus;
pub mod lives;
mod locals;
pub mod losing;
pub mod losses;
pub mod machine;
mod members;
pub mod mistakes;
mod mounts;
pub mod mutants;
mod observed;
pub mod observer;
pub mod outside;
mod panics;
mod parallel;
mod pool_exerciser;
pub mod pools;
pub mod port;
mod primitives;
mod progress;
pub mod reads;
pub mod region;
mod replaced;
pub mod replication;
pub mod report;
pub mod request;
pub mod restart;
pub mod retired;
mod series;
pub mod shared;
pub mod snapshots;
pub mod source;
pub mod statistics;
mod stepping;
pub mod timeline;
pub mod token;
mod unused;
pub mod verify;
pub mod version;
mod virtual_clock;
pub mod watch;
mod wholes;

pub use configuration::Configuration;
pub use error::Error;
pub use machine::{Engine, Machine, Pause, Workload};
