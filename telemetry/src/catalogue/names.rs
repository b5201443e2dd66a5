//! Names that Prometheus accepts.

/// Returns true if `name` can be the name of a metric: letters, digits, `_` and `:`, not starting with a digit.
pub fn is_metric_name(name: &str) -> bool {
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':';
    name.chars().all(legal) && name.starts_with(|c: char| !c.is_ascii_digit())
}

/// Returns true if `name` can be the name of a label that is not Prometheus' own: no `:`, no leading `__`, not `le` or
/// `quantile`.
pub fn is_label_name(name: &str) -> bool {
    let reserved = name.starts_with("__") || ["le", "quantile"].contains(&name);
    is_metric_name(name) && !name.contains(':') && !reserved
}
