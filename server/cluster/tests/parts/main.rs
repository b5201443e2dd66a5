//! Parts of a cluster, as processes of the program with the voice inside it.
#![cfg(target_os = "linux")]

mod certificates;
mod chat;
mod etcd;
mod figures;
mod loss;
mod part;
mod resume;
mod secrets;
mod speech;
mod together;
mod traces;
