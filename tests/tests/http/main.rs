//! What the one port says over plain HTTP, to clients that others wrote.

mod bodies;
mod page;
mod requests;
mod routes;
mod studio;
mod tools;
