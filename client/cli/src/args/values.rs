//! Values as people write them.

use std::time::Duration;

use omni_audio::SampleRate;

/// A length of time: a number with `ms`, `s`, `m` or `h`; seconds without.
pub(super) fn duration(given: &str) -> Result<Duration, String> {
    let expected = || "expected a time above zero such as 30, 30s, 500ms or 2m".to_owned();
    let at = given
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(given.len());
    let (number, unit) = given.split_at(at);
    let number: f64 = number.parse().map_err(|_| expected())?;
    let seconds = match unit.trim() {
        "ms" => number / 1e3,
        "" | "s" => number,
        "m" | "min" => number * 60.0,
        "h" => number * 3_600.0,
        _ => return Err(expected()),
    };
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| expected())?;
    // More than a year is a mistake, and would overflow clocks.
    if time.is_zero() || time > Duration::from_secs(366 * 24 * 3_600) {
        Err(expected())
    } else {
        Ok(time)
    }
}

pub(super) fn sample_rate(given: &str) -> Result<SampleRate, String> {
    let hz = given
        .parse()
        .map_err(|_| "expected a number of Hz such as 24000".to_owned())?;
    SampleRate::new(hz).map_err(|error| error.to_string())
}

pub(super) fn speed(given: &str) -> Result<f32, String> {
    let expected = || "expected a number from 0.25 to 4".to_owned();
    let speed = given.parse().map_err(|_| expected())?;
    omni_audio::Speed::new(speed)
        .map(omni_audio::Speed::factor)
        .map_err(|_| expected())
}

pub(super) fn gain(given: &str) -> Result<f32, String> {
    let expected = || "expected a number of dB from -96 to 16".to_owned();
    let db = given.parse().map_err(|_| expected())?;
    omni_audio::Gain::new(db)
        .map(omni_audio::Gain::db)
        .map_err(|_| expected())
}

pub(super) fn temperature(given: &str) -> Result<f32, String> {
    match given.parse::<f32>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err("expected a number from 0".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_people_write_them() {
        for (given, millis) in [
            ("30", 30_000),
            ("30s", 30_000),
            ("500ms", 500),
            ("2m", 120_000),
            ("1.5", 1_500),
        ] {
            assert_eq!(duration(given), Ok(Duration::from_millis(millis)), "{given}");
        }
        for given in ["", "0", "s", "-1", "3 weeks", "1e9", "9999999h"] {
            assert!(duration(given).is_err(), "{given}");
        }
    }
}
