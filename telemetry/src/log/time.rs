//! Wall-clock time as TorchServe's logs have it.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use humantime::format_rfc3339_millis;

/// Seconds since 1970, and the moment as `2022-03-30T10:58:39,358` in UTC.
pub(super) fn stamp(at: SystemTime) -> (u64, String) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut moment = String::with_capacity(24);
    // Fails after the year 9999.
    let _ = write!(moment, "{}", format_rfc3339_millis(UNIX_EPOCH + since));
    (since.as_secs(), moment.trim_end_matches('Z').replace('.', ","))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn moments_read_as_dates() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00,000"),
            (1_648_637_919_358, "2022-03-30T10:58:39,358"),
            (951_782_399_999, "2000-02-28T23:59:59,999"),
            (951_782_400_000, "2000-02-29T00:00:00,000"),
            (4_102_444_799_001, "2099-12-31T23:59:59,001"),
        ] {
            assert_eq!(stamp(UNIX_EPOCH + Duration::from_millis(millis)).1, expected);
        }
    }
}
