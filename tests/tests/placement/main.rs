//! Stages in processes of their own.

mod links;
mod remote_kinds;
mod remote_news;
mod remote_peers;
mod remote_shared;
mod remote_stages;
mod remote_talker;
mod resume;
