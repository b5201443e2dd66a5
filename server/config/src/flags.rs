//! The flags of the server: in which order they may be written, and where the value of each comes from.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;

use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};

/// Commands that take the flags of the server behind their names, too.
const WITH_FLAGS: [&str; 3] = ["check-config", "metrics", "serve"];
/// Column of the origins.
const ORIGIN: usize = 52;

/// The arguments with the server's flags before the name of a command that takes them, wherever they were written: clap
/// has the flags of a program before the name.
pub(super) fn in_order(command: &Command, args: Vec<OsString>) -> Vec<OsString> {
    let mut rest = args.into_iter();
    let mut ordered: Vec<OsString> = rest.next().into_iter().collect();
    let mut named = None;
    while let Some(arg) = rest.next() {
        match long(&arg) {
            None if !is_flag(&arg) => {
                named = Some(arg);
                break;
            }
            Some(name) if takes_next(command, name, &arg) => {
                ordered.push(arg);
                ordered.extend(rest.next());
            }
            _ => ordered.push(arg),
        }
    }
    let Some(named) = named else { return ordered };
    let known = WITH_FLAGS.iter().find(|known| named == **known);
    let own = known.and_then(|name| command.find_subcommand(name));
    let tail: Vec<OsString> = rest.collect();
    let helps = tail.iter().any(|arg| arg == "--help" || arg == "-h");
    let Some(own) = own.filter(|_| !helps) else {
        ordered.push(named);
        ordered.extend(tail);
        return ordered;
    };
    let mut last = vec![named];
    let mut tail = tail.into_iter();
    while let Some(arg) = tail.next() {
        let to = match long(&arg) {
            Some(name) if find(own, name).is_none() => &mut ordered,
            _ => &mut last,
        };
        let next = long(&arg).is_some_and(|name| takes_next(command, name, &arg));
        to.push(arg);
        if next {
            to.extend(tail.next());
        }
    }
    ordered.extend(last);
    ordered
}

fn is_flag(arg: &OsStr) -> bool {
    arg.as_encoded_bytes().starts_with(b"-")
}

/// The name of a long flag.
fn long(arg: &OsStr) -> Option<&str> {
    let name = arg.to_str()?.strip_prefix("--")?;
    Some(name.split('=').next().unwrap_or(name))
}

fn find<'a>(command: &'a Command, name: &str) -> Option<&'a Arg> {
    command.get_arguments().find(|arg| {
        let aliases = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(name) || aliases.contains(&name)
    })
}

/// True if the value of a flag is the next argument.
fn takes_next(command: &Command, name: &str, arg: &OsStr) -> bool {
    let known = find(command, name).filter(|_| !arg.as_encoded_bytes().contains(&b'='));
    known.is_some_and(|known| known.get_action().takes_values() && !known.is_require_equals_set())
}

/// A flag and the value that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Flag {
    name: String,
    /// None if it is not set, and has no default.
    value: Option<String>,
    origin: Origin,
}

/// The source of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Default,
    Variable(String),
    CommandLine,
}

/// Every flag that is shown in the help, in its order.
pub(super) fn of(command: &Command, matches: &ArgMatches) -> Vec<Flag> {
    let shown = command.get_arguments().filter(|arg| !arg.is_hide_set());
    let flags = shown.filter(|arg| !matches!(arg.get_id().as_str(), "help" | "version"));
    flags.filter_map(|arg| flag(arg, matches)).collect()
}

fn flag(arg: &Arg, matches: &ArgMatches) -> Option<Flag> {
    let id = arg.get_id().as_str();
    let origin = match matches.value_source(id) {
        Some(ValueSource::CommandLine) => Origin::CommandLine,
        Some(ValueSource::EnvVariable) => {
            Origin::Variable(arg.get_env().unwrap_or_default().to_string_lossy().into_owned())
        }
        _ => Origin::Default,
    };
    let value = if !arg.get_action().takes_values() {
        matches.get_flag(id).then(String::new)
    } else if arg.is_hide_env_values_set() && matches.contains_id(id) {
        Some("(not shown)".to_owned())
    } else {
        let values = matches.get_raw(id);
        let values = values.map(|values| values.map(OsStr::to_string_lossy).collect::<Vec<_>>());
        values.map(|values| values.join(","))
    };
    Some(Flag {
        name: arg.get_long()?.to_owned(),
        value,
        origin,
    })
}

/// The flags as comments of YAML, each with its origin; with `changed` those alone that are not as they are by default.
/// `derived` has the values of flags that follow from other things where they are not set.
pub(super) fn shown(flags: &[Flag], derived: &[(&str, String)], changed: bool) -> String {
    let mut out = String::from("# Flags of omni-server:\n");
    for flag in flags
        .iter()
        .filter(|flag| !changed || flag.origin != Origin::Default)
    {
        let derived = derived.iter().find(|(name, _)| *name == flag.name);
        let value = flag.value.as_ref().or(derived.map(|(_, value)| value));
        let line = match value {
            Some(value) => format!("#   --{} {value}", flag.name),
            None => format!("#   --{}", flag.name),
        };
        let line = line.trim_end();
        let origin = match &flag.origin {
            Origin::Default if value.is_none() => "not set",
            Origin::Default => "default",
            Origin::Variable(name) => name,
            Origin::CommandLine => "command line",
        };
        let width = ORIGIN.max(line.chars().count() + 1);
        let _ = writeln!(out, "{line:<width$}# {origin}");
    }
    out
}
