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
pub use oracle::Promise;

/// Something to do with a design chosen by name, compiled once for each design: so its types and
/// constants are at hand. The machine's ports reach its hooks as `dyn Policy`, which no hit does.
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

        /// The designs that have the persistence instruction of that function, each with its name for it.
        pub fn who_has(function: u16) -> Vec<(&'static str, &'static str)> {
            let all = [$((<$design as Design>::NAME, <$design as Design>::INSTRUCTIONS)),*];
            let of_design = |(design, list): (_, &[(u16, &'static str)])| {
                let row = list.iter().find(|row| row.0 == function)?;
                Some((design, row.1))
            };
            all.into_iter().filter_map(of_design).collect()
        }

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
