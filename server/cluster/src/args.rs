//! Arguments: those of `omni-server`, plus those of a part of a cluster.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, ValueEnum};
use omni_config::RawConfig;

/// Role of this process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Role {
    /// Everything, as omni-server does
    All,
    /// Serve callers; the stages are elsewhere
    Frontend,
    /// Run one replica of a stage for front ends
    Stage,
}

/// Way by which the parts find each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Discovery {
    /// They do not
    None,
    /// By files in a folder that all of them have
    File,
    /// By etcd
    Etcd,
    /// Through the API of Kubernetes
    Kubernetes,
}

/// Serves speech with stages and front ends in many processes, on one machine or many.
#[derive(Debug, Clone, Parser)]
#[command(name = "omni-server-cluster", version)]
pub struct Args {
    /// Those of the server
    #[command(flatten)]
    pub server: RawConfig,
    /// Those of the cluster
    #[command(flatten)]
    pub cluster: ClusterArgs,
}

/// Options that make a server a part of a cluster.
#[derive(Debug, Clone, ClapArgs)]
#[command(next_help_heading = "Cluster")]
pub struct ClusterArgs {
    /// Role of this process
    #[arg(long, env = "OMNI_ROLE", value_enum, default_value = "all")]
    pub role: Role,

    /// With --role stage: the stage that it runs
    #[arg(long, env = "OMNI_STAGE", value_name = "NAME")]
    pub stage: Option<String>,

    /// With --role stage: the number that it has among the replicas of its stage, in metrics and for operators; unless
    /// given the lowest that is free
    #[arg(long, env = "OMNI_REPLICA", value_name = "N")]
    pub replica: Option<u32>,

    /// Way by which front ends and stages find each other
    #[arg(long, env = "OMNI_CLUSTER_DISCOVERY", value_enum, default_value = "none")]
    pub cluster_discovery: Discovery,

    /// With --cluster-discovery file: the folder
    #[arg(long, env = "OMNI_CLUSTER_DIR", value_name = "DIR")]
    pub cluster_dir: Option<PathBuf>,

    /// With --cluster-discovery etcd: where it is, several with commas between
    #[arg(
        long,
        env = "OMNI_CLUSTER_ETCD",
        value_name = "URL",
        value_delimiter = ',',
        default_value = "http://localhost:2379"
    )]
    pub cluster_etcd: Vec<String>,

    /// Certificates of the authority that signs etcd's, in PEM; required for https
    #[arg(long, env = "OMNI_CLUSTER_ETCD_CA", value_name = "FILE")]
    pub cluster_etcd_ca: Option<PathBuf>,

    /// Certificate that this part shows to etcd, in PEM
    #[arg(
        long,
        env = "OMNI_CLUSTER_ETCD_CERT",
        value_name = "FILE",
        requires = "cluster_etcd_key"
    )]
    pub cluster_etcd_cert: Option<PathBuf>,

    /// Key of --cluster-etcd-cert, in PEM
    #[arg(
        long,
        env = "OMNI_CLUSTER_ETCD_KEY",
        value_name = "FILE",
        requires = "cluster_etcd_cert"
    )]
    pub cluster_etcd_key: Option<PathBuf>,

    /// Name of the cluster: parts with another one are not found
    #[arg(long, env = "OMNI_CLUSTER_NAME", value_name = "NAME", default_value = "omni")]
    pub cluster_name: String,

    /// Address of this machine at which the other parts reach this one. Unless it is a loopback address,
    /// --cluster-cert, --cluster-key and --cluster-ca are required
    #[arg(
        long,
        env = "OMNI_CLUSTER_HOST",
        value_name = "IP",
        default_value = "127.0.0.1"
    )]
    pub cluster_host: IpAddr,

    /// The port at which the other parts reach this one, and with --role stage the next one, too; 0 takes free ones
    #[arg(long, env = "OMNI_CLUSTER_PORT", value_name = "PORT", default_value_t = 0)]
    pub cluster_port: u16,

    /// With --role stage: serve probes (/live, /health) and metrics (/metrics) at this address
    #[arg(long, env = "OMNI_CLUSTER_PROBES", value_name = "ADDRESS")]
    pub cluster_probes: Option<SocketAddr>,

    /// Certificate that this part shows to the others, in PEM
    #[arg(long, env = "OMNI_CLUSTER_CERT", value_name = "FILE")]
    pub cluster_cert: Option<PathBuf>,

    /// Key of --cluster-cert, in PEM
    #[arg(long, env = "OMNI_CLUSTER_KEY", value_name = "FILE")]
    pub cluster_key: Option<PathBuf>,

    /// Certificates of the authority that signs those of all parts, in PEM. A part without one is refused
    #[arg(long, env = "OMNI_CLUSTER_CA", value_name = "FILE")]
    pub cluster_ca: Option<PathBuf>,

    /// Name that the certificates of all parts have
    #[arg(
        long,
        env = "OMNI_CLUSTER_SERVER_NAME",
        value_name = "NAME",
        default_value = "omni-cluster"
    )]
    pub cluster_server_name: String,

    /// Let parts on other machines connect without encryption and without certificates
    #[arg(long, env = "OMNI_CLUSTER_INSECURE_PLAINTEXT")]
    pub cluster_insecure_plaintext: bool,
}
