//! Voices that callers keep, with a Base checkpoint of random weights behind the server.

mod http;
mod keys;
mod reference;
mod requests;
mod support;
