//! Crash-consistency designs, one module each: policy, byte formats in NVM, recovery, promise and
//! planted bugs. To add one, see `docs/add-a-design.md`; it is registered by one line below.
#![warn(
    clippy::cast_lossless,
    clippy::cast_possible_wrap,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss
)]

pub mod bytes;
pub mod copies;
pub mod design;
pub mod epochs;
pub mod facts;
pub mod frm;
pub mod hardware_shadow;
pub mod hlog;
pub mod ideal;
mod journal;
pub mod journaling;
pub mod layout;
mod mix;
pub mod nearpm;
pub mod nvoverlay;
pub mod oracle;
pub mod picl;
pub mod picl_l2;
pub mod rows;
pub mod shadow_paging;
pub mod snapshots;
pub mod software_logging;
pub mod software_shadow;
pub mod spms;
pub mod surviving;
pub mod thynvm;
pub mod translation;

pub use design::{Design, PlantedBug, Recovered, RecoveryMode};
pub use epochs::{
    END_EPOCH, EpochNumbers, Epochs, EpochsOf, GroupEpochs, MachineEpochs, NoEpochs, OfGroups,
    OfMachine, Urgency,
};
pub use facts::{AnyDesign, Facts, OwnCounters};
pub use oracle::Promise;

/// Something to do with a design of whom the type itself is needed, compiled once for each: its harness is so
/// (`conformance.rs`). Whatever else there is to do with a design takes its [`Facts`].
pub trait Visitor {
    /// What comes out.
    type Output;
    /// Does it.
    fn visit<D: Design>(self) -> Self::Output;
}

macro_rules! registry {
    ($($design:ty),* $(,)?) => {
        /// Names of all designs.
        pub const NAMES: &[&str] = &[$(<$design as Design>::NAME),*];

        /// What all of them state about themselves, in the same order.
        pub const ALL: &[&Facts] = &[$(Facts::of::<$design>()),*];

        /// Applies a visitor to the design of that name.
        pub fn with_design<V: Visitor>(name: &str, visitor: V) -> Option<V::Output> {
            $(if name == <$design as Design>::NAME { return Some(visitor.visit::<$design>()); })*
            None
        }
    };
}

registry![
    ideal::Ideal,
    picl::Picl,
    picl_l2::PiclL2,
    journaling::Journaling,
    shadow_paging::ShadowPaging,
    frm::Frm,
    thynvm::Thynvm,
    nvoverlay::Nvoverlay,
    software_logging::SoftwareLogging,
    software_shadow::SoftwareShadow,
    hardware_shadow::HardwareShadow,
    spms::Spms,
    hlog::Hlog,
    nearpm::NearPm,
];

/// What the design of that name states about itself.
pub fn named(name: &str) -> Option<&'static Facts> {
    ALL.iter().find(|design| design.name == name).copied()
}

/// The designs that have the persistence instruction of that function, each with its name for it.
pub fn who_has(function: u16) -> Vec<(&'static str, &'static str)> {
    let of_design = |design: &&Facts| {
        let row = design.instructions.iter().find(|row| row.0 == function)?;
        Some((design.name, row.1))
    };
    ALL.iter().filter_map(of_design).collect()
}
