//! Sets of counters: one line each, with its public name, unit and meaning. The hardware has a set
//! ([`crate::statistics`]), and every design has one of its own.
//!
//! Always true here: a set's counters are listed in the order of their lines.

use serde::Serialize;

/// A counter's value beside what it means.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Described {
    /// Public, dotted name.
    pub name: &'static str,
    /// Value.
    pub value: u64,
    /// Unit.
    pub unit: &'static str,
    /// One line.
    pub meaning: &'static str,
}

/// A set of counters, all zero at the start of a run. Made by [`counters!`](crate::counters).
pub trait Counters: Clone + Default + Send {
    /// All of them in a fixed order.
    fn describe(&self) -> Vec<Described>;

    /// What was counted since an earlier moment. Gauges, which are no counts, stay as they are now.
    #[must_use]
    fn since(&self, earlier: &Self) -> Self;

    /// What two have counted together; of a gauge, the greater value.
    #[must_use]
    fn together(&self, other: &Self) -> Self;

    /// Sums that must add up; says which one doesn't.
    fn check_conservation(&self) -> Result<(), String>;
}

/// For a design that counts nothing of its own.
impl Counters for () {
    fn describe(&self) -> Vec<Described> {
        Vec::new()
    }

    fn since(&self, (): &Self) -> Self {}

    fn together(&self, (): &Self) -> Self {}

    fn check_conservation(&self) -> Result<(), String> {
        Ok(())
    }
}

/// Declares a set of [`Counters`]: field, public name, unit and meaning of each, with `gauge` before
/// the meaning of a size or a greatest value, which is no count; then what must hold between them.
///
/// ```
/// perdure_hardware::counters! {
///     /// What a library counts.
///     pub struct Loans {
///         lent, "library.lent", "books", "books lent";
///         lent_to_members, "library.lent.members", "books", "of these, the ones lent to members";
///         lent_to_guests, "library.lent.guests", "books", "and to others";
///         longest_days, "library.longest", "days", gauge "the longest loan";
///     }
///     equal(lent, lent_to_members + lent_to_guests);
/// }
///
/// use perdure_hardware::counters::Counters;
/// let loans = Loans { lent: 3, lent_to_members: 2, longest_days: 9, ..Loans::default() };
/// assert!(loans.check_conservation().is_err());
/// ```
#[macro_export]
macro_rules! counters {
    (
        $(#[$about:meta])*
        $visibility:vis struct $set:ident {
            $($field:ident, $name:literal, $unit:literal, $($gauge:ident)? $meaning:literal;)*
        }
        $($rule:ident($left:expr, $right:expr);)*
    ) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        $visibility struct $set { $(#[doc = $meaning] pub $field: u64,)* }

        impl $crate::counters::Counters for $set {
            fn describe(&self) -> Vec<$crate::counters::Described> {
                vec![$($crate::counters::Described {
                    name: $name,
                    value: self.$field,
                    unit: $unit,
                    meaning: $meaning,
                },)*]
            }

            fn since(&self, earlier: &Self) -> Self {
                Self { $($field: $crate::counters!(@since $($gauge)? self earlier $field),)* }
            }

            fn together(&self, other: &Self) -> Self {
                Self { $($field: $crate::counters!(@together $($gauge)? self other $field),)* }
            }

            fn check_conservation(&self) -> Result<(), String> {
                #[allow(unused_variables, reason = "most counters are in no rule")]
                let Self { $($field),* } = *self;
                $($crate::counters::$rule(stringify!($left), $left, stringify!($right), $right)?;)*
                Ok(())
            }
        }
    };
    (@together gauge $one:ident $other:ident $field:ident) => { $one.$field.max($other.$field) };
    (@together $one:ident $other:ident $field:ident) => { $one.$field + $other.$field };
    (@since gauge $now:ident $earlier:ident $field:ident) => { $now.$field };
    (@since $now:ident $earlier:ident $field:ident) => { $now.$field - $earlier.$field };
}

/// A rule of [`counters!`](crate::counters): both sides are the same.
pub fn equal(left: &str, is: u64, right: &str, of: u64) -> Result<(), String> {
    holds(is == of, format_args!("{left} = {right}: {is} ≠ {of}"))
}

/// A rule of [`counters!`](crate::counters): the left side is no more than the right one.
pub fn at_most(left: &str, is: u64, right: &str, of: u64) -> Result<(), String> {
    holds(is <= of, format_args!("{left} ≤ {right}: {is} > {of}"))
}

fn holds(rule: bool, broken: std::fmt::Arguments) -> Result<(), String> {
    if rule {
        return Ok(());
    }
    Err(format!("statistics do not add up: {broken}"))
}

#[cfg(test)]
mod tests {
    use super::Counters;

    crate::counters! {
        /// For the tests.
        struct Loans {
            lent, "library.lent", "books", "books lent";
            lent_to_members, "library.lent.members", "books", "of these, the ones lent to members";
            longest_days, "library.longest", "days", gauge "the longest loan";
        }
        at_most(lent_to_members, lent);
        equal(lent % 2, 0);
    }

    const LOANS: Loans = Loans {
        lent: 6,
        lent_to_members: 5,
        longest_days: 30,
    };

    #[test]
    fn counts_are_differences_and_gauges_are_not() {
        let earlier = Loans {
            lent: 4,
            lent_to_members: 4,
            longest_days: 20,
        };
        let since = LOANS.since(&earlier);
        let expected = Loans {
            lent: 2,
            lent_to_members: 1,
            longest_days: 30,
        };
        assert_eq!(since, expected);
    }

    #[test]
    fn a_rule_that_does_not_hold_is_named_with_both_sides() {
        assert_eq!(LOANS.check_conservation(), Ok(()));
        let odd = Loans { lent: 7, ..LOANS };
        let said = "statistics do not add up: lent % 2 = 0: 1 ≠ 0";
        assert_eq!(odd.check_conservation(), Err(said.into()));
        let few = Loans { lent: 4, ..LOANS };
        let said = "statistics do not add up: lent_to_members ≤ lent: 5 > 4";
        assert_eq!(few.check_conservation(), Err(said.into()));
    }

    #[test]
    fn counters_are_described_in_the_order_of_their_lines() {
        let names: Vec<_> = LOANS.describe().iter().map(|one| one.name).collect();
        assert_eq!(
            names,
            ["library.lent", "library.lent.members", "library.longest"]
        );
    }
}
