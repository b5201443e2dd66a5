//! List of metrics, page by page.

use std::sync::Arc;

use omni_core::error::ServeError;
use omni_proto::v1;
use omni_services::settings::invalid;
use omni_telemetry::{CustomMetrics, Family, FamilyKind};

/// Default page size.
const PAGE: usize = 100;
/// Most entries of a page.
const MAX_PAGE: usize = 500;

/// Requested page. It begins behind the name in the token: metrics may be added between two pages, and none is
/// removed.
pub(super) fn page(
    metrics: &CustomMetrics,
    request: &v1::ListMetricsRequest,
) -> Result<v1::ListMetricsResponse, ServeError> {
    let size = match usize::try_from(request.page_size) {
        Ok(0) => PAGE,
        Ok(size) => size.min(MAX_PAGE),
        Err(_) => return Err(invalid("page_size", "is negative, expected 0 or more")),
    };
    let mut families = if request.custom_only {
        metrics.list()
    } else {
        metrics.served()
    };
    families.sort_by(|a, b| a.name.cmp(&b.name));
    let token = request.page_token.as_str();
    let start = match token {
        "" => 0,
        last => match families.binary_search_by(|family| family.name.as_ref().cmp(last)) {
            Ok(index) => index + 1,
            Err(_) => return Err(invalid("page_token", "is not one that this server gave")),
        },
    };
    let rest = &families[start..];
    let shown = &rest[..size.min(rest.len())];
    let last = shown.last().filter(|_| shown.len() < rest.len());
    Ok(v1::ListMetricsResponse {
        metrics: shown.iter().map(|family| metric(metrics, family)).collect(),
        next_page_token: last.map(|family| family.name.to_string()).unwrap_or_default(),
    })
}

fn metric(metrics: &CustomMetrics, family: &Arc<Family>) -> v1::Metric {
    let labels = family.exposed_labels().into_iter();
    let bounds = family.buckets.as_ref().map(|buckets| buckets.bounds.clone());
    v1::Metric {
        name: family.name.to_string(),
        kind: kind(family.kind).into(),
        unit: family.unit.clone(),
        help: family.help.clone(),
        labels: labels.map(str::to_owned).collect(),
        bounds: bounds.unwrap_or_default(),
        custom: metrics.is_custom(family),
        group: family.group.to_string(),
    }
}

fn kind(kind: FamilyKind) -> v1::MetricKind {
    match kind {
        FamilyKind::Counter | FamilyKind::FloatCounter => v1::MetricKind::Counter,
        FamilyKind::Gauge => v1::MetricKind::Gauge,
        FamilyKind::Histogram | FamilyKind::Summary => v1::MetricKind::Histogram,
    }
}
