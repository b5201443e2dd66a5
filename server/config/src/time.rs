//! Durations as people write them.

use std::time::Duration;

/// Longest duration that is taken: a year. Far from where adding it to a time overflows.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads "500ms", "30s", "5m" or "1h", up to a year.
pub(super) fn parse_duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let wrong = || format!("{text:?} is not a duration, expected a whole number and ms, s, m or h, like 30s");
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let seconds = |factor: u64| {
        number
            .checked_mul(factor)
            .map(Duration::from_secs)
            .ok_or_else(wrong)
    };
    let time = match unit {
        "ms" => Duration::from_millis(number),
        "s" => seconds(1)?,
        "m" => seconds(60)?,
        "h" => seconds(3600)?,
        _ => return Err(wrong()),
    };
    if time > LONGEST {
        Err(format!(
            "{text:?} is too long, expected a duration of at most {}",
            written(LONGEST)
        ))
    } else {
        Ok(time)
    }
}

/// A duration as it is read, in the largest unit that keeps it whole; milliseconds at the least.
pub(super) fn written(time: Duration) -> String {
    let millis = time.as_millis();
    let units = [(3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let whole = units
        .into_iter()
        .find(|(unit, _)| millis >= *unit && millis.is_multiple_of(*unit));
    match whole {
        Some((unit, name)) => format!("{}{name}", millis / unit),
        None => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_as_they_are_read() {
        for text in ["0ms", "500ms", "1500ms", "30s", "90s", "5m", "24h"] {
            assert_eq!(parse_duration(text).map(written).as_deref(), Ok(text));
        }
    }

    #[test]
    fn units_are_read_and_nonsense_is_refused() {
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("5m"), Ok(Duration::from_secs(300)));
        assert_eq!(parse_duration("1h"), Ok(Duration::from_secs(3600)));
        for text in [
            "",
            "5",
            "s",
            "-1s",
            "1.5s",
            "5d",
            "99999999999999999999s",
            "18446744073709551615h",
            "18446744073709551615s",
            "8761h",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
