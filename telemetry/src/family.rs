//! Typed families, which instruments hold instead of names.
//!
//! The constants in [`families`](crate::families) are generated from the catalogue. A family knows by its type what it
//! records and how many label values it takes, so neither a misspelt name nor a forgotten label compiles.

use crate::catalogue::{Catalogue, Family, FamilyKind};

/// The common part of the five kinds of typed families.
pub trait TypedFamily {
    /// Type of its values.
    const KIND: FamilyKind;

    /// Its place in the catalogue.
    fn id(&self) -> usize;

    /// Its labels in order, without those that the recorder supplies.
    fn labels(&self) -> &'static [&'static str];

    /// Its declaration.
    ///
    /// # Panics
    /// If `catalogue` is not made from the one that is compiled in.
    fn of<'a>(&self, catalogue: &'a Catalogue) -> &'a Family {
        &catalogue.families()[self.id()]
    }
}

macro_rules! typed {
    ($(#[$doc:meta])* $name:ident, $kind:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name<const N: usize> {
            id: usize,
            labels: &'static [&'static str; N],
        }

        impl<const N: usize> $name<N> {
            pub(crate) const fn new(id: usize, labels: &'static [&'static str; N]) -> Self {
                Self { id, labels }
            }
        }

        impl<const N: usize> TypedFamily for $name<N> {
            const KIND: FamilyKind = FamilyKind::$kind;

            fn id(&self) -> usize {
                self.id
            }

            fn labels(&self) -> &'static [&'static str] {
                self.labels
            }
        }
    };
}

typed!(
    /// A counter of whole numbers with `N` label values.
    CounterFamily,
    Counter
);
typed!(
    /// A counter of real numbers with `N` label values.
    FloatCounterFamily,
    FloatCounter
);
typed!(
    /// A gauge with `N` label values.
    GaugeFamily,
    Gauge
);
typed!(
    /// A histogram with `N` label values.
    HistogramFamily,
    Histogram
);
typed!(
    /// A sum and a count with `N` label values.
    SummaryFamily,
    Summary
);
