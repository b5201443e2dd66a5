//! A part of a cluster as it can be run.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use crate::args::{ClusterArgs, Discovery, Role};

/// Way by which the parts find each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// By files in that folder.
    File(PathBuf),
    /// By etcd.
    Etcd(Etcd),
    /// Through the API of Kubernetes.
    Kubernetes,
}

/// Addresses of etcd.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Etcd {
    /// Its members.
    pub urls: Vec<String>,
    /// TLS of the connections to it, if they are encrypted.
    pub tls: Option<EtcdTls>,
}

/// Authority by which etcd is verified, and the identity of a part: PEM.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EtcdTls {
    /// The authority.
    pub ca: PathBuf,
    /// Certificate and key, if the part has them.
    pub identity: Option<(PathBuf, PathBuf)>,
}

/// Identity of a part, and the authority by which it verifies others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MutualTls {
    /// Its certificate.
    pub cert: PathBuf,
    /// The key of that.
    pub key: PathBuf,
    /// The authority.
    pub ca: PathBuf,
    /// The name in all certificates.
    pub name: String,
}

/// Network of a part that has others.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    /// Way by which they are found.
    pub found: Found,
    /// The cluster's name.
    pub name: String,
    /// Address of this part.
    pub host: IpAddr,
    /// At which port.
    pub port: u16,
    /// At which port it is answered by stages that it has connected to.
    pub answers: u16,
    /// Address of its probes.
    pub probes: Option<SocketAddr>,
    /// TLS of the connections, if they are encrypted.
    pub tls: Option<MutualTls>,
}

/// Role of this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    /// Everything.
    All,
    /// Serves callers.
    Frontend(Network),
    /// Runs a stage.
    Stage {
        /// Its name.
        stage: String,
        /// Its number, if that was given.
        replica: Option<u32>,
        /// The others.
        network: Network,
    },
}

/// Longest name of a cluster.
const LONGEST_NAME: usize = 63;

impl ClusterArgs {
    /// Checks everything and reports all problems together.
    ///
    /// # Errors
    /// One line per problem.
    pub fn validate(&self) -> Result<Part, Vec<String>> {
        let mut problems = Vec::new();
        let network = self.network(&mut problems);
        let part = match (self.role, network) {
            (Role::All, found) => {
                if found.is_some() {
                    problems.push(
                        "--cluster-discovery: --role all runs every stage itself, expected none".to_owned(),
                    );
                }
                Part::All
            }
            (role, None) => {
                let role = match role {
                    Role::Frontend => "frontend",
                    _ => "stage",
                };
                problems.push(format!(
                    "--role {role}: expected --cluster-discovery file, etcd or kubernetes, by which the other parts are found"
                ));
                Part::All
            }
            (Role::Frontend, Some(network)) => Part::Frontend(network),
            (Role::Stage, Some(network)) => {
                let stage = self.stage.clone().unwrap_or_else(|| {
                    problems.push("--role stage: expected --stage, the name of the stage".to_owned());
                    String::new()
                });
                Part::Stage {
                    stage,
                    replica: self.replica,
                    network,
                }
            }
        };
        if self.role != Role::Stage {
            let given = [
                ("--stage", self.stage.is_some()),
                ("--replica", self.replica.is_some()),
                ("--cluster-probes", self.cluster_probes.is_some()),
            ];
            for (flag, _) in given.iter().filter(|(_, given)| *given) {
                problems.push(format!("{flag}: only --role stage has one"));
            }
        }
        if problems.is_empty() {
            Ok(part)
        } else {
            Err(problems)
        }
    }

