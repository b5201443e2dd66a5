//! Traces of servers under work: the spans that a collector receives, and a server without a collector.

mod absent;
mod callers;
mod collector;
mod encrypted;
mod requests;
