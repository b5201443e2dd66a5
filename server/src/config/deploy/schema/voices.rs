//! Settings of the voices that callers keep.

use super::{Fallback::Is, Kind, Setting, setting};

pub(super) const VOICES: &[Setting] = &[
    setting(
        "voices.dir",
        Kind::Folder,
        Is("memory"),
        "Where they are kept, as one file each; `--voices` counts more. With `memory` they end with the server.",
    ),
    setting(
        "voices.max_voices",
        Kind::Count { min: 0, max: 100_000 },
        Is("1000"),
        "Most voices of all callers; more are refused.",
    ),
    setting(
        "voices.max_voices_per_key",
        Kind::Count { min: 0, max: 100_000 },
        Is("100"),
        "Most voices that one API key keeps; more are refused. Voices that all callers share are not counted.",
    ),
    setting(
        "voices.max_memory",
        Kind::Bytes,
        Is("256MiB"),
        "Most bytes of their files, which are in memory too; more are refused. A minute in context takes about 50 KiB.",
    ),
    setting(
        "voices.loudness",
        Kind::RealOrZero {
            min: -40.0,
            max: -10.0,
        },
        Is("-19"),
        "Loudness in LUFS (ITU-R BS.1770-4) to which recordings are brought before they become voices, so that voices of soft \
         and of loud recordings are alike; `0` leaves them as they are.",
    ),
];
