//! What the files of a run's traces have: its timeline, the order in which its writes became durable, its
//! instructions.
//!
//! The machine's parts tell what they do ([`perdure_hardware::timeline`]); [`asked`] says what is traced,
//! [`windows`] which part of the run, [`ordered`] brings it into the order of time, and [`perfetto`] and
//! [`chrome`] are the formats. [`rows`] are those of the persist order; instructions are written by
//! [`crate::champsim`], and [`crate::drawing`] has all of it of one run.
//!
//! Always true here: nothing knows a machine.

mod asked;
mod chrome;
mod ordered;
mod output;
mod perfetto;
mod rows;
mod windows;

pub use asked::Asked;
pub(crate) use asked::{MOST_BYTES, format_for, refuse};
pub(crate) use ordered::{Names, Ordered, Written};
pub(crate) use output::Output;
pub(crate) use rows::Rows;
pub(crate) use windows::Windows;
