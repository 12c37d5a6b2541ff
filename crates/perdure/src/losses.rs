//! What restoring a machine can be made to lose: each field of the kernel's saved state
//! ([`perdure_linux::loss`]) and each of what is saved beside it ([`Beside`]).
//!
//! Always true: the table follows from the types that are saved, so nothing that is saved can be missing
//! in it. Each is noticed by [`crate::losing`], or listed with the reason.

use std::sync::OnceLock;

use perdure_designs::layout::Layout;
use perdure_linux::Kernel;
use perdure_linux::loss::{self, Loss};

use crate::context::{self, Beside, Found};

/// Something that restoring loses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lost {
    /// Of the kernel's.
    Kernel(Loss),
    /// Of what is saved beside it: the place in the list of its fields.
    Beside(usize),
}

/// Before the names of what is saved beside the kernel's state.
const BESIDE: &str = "machine";

fn beside() -> &'static [(String, Vec<&'static str>)] {
    static FIELDS: OnceLock<Vec<(String, Vec<&'static str>)>> = OnceLock::new();
    FIELDS.get_or_init(|| {
        let named = |names: Vec<&'static str>| (format!("{BESIDE}.{}", names.join(".")), names);
        loss::fields_of::<Beside>().into_iter().map(named).collect()
    })
}

impl Lost {
    /// All that there is.
    pub fn all() -> impl Iterator<Item = Self> {
        let beside = (0..beside().len()).map(Self::Beside);
        beside.chain(Loss::all().map(Self::Kernel))
    }

    /// The fields that lead to it, with points between.
    pub fn name(self) -> &'static str {
        match self {
            Self::Kernel(loss) => loss.name(),
            Self::Beside(place) => &beside()[place].0,
        }
    }

    /// By name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().find(|lost| lost.name() == name)
    }

    /// The kernel's loss, if it is one.
    pub fn of_kernel(self) -> Option<Loss> {
        match self {
            Self::Kernel(loss) => Some(loss),
            Self::Beside(_) => None,
        }
    }

    /// Takes it from what is saved beside the kernel's state; false if it is not there.
    fn take_from(self, saved: &mut Beside) -> bool {
        let Self::Beside(place) = self else {
            return false;
        };
        let Some(left) = loss::forgetting(saved, &beside()[place].1) else {
            return false;
        };
        let is_there = left != *saved;
        *saved = left;
        is_there
    }
}

/// True if an image holds something of what could be lost.
pub fn holds(
    read: impl Fn(u64, usize) -> Vec<u8>,
    layout: &Layout,
    harts: usize,
    lost: Lost,
) -> Result<bool, String> {
    without(&mut context::find(read, layout, harts)?, lost)
}

/// Takes something away from what an image holds; false if it is not there.
pub fn without(found: &mut Found, lost: Lost) -> Result<bool, String> {
    let Some(loss) = lost.of_kernel() else {
        return Ok(lost.take_from(&mut found.beside));
    };
    let image = Kernel::forget(&found.kernel, loss).map_err(|error| error.to_string())?;
    let is_there = image.is_some();
    found.kernel = image.unwrap_or(std::mem::take(&mut found.kernel));
    Ok(is_there)
}
