"""Messages and stubs of `omni.v1`, generated from the .proto files."""
