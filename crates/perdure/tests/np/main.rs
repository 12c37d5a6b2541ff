#![allow(dead_code, unused)]
#[path = "../all/nearpm.rs"]
mod nearpm;
#[path = "../all/restart_rig.rs"]
mod restart_rig;
#[path = "../../../designs/tests/all/common/mod.rs"]
mod rigs;
