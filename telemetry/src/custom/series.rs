//! The series of all custom metrics, bounded for each and for all.

use std::collections::HashMap;
use std::sync::Arc;

use super::{CustomHandle, MOST_SERIES_IN_ALL, MetricError};
use crate::catalogue::Family;

/// The series of one metric by their labels, as they are registered.
type SeriesHandles = HashMap<Vec<(String, String)>, CustomHandle>;

/// Every series that there is.
#[derive(Debug, Default)]
pub(super) struct SeriesStore {
    handles: HashMap<Arc<str>, SeriesHandles>,
    total: usize,
}

impl SeriesStore {
    /// The series with these labels, made with `register` if there is none and there may be another.
    pub(super) fn find_or_insert(
        &mut self,
        family: &Family,
        labels: Vec<(String, String)>,
        register: impl FnOnce(&[(String, String)]) -> CustomHandle,
    ) -> Result<CustomHandle, MetricError> {
        let series = self.handles.entry(Arc::clone(&family.name)).or_default();
        if let Some(known) = series.get(&labels) {
            return Ok(known.clone());
        }
        if series.len() >= family.series {
            return Err(MetricError::TooManySeries {
                name: family.name.to_string(),
                most: family.series,
            });
        }
        let lines = family
            .buckets
            .as_ref()
            .map_or(1, |buckets| buckets.bounds.len() + 3);
        if self.total + lines > MOST_SERIES_IN_ALL {
            return Err(MetricError::TooManySeriesInAll {
                most: MOST_SERIES_IN_ALL,
            });
        }
        let handle = register(&labels);
        series.insert(labels, handle.clone());
        self.total += lines;
        Ok(handle)
    }
}
