//! Quotas of one API key, as the file of keys has them.

use std::fmt;
use std::str::FromStr;

use clap::Args;

/// The word for no limit, where the defaults have one.
const UNLIMITED: &str = "unlimited";
/// Largest limit of any kind.
const MOST: u32 = 1_000_000_000;

/// Something that is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quota {
    /// Streams that are open at once.
    Streams,
    /// New requests.
    Requests,
    /// New requests that may come at once.
    Burst,
    /// Characters of text that come.
    Characters,
    /// Audio that is sent.
    Audio,
}

impl Quota {
    /// Every quota.
    pub const ALL: [Self; 5] = [
        Self::Streams,
        Self::Requests,
        Self::Burst,
        Self::Characters,
        Self::Audio,
    ];

    /// Its name in the file, on the command line and in errors.
    pub fn name(self) -> &'static str {
        match self {
            Self::Streams => "streams",
            Self::Requests => "requests-per-second",
            Self::Burst => "burst",
            Self::Characters => "characters-per-minute",
            Self::Audio => "audio-seconds-per-minute",
        }
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The quotas of a key. None is no limit.
#[derive(Debug, Clone, Copy, PartialEq, Default, Args)]
#[command(next_help_heading = "Quotas of the key; what is not said is as the file's line of defaults has it")]
pub struct Quotas {
    /// Calls open at once
    #[arg(long, value_name = "N", value_parser = whole)]
    pub streams: Option<u32>,
    /// New calls per second, on average; may be a fraction
    #[arg(long, value_name = "RATE", value_parser = rate)]
    pub requests_per_second: Option<f64>,
    /// New calls that may come at once [default: those of a second, one at least]
    #[arg(long, value_name = "N", value_parser = whole, requires = "requests_per_second")]
    pub burst: Option<u32>,
    /// Characters of text per minute
    #[arg(long, value_name = "N", value_parser = whole)]
    pub characters_per_minute: Option<u32>,
    /// Seconds of audio that are sent per minute, over all calls
    #[arg(long, value_name = "N", value_parser = whole)]
    pub audio_seconds_per_minute: Option<u32>,
}

impl Quotas {
    /// New requests that may come at once, if their rate is limited.
    pub fn burst(&self) -> Option<u32> {
        let rate = self.requests_per_second?;
        Some(self.burst.unwrap_or(rate.ceil().max(1.0) as u32))
    }

    /// Parses a word of the file, `QUOTA=LIMIT`.
    ///
    /// # Errors
    /// A message with the problem and what is accepted.
    pub(super) fn set(&mut self, word: &str) -> Result<(), String> {
        let known = || Quota::ALL.map(Quota::name).join(", ");
        let (name, limit) = word.split_once('=').ok_or_else(|| {
            format!(
                "{word:?} is no quota, expected NAME=LIMIT with one of {}",
                known()
            )
        })?;
        let quota = Quota::ALL.into_iter().find(|quota| quota.name() == name);
        let quota = quota.ok_or_else(|| format!("quota {name:?} is none of {}", known()))?;
        let named = |problem| format!("{quota}={limit}: {problem}");
        match quota {
            Quota::Streams => self.streams = read(limit, whole).map_err(named)?,
            Quota::Requests => self.requests_per_second = read(limit, rate).map_err(named)?,
            Quota::Burst => self.burst = read(limit, whole).map_err(named)?,
            Quota::Characters => self.characters_per_minute = read(limit, whole).map_err(named)?,
            Quota::Audio => self.audio_seconds_per_minute = read(limit, whole).map_err(named)?,
        }
        Ok(())
    }
}

/// As words of the file, each behind a space.
impl fmt::Display for Quotas {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let limits = [
            (Quota::Streams, self.streams.map(f64::from)),
            (Quota::Requests, self.requests_per_second),
            (Quota::Burst, self.burst.map(f64::from)),
            (Quota::Characters, self.characters_per_minute.map(f64::from)),
            (Quota::Audio, self.audio_seconds_per_minute.map(f64::from)),
        ];
        for (quota, limit) in limits {
            if let Some(limit) = limit {
                write!(f, " {quota}={limit}")?;
            }
        }
        Ok(())
    }
}

fn read<T>(limit: &str, number: fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    match limit {
        UNLIMITED => Ok(None),
        limit => number(limit)
            .map(Some)
            .map_err(|problem| format!("{problem}, or {UNLIMITED}")),
    }
}

fn whole(text: &str) -> Result<u32, String> {
    let number = u32::from_str(text)
        .ok()
        .filter(|number| (1..=MOST).contains(number));
    number.ok_or_else(|| format!("expected a whole number from 1 to {MOST}"))
}

fn rate(text: &str) -> Result<f64, String> {
    let number = f64::from_str(text).ok();
    let number = number.filter(|number| (0.001..=f64::from(MOST)).contains(number));
    number.ok_or_else(|| format!("expected a number from 0.001 to {MOST}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(words: &[&str]) -> Result<Quotas, String> {
        let mut quotas = Quotas::default();
        words.iter().try_for_each(|word| quotas.set(word))?;
        Ok(quotas)
    }

    #[test]
    fn what_is_written_is_read_again() {
        let quotas = Quotas {
            streams: Some(4),
            requests_per_second: Some(0.5),
            burst: Some(3),
            characters_per_minute: Some(6_000),
            audio_seconds_per_minute: Some(600),
        };
        let text = quotas.to_string();
        let words: Vec<_> = text.split_whitespace().collect();
        assert_eq!(read_all(&words), Ok(quotas));
        assert_eq!(Quotas::default().to_string(), "");
    }

    #[test]
    fn a_burst_is_a_second_of_requests_unless_it_is_said() {
        let burst = |words: &[&str]| read_all(words).unwrap().burst();
        assert_eq!(burst(&["requests-per-second=2.5"]), Some(3));
        assert_eq!(burst(&["requests-per-second=0.1"]), Some(1));
        assert_eq!(burst(&["burst=7", "requests-per-second=2"]), Some(7));
        assert_eq!(burst(&["burst=7"]), None);
    }

    #[test]
    fn what_is_no_quota_is_told_with_what_would_be() {
        for (word, expected) in [
            ("streams", "NAME=LIMIT"),
            ("dances=3", "requests-per-second"),
            ("streams=0", "from 1"),
            ("streams=1.5", "whole number"),
            ("streams=", "unlimited"),
            ("requests-per-second=NaN", "0.001"),
            ("requests-per-second=0", "0.001"),
            ("audio-seconds-per-minute=1000000001", "1000000000"),
        ] {
            let problem = read_all(&[word]).unwrap_err();
            assert!(problem.contains(expected), "{word}: {problem}");
        }
        assert_eq!(
            read_all(&["streams=3", "streams=unlimited"]).unwrap().streams,
            None
        );
    }
}
