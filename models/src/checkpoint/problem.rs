//! Problems of a checkpoint, collected so that one attempt reports all.

use std::fmt;

/// One flaw of a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Nothing is wrong with it, but it cannot be computed as asked.
    #[error("{reason}")]
    Machine {
        /// The reason.
        reason: String,
    },
    /// A file that must be there is not.
    #[error("{file}: no such file")]
    MissingFile {
        /// Name inside the checkpoint.
        file: String,
    },
    /// A file could not be read.
    #[error("{file}: cannot be read: {reason}")]
    Unreadable {
        /// Name inside the checkpoint.
        file: String,
        /// The operating system's word.
        reason: String,
    },
    /// A file ends before its content does.
    #[error("{file}: cut short: expected {expected} bytes, found {found}")]
    Truncated {
        /// Name inside the checkpoint.
        file: String,
        /// Bytes that the file must have.
        expected: u64,
        /// Bytes that it has.
        found: u64,
    },
    /// A file is not of its format.
    #[error("{file}: {reason}")]
    Malformed {
        /// Name inside the checkpoint.
        file: String,
        /// The problem and its place.
        reason: String,
    },
    /// A configuration field is missing or has an invalid value.
    #[error("{file}: {field}: {reason}")]
    Config {
        /// Name inside the checkpoint.
        file: String,
        /// Path of the field, such as `talker_config.num_code_groups`.
        field: String,
        /// The problem, and the expected value.
        reason: String,
    },
    /// A tensor that the configuration asks for is not there.
    #[error("{file}: tensor {tensor} is missing{}", Expected(expected))]
    MissingTensor {
        /// The file that should list it.
        file: String,
        /// Name of the tensor.
        tensor: String,
        /// Its shape by the configuration, empty if not known.
        expected: Vec<usize>,
    },
    /// A tensor's shape contradicts the configuration.
    #[error("{file}: tensor {tensor} has shape {found:?}, expected {expected:?} from config.json")]
    Shape {
        /// The file that holds it.
        file: String,
        /// Name of the tensor.
        tensor: String,
        /// Shape by the configuration.
        expected: Vec<usize>,
        /// Shape in the file.
        found: Vec<usize>,
    },
    /// A tensor has an unsupported element type.
    #[error("{file}: tensor {tensor} has type {found}, expected F32, BF16 or F16")]
    Type {
        /// The file that holds it.
        file: String,
        /// Name of the tensor.
        tensor: String,
        /// Type in the file.
        found: String,
    },
    /// Tensors that are missing are there under other names: these have a prefix that the published ones lack, or the
    /// other way round.
    #[error(
        "{file}: the names of {count} tensors {}: {found} is there, {expected} is expected; rename them",
        Prefix(found, expected)
    )]
    Renamed {
        /// The file that lists them.
        file: String,
        /// Total number.
        count: usize,
        /// The first that is missing.
        expected: String,
        /// Its name in the file.
        found: String,
    },
}

/// Difference of the names in the file from the expected ones.
struct Prefix<'a>(&'a str, &'a str);

impl fmt::Display for Prefix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(found, expected) = self;
        match (found.strip_suffix(expected), expected.strip_suffix(found)) {
            (Some(prefix), _) => write!(f, "have the prefix {prefix:?}"),
            (_, Some(prefix)) => write!(f, "lack the prefix {prefix:?}"),
            (None, None) => f.write_str("have another prefix"),
        }
    }
}

struct Expected<'a>(&'a [usize]);

impl fmt::Display for Expected<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            Ok(())
        } else {
            write!(f, ", expected shape {:?}", self.0)
        }
    }
}

impl Problem {
    /// The file that the problem is about, if it is about a whole one.
    pub(crate) fn file(&self) -> Option<&str> {
        match self {
            Self::MissingFile { file }
            | Self::Unreadable { file, .. }
            | Self::Truncated { file, .. }
            | Self::Malformed { file, .. } => Some(file),
            _ => None,
        }
    }

