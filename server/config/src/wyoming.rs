//! Settings of Wyoming: its address, and the holder of a key that its callers count as.

use std::net::SocketAddr;

use clap::Args;

use super::keys::{KeyFile, Scope};
use super::listen::address;
use super::raw::PORTS;

/// As typed.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = PORTS)]
pub struct RawWyoming {
    /// Also speak Wyoming, for Home Assistant and voice satellites, at this address. The protocol has neither
    /// encryption nor keys: an address that other machines can reach needs --insecure-plaintext
    #[arg(long, env = "OMNI_WYOMING", value_parser = address, value_name = "ADDRESS")]
    pub wyoming: Option<SocketAddr>,

    /// With --api-keys: the holder of a key whose scopes and quotas hold for all callers of --wyoming together
    #[arg(long, env = "OMNI_WYOMING_HOLDER", value_name = "NAME")]
    pub wyoming_holder: Option<String>,

    /// Announce --wyoming on the local network by mDNS, so that Home Assistant finds it; NAME tells several servers
    /// apart
    #[arg(
        long,
        env = "OMNI_ZEROCONF",
        num_args = 0..=1,
        default_missing_value = "omni",
        value_name = "NAME"
    )]
    pub zeroconf: Option<String>,
}

/// Longest name that is announced, in bytes (RFC 6763).
const MAX_NAME: usize = 63;

/// Settings of the Wyoming port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WyomingSettings {
    /// Address to listen on.
    pub listen: SocketAddr,
    /// The holder of a key that callers count as.
    pub holder: Option<String>,
    /// The name under which it is announced, if it is.
    pub zeroconf: Option<String>,
}

impl RawWyoming {
    /// Its problems, given the file of API keys if there is one, and what could be read of it.
    pub(super) fn problems(&self, keys: Option<Option<&KeyFile>>, plaintext: bool) -> Vec<String> {
        let Some(listen) = self.wyoming else {
            let flags = [
                ("--wyoming-holder", self.wyoming_holder.is_some()),
                ("--zeroconf", self.zeroconf.is_some()),
            ];
            let needless = flags.into_iter().filter(|(_, given)| *given);
            return needless
                .map(|(flag, _)| format!("{flag}: expected --wyoming beside it"))
                .collect();
        };
        let mut problems = Vec::new();
        if !listen.ip().is_loopback() && !plaintext {
            problems.push(format!(
                "--wyoming {listen}: other machines could reach it and Wyoming is not encrypted; listen on a loopback address, or add \
                 --insecure-plaintext"
            ));
        }
        problems.extend(self.holder_problem(keys));
        if let Some(name) = &self.zeroconf
            && (name.is_empty() || name.len() > MAX_NAME || name.contains(char::is_control))
        {
            problems.push(format!(
                "--zeroconf {}: expected a name of 1 to {MAX_NAME} bytes",
                name.escape_debug()
            ));
        }
        problems
    }

    fn holder_problem(&self, keys: Option<Option<&KeyFile>>) -> Option<String> {
        match (&self.wyoming_holder, keys) {
            (None, None) | (Some(_), Some(None)) => None,
            (None, Some(_)) => Some(
                "--wyoming: the protocol carries no API keys, and --api-keys asks for them; name the holder of one with \
                 --wyoming-holder"
                    .to_owned(),
            ),
            (Some(name), None) => Some(format!(
                "--wyoming-holder {name}: there are no keys, add --api-keys"
            )),
            (Some(name), Some(Some(keys))) => {
                let mut speaks = keys.holders().filter(|(_, holder)| holder.name == *name);
                let speaks = speaks.any(|(_, holder)| holder.scopes.contains(&Scope::Speech));
                (!speaks).then(|| {
                    format!("--wyoming-holder {name}: --api-keys has no key of that name with the scope speech")
                })
            }
        }
    }

    pub(super) fn settings(self) -> Option<WyomingSettings> {
        let holder = self.wyoming_holder;
        let zeroconf = self.zeroconf;
        self.wyoming.map(|listen| WyomingSettings {
            listen,
            holder,
            zeroconf,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{ConfigError, RawConfig};
    use super::*;
    use crate::{Quotas, new_key};

    fn problems(flags: &[&str]) -> Vec<String> {
        let raw = RawConfig::arguments_only(["omni-server"].iter().chain(flags)).unwrap();
        raw.validate()
            .err()
            .map_or_else(Vec::new, |ConfigError(problems)| problems)
    }

    #[test]
    fn wyoming_is_off_unless_an_address_is_named_and_stays_on_this_machine_unless_that_is_asked_for() {
        let raw = RawConfig::arguments_only(["omni-server"]).unwrap();
        assert_eq!(raw.validate().unwrap().wyoming, None);
        assert_eq!(problems(&["--wyoming", "10300"]), Vec::<String>::new());
        assert_eq!(problems(&["--wyoming", "0.0.0.0:10300"]).len(), 1);
        let asked = ["--wyoming", "0.0.0.0:10300", "--insecure-plaintext"];
        assert_eq!(problems(&asked), Vec::<String>::new());
        assert_eq!(problems(&["--wyoming-holder", "home"]).len(), 1);
        assert_eq!(problems(&["--zeroconf"]).len(), 1);
        let long = "x".repeat(MAX_NAME + 1);
        for (name, wrong) in [("kitchen", 0), ("", 1), ("a\nb", 1), (long.as_str(), 1)] {
            assert_eq!(
                problems(&["--wyoming", "10300", "--zeroconf", name]).len(),
                wrong,
                "{name:?}"
            );
        }
        let raw = RawConfig::arguments_only(["omni-server", "--wyoming", "10300", "--zeroconf"]).unwrap();
        let settings = raw.validate().unwrap().wyoming.expect("settings");
        assert_eq!(settings.zeroconf.as_deref(), Some("omni"));
        assert_eq!(
            problems(&["--wyoming", "10300", "--wyoming-holder", "home"]).len(),
            1
        );
    }

    #[test]
    fn where_keys_are_asked_for_a_holder_who_may_speak_is_named() {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("keys");
        let line = |name, scope| new_key(name, &[scope], &Quotas::default()).unwrap().1;
        let lines = [line("home", Scope::Speech), line("chatty", Scope::Chat)];
        std::fs::write(&file, lines.join("\n")).unwrap();
        let with = |more: &[&str]| {
            let flags = ["--api-keys", file.to_str().unwrap(), "--wyoming", "10300"];
            problems(&[&flags, more].concat())
        };
        assert_eq!(with(&["--wyoming-holder", "home"]), Vec::<String>::new());
        for wrong in [
            &[][..],
            &["--wyoming-holder", "chatty"],
            &["--wyoming-holder", "nobody"],
        ] {
            assert_eq!(with(wrong).len(), 1, "{wrong:?}");
        }
    }
}
