//! Filter of log lines: a level by any of its usual names, and directives for parts of the server.

use tracing_subscriber::EnvFilter;

use super::deploy::nearest;

/// Levels as the log names them, and what other programs call them.
const LEVELS: [(&str, &[&str]); 6] = [
    ("error", &["err", "crit", "critical", "fatal", "1"]),
    ("warn", &["warning", "2"]),
    ("info", &["information", "notice", "3"]),
    ("debug", &["verbose", "4"]),
    ("trace", &["all", "5"]),
    ("off", &["none", "silent", "0"]),
];

const EXPECTED: &str =
    "expected error, warn, info, debug, trace, off, or directives like info,omni_server=debug";

/// First parts of our own targets.
const OWN: [&str; 23] = [
    "omni_audio",
    "omni_backend",
    "omni_cluster",
    "omni_config",
    "omni_core",
    "omni_engine",
    "omni_family",
    "omni_gpu",
    "omni_grpc",
    "omni_json",
    "omni_manual",
    "omni_models",
    "omni_openai",
    "omni_pipeline",
    "omni_server",
    "omni_services",
    "omni_session",
    "omni_studio",
    "omni_telemetry",
    "omni_text",
    "omni_transport",
    "omni_wyoming",
    "omni_yaml",
];

/// Crates of the server, all of which the target `omni_server` stands for.
const SERVER: [&str; 11] = [
    "omni_config",
    "omni_core",
    "omni_grpc",
    "omni_json",
    "omni_openai",
    "omni_server",
    "omni_services",
    "omni_session",
    "omni_studio",
    "omni_transport",
    "omni_wyoming",
];

/// Modules of `omni_server` from before they were crates or parts of one, and their places.
const MOVED: [(&str, &str); 10] = [
    ("caller", "omni_core::caller"),
    ("compute", "omni_core::compute"),
    ("drain", "omni_core::drain"),
    ("error", "omni_core::error"),
    ("id", "omni_core::id"),
    ("orchestrator", "omni_core::orchestrator"),
    ("reload", "omni_transport::reload"),
    ("seldom", "omni_transport::seldom"),
    ("service", "omni_services"),
    ("tasks", "omni_core::tasks"),
];

/// A filter of log lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLevel {
    directives: String,
    foreign: Vec<String>,
}

impl LogLevel {
    /// Reads a level, or directives separated by commas: `LEVEL`, `TARGET=LEVEL`, or what
    /// [`EnvFilter`] takes besides. Errors are written unless `off` says otherwise.
    ///
    /// # Errors
    /// What is wrong, and what would be right: a word that is neither a level nor a part of the server would silence
    /// everything.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut directives = Vec::new();
        let mut foreign = Vec::new();
        let mut has_level = false;
        for part in parts(text) {
            if let Some(level) = level(part) {
                has_level = true;
                directives.push(level.to_owned());
                continue;
            }
            let (target, wanted) = match part.rsplit_once('=') {
                Some((target, wanted)) if !wanted.contains(['}', ']']) => {
                    (target.trim(), Some(wanted.trim()))
                }
                _ => (part, None),
            };
            let wanted = match wanted {
                Some(wanted) => Some(level(wanted).ok_or_else(|| unknown(wanted))?),
                None => None,
            };
            if target.is_empty() {
                return Err(unknown(part));
            }
            let named = target.split(['[', ':']).next().unwrap_or_default();
            let target = target.replacen(named, &named.replace('-', "_"), 1);
            let named = named.replace('-', "_");
            let own = OWN.iter().any(|own| {
                if target.contains("::") {
                    *own == named
                } else {
                    own.starts_with(&named)
                }
            });
            match (own, wanted) {
                (true, _) => {}
                (false, None) => return Err(unknown(part)),
                (false, Some(_)) => match nearest(&named, OWN.into_iter()) {
                    Some(meant) => return Err(format!("no part is called {named:?}, did you mean {meant}?")),
                    None => foreign.push(target.clone()),
                },
            }
            directives.push(match wanted {
                Some(wanted) => format!("{target}={wanted}"),
                None => target,
            });
        }
        if directives.is_empty() {
            directives.push("info".to_owned());
        } else if !has_level {
            directives.insert(0, "error".to_owned());
        }
        let directives = directives.join(",");
        match EnvFilter::try_new(&directives) {
            Ok(_) => Ok(Self { directives, foreign }),
            Err(error) => Err(format!("{error}; {EXPECTED}")),
        }
    }

    /// The directives, for a process that this one starts.
    pub fn directives(&self) -> &str {
        &self.directives
    }

    /// The directives as [`EnvFilter`] reads them: one of `omni_server` is one of every crate of the server, and one of
    /// `omni_server::grpc` one of `omni_grpc`.
    pub fn filter(&self) -> String {
        let crates = |part: &str| match part.strip_prefix("omni_server") {
            Some(rest) if rest.is_empty() || rest.starts_with(['=', '[']) => {
                SERVER.iter().map(|name| format!("{name}{rest}")).collect()
            }
            // Names of modules from before they were crates.
            Some(rest) if rest.starts_with("::") => {
                let inner = &rest[2..];
                let end = inner.find([':', '=', '[']).unwrap_or(inner.len());
                let module = &inner[..end];
                let own = format!("omni_{module}");
                if SERVER.contains(&own.as_str()) {
                    return vec![format!("{own}{}", &inner[end..])];
                }
                match MOVED.iter().find(|(name, _)| *name == module) {
                    Some((_, place)) => vec![format!("{place}{}", &inner[end..])],
                    None => vec![part.to_owned()],
                }
            }
            _ => vec![part.to_owned()],
        };
        parts(&self.directives)
            .flat_map(crates)
            .collect::<Vec<_>>()
            .join(",")
    }

    /// Targets that are none of ours: of libraries, or mistyped.
    pub fn foreign_targets(&self) -> &[String] {
        &self.foreign
    }
}