    fn network(&self, problems: &mut Vec<String>) -> Option<Network> {
        let found = match self.cluster_discovery {
            Discovery::None => return None,
            Discovery::File => Found::File(self.cluster_dir.clone().unwrap_or_else(|| {
                problems.push("--cluster-discovery file: expected --cluster-dir, the folder".to_owned());
                PathBuf::new()
            })),
            Discovery::Etcd => Found::Etcd(self.etcd(problems)),
            Discovery::Kubernetes => Found::Kubernetes,
        };
        let word = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let name = &self.cluster_name;
        if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(word) {
            problems.push(format!(
                "--cluster-name {name}: expected 1 to {LONGEST_NAME} of a-z, 0-9 and -"
            ));
        }
        // A stage has others connect to it, and connects to the next one. A front end has only the latter.
        let answers = match self.role {
            Role::Stage if self.cluster_port != 0 => self.cluster_port.checked_add(1).unwrap_or_else(|| {
                problems.push(format!(
                    "--cluster-port {}: a stage takes the next port, too",
                    self.cluster_port
                ));
                0
            }),
            _ => self.cluster_port,
        };
        let tls = self.tls(problems);
        if !self.cluster_host.is_loopback() && tls.is_none() && !self.cluster_insecure_plaintext {
            problems.push(format!(
                "--cluster-host {}: other machines could reach it and nothing is encrypted; use a loopback address, name \
                 --cluster-cert, --cluster-key and --cluster-ca, or add --cluster-insecure-plaintext",
                self.cluster_host
            ));
        }
        Some(Network {
            found,
            name: name.clone(),
            host: self.cluster_host,
            port: self.cluster_port,
            answers,
            probes: self.cluster_probes,
            tls,
        })
    }

    fn etcd(&self, problems: &mut Vec<String>) -> Etcd {
        let urls = self.cluster_etcd.clone();
        let identity = self.cluster_etcd_cert.clone().zip(self.cluster_etcd_key.clone());
        let tls = self.cluster_etcd_ca.clone().map(|ca| EtcdTls { ca, identity });
        let encrypted = |url: &&String| url.starts_with("https://");
        if let Some(url) = urls.iter().find(|url| encrypted(url) != tls.is_some()) {
            problems.push(match tls {
                None => format!("--cluster-etcd {url}: expected --cluster-etcd-ca, the authority that signs its certificate"),
                Some(_) => format!("--cluster-etcd {url}: expected https, as there is --cluster-etcd-ca"),
            });
        }
        if tls.is_none() && self.cluster_etcd_cert.is_some() {
            problems.push("--cluster-etcd-cert: expected --cluster-etcd-ca, too".to_owned());
        }
        let files = [
            &self.cluster_etcd_ca,
            &self.cluster_etcd_cert,
            &self.cluster_etcd_key,
        ];
        readable(files.into_iter().flatten(), problems);
        Etcd { urls, tls }
    }

    fn tls(&self, problems: &mut Vec<String>) -> Option<MutualTls> {
        let files = [&self.cluster_cert, &self.cluster_key, &self.cluster_ca];
        let [Some(cert), Some(key), Some(ca)] = files.map(Clone::clone) else {
            if files.iter().any(|file| file.is_some()) {
                problems.push(
                    "--cluster-cert, --cluster-key and --cluster-ca: expected all three or none of them"
                        .to_owned(),
                );
            }
            return None;
        };
        readable([&cert, &key, &ca], problems);
        Some(MutualTls {
            cert,
            key,
            ca,
            name: self.cluster_server_name.clone(),
        })
    }
}

/// Notes which of these files cannot be read.
fn readable<'a>(files: impl IntoIterator<Item = &'a PathBuf>, problems: &mut Vec<String>) {
    for file in files {
        if let Err(error) = std::fs::File::open(file) {
            problems.push(format!("{}: {error}", file.display()));
        }
    }
}

