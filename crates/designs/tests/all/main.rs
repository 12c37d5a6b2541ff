//! The tests of the designs, without any processor. They are one program: a program for each file would
//! compile and link rig and judge again and again.
//!
//! `cargo test -p perdure-designs picl_random::` runs the tests of one file.

mod common;
mod contract;
#[path = "../../../../docs/examples/flush_at_epoch_end.rs"]
mod flush_at_epoch_end;
mod flush_at_epoch_end_random;
mod frm_damage;
mod frm_random;
mod frm_steps;
mod hardware_shadow_damage;
mod hardware_shadow_random;
mod hardware_shadow_steps;
mod ideal;
mod journaling_damage;
mod journaling_random;
mod journaling_steps;
mod mnm_common;
mod mnm_damage;
mod mnm_random;
mod mnm_store;
mod nvoverlay_steps;
mod oracles;
mod picl_damage;
mod picl_figure_6;
mod picl_l2_damage;
mod picl_l2_random;
mod picl_l2_steps;
mod picl_log_limit;
mod picl_orders;
mod picl_random;
mod shadow_paging_damage;
mod shadow_paging_random;
mod shadow_paging_steps;
mod software_logging_damage;
mod software_logging_random;
mod software_logging_steps;
mod software_shadow_damage;
mod software_shadow_random;
mod software_shadow_steps;
mod surviving_journal;
mod thynvm_damage;
mod thynvm_random;
mod thynvm_steps;