/// The level of that name.
fn level(text: &str) -> Option<&'static str> {
    let text = text.trim().to_ascii_lowercase();
    let known = LEVELS
        .iter()
        .find(|(name, others)| *name == text || others.contains(&text.as_str()));
    known.map(|(name, _)| *name)
}

fn unknown(word: &str) -> String {
    let lower = word.to_ascii_lowercase();
    let levels = LEVELS
        .iter()
        .flat_map(|(name, others)| others.iter().chain([name]));
    let words = levels.copied().filter(|word| word.len() > 1).chain(OWN);
    let meant = nearest(&lower, words).map(|meant| format!("did you mean {meant}? "));
    format!("{word:?} is no level; {}{EXPECTED}", meant.unwrap_or_default())
}

/// The parts between commas, those within braces and brackets left whole.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_u32;
    let between = text.split(move |c: char| {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    });
    between.map(str::trim).filter(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_known_by_the_names_that_other_programs_have_for_them() {
        for (typed, meant) in [
            ("warning", "warn"),
            ("WARNING", "warn"),
            ("Warn", "warn"),
            ("err", "error"),
            ("critical", "error"),
            ("verbose", "debug"),
            ("notice", "info"),
            (" info ", "info"),
            ("none", "off"),
            ("2", "warn"),
            ("", "info"),
        ] {
            let level = LogLevel::parse(typed).unwrap_or_else(|error| panic!("{typed}: {error}"));
            assert_eq!(level.directives(), meant, "{typed}");
        }
    }

    #[test]
    fn a_word_that_would_silence_the_log_is_refused_with_what_is_taken() {
        for (typed, told) in [
            ("inof", "did you mean info?"),
            ("debgu", "did you mean debug?"),
            ("loud", "expected error, warn"),
            ("info,chatty", "\"chatty\" is no level"),
            ("omni_server=loud", "\"loud\" is no level"),
            ("omni_sever=debug", "did you mean omni_server?"),
            ("omni_srever::grpc=debug", "did you mean omni_server?"),
            ("info,=x", "expected error, warn"),
            ("=debug", "expected error, warn"),
            ("10", "expected error, warn"),
            ("hyper", "expected error, warn"),
            ("info,[request{key=a,peer=b}]=debug", "expected error, warn"),
        ] {
            let error = LogLevel::parse(typed).expect_err(typed);
            assert!(error.contains(told), "{typed}: {error}");
        }
    }

    #[test]
    fn directives_name_our_own_parts_and_errors_of_others_stay() {
        for (typed, meant) in [
            ("omni_server=verbose", "error,omni_server=debug"),
            ("info,omni-grpc::serve=DEBUG", "info,omni_grpc::serve=debug"),
            ("omni=trace", "error,omni=trace"),
            ("omni_pipeline", "error,omni_pipeline"),
            ("off", "off"),
            (
                "warn,omni_server[request{key=alice}]=verbose",
                "warn,omni_server[request{key=alice}]=debug",
            ),
            (
                "[request{key=alice}]=debug,warning",
                "[request{key=alice}]=debug,warn",
            ),
        ] {
            let level = LogLevel::parse(typed).unwrap_or_else(|error| panic!("{typed}: {error}"));
            assert_eq!(level.directives(), meant, "{typed}");
            assert!(level.foreign_targets().is_empty(), "{typed}");
            let again =
                LogLevel::parse(level.directives()).expect("it is read by a process that this one starts");
            assert_eq!(again, level);
        }
    }

    #[test]
    fn a_directive_of_the_server_reaches_every_crate_of_it() {
        for (typed, found) in [
            ("info,omni_server=debug", "omni_grpc=debug"),
            (
                "omni-server[request{key=alice}]=debug",
                "omni_session[request{key=alice}]=debug",
            ),
        ] {
            let filter = LogLevel::parse(typed).expect("good").filter();
            let targets: Vec<_> = parts(&filter).collect();
            assert!(targets.contains(&found), "{typed}: {filter}");
            assert_eq!(targets.len(), SERVER.len() + 1, "{typed}: {filter}");
            EnvFilter::try_new(&filter).expect("directives");
        }
        let one = LogLevel::parse("info,omni_grpc=debug").expect("good");
        assert_eq!(one.filter(), "info,omni_grpc=debug");
        for (typed, found) in [
            ("omni_server::session::outbox=debug", "omni_session::outbox=debug"),
            (
                "omni_server::service::voices=debug",
                "omni_services::voices=debug",
            ),
            ("omni_server::caller=trace", "omni_core::caller=trace"),
            ("omni_server::app=debug", "omni_server::app=debug"),
        ] {
            let typed = LogLevel::parse(&format!("info,{typed}")).expect("good");
            assert_eq!(typed.filter(), format!("info,{found}"));
        }
    }

    #[test]
    fn a_target_of_a_library_is_taken_and_told() {
        let level = LogLevel::parse("info,hyper=debug").expect("good");
        assert_eq!(level.directives(), "info,hyper=debug");
        assert_eq!(level.foreign_targets(), ["hyper"]);
    }
}
