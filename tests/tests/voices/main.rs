//! Voices that callers keep, with a Base checkpoint of random weights behind the server.

mod figures;
mod http;
mod keeping;
mod keys;
mod reference;
mod refusals;
mod requests;
mod riva;
mod studio;
mod support;