impl Network {
    /// Environment of Dynamo's runtime for this part.
    pub fn environment(&self) -> Vec<(&'static str, String)> {
        let mut set = vec![
            ("DYN_TCP_RPC_HOST", self.host.to_string()),
            ("DYN_TCP_RESPONSE_STREAM_HOST", self.host.to_string()),
            ("DYN_REQUEST_PLANE", "tcp".to_owned()),
            ("DYN_EVENT_PLANE", "zmq".to_owned()),
            // Connections outlive what discovery says of the part that has them.
            (
                "DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS",
                (7 * 24 * 3600).to_string(),
            ),
        ];
        if self.port != 0 {
            // Others connect to the one, and stages that answer to the other.
            set.push(("DYN_TCP_RPC_PORT", self.port.to_string()));
            set.push(("DYN_TCP_RESPONSE_STREAM_PORT", self.answers.to_string()));
        }
        if let Some(tls) = &self.tls {
            let path = |path: &PathBuf| path.display().to_string();
            set.extend([
                ("DYN_TCP_TLS_CERT_PATH", path(&tls.cert)),
                ("DYN_TCP_TLS_KEY_PATH", path(&tls.key)),
                ("DYN_TCP_TLS_CA_CERT_PATH", path(&tls.ca)),
                ("DYN_TCP_TLS_CLIENT_CA_CERT_PATH", path(&tls.ca)),
                ("DYN_TCP_TLS_CLIENT_CERT_PATH", path(&tls.cert)),
                ("DYN_TCP_TLS_CLIENT_KEY_PATH", path(&tls.key)),
                ("DYN_TCP_TLS_SERVER_NAME", tls.name.clone()),
            ]);
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::Args;

    fn of(args: &[&str]) -> Result<Part, Vec<String>> {
        let args = [&["omni-server-cluster"], args].concat();
        Args::try_parse_from(args)
            .expect("known flags")
            .cluster
            .validate()
    }

    const FILE: [&str; 4] = ["--cluster-discovery", "file", "--cluster-dir", "/run/omni"];

    #[test]
    fn without_flags_it_is_the_server() {
        assert_eq!(of(&[]), Ok(Part::All));
    }

    #[test]
    fn a_stage_knows_its_name_and_how_it_is_found() {
        let part = of(&[
            &["--role", "stage", "--stage", "talker", "--replica", "3"][..],
            &FILE,
        ]
        .concat());
        let Ok(Part::Stage {
            stage,
            replica,
            network,
        }) = part
        else {
            panic!("{part:?}")
        };
        assert_eq!((stage.as_str(), replica), ("talker", Some(3)));
        assert_eq!(network.found, Found::File("/run/omni".into()));
        assert!(network.host.is_loopback() && network.tls.is_none());
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once() {
        let problems = of(&[
            "--role",
            "stage",
            "--cluster-discovery",
            "file",
            "--cluster-name",
            "A b",
        ])
        .unwrap_err();
        let told = problems.join("\n");
        for flag in ["--stage", "--cluster-dir", "--cluster-name"] {
            assert!(told.contains(flag), "{told}");
        }
        let problems = of(&["--role", "frontend", "--stage", "talker"]).unwrap_err();
        assert!(
            problems[0].contains("--cluster-discovery") && problems[1].contains("--stage"),
            "{problems:?}"
        );
    }

    #[test]
    fn an_https_etcd_needs_an_authority_and_an_http_one_takes_none() {
        let etcd =
            |args: &[&str]| of(&[&["--role", "frontend", "--cluster-discovery", "etcd"][..], args].concat());
        let file = std::env::current_exe().expect("a file that can be read");
        let file = file.to_str().expect("its name is text");
        let url = ["--cluster-etcd", "https://etcd:2379"];
        let Ok(Part::Frontend(network)) = etcd(&[&url[..], &["--cluster-etcd-ca", file]].concat()) else {
            panic!("the authority is given")
        };
        let Found::Etcd(found) = network.found else {
            panic!("{network:?}")
        };
        assert_eq!(found.urls, ["https://etcd:2379"]);
        assert_eq!(found.tls.expect("it has an authority").ca.to_str(), Some(file));
        let problems = etcd(&url).unwrap_err();
        assert!(problems[0].contains("--cluster-etcd-ca"), "{problems:?}");
        let problems = etcd(&["--cluster-etcd-ca", file]).unwrap_err();
        assert!(problems[0].contains("expected https"), "{problems:?}");
        let problems = etcd(&[&url[..], &["--cluster-etcd-ca", "/none"]].concat()).unwrap_err();
        assert!(problems[0].contains("/none"), "{problems:?}");
    }

    #[test]
    fn what_only_a_stage_has_is_refused_with_another_role() {
        for flags in [
            ["--stage", "talker"],
            ["--replica", "1"],
            ["--cluster-probes", "127.0.0.1:9090"],
        ] {
            let problems = of(&[&["--role", "frontend"][..], &FILE, &flags].concat()).unwrap_err();
            assert_eq!(problems, [format!("{}: only --role stage has one", flags[0])]);
        }
    }

    #[test]
    fn nothing_listens_beyond_loopback_in_plaintext_unless_that_is_said() {
        let open = [&["--role", "frontend", "--cluster-host", "0.0.0.0"][..], &FILE].concat();
        let problems = of(&open).unwrap_err();
        assert!(problems[0].contains("nothing is encrypted"), "{problems:?}");
        assert!(of(&[&open[..], &["--cluster-insecure-plaintext"]].concat()).is_ok());
        let half = [&["--role", "frontend", "--cluster-cert", "/dev/null"][..], &FILE].concat();
        assert!(
            of(&half).unwrap_err()[0].contains("all three"),
            "half of a certificate"
        );
    }
}
