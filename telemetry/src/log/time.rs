//! Wall-clock time as TorchServe's logs have it.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970, and the moment as `2022-03-30T10:58:39,358` in UTC.
pub(super) fn stamp(at: SystemTime) -> (u64, String) {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = since.as_secs();
    let (year, month, day) = date(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let mut out = String::with_capacity(23);
    let _ = write!(
        out,
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02},{:03}",
        since.subsec_millis()
    );
    (seconds, out)
}

/// Year, month and day of a day counted from 1970-01-01. Source: H. Hinnant, "chrono-compatible low-level date algorithms".
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let era = days / 146_097;
    let of_era = days % 146_097;
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year + era * 400 + u64::from(month <= 2), month, day)
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
