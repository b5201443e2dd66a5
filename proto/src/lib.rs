//! The omni.v1 wire API: messages, clients and servers generated from the .proto files.
