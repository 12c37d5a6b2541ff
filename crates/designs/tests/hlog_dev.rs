#[path = "../../perdure/tests/all/hlog.rs"]
mod hlog;
#[path = "../../perdure/tests/all/restart_rig.rs"]
mod restart_rig;
#[path = "all/common/mod.rs"]
mod rigs;