    /// Problem as one of many: the file, the predicate for all its tensors of that kind, and this tensor.
    fn of_many(&self) -> Option<(&str, &'static str, String)> {
        match self {
            Self::MissingTensor { file, tensor, .. } => Some((file, "are missing", tensor.clone())),
            Self::Shape {
                file,
                tensor,
                expected,
                found,
            } => Some((
                file,
                "have other shapes than config.json says",
                format!("{tensor} {found:?} (expected {expected:?})"),
            )),
            Self::Type { file, tensor, found } => Some((
                file,
                "have types other than F32, BF16 and F16",
                format!("{tensor} {found}"),
            )),
            _ => None,
        }
    }
}

/// Tensors of a file with one kind of problem that are listed one by one; more are summarised in a line.
const MOST_ALIKE: usize = 10;
/// Number of examples in the message.
const EXAMPLES: usize = 3;

/// A line for each problem, and one for many that are alike.
fn lines(problems: &[Problem]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut told: Vec<(&str, &str)> = Vec::new();
    for problem in problems {
        let Some((file, what, _)) = problem.of_many() else {
            lines.push(problem.to_string());
            continue;
        };
        if told.contains(&(file, what)) {
            continue;
        }
        let alike = problems.iter().filter_map(Problem::of_many);
        let alike = alike.filter(|(f, w, _)| (*f, *w) == (file, what));
        let alike: Vec<_> = alike.map(|(.., one)| one).collect();
        if alike.len() <= MOST_ALIKE {
            lines.push(problem.to_string());
            continue;
        }
        told.push((file, what));
        let count = alike.len();
        let first = alike[..EXAMPLES].join(", ");
        lines.push(format!(
            "{file}: {count} tensors {what}: {first} and {} more",
            count - EXAMPLES
        ));
    }
    lines
}

/// Reason why a checkpoint was not loaded. Nothing of it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadError {
    /// Place of the checkpoint, once it is known.
    place: Option<String>,
    problems: Vec<Problem>,
    /// Advice, if there is any.
    hint: Option<String>,
}

/// Lines printed before the rest is only counted.
const SHOWN: usize = 20;

impl LoadError {
    pub(crate) fn one(problem: Problem) -> Self {
        Self {
            place: None,
            problems: vec![problem],
            hint: None,
        }
    }

    pub(crate) fn read(file: &str, error: &std::io::Error) -> Self {
        Self::one(Problem::Unreadable {
            file: file.into(),
            reason: error.to_string(),
        })
    }

    /// `Err` with `problems` if there are any.
    pub(crate) fn unless_empty(problems: Vec<Problem>) -> Result<(), Self> {
        if problems.is_empty() {
            Ok(())
        } else {
            Err(Self {
                place: None,
                problems,
                hint: None,
            })
        }
    }

    /// Adds the place of the checkpoint to the error.
    pub(crate) fn at(self, place: String) -> Self {
        Self {
            place: Some(place),
            ..self
        }
    }

    /// Adds a hint, shown after the problems.
    pub(crate) fn with_hint(self, hint: Option<String>) -> Self {
        Self { hint, ..self }
    }

    /// True if a file of the checkpoint is missing, damaged or cannot be read.
    pub fn is_of_files(&self) -> bool {
        self.problems.iter().any(|problem| problem.file().is_some())
    }

    /// Everything that is wrong, at least one problem.
    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.place {
            Some(place) => write!(f, "checkpoint {place} not loaded")?,
            None => f.write_str("checkpoint not loaded")?,
        }
        let lines = lines(&self.problems);
        if let [line] = lines.as_slice() {
            write!(f, ": {line}")?;
        } else {
            write!(f, ", {} problems:", self.problems.len())?;
            for line in lines.iter().take(SHOWN) {
                write!(f, "\n  {line}")?;
            }
            match lines.len().saturating_sub(SHOWN) {
                0 => {}
                more => write!(f, "\n  and {more} more")?,
            }
        }
        match &self.hint {
            None => Ok(()),
            Some(hint) => write!(f, "\n{hint}"),
        }
    }
}

impl std::error::Error for LoadError {}
