//! API keys: what each opens, by a file that holds their hashes.
//!
//! A line of the file is `NAME SCOPE[,SCOPE...] sha256:HEX [QUOTA=LIMIT...]`; what follows `#` is a comment. A line
//! `defaults QUOTA=LIMIT...` says what holds for keys that do not say otherwise. Keys are 256 random bits, so
//! that a plain hash cannot be turned back: nothing has to be slow, and a key is found by looking its hash up.

use std::collections::HashMap;
use std::fmt;
use std::fs;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use clap::ValueEnum;
use sha2::{Digest as _, Sha256};

use super::quotas::Quotas;

/// Prefix of keys, by which scanners for secrets can find one that got lost.
const PREFIX: &str = "omni_";
const HASH: &str = "sha256:";
/// The first word of a line that is about every key.
const DEFAULTS: &str = "defaults";
/// Largest file that is read, in bytes.
const MAX_FILE: u64 = 4 << 20;

/// A group of calls that a key allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Scope {
    /// Speaking, by any protocol.
    Speech,
    /// Conversing, by any protocol.
    Chat,
    /// Recording metrics, and reading them where that needs a key (--metrics-keys).
    Metrics,
    /// Looking at the server and steering it: the services of --admin-listen, and Watch in Studio
    Admin,
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Speech => "speech",
            Self::Chat => "chat",
            Self::Metrics => "metrics",
            Self::Admin => "admin",
        })
    }
}

/// The holder of a key.
#[derive(Debug, Clone, PartialEq)]
pub struct Holder {
    /// A name for people.
    pub name: String,
    /// Scopes of the key.
    pub scopes: Vec<Scope>,
    /// Limits of its use.
    pub quotas: Quotas,
}

/// The SHA-256 of a key.
pub type KeyHash = [u8; 32];

/// The keys that are good.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct KeyFile {
    keys: HashMap<KeyHash, Holder>,
    unfinished: bool,
}

impl KeyFile {
    /// Reads a file.
    ///
    /// # Errors
    /// Everything that is wrong with it, a line each.
    pub fn read(path: &Path) -> Result<Self, Vec<String>> {
        let problem = |error: &dyn fmt::Display| vec![format!("{}: {error}", path.display())];
        let length = fs::metadata(path).map_err(|error| problem(&error))?.len();
        if length > MAX_FILE {
            return Err(problem(&format!(
                "has {length} bytes, expected at most {MAX_FILE}"
            )));
        }
        let text = fs::read_to_string(path).map_err(|error| problem(&error))?;
        Self::parse(&text).map_err(|problems| {
            let place = |(line, problem)| format!("{}:{line}: {problem}", path.display());
            problems.into_iter().map(place).collect()
        })
    }

    /// Reads text.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with the number of its line.
    pub fn parse(text: &str) -> Result<Self, Vec<(usize, String)>> {
        let mut keys = HashMap::new();
        let mut problems = Vec::new();
        let lines = (1..).zip(text.lines()).map(|(line, text)| {
            let text = text.split('#').next().unwrap_or_default();
            (line, text.split_whitespace().collect::<Vec<_>>())
        });
        let (about_all, lines): (Vec<_>, Vec<_>) = lines.partition(|(_, words)| is_about_all(words));
        let mut defaults = Quotas::default();
        for (line, words) in about_all {
            let set = words[1..].iter().try_for_each(|word| defaults.set(word));
            problems.extend(set.err().map(|problem| (line, problem)));
        }
        for (line, words) in lines {
            let entry = match words[..] {
                [] => continue,
                [name, scopes, hash, ref quotas @ ..] => entry(name, scopes, hash, quotas, defaults),
                _ => Err("expected NAME SCOPE[,SCOPE...] sha256:HEX [QUOTA=LIMIT...]".to_owned()),
            };
            match entry {
                Ok((hash, holder)) => {
                    if let Some(other) = keys.insert(hash, holder) {
                        problems.push((line, format!("the same key is {}'s already", other.name)));
                    }
                }
                Err(problem) => problems.push((line, problem)),
            }
        }
        problems.sort_by_key(|(line, _)| *line);
        if problems.is_empty() {
            Ok(Self {
                keys,
                unfinished: !text.is_empty() && !text.ends_with('\n'),
            })
        } else {
            Err(problems)
        }
    }

    /// The holder of the key with this hash.
    pub fn holder_of(&self, key: &KeyHash) -> Option<&Holder> {
        self.keys.get(key)
    }

    /// All holders, each with the hash of its key.
    pub fn holders(&self) -> impl Iterator<Item = (&KeyHash, &Holder)> {
        self.keys.iter()
    }

    /// Returns true if some key has the scope.
    pub fn opens(&self, scope: Scope) -> bool {
        self.keys.values().any(|holder| holder.scopes.contains(&scope))
    }

    /// True if the last line has no end: there may be more of it.
    pub fn is_unfinished(&self) -> bool {
        self.unfinished
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Returns true if there is no key.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }
}

/// Returns true if a line is about every key. A holder's name may begin as such a line does.
fn is_about_all(words: &[&str]) -> bool {
    words.first() == Some(&DEFAULTS) && words.get(1).is_none_or(|word| word.contains('='))
}

fn entry(
    name: &str,
    scopes: &str,
    hash: &str,
    quotas: &[&str],
    mut limits: Quotas,
) -> Result<(KeyHash, Holder), String> {
    let scopes = scopes.split(',').map(|scope| {
        Scope::from_str(scope, false)
            .map_err(|_| format!("scope {scope:?} is none of speech, chat, metrics, admin"))
    });
    let hash = hash.strip_prefix(HASH).and_then(from_hex);
    quotas.iter().try_for_each(|word| limits.set(word))?;
    let holder = Holder {
        name: name.to_owned(),
        scopes: scopes.collect::<Result<_, _>>()?,
        quotas: limits,
    };
    let hash = hash.ok_or("the hash is not sha256: and 64 hexadecimal digits")?;
    Ok((hash, holder))
}

/// A new key, and the line of the file that makes it good.
///
/// # Errors
/// If the system gives no random bytes.
pub fn new_key(name: &str, scopes: &[Scope], quotas: &Quotas) -> anyhow::Result<(String, String)> {
    let mut random = [0; 32];
    getrandom::fill(&mut random).map_err(|error| anyhow::anyhow!("no random bytes: {error}"))?;
    let key = format!("{PREFIX}{}", BASE64.encode(random));
    let scopes: Vec<_> = scopes.iter().map(Scope::to_string).collect();
    let line = format!(
        "{name} {} {HASH}{}{quotas}",
        scopes.join(","),
        to_hex(&hash(&key))
    );
    Ok((key, line))
}

/// The hash under which a key is kept.
pub fn hash(key: &str) -> KeyHash {
    Sha256::digest(key.as_bytes()).into()
}

fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<[u8; 32]> {
    let mut bytes = [0; 32];
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, at) in bytes.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_is_good_once_its_line_is_in_the_file() {
        let none = Quotas::default();
        let (key, line) = new_key("backend", &[Scope::Speech, Scope::Chat], &none).unwrap();
        let (other, _) = new_key("backend", &[Scope::Speech], &none).unwrap();
        let file = KeyFile::parse(&format!("# ours\n\n{line} # since May\n")).unwrap();
        let holder = file.holder_of(&hash(&key)).unwrap();
        assert_eq!(holder.name, "backend");
        assert_eq!(holder.scopes, [Scope::Speech, Scope::Chat]);
        assert_eq!(
            (file.holder_of(&hash(&other)), file.holder_of(&hash(""))),
            (None, None)
        );
        assert!(
            !line.contains(&key[PREFIX.len()..]),
            "the file does not hold the key"
        );
    }

    #[test]
    fn quotas_are_those_of_the_key_or_the_defaults_wherever_these_are_written() {
        let own = Quotas {
            streams: Some(2),
            ..Quotas::default()
        };
        let (key, line) = new_key("defaults", &[Scope::Speech], &own).unwrap();
        let (other, second) = new_key("other", &[Scope::Admin], &Quotas::default()).unwrap();
        let text = format!(
            "{line} characters-per-minute=unlimited\n{second}\ndefaults streams=9 characters-per-minute=500 # all\n"
        );
        let file = KeyFile::parse(&text).unwrap();
        assert_eq!(file.holder_of(&hash(&key)).unwrap().quotas, own);
        let defaults = file.holder_of(&hash(&other)).unwrap().quotas;
        assert_eq!(
            (defaults.streams, defaults.characters_per_minute),
            (Some(9), Some(500))
        );
        assert!(file.opens(Scope::Admin) && !file.opens(Scope::Chat));
        let problems = KeyFile::parse(&format!(
            "{line} streams=none\ndefaults streams\ndefaults dances=1"
        ))
        .unwrap_err();
        let lines: Vec<_> = problems.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [1, 2, 3], "{problems:?}");
    }

    #[test]
    fn everything_that_is_wrong_is_reported_with_its_line() {
        let hash = "0".repeat(64);
        let text = format!(
            "a speech sha256:{hash}\nb chat sha256:{hash}\nc dance sha256:{hash}\nd speech\ne speech sha256:é{}\nf speech md5:{hash}",
            "0".repeat(62)
        );
        let problems = KeyFile::parse(&text).unwrap_err();
        let lines: Vec<_> = problems.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [2, 3, 4, 5, 6], "{problems:?}");
    }
}
